/* golden.c - read the reference results of a model from a safetensors file, and check its shapes. */
#include "runtime/measure/golden.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

static lm_status wrong(const lm_golden *g, const lm_tensor_info *t, lm_error *e, const char *expected)
{
    lm_fail(e, LM_BAD_MODEL, t->name, (int64_t)t->offset, "expected %s", expected);
    return lm_fail_in(e, lm_container_path(g->container));
}

static lm_status find(const lm_golden *g, const char *name, lm_dtype type, uint32_t n_dims, bool required,
                      const char *expected, const lm_tensor_info **out, lm_error *e)
{
    const lm_tensor_info *t = lm_container_find(g->container, name);

    if (!t && required) {
        lm_fail(e, LM_BAD_MODEL, name, LM_NO_OFFSET, "no such tensor in the file");
        return lm_fail_in(e, lm_container_path(g->container));
    }
    if (t && (t->type != type || t->n_dims != n_dims || t->elements == 0))
        return wrong(g, t, e, expected);
    *out = t;
    return LM_OK;
}

static int64_t i64_at(const lm_golden *g, const lm_tensor_info *t, uint64_t i)
{
    int64_t x;

    memcpy(&x, (const char *)lm_container_data(g->container, t) + i * sizeof x, sizeof x);
    return x;
}

static lm_status check_range(const lm_golden *g, const lm_tensor_info *t, uint64_t end, lm_error *e)
{
    for (uint64_t i = 0; t && i < t->elements; i++) {
        int64_t x = i64_at(g, t, i);
        if (x >= 0 && (uint64_t)x < end)
            continue;
        lm_fail(e, LM_BAD_MODEL, t->name, (int64_t)(t->offset + 8 * i),
                "%" PRId64 " is outside 0 ... %" PRIu64, x, end - 1);
        return lm_fail_in(e, lm_container_path(g->container));
    }
    return LM_OK;
}

/* Check that a reference is finite: no difference from NaN exceeds a tolerance. */
static lm_status check_finite(const lm_golden *g, const lm_tensor_info *t, lm_error *e)
{
    const char *data = lm_container_data(g->container, t);

    for (uint64_t i = 0; i < t->elements; i++) {
        float x;
        memcpy(&x, data + i * sizeof x, sizeof x);
        if (isfinite(x))
            continue;
        lm_fail(e, LM_BAD_MODEL, t->name, (int64_t)(t->offset + i * sizeof x),
                "%s in the reference", isnan(x) ? "NaN" : "infinity");
        return lm_fail_in(e, lm_container_path(g->container));
    }
    return LM_OK;
}

static lm_status read_taps(lm_golden *g, lm_error *e)
{
    size_t n = lm_container_n_tensors(g->container);

    g->taps = lm_alloc_zero(n, sizeof *g->taps);
    if (!g->taps)
        return lm_fail_memory(e, "taps", n * sizeof *g->taps);
    for (size_t i = 0; i < n; i++) {
        const lm_tensor_info *t = lm_container_tensor(g->container, i);
        if (strncmp(t->name, "tap.", 4) != 0)
            continue;
        if (t->type != LM_F32 || t->n_dims != 3 || t->dims[0] != g->batch || t->dims[1] != g->length ||
            t->elements == 0)
            return wrong(g, t, e, "F32 [B, T, width]");
        LM_TRY(check_finite(g, t, e));
        g->taps[g->n_taps++] = (lm_golden_tap){ t->name + 4, t };
    }
    return LM_OK;
}

static void read_source(lm_golden *g)
{
    lm_meta_value v;

    if (lm_meta_get(lm_container_meta(g->container), "source", &v) && v.kind == LM_META_STRING)
        snprintf(g->source, sizeof g->source, "%.*s", (int)(v.s.size < 255 ? v.s.size : 255), v.s.data);
}

static lm_status read_golden(lm_golden *g, uint32_t n_vocab, lm_error *e)
{
    LM_TRY(find(g, "input_ids", LM_I64, 2, true, "I64 [B, T]", &g->ids, e));
    LM_TRY(find(g, "logits", LM_F32, 3, true, "F32 [B, T, V] or [B, P, V]", &g->logits, e));
    LM_TRY(find(g, "logit_positions", LM_I64, 1, false, "I64 [P]", &g->positions, e));
    LM_TRY(find(g, "greedy_ids", LM_I64, 2, false, "I64 [B, N]", &g->greedy, e));
    g->batch = g->ids->dims[0];
    g->length = g->ids->dims[1];
    g->n_rows = g->positions ? g->positions->dims[0] : g->length;
    g->width = g->logits->dims[2];
    g->n_greedy = g->greedy ? g->greedy->dims[1] : 0;

    if (g->logits->dims[0] != g->batch || g->logits->dims[1] != g->n_rows)
        return wrong(g, g->logits, e,
                     g->positions ? "[B, P, V] for the B of input_ids and the P of logit_positions"
                                  : "[B, T, V] for the [B, T] of input_ids");
    if (g->width > n_vocab)
        return wrong(g, g->logits, e, "no more columns than the model's vocabulary");
    if (g->greedy && g->greedy->dims[0] != g->batch)
        return wrong(g, g->greedy, e, "[B, N] for the B of input_ids");
    if (g->length > UINT32_MAX / 2 || g->n_greedy > UINT32_MAX / 2)
        return wrong(g, g->ids, e, "fewer positions");
    LM_TRY(check_range(g, g->ids, n_vocab, e));
    LM_TRY(check_range(g, g->positions, g->length, e));
    LM_TRY(check_range(g, g->greedy, g->width, e));
    LM_TRY(check_finite(g, g->logits, e));
    read_source(g);
    return read_taps(g, e);
}

lm_status lm_golden_open(const char *path, uint32_t n_vocab, lm_golden *out, lm_error *e)
{
    lm_golden g = { 0 };
    lm_status status;

    /* read, not mapped: a file that shrinks while it is compared must not end the process */
    LM_TRY(lm_container_open(path, &(lm_container_options){ .no_mmap = true }, &g.container, e));
    status = read_golden(&g, n_vocab, e);
    if (status == LM_OK)
        *out = g;
    else
        lm_golden_close(&g);
    return status;
}

void lm_golden_close(lm_golden *g)
{
    lm_free(g->taps);
    lm_container_close(g->container);
    *g = (lm_golden){ 0 };
}

lm_token lm_golden_id(const lm_golden *g, uint64_t b, uint64_t t)
{
    return (lm_token)i64_at(g, g->ids, b * g->length + t);
}

uint64_t lm_golden_position(const lm_golden *g, uint64_t row)
{
    return g->positions ? (uint64_t)i64_at(g, g->positions, row) : row;
}

lm_token lm_golden_greedy(const lm_golden *g, uint64_t b, uint64_t k)
{
    return (lm_token)i64_at(g, g->greedy, b * g->n_greedy + k);
}

static void copy_row(const lm_golden *g, const lm_tensor_info *t, uint64_t row, float *out)
{
    uint64_t bytes = t->dims[2] * sizeof(float);

    memcpy(out, (const char *)lm_container_data(g->container, t) + row * bytes, bytes);
}

void lm_golden_logits(const lm_golden *g, uint64_t b, uint64_t row, float *out)
{
    copy_row(g, g->logits, b * g->n_rows + row, out);
}

void lm_golden_tap_row(const lm_golden *g, const lm_golden_tap *tap, uint64_t b, uint64_t t, float *out)
{
    copy_row(g, tap->tensor, b * g->length + t, out);
}
