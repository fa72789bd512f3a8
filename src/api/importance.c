/* importance.c - measure the inputs of a model's matrices over a text. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "export/quantize/imatrix.h"
#include "lamina/sampler.h"
#include "runtime/engine/observe.h"
#include "runtime/engine/state.h"

typedef struct collecting {
    lm_imatrix               *m;
    lm_engine                *g;
    const lm_token           *ids;
    const lm_imatrix_options *o;
    lm_imatrix_sums         **sums;      /* [weights]; NULL: not requested */
    lm_row                   *rows;
    uint32_t                  chunk, n_chunks;
    bool                      bad;       /* an input of this weight is not finite: */
    uint32_t                  bad_weight;
    double                    nll, nll2;
    uint64_t                  n_scored;
} collecting;

/* ---- which weights ---- */

/* Return whether a weight is measured: matrices of layers, and the output head if requested. Weights that the
 * file stores in another form (as part of a fused one) are skipped. */
static bool is_wanted(const collecting *c, const lm_weight *w)
{
    bool matrix = w->kind == LM_MATRIX || w->kind == LM_EXPERTS || w->kind == LM_HEADS;

    if (!matrix || !w->gguf || (w->kind == LM_HEADS && w->joint.alone_transposed))
        return false;
    return strncmp(w->gguf, "blk.", 4) == 0 || (c->o->head && strcmp(w->gguf, "output.weight") == 0);
}

/* Return the name of the tensor of the file; NULL: it is that of another weight, which comes before. */
static const char *name_of(const collecting *c, uint32_t weight)
{
    const lm_weight *w = &c->g->program->weights[weight];

    if (lm_container_kind_of(c->g->model->container) != LM_GGUF || !c->g->model->interleaved[weight])
        return w->gguf;
    return w->interleaved.first ? NULL : w->interleaved.gguf;
}

static lm_status find_weights(collecting *c, lm_error *e)
{
    const lm_program *p = c->g->program;

    c->sums = lm_alloc_zero(p->n_weights + 1, sizeof *c->sums);
    if (!c->sums)
        return lm_fail_memory(e, "importance", p->n_weights * sizeof *c->sums);
    for (uint32_t pass = 0; pass < 2; pass++)            /* adding entries moves existing ones */
        for (uint32_t i = 0; i < p->n_weights; i++) {
            const lm_weight *w = &p->weights[i];
            const char      *name = name_of(c, i);
            if (name && is_wanted(c, w))
                LM_TRY(lm_imatrix_entry_of(c->m, lm_view_of(name), w->dims[w->n_dims - 1],
                                           lm_weight_matrices(w), &c->sums[i], e));
        }
    return LM_OK;
}

/* ---- rows ---- */

static void add_rows(void *arg, uint32_t weight, uint32_t matrix, const float *x, uint64_t stride, uint64_t n)
{
    collecting      *c = arg;
    lm_imatrix_sums *s = c->sums[weight];

    if (!s || !n)
        return;
    double *sums = s->sums + matrix * s->cols;
    for (uint64_t r = 0; r < n; r++)
        for (uint64_t i = 0; i < s->cols; i++)
            sums[i] += (double)x[r * stride + i] * (double)x[r * stride + i];
    s->rows[matrix] += n;
    s->means = NULL;
    for (uint64_t i = 0; i < s->cols && !c->bad; i++)
        if (!isfinite(sums[i])) {
            c->bad        = true;
            c->bad_weight = weight;
        }
}

/* Score the second half of each chunk, as llama-imatrix and llama-perplexity do. */
static void score(collecting *c, const lm_token *ids, uint32_t position, const float *logits)
{
    if (position < c->chunk / 2 || position + 1 >= c->chunk)
        return;
    double nll = -(double)lm_logprobs(logits, c->g->program->n_vocab, ids[position + 1], NULL, 0);
    c->nll += nll;
    c->nll2 += nll * nll;
    c->n_scored++;
}

static lm_status read_chunk(collecting *c, const lm_token *ids, lm_error *e)
{
    uint32_t max = lm_engine_max_rows(c->g) < lm_engine_max_logits(c->g) ? lm_engine_max_rows(c->g)
                                                                         : lm_engine_max_logits(c->g);

    LM_TRY(lm_engine_truncate(c->g, 0, 0, e));
    for (uint32_t at = 0, n; at < c->chunk; at += n) {
        n = c->chunk - at < max ? c->chunk - at : max;
        for (uint32_t i = 0; i < n; i++)
            c->rows[i] = (lm_row){ 0, at + i == 0 && c->o->replace_first ? c->o->bos : ids[at + i], at + i,
                                   true };
        LM_TRY(lm_engine_step(c->g, c->rows, n, e));
        for (uint32_t i = 0; i < n; i++)
            score(c, ids, at + i, lm_engine_logits(c->g, i));
    }
    c->m->chunks++;
    if (c->bad)
        return lm_fail(e, LM_FAILED, c->g->program->weights[c->bad_weight].gguf, LM_NO_OFFSET,
                       "its inputs are not finite");
    return LM_OK;
}

static double perplexity(const collecting *c, double *error)
{
    double n = (double)c->n_scored, mean = c->nll / n, ppl = exp(mean);

    *error = n > 1 ? ppl * sqrt(fmax(0, c->nll2 / n - mean * mean) / (n - 1)) : NAN;
    return ppl;
}

static lm_status collect(collecting *c, lm_error *e)
{
    double error;

    LM_TRY(find_weights(c, e));
    c->rows = lm_alloc_zero(lm_engine_max_rows(c->g), sizeof *c->rows);
    if (!c->rows)
        return lm_fail_memory(e, "importance", lm_engine_max_rows(c->g) * sizeof *c->rows);
    LM_TRY(lm_engine_observe(c->g, add_rows, c, e));
    for (uint32_t k = 0; k < c->n_chunks; k++) {
        LM_TRY(read_chunk(c, c->ids + (uint64_t)(c->o->first + k) * c->chunk, e));
        if (c->o->progress && !c->o->progress(c->o->progress_arg, k + 1, c->n_chunks, perplexity(c, &error)))
            return lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, "interrupted");
    }
    return LM_OK;
}

static lm_status check(collecting *c, size_t n, lm_error *e)
{
    uint32_t vocab = c->g->program->n_vocab;
    uint64_t whole = n / c->chunk;

    if (c->chunk > lm_engine_context(c->g))
        return lm_fail(e, LM_USAGE, "chunk", LM_NO_OFFSET, "%u tokens; the context size is %u", c->chunk,
                       lm_engine_context(c->g));
    if (c->chunk < 4)
        return lm_fail(e, LM_USAGE, "chunk", LM_NO_OFFSET, "%u tokens, four at least", c->chunk);
    if (whole < 1)
        return lm_fail(e, LM_USAGE, "text", LM_NO_OFFSET, "%zu tokens, a chunk is %u", n, c->chunk);
    if (c->o->first >= whole)
        return lm_fail(e, LM_USAGE, "first", LM_NO_OFFSET, "chunk %u of %" PRIu64, c->o->first, whole);
    if (c->m->chunk_size && c->m->chunk_size != c->chunk)
        return lm_fail(e, LM_USAGE, "chunk", LM_NO_OFFSET,
                       "%u tokens; what is there was collected in chunks of %u", c->chunk, c->m->chunk_size);
    for (size_t i = 0; i < n; i++)
        if (c->ids[i] < 0 || (uint32_t)c->ids[i] >= vocab)
            return lm_fail(e, LM_USAGE, "text", LM_NO_OFFSET, "token %d is outside the vocabulary of %u",
                           c->ids[i], vocab);
    if (c->o->replace_first && (c->o->bos < 0 || (uint32_t)c->o->bos >= vocab))
        return lm_fail(e, LM_USAGE, "bos", LM_NO_OFFSET, "token %d is outside the vocabulary of %u",
                       c->o->bos, vocab);
    whole -= c->o->first;
    c->n_chunks = (uint32_t)(c->o->chunks && c->o->chunks < whole ? c->o->chunks : whole);
    return LM_OK;
}

lm_status lm_imatrix_collect(lm_imatrix *m, lm_engine *g, const lm_token *ids, size_t n,
                             const lm_imatrix_options *o, lm_imatrix_result *result, lm_error *e)
{
    LM_REQUIRE(e, m && g && (ids || !n));
    LM_CHECK_RESERVED(e, o);
    static const lm_imatrix_options defaults;
    collecting c      = { .m = m, .g = g, .ids = ids, .o = o ? o : &defaults };
    uint32_t   before = m->chunks;

    c.chunk = c.o->chunk ? c.o->chunk : 512;
    LM_TRY(check(&c, n, e));
    m->chunk_size    = c.chunk;
    lm_status status = c.o->dataset ? lm_imatrix_add_dataset(m, lm_view_of(c.o->dataset), e) : LM_OK;
    if (status == LM_OK)
        status = collect(&c, e);
    lm_engine_observe_end(g);
    lm_free(c.sums);
    lm_free(c.rows);
    if (result) {
        *result = (lm_imatrix_result){ .chunks = m->chunks - before, .entries = (uint32_t)m->n_entries };
        if (c.n_scored)
            result->perplexity = perplexity(&c, &result->perplexity_error);
    }
    return status;
}
