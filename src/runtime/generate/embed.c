/* embed.c - pooled hidden states of a sequence. */
#include "lamina/embed.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

struct lm_pooler {
    lm_pooling pooling;
    bool       raw;
    uint32_t   width;
    size_t     n;                        /* tokens */
    double     sum[];                    /* [width] */
};

typedef struct embedding {
    lm_engine       *g;
    lm_embed_options o;
    uint32_t         width;
    lm_row          *rows;               /* [lm_engine_max_rows] */
    lm_pooler       *pooler;             /* NULL: LM_POOLING_NONE */
    float           *out;
} embedding;

/* Scale to length 1, in double: values may be large. */
static void normalise(float *x, uint32_t width)
{
    double square = 0;

    for (uint32_t i = 0; i < width; i++)
        square += (double)x[i] * x[i];
    for (uint32_t i = 0; square > 0 && i < width; i++)
        x[i] = (float)(x[i] / sqrt(square));
}

/* ---- pooling ---- */

lm_status lm_pooler_new(uint32_t width, size_t n, const lm_embed_options *o, lm_pooler **out, lm_error *e)
{
    LM_REQUIRE(e, out);
    LM_CHECK_RESERVED(e, o);
    lm_embed_options given = o ? *o : (lm_embed_options){ 0 };

    if (!width)
        return lm_fail(e, LM_USAGE, "embedding", LM_NO_OFFSET, "the engine keeps no hidden states");
    if ((unsigned)given.pooling >= LM_POOLING_NONE)
        return lm_fail(e, LM_USAGE, "embedding", LM_NO_OFFSET, "unknown pooling");
    if (n == 0)
        return lm_fail(e, LM_USAGE, "embedding", LM_NO_OFFSET, "a text of no tokens has no vector");
    lm_pooler *p = lm_alloc_zero(1, sizeof *p + width * sizeof *p->sum);
    if (!p)
        return lm_fail_memory(e, "embedding", width * sizeof *p->sum);
    p->pooling = given.pooling;
    p->raw     = given.raw;
    p->width   = width;
    p->n       = n;
    *out       = p;
    return LM_OK;
}

lm_status lm_pooler_row(void *pooler, size_t position, const float *logits, const float *hidden, lm_error *e)
{
    lm_pooler *p = pooler;

    (void)logits;
    LM_REQUIRE(e, p && hidden);
    if (p->pooling == LM_POOLING_LAST && position + 1 != p->n)
        return LM_OK;
    for (uint32_t k = 0; k < p->width; k++)
        p->sum[k] += hidden[k];
    return LM_OK;
}

void lm_pooler_vector(const lm_pooler *p, float *out)
{
    if (!p || !out)
        return;
    double count = p->pooling == LM_POOLING_MEAN ? (double)p->n : 1;

    for (uint32_t k = 0; k < p->width; k++)
        out[k] = (float)(p->sum[k] / count);
    if (!p->raw)
        normalise(out, p->width);
}

void lm_pooler_free(lm_pooler *p)
{
    lm_free(p);
}

/* ---- one sequence ---- */

/* Take the hidden state of token i of the sequence from row `row` of the step. */
static void take(embedding *x, size_t i, size_t row)
{
    const float *hidden = lm_engine_hidden(x->g, row);
    float       *vector = x->out + i * x->width;

    if (x->pooler) {
        lm_pooler_row(x->pooler, i, NULL, hidden, NULL);
        return;
    }
    memcpy(vector, hidden, x->width * sizeof *vector);
    if (!x->o.raw)
        normalise(vector, x->width);
}

static lm_status read_text(embedding *x, const lm_token *ids, size_t n, lm_error *e)
{
    size_t max = lm_engine_max_rows(x->g), step;

    for (size_t at = 0; at < n; at += step) {
        step = n - at < max ? n - at : max;
        for (size_t i = 0; i < step; i++)
            x->rows[i] = (lm_row){ x->o.sequence, ids[at + i], (uint32_t)(at + i), false };
        LM_TRY(lm_engine_step(x->g, x->rows, step, e));
        for (size_t i = 0; i < step; i++)
            take(x, at + i, i);
    }
    return LM_OK;
}

static lm_status check(const embedding *x, size_t n, lm_error *e)
{
    if (!x->width)
        return lm_fail(e, LM_USAGE, "embedding", LM_NO_OFFSET, "the engine keeps no hidden states");
    if (n == 0)
        return lm_fail(e, LM_USAGE, "embedding", LM_NO_OFFSET, "a text of no tokens has no vector");
    if (n > lm_engine_context(x->g))
        return lm_fail(e, LM_LIMIT, "embedding", LM_NO_OFFSET, "%zu tokens; the context has %u", n,
                       lm_engine_context(x->g));
    return LM_OK;
}

lm_status lm_embed(lm_engine *g, const lm_token *ids, size_t n, const lm_embed_options *o, float *out,
                   lm_error *e)
{
    LM_REQUIRE(e, g && (ids || !n) && out);
    LM_CHECK_RESERVED(e, o);
    embedding x = {
        .g = g, .o = o ? *o : (lm_embed_options){ 0 }, .width = lm_engine_hidden_width(g), .out = out
    };

    if (x.o.pooling != LM_POOLING_NONE)
        LM_TRY(lm_pooler_new(x.width, n, &x.o, &x.pooler, e));
    lm_status status = check(&x, n, e);
    if (status == LM_OK)
        status = lm_engine_truncate(g, x.o.sequence, 0, e);
    if (status == LM_OK && !(x.rows = lm_alloc_zero(lm_engine_max_rows(g), sizeof *x.rows)))
        status = lm_fail_memory(e, "embedding", lm_engine_max_rows(g) * sizeof *x.rows);
    if (status == LM_OK) {
        status = read_text(&x, ids, n, e);
        lm_engine_truncate(g, x.o.sequence, 0, NULL);
    }
    if (status == LM_OK)
        lm_pooler_vector(x.pooler, out);
    lm_pooler_free(x.pooler);
    lm_free(x.rows);
    return status;
}
