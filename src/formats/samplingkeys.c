/* samplingkeys.c - the sampling settings that a model's files carry. */
#include "formats/samplingkeys.h"

#include <math.h>

#include "base/error.h"

#define K "general.sampling."

const lm_sampling_key lm_sampling_keys[LM_SAMPLING_KEYS] = {
    [LM_SAMPLING_TEMP]            = { K "temp", "temperature", false, 0, 1e6 },
    [LM_SAMPLING_TOP_K]           = { K "top_k", "top_k", true, -1, INT32_MAX },
    [LM_SAMPLING_TOP_P]           = { K "top_p", "top_p", false, 0, 1 },
    [LM_SAMPLING_MIN_P]           = { K "min_p", "min_p", false, 0, 1 },
    [LM_SAMPLING_REPEAT]          = { K "penalty_repeat", "repetition_penalty", false, 1e-6, 1e6 },
    [LM_SAMPLING_LAST_N]          = { K "penalty_last_n", "penalty_last_n", true, -1, 1 << 20 },
    [LM_SAMPLING_XTC_PROBABILITY] = { K "xtc_probability", "xtc_probability", false, 0, 1 },
    [LM_SAMPLING_XTC_THRESHOLD]   = { K "xtc_threshold", "xtc_threshold", false, 0, 1 },
    [LM_SAMPLING_MIROSTAT]        = { K "mirostat", "mirostat", true, 0, 2 },
    [LM_SAMPLING_TAU]             = { K "mirostat_tau", "mirostat_tau", false, 0, 1e6 },
    [LM_SAMPLING_ETA]             = { K "mirostat_eta", "mirostat_eta", false, 0, 1 },
};

bool lm_sampling_key_read(const lm_meta *m, bool gguf, lm_sampling_key_id id, double *out, lm_error *e)
{
    const lm_sampling_key *k = &lm_sampling_keys[id];
    const char *name = gguf ? k->key : k->member;

    if (!lm_meta_has(m, name) || lm_meta_f64(m, name, k->min, k->max, out, e) != LM_OK)
        return false;
    if (!k->whole || *out == floor(*out))
        return true;
    lm_fail(e, LM_BAD_MODEL, name, LM_NO_OFFSET, "%g is not a whole number", *out);
    return false;
}
