/* model_sampling.c - the sampling settings that a model's files carry. */
#include <stddef.h>

#include "base/error.h"
#include "formats/container.h"
#include "formats/samplingkeys.h"
#include "lamina/sampler.h"
#include "runtime/model/model.h"

#define S(field) offsetof(lm_sampler_options, field)

static const size_t members[LM_SAMPLING_KEYS] = {
    [LM_SAMPLING_TEMP] = S(temperature),      [LM_SAMPLING_TOP_K] = S(top_k),
    [LM_SAMPLING_TOP_P] = S(top_p),           [LM_SAMPLING_MIN_P] = S(min_p),
    [LM_SAMPLING_REPEAT] = S(repeat_penalty), [LM_SAMPLING_LAST_N] = S(repeat_last_n),
    [LM_SAMPLING_XTC_PROBABILITY] = S(xtc_probability), [LM_SAMPLING_XTC_THRESHOLD] = S(xtc_threshold),
    [LM_SAMPLING_MIROSTAT] = S(mirostat),     [LM_SAMPLING_TAU] = S(mirostat_tau),
    [LM_SAMPLING_ETA] = S(mirostat_eta),
};

lm_status lm_model_read_sampling(lm_model *m, lm_error *e)
{
    bool           gguf = m->container && lm_container_kind_of(m->container) == LM_GGUF;
    const lm_meta *meta = gguf ? lm_container_meta(m->container) : NULL;
    lm_error       why  = { .offset = LM_NO_OFFSET };
    double         value;

    if (m->container && !gguf)
        LM_TRY(lm_container_json(m->container, "generation_config.json", &meta, e));
    for (unsigned i = 0; meta && i < LM_SAMPLING_KEYS; i++) {
        bool read = lm_sampling_key_read(meta, gguf, i, &value, &why);
        if (read && i == LM_SAMPLING_MIROSTAT && value == 1)
            lm_fail(&why, LM_BAD_MODEL, lm_sampling_keys[i].key, LM_NO_OFFSET, "1 is neither 0 (off) nor 2");
        else if (read)
            m->sampling[i] = value, m->sampled |= 1u << i;
        if (why.code != LM_OK)
            lm_text_printf(&m->warnings, "sampling setting ignored: %s: %s\n", why.where, why.message);
        why = (lm_error){ .offset = LM_NO_OFFSET };
    }
    if (gguf && lm_meta_has(meta, LM_SAMPLING_SEQUENCE))
        lm_text_printf(&m->warnings, "sampling setting ignored: %s: the order of samplers is not read from files\n",
                       LM_SAMPLING_SEQUENCE);
    return LM_OK;
}

size_t lm_model_sampling(const lm_model *m, lm_sampler_options *o)
{
    size_t n = 0;

    for (unsigned i = 0; m && o && i < LM_SAMPLING_KEYS; i++) {
        char *at = (char *)o + members[i];

        if (!(m->sampled & 1u << i))
            continue;
        if (lm_sampling_keys[i].whole)
            *(int32_t *)(void *)at = (int32_t)m->sampling[i];
        else
            *(float *)(void *)at = (float)m->sampling[i];
        n++;
    }
    return n;
}

void lm_model_sampling_text(const lm_model *m, lm_text *out)
{
    for (unsigned i = 0; i < LM_SAMPLING_KEYS; i++)
        if (m->sampled & 1u << i)
            lm_text_printf(out, "%s%s %g", out->size ? ", " : "", lm_sampling_keys[i].member, m->sampling[i]);
}
