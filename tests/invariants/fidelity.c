#include "fidelity.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "formats/container.h"

#define WINDOW 512

static lm_status open_data(const char *folder, const char *name, lm_container **out, lm_error *e)
{
    char path[600];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return lm_container_open(path, NULL, out, e);
}

/* Return the data of a tensor and its dims [3]. Returns NULL and sets `e` if the file lacks it. */
static const void *data_of(lm_container *c, const char *name, uint64_t *dims, lm_error *e)
{
    const lm_tensor_info *t = lm_container_find(c, name);

    if (!t) {
        lm_fail(e, LM_BAD_MODEL, name, LM_NO_OFFSET, "the data lacks this tensor");
        return NULL;
    }
    memcpy(dims, t->dims, 3 * sizeof *dims);
    return lm_container_data(c, t);
}

/* Run a whole sequence in one step, with the logits of every position. */
static lm_status feed(lm_engine *g, const int64_t *ids, uint32_t n, lm_error *e)
{
    static lm_row rows[WINDOW];

    LM_TRY(lm_engine_truncate(g, 0, 0, e));
    for (uint32_t i = 0; i < n; i++)
        rows[i] = (lm_row){ 0, (lm_token)ids[i], i, true };
    return lm_engine_step(g, rows, n, e);
}

static double log_sum(const float *x, uint32_t n)
{
    double max = -INFINITY, sum = 0;

    for (uint32_t i = 0; i < n; i++)
        max = fmax(max, (double)x[i]);
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)x[i] - max);
    return max + log(sum);
}

/* Return sum p ln(p/q) over the reference's best ids and one outcome for all the others. */
static double divergence(const int32_t *ids, const float *logp, uint64_t n, const float *logits,
                         uint32_t vocabulary)
{
    double total = log_sum(logits, vocabulary), kl = 0, p_rest = 1, q_rest = 1;

    for (uint64_t i = 0; i < n; i++) {
        double p = exp((double)logp[i]), lq = (double)logits[ids[i]] - total;
        kl += p * ((double)logp[i] - lq);
        p_rest -= p;
        q_rest -= exp(lq);
    }
    return p_rest > 1e-12 && q_rest > 1e-12 ? kl + p_rest * log(p_rest / q_rest) : kl;
}

static lm_status take_divergence(lm_engine *g, uint32_t vocabulary, lm_container *c, fidelity *out,
                                 lm_error *e)
{
    uint64_t       d[3], t[3];
    const int64_t *ids  = data_of(c, "input_ids", d, e);
    const int32_t *top  = ids ? data_of(c, "top_ids", t, e) : NULL;
    const float   *logp = top ? data_of(c, "top_logprobs", t, e) : NULL;
    double         sum = 0;

    if (!logp)
        return LM_BAD_MODEL;
    for (uint64_t b = 0; b < d[0]; b++) {
        LM_TRY(feed(g, ids + b * d[1], (uint32_t)d[1], e));
        for (uint64_t i = 0; i < d[1]; i++) {
            uint64_t at = (b * d[1] + i) * t[2];
            double   kl = divergence(top + at, logp + at, t[2], lm_engine_logits(g, i), vocabulary);
            sum += kl;
            out->max_kl = fmax(out->max_kl, kl);
        }
    }
    out->positions = d[0] * d[1];
    out->mean_kl   = sum / (double)out->positions;
    return LM_OK;
}

static lm_status take_perplexity(lm_engine *g, uint32_t vocabulary, lm_container *c, fidelity *out,
                                 lm_error *e)
{
    uint64_t       d[3], r[3], n = 0;
    const int64_t *ids  = data_of(c, "input_ids", d, e);
    const float   *nll  = ids ? data_of(c, "nll", r, e) : NULL;
    double         ours = 0, reference = 0;

    if (!nll)
        return LM_BAD_MODEL;
    for (uint64_t from = 0; from < d[1]; from += WINDOW) {
        uint32_t size = (uint32_t)(d[1] - from < WINDOW ? d[1] - from : WINDOW);
        LM_TRY(feed(g, ids + from, size, e));
        for (uint32_t i = 1; i < size; i++, n++) {
            const float *logits = lm_engine_logits(g, i - 1);
            ours += log_sum(logits, vocabulary) - (double)logits[ids[from + i]];
            reference += (double)nll[from + i];
        }
    }
    out->tokens     = n;
    out->perplexity = exp(ours / (double)n);
    out->reference  = exp(reference / (double)n);
    return LM_OK;
}

lm_status fidelity_of(const lm_model *m, const char *folder, const lm_engine_options *compute, fidelity *out,
                      lm_error *e)
{
    lm_engine_options o    = *compute;
    lm_container     *kl   = NULL, *text = NULL;
    lm_engine        *g    = NULL;
    lm_model_info     info;

    *out = (fidelity){ 0 };
    o.context = o.max_rows = o.max_logits = WINDOW;
    lm_model_describe(m, &info);
    lm_status status = open_data(folder, "kl.safetensors", &kl, e);
    if (status == LM_OK)
        status = open_data(folder, "text.safetensors", &text, e);
    if (status == LM_OK)
        status = lm_engine_new(m, &o, &g, e);
    if (status == LM_OK)
        status = take_divergence(g, info.n_vocab, kl, out, e);
    if (status == LM_OK)
        status = take_perplexity(g, info.n_vocab, text, out, e);
    if (g)
        snprintf(out->level, sizeof out->level, "%s", lm_engine_cpu(g));
    lm_engine_free(g);
    lm_container_close(text);
    lm_container_close(kl);
    return status;
}

double fidelity_peer(const char *folder, const char *field)
{
    char path[600];

    snprintf(path, sizeof path, "%s/peer.json", folder);
    json_t *j    = json_load_file(path, 0, NULL);
    json_t *mode = json_object_get(json_object_get(j, "modes"), "default (F16 cache)");
    double  x    = json_number_value(json_object_get(mode, field));
    json_decref(j);
    return x;
}
