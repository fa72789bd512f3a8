/* adapter_file.c - open an adapter of any format, and check what all formats share. */
#include "runtime/adapters/adapter_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"

enum { MAX_CONFIG = 4 << 20, CONFIG_DEPTH = 32 };

static uint64_t rank_of_a(const lm_adapter_file *f, const lm_adapter_entry *x)
{
    bool rows = f->turned || (x->table && f->format == LM_ADAPTER_GGUF);

    return x->a->dims[rows ? 1 : 0];
}

/* ---- checks ---- */

static lm_status check_ranks(const lm_adapter_file *f, const lm_adapter_entry *x, lm_error *e)
{
    uint64_t rank = rank_of_a(f, x), other = x->b->dims[f->turned ? 0 : 1];
    if (rank != other)
        return lm_adapter_wrong(f, x->b, LM_BAD_MODEL, e, "rank %llu, but A has %llu",
                                (unsigned long long)other, (unsigned long long)rank);
    if (rank < 1 || rank > UINT16_MAX)
        return lm_adapter_wrong(f, x->a, LM_BAD_MODEL, e, "rank %llu; 1 to %u are possible",
                                (unsigned long long)rank, UINT16_MAX);
    if (x->rank && rank != x->rank)
        return lm_adapter_wrong(f, x->a, LM_BAD_MODEL, e, "rank %llu, but %u in adapter_config.json",
                                (unsigned long long)rank, x->rank);
    return LM_OK;
}

static lm_status check_pair(const lm_adapter_file *f, const lm_adapter_entry *x, lm_error *e)
{
    const lm_tensor_info *have = x->a ? x->a : x->b ? x->b : x->bias ? x->bias : x->magnitude;

    if (!have)
        return LM_OK;                                    /* only a trained bias of the base model */
    if (!x->a || !x->b)
        return lm_adapter_wrong(f, have, LM_BAD_MODEL, e, "half of a pair: %s has no lora_%s", x->name,
                                x->a ? "B" : "A");
    const lm_tensor_info *flat = x->a->n_dims != 2 ? x->a : x->b;
    if (flat->n_dims != 2)
        return lm_adapter_wrong(f, flat, LM_UNSUPPORTED, e, "%u dimensions; pairs of matrices are supported",
                                flat->n_dims);
    LM_TRY(check_ranks(f, x, e));
    if (x->bias && (x->bias->n_dims != 1 || x->bias->elements != lm_adapter_out(f, x)))
        return lm_adapter_wrong(f, x->bias, LM_BAD_MODEL, e, "is not one number per row of B (%llu rows)",
                                (unsigned long long)lm_adapter_out(f, x));
    return LM_OK;
}

typedef struct scan { const lm_adapter_file *f; const lm_tensor_info *t; bool bad; float which; } scan;

static lm_status scan_numbers(void *arg)
{
    enum { PIECE = 4096 };
    scan *s = arg;
    float x[PIECE];

    for (uint64_t at = 0; at < s->t->elements && !s->bad; at += PIECE) {
        uint64_t n = s->t->elements - at < PIECE ? s->t->elements - at : PIECE;
        lm_container_unpack(s->f->tensors, s->t, at, n, x);
        for (uint64_t i = 0; i < n && !s->bad; i++)
            if (!isfinite(x[i])) {
                s->bad   = true;
                s->which = x[i];
            }
    }
    return LM_OK;
}

static bool is_float(lm_dtype t)
{
    return t == LM_F32 || t == LM_F16 || t == LM_BF16 || t == LM_F64;
}

static lm_status check_numbers(const lm_adapter_file *f, const lm_tensor_info *t, lm_error *e)
{
    scan s = { .f = f, .t = t };

    if (!is_float(t->type) && !(t->type == LM_Q8_0 && f->format == LM_ADAPTER_GGUF))
        return lm_adapter_wrong(f, t, LM_UNSUPPORTED, e, "type %s; F32, F16 and BF16 are supported",
                                lm_dtype_of(t->type)->name);
    LM_TRY(lm_filemap_guard(scan_numbers, &s, lm_container_file_of(f->tensors, t), e));
    return s.bad ? lm_adapter_wrong(f, t, LM_BAD_MODEL, e, "holds a number that is not finite (%g)",
                                    (double)s.which)
                 : LM_OK;
}

static lm_status check_entry(lm_adapter_file *f, lm_adapter_entry *x, lm_error *e)
{
    const lm_tensor_info *all[] = { x->a, x->b, x->bias, x->magnitude, x->base_bias };

    LM_TRY(check_pair(f, x, e));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i])
            LM_TRY(check_numbers(f, all[i], e));
    if (!x->a)
        return LM_OK;
    x->rank = (uint32_t)rank_of_a(f, x);
    if (f->format == LM_ADAPTER_GGUF)
        x->scale = f->alpha > 0 ? f->alpha / x->rank : 1;
    if (!isfinite(x->scale) || !isfinite((double)(float)x->scale) || x->scale == 0)
        return lm_adapter_wrong(f, x->a, LM_BAD_MODEL, e, "the scale is %g: the adapter would have no effect",
                                x->scale);
    return LM_OK;
}

static lm_status check_all(lm_adapter_file *f, lm_error *e)
{
    size_t pairs = 0;

    for (size_t i = 0; i < f->n_entries; i++) {
        LM_TRY(check_entry(f, &f->entries[i], e));
        pairs += f->entries[i].a != NULL;
    }
    for (size_t i = 0; i < f->n_whole; i++)
        LM_TRY(check_numbers(f, f->whole[i], e));
    if (pairs)
        return LM_OK;
    lm_fail(e, LM_BAD_MODEL, NULL, LM_NO_OFFSET, "holds no pair of lora_A and lora_B");
    return lm_fail_in(e, f->path);
}

/* ---- opening ---- */

static lm_status not_one(const char *path, lm_error *e)
{
    lm_fail(e, LM_NOT_FOUND, NULL, LM_NO_OFFSET,
            "no adapter: neither adapter_config.json with adapter_model.safetensors or adapters.safetensors, "
            "nor a GGUF file");
    return lm_fail_in(e, path);
}

static lm_status open_folder(lm_adapter_file *f, const char *folder, lm_error *e)
{
    static const char *const weights[] = { "adapter_model.safetensors", "adapters.safetensors" };
    char *config = lm_arena_printf(&f->arena, "%s/adapter_config.json", folder), *text, *file = NULL;
    size_t size;

    if (!config)
        return lm_fail_memory(e, folder, 0);
    if (!lm_path_is_file(config))
        return not_one(folder, e);
    for (size_t i = 0; i < 2 && (!file || !lm_path_is_file(file)); i++)
        if (!(file = lm_arena_printf(&f->arena, "%s/%s", folder, weights[i])))
            return lm_fail_memory(e, folder, 0);
    if (!lm_path_is_file(file)) {
        char *old = lm_arena_printf(&f->arena, "%s/adapter_model.bin", folder);
        if (!old || !lm_path_is_file(old))
            return not_one(folder, e);
        lm_fail(e, LM_UNSUPPORTED, NULL, LM_NO_OFFSET, "pickled weights may run any code when they are read");
        lm_fail_in(e, old);
        return lm_fail_hint(e, "load it in PEFT and save it with save_pretrained, which writes safetensors");
    }
    LM_TRY(lm_file_read(config, MAX_CONFIG, &text, &size, e));
    lm_status status = lm_meta_from_json(text, size, config, CONFIG_DEPTH, &f->config, e);
    lm_free(text);
    LM_TRY(status);
    LM_TRY(lm_safetensors_open(file, NULL, &f->tensors, e));
    f->format = lm_meta_has(f->config, "lora_parameters") && !lm_meta_has(f->config, "peft_type")
                    ? LM_ADAPTER_MLX
                    : LM_ADAPTER_PEFT;
    return f->format == LM_ADAPTER_MLX ? lm_adapter_read_mlx(f, e) : lm_adapter_read_peft(f, e);
}

static bool ends(const char *s, const char *end)
{
    return lm_view_ends(lm_view_of(s), lm_view_of(end));
}

/* "runs/poet/" → "poet"; without a file's extension. */
static char *short_name(lm_arena *arena, const char *path)
{
    size_t n = strlen(path), from;

    while (n > 1 && path[n - 1] == '/')
        n--;
    for (from = n; from > 0 && path[from - 1] != '/'; from--)
        ;
    lm_view name = { path + from, n - from };
    if (lm_view_ends(name, LM_VIEW(".gguf")))
        name.size -= 5;
    else if (lm_view_ends(name, LM_VIEW(".safetensors")))
        name.size -= 12;
    return lm_arena_strndup(arena, name.data, name.size);
}

static lm_status open_any(lm_adapter_file *f, const char *path, lm_error *e)
{
    if (lm_path_is_folder(path))
        return open_folder(f, path, e);
    if (ends(path, ".safetensors") && lm_path_is_file(path)) {
        const char *slash = strrchr(path, '/');
        char *folder = slash ? lm_arena_strndup(&f->arena, path, (size_t)(slash - path))
                             : lm_arena_strdup(&f->arena, ".");
        return folder ? open_folder(f, folder, e) : lm_fail_memory(e, path, 0);
    }
    LM_TRY(lm_container_open(path, NULL, &f->tensors, e));
    if (lm_container_kind_of(f->tensors) != LM_GGUF)
        return not_one(path, e);
    f->format = LM_ADAPTER_GGUF;
    return lm_adapter_read_gguf(f, e);
}

lm_status lm_adapter_file_open(const char *path, lm_adapter_file **out, lm_error *e)
{
    lm_adapter_file *f = lm_alloc_zero(1, sizeof *f);

    if (!f)
        return lm_fail_memory(e, path, sizeof *f);
    f->path = lm_arena_strdup(&f->arena, path);
    f->name = short_name(&f->arena, path);
    lm_status status = f->path && f->name ? open_any(f, path, e) : lm_fail_memory(e, path, 0);
    if (status == LM_OK)
        status = check_all(f, e);
    if (status == LM_OK && f->warnings.failed)
        status = lm_fail_memory(e, path, 0);
    if (status != LM_OK) {
        lm_adapter_file_close(f);
        return status;
    }
    *out = f;
    return LM_OK;
}

void lm_adapter_file_close(lm_adapter_file *f)
{
    if (!f)
        return;
    lm_container_close(f->tensors);
    lm_meta_free(f->config);
    lm_text_free(&f->warnings);
    lm_free(f->entries);
    lm_arena_free(&f->arena);
    lm_free(f);
}
