/* vector.c - control vectors: the difference of hidden states between contrasting prompts (arXiv 2310.01405),
 * in llama.cpp's format. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "formats/gguf.h"
#include "trace/tracer.h"

typedef struct builder {
    const lm_model *m;
    lm_engine      *g;
    lm_value       *values;              /* [n_layers]: output of each layer */
    double         *sums;                /* [n_layers][width] */
    uint32_t        width, n_layers;
    lm_row         *rows;
} builder;

static lm_status find_values(builder *x, lm_error *e)
{
    const lm_program *p = x->m->program;

    x->n_layers = p->n_layers;
    x->values   = lm_alloc_zero(p->n_layers + 1, sizeof *x->values);
    if (!x->values)
        return lm_fail_memory(e, "a control vector", p->n_layers);
    for (uint32_t l = 0; l < p->n_layers; l++) {
        const char *path = lm_trace_layer_path(p, (int32_t)l);
        x->values[l]     = path ? lm_program_value(p, path) : LM_NONE;
        if (x->values[l] == LM_NONE || (l && p->values[x->values[l]].width != x->width))
            return lm_fail(e, LM_UNSUPPORTED, p->family, LM_NO_OFFSET, "layer %u does not hand on one state",
                           l);
        x->width = p->values[x->values[l]].width;
    }
    x->sums = lm_alloc_zero((size_t)x->n_layers * x->width + 1, sizeof *x->sums);
    return x->sums ? LM_OK : lm_fail_memory(e, "a control vector", x->width);
}

/* Add the states after the last token of a prompt, multiplied by `sign`. */
static lm_status add_text(builder *x, const lm_tokens *text, double sign, lm_error *e)
{
    uint32_t max = lm_engine_max_rows(x->g);

    if (!text->n)
        return lm_fail(e, LM_USAGE, "pairs", LM_NO_OFFSET, "an empty text");
    LM_TRY(lm_engine_truncate(x->g, 0, 0, e));
    size_t last = 0;
    for (size_t at = 0, n; at < text->n; at += n) {
        n = text->n - at < max ? text->n - at : max;
        for (size_t i = 0; i < n; i++)
            x->rows[i] = (lm_row){ 0, text->ids[at + i], (uint32_t)(at + i), at + i + 1 == text->n };
        LM_TRY(lm_engine_step(x->g, x->rows, n, e));
        last = n - 1;
    }
    for (uint32_t l = 0; l < x->n_layers; l++) {
        const float *v = lm_engine_value(x->g, x->values[l], last);
        for (uint32_t i = 0; v && i < x->width; i++)
            x->sums[(size_t)l * x->width + i] += sign * (double)v[i];
    }
    return LM_OK;
}

static lm_status write_file(const builder *x, size_t n_pairs, const char *path, lm_error *e)
{
    lm_gguf_writer *w      = NULL;
    float          *row    = lm_alloc_zero(x->width, sizeof *row);
    lm_status status = row ? lm_gguf_create(path, &w, e) : lm_fail_memory(e, "a control vector", x->width);
    char            name[32];

    if (status == LM_OK) {
        lm_gguf_add_string(w, "general.architecture", LM_VIEW("controlvector"));
        lm_gguf_add_string(w, "controlvector.model_hint", lm_view_of(x->m->program->family));
        lm_gguf_add_u32(w, "controlvector.layer_count", x->n_layers - 1);
        for (uint32_t l = 1; l < x->n_layers; l++) {
            snprintf(name, sizeof name, "direction.%u", l);
            lm_gguf_add_tensor(w, name, LM_F32, 1, (uint64_t[]){ x->width });
        }
        status = lm_gguf_begin(w, e);
    }
    for (uint32_t l = 1; status == LM_OK && l < x->n_layers; l++) {
        for (uint32_t i = 0; i < x->width; i++)
            row[i] = (float)(x->sums[(size_t)l * x->width + i] / (double)n_pairs);
        status = lm_gguf_write(w, row, x->width * sizeof *row, e);
    }
    lm_free(row);
    if (status == LM_OK)
        return lm_gguf_commit(w, e);
    lm_gguf_abort(w);
    return status;
}

static lm_status make(builder *x, const lm_engine_options *o, const lm_tokens *texts, size_t n_pairs,
                      const char *path, lm_error *e)
{
    lm_engine_options options = o ? *o : lm_engine_defaults();
    size_t            longest = 1;

    for (size_t i = 0; i < 2 * n_pairs; i++)
        longest = texts[i].n > longest ? texts[i].n : longest;
    LM_TRY(find_values(x, e));
    options.max_rows      = options.max_rows ? options.max_rows : 64;
    options.context   = longest > UINT32_MAX ? UINT32_MAX : (uint32_t)longest;
    options.sequences = 1;
    lm_engine_variant v = { .kept = x->values, .n_kept = x->n_layers };
    LM_TRY(lm_engine_new_variant(x->m, &options, &v, &x->g, e));
    x->rows = lm_alloc_zero(lm_engine_max_rows(x->g), sizeof *x->rows);
    if (!x->rows)
        return lm_fail_memory(e, "a control vector", lm_engine_max_rows(x->g));
    for (size_t i = 0; i < 2 * n_pairs; i++)
        LM_TRY(add_text(x, &texts[i], i % 2 ? -1 : 1, e));
    return write_file(x, n_pairs, path, e);
}

lm_status lm_trace_vector(const lm_model *m, const lm_engine_options *o, const lm_tokens *texts,
                          size_t n_pairs, const char *path, lm_error *e)
{
    LM_REQUIRE(e, m && path && (texts || !n_pairs));
    LM_CHECK_RESERVED(e, o);
    builder x = { .m = m };

    if (!n_pairs)
        return lm_fail(e, LM_USAGE, "pairs", LM_NO_OFFSET, "none are given");
    lm_status status = make(&x, o, texts, n_pairs, path, e);
    lm_engine_free(x.g);
    lm_free(x.values);
    lm_free(x.sums);
    lm_free(x.rows);
    return status;
}
