/* embed.c - hidden states of a text, pooled. */
#include "lamina/embed.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

typedef struct embedding {
    lm_engine       *g;
    lm_embed_options o;
    uint32_t         width;
    lm_row          *rows;               /* [lm_engine_max_rows] */
    double          *sum;                /* [width] */
    float           *out;
} embedding;

/* To length 1, in double: lanes may be large. */
static void normalise(float *x, uint32_t width)
{
    double square = 0;

    for (uint32_t i = 0; i < width; i++)
        square += (double)x[i] * x[i];
    for (uint32_t i = 0; square > 0 && i < width; i++)
        x[i] = (float)(x[i] / sqrt(square));
}

/* Token i of the text is row `row` of the step. */
static void take(embedding *x, size_t i, size_t row)
{
    const float *hidden = lm_engine_hidden(x->g, row);
    float       *vector = x->out + i * x->width;

    switch (x->o.pooling) {
    case LM_POOLING_NONE:
        memcpy(vector, hidden, x->width * sizeof *vector);
        if (!x->o.raw)
            normalise(vector, x->width);
        return;
    case LM_POOLING_MEAN:
        for (uint32_t k = 0; k < x->width; k++)
            x->sum[k] += hidden[k];
        return;
    case LM_POOLING_LAST:
        for (uint32_t k = 0; k < x->width; k++)
            x->sum[k] = hidden[k];
    }
}

static lm_status read_text(embedding *x, const lm_token *ids, size_t n, lm_error *e)
{
    size_t most = lm_engine_max_rows(x->g), step;

    for (size_t at = 0; at < n; at += step) {
        step = n - at < most ? n - at : most;
        for (size_t i = 0; i < step; i++)
            x->rows[i] = (lm_row){ x->o.sequence, ids[at + i], (uint32_t)(at + i), false };
        LM_TRY(lm_engine_step(x->g, x->rows, step, e));
        for (size_t i = 0; i < step; i++)
            if (x->o.pooling != LM_POOLING_LAST || at + i + 1 == n)
                take(x, at + i, i);
    }
    return LM_OK;
}

static void pool(const embedding *x, size_t n)
{
    double count = x->o.pooling == LM_POOLING_MEAN ? (double)n : 1;

    for (uint32_t k = 0; k < x->width; k++)
        x->out[k] = (float)(x->sum[k] / count);
    if (!x->o.raw)
        normalise(x->out, x->width);
}

lm_status lm_embed(lm_engine *g, const lm_token *ids, size_t n, const lm_embed_options *o, float *out, lm_error *e)
{
    LM_GIVEN(e, g && (ids || !n) && out);
    LM_PLAIN(e, o);
    embedding x = { .g = g, .o = o ? *o : (lm_embed_options){ 0 }, .width = lm_engine_hidden_width(g), .out = out };

    if (!x.width)
        return lm_fail(e, LM_USAGE, "embedding", LM_NO_OFFSET, "the engine keeps no hidden states");
    if ((unsigned)x.o.pooling > LM_POOLING_NONE)
        return lm_fail(e, LM_USAGE, "embedding", LM_NO_OFFSET, "unknown pooling");
    if (n == 0)
        return lm_fail(e, LM_USAGE, "embedding", LM_NO_OFFSET, "a text of no tokens has no vector");
    if (n > lm_engine_context(g))
        return lm_fail(e, LM_LIMIT, "embedding", LM_NO_OFFSET, "%zu tokens; the context has %u", n, lm_engine_context(g));
    LM_TRY(lm_engine_truncate(g, x.o.sequence, 0, e));
    x.rows           = lm_alloc_zero(lm_engine_max_rows(g), sizeof *x.rows);
    x.sum            = lm_alloc_zero(x.width, sizeof *x.sum);
    lm_status status = x.rows && x.sum ? read_text(&x, ids, n, e) : lm_fail_memory(e, "embedding", x.width * sizeof *x.sum);
    if (status == LM_OK && x.o.pooling != LM_POOLING_NONE)
        pool(&x, n);
    lm_engine_truncate(g, x.o.sequence, 0, NULL);
    lm_free(x.rows);
    lm_free(x.sum);
    return status;
}
