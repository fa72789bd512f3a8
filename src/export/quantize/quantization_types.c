/* quantization_types.c - choose the type of each tensor of a quantised file, and find its importance. */
#include "export/quantize/quantizing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/typemix.h"
#include "base/error.h"
#include "base/nearest.h"

/* ---- options ---- */

static lm_status type_named(const char *name, const char *flag, lm_dtype *out, lm_error *e)
{
    const lm_dtype_info *t = lm_dtype_named(name);

    if (!t || !lm_can_quantize(t->type))
        return lm_fail(e, LM_USAGE, flag, LM_NO_OFFSET,
                       "cannot make \"%s\": unknown type, or one without a quantizer", name);
    *out = t->type;
    return LM_OK;
}

lm_status lm_quantizing_read_keep(lm_quantizing *q, lm_error *e)
{
    q->keep = lm_arena_new(&q->arena, q->o->n_keep + 1, lm_kept_type);
    if (!q->keep)
        return lm_fail_memory(e, "keep", q->o->n_keep * sizeof *q->keep);
    memset(q->keep, 0, (q->o->n_keep + 1) * sizeof *q->keep);
    for (size_t i = 0; i < q->o->n_keep; i++) {
        const char *equals = strrchr(q->o->keep[i], '=');
        lm_dtype    type;
        if (!equals || equals == q->o->keep[i])
            return lm_fail(e, LM_USAGE, "keep", LM_NO_OFFSET, "\"%s\" is not REGEX=TYPE", q->o->keep[i]);
        LM_TRY(type_named(equals + 1, "keep", &type, e));
        q->keep[i].type = lm_dtype_of(type);
        if (lm_regex_new((lm_view){ q->o->keep[i], (size_t)(equals - q->o->keep[i]) }, "keep",
                         &q->keep[i].pattern, e) != LM_OK)
            return LM_USAGE;
    }
    return LM_OK;
}

/* Return a number of the model, or the first of a list with one per layer; 0: not present. */
static uint32_t model_number(const lm_meta *m, const char *arch, const char *key)
{
    char          name[256];
    lm_meta_value v;

    snprintf(name, sizeof name, "%s.%s", arch, key);
    if (!lm_meta_get(m, name, &v) || (v.kind == LM_META_ARRAY && !lm_meta_at(&v, 0, &v)) ||
        v.kind != LM_META_UINT || v.u > UINT32_MAX)
        return 0;
    return (uint32_t)v.u;
}

lm_status lm_quantizing_study(lm_quantizing *q, const lm_file_type *type, lm_error *e)
{
    const lm_meta *m = lm_container_meta(q->in.seen);
    lm_view        view;
    char           arch[64];

    LM_TRY(lm_meta_string(m, "general.architecture", &view, e));
    snprintf(arch, sizeof arch, "%.*s", (int)(view.size < 63 ? view.size : 63), view.data);
    lm_type_chooser *c = &q->chooser;
    *c = (lm_type_chooser){
        .type       = type,
        .pure       = q->o->pure,
        .importance = q->imatrix != NULL,
        .tied       = !lm_container_find(q->in.seen, "output.weight"),
        .coarse     = lm_mixture_is_coarse(arch),
        .n_layers   = model_number(m, arch, "block_count"),
        .n_heads    = model_number(m, arch, "attention.head_count"),
        .n_kv_heads = model_number(m, arch, "attention.head_count_kv"),
        .n_experts  = model_number(m, arch, "expert_count"),
    };
    char key[96];
    snprintf(key, sizeof key, "%s.attention.head_count_kv", arch);
    if (!lm_meta_has(m, key))
        c->n_kv_heads = c->n_heads;
    c->big = lm_mixture_is_big(arch, c->n_layers, c->n_heads, c->n_kv_heads);
    for (size_t i = 0; i < lm_container_n_tensors(q->in.seen); i++)
        c->n_values += lm_holds_values(lm_container_tensor(q->in.seen, i)->name);
    return LM_OK;
}

/* ---- tensor types ---- */

/* Sort by layer, tensors without a layer first, and by name within a layer. The counters of the mixed types
 * depend on this order. */
static int by_layer(const void *a, const void *b)
{
    const lm_quantizing_tensor *x = a, *y = b;

    if (x->layer != y->layer)
        return x->layer < y->layer ? -1 : 1;
    return strcmp(x->from->name, y->from->name);
}

static lm_status find_kept(lm_quantizing *q, const char *name, const lm_dtype_info **out, lm_error *e)
{
    lm_match match = { 0 };

    *out = NULL;
    for (size_t i = 0; i < q->o->n_keep; i++) {
        LM_TRY(lm_regex_begin(&q->work, strlen(name), e));
        LM_TRY(lm_regex_find(q->keep[i].pattern, &q->work, lm_view_of(name), 0, &match, e));
        q->keep[i].matched += match.found;
        if (match.found && !*out)
            *out = q->keep[i].type;
    }
    return LM_OK;
}

/* Refuse a rule that applies to nothing: the file would not be what was requested. The hint has the names of
 * the matrices without their layers: "token_embd", "attn_q". */
static lm_status check_kept(const lm_quantizing *q, lm_error *e)
{
    for (size_t i = 0; i < q->o->n_keep; i++) {
        lm_near_names names = { 0 };
        char     pattern[LM_NAME_SIZE];
        if (q->keep[i].matched)
            continue;
        for (size_t k = 0; k < q->n; k++) {
            const char *name = q->plan[k].from->name, *end = strrchr(name, '.');
            size_t      layer = strncmp(name, "blk.", 4) == 0 ? 4 + strspn(name + 4, "0123456789.") : 0;
            if (lm_is_packed(name, q->plan[k].from->n_dims) && end > name + layer)
                lm_near_names_add(&names, name + layer, (size_t)(end - name) - layer);
        }
        snprintf(pattern, sizeof pattern, "%.*s", (int)strcspn(q->o->keep[i], "="), q->o->keep[i]);
        lm_fail(e, LM_USAGE, "keep", LM_NO_OFFSET, "\"%s\" matches no matrix of this model", q->o->keep[i]);
        return lm_near_names_hint(&names, pattern, e);
    }
    return LM_OK;
}

/* Return the type that the options set for this tensor; LM_F64: none. */
static lm_status named_type(lm_quantizing *q, const lm_tensor_info *t, lm_dtype *out, lm_error *e)
{
    const lm_dtype_info *keep;

    *out = LM_F64;
    LM_TRY(find_kept(q, t->name, &keep, e));
    bool embedding = strcmp(t->name, "token_embd.weight") == 0;
    if (q->o->embedding_type && embedding)
        return type_named(q->o->embedding_type, "embedding_type", out, e);
    /* a tied model computes its output with the embedding */
    if (q->o->output_type && (strcmp(t->name, "output.weight") == 0 || (q->chooser.tied && embedding)))
        return type_named(q->o->output_type, "output_type", out, e);
    if (keep)
        *out = keep->type;
    return LM_OK;
}

static lm_status choose(lm_quantizing *q, lm_quantizing_tensor *p, lm_quantized_tensor *r, lm_error *e)
{
    const lm_tensor_info *t = p->from;
    const lm_dtype_info  *from = lm_dtype_of(t->type);
    uint64_t              cols = t->dims[t->n_dims ? t->n_dims - 1 : 0], bytes;
    lm_dtype              wanted;

    p->to = t->type;
    if (lm_is_packed(t->name, t->n_dims)) {
        LM_TRY(named_type(q, t, &wanted, e));
        if (wanted == LM_F64) {
            wanted      = lm_choose_type(&q->chooser, t->name, t->n_dims, t->dims);
            r->replaced = q->chooser.replaced;
            p->own      = !q->o->pure && wanted != LM_F32 &&
                     (lm_dtype_of(wanted)->quantized || r->replaced);
            if (t->type == LM_MXFP4 && !q->o->requantize) {
                wanted      = LM_MXFP4;          /* the type that experts were trained in: published files of
                                                    every type keep it */
                r->replaced = false;
            }
        } else if (cols % lm_dtype_of(wanted)->block) {
            return lm_fail(e, LM_USAGE, t->name, LM_NO_OFFSET,
                           "rows of %" PRIu64 " elements are not a whole number of %s blocks", cols,
                           lm_dtype_of(wanted)->name);
        }
        p->to = wanted;
    }
    if (p->to != t->type) {
        if (from->quantized && !q->o->requantize) {
            lm_fail(e, LM_USAGE, t->name, LM_NO_OFFSET, "the tensor is quantised already (%s)", from->name);
            return lm_fail_hint(e, "use the model's original in f32, f16 or bf16; or `requantize`, which adds "
                                   "the loss of a second rounding");
        }
        if (!from->unpack || !lm_can_quantize(p->to))
            return lm_fail(e, LM_UNSUPPORTED, t->name, LM_NO_OFFSET, "cannot make %s from %s",
                           lm_dtype_of(p->to)->name, from->name);
    }
    if (!lm_dtype_row_bytes(p->to, t->elements, &bytes))
        return lm_fail(e, LM_UNSUPPORTED, t->name, LM_NO_OFFSET, "a row is not a whole number of %s blocks",
                       lm_dtype_of(p->to)->name);
    r->name     = t->name;
    r->from     = from->name;
    r->to       = lm_dtype_of(p->to)->name;
    r->elements = t->elements;
    r->bytes    = bytes;
    return LM_OK;
}

/* Find the importance of a tensor that is packed: [matrices × cols]. */
static lm_status find_importance(lm_quantizing *q, lm_quantizing_tensor *p, lm_quantized_tensor *r,
                                 lm_error *e)
{
    const lm_tensor_info *t = p->from;
    uint64_t              n = 0, rows = t->n_dims > 1 ? t->dims[t->n_dims - 2] : 1, want = t->elements / rows;

    if (!q->imatrix || p->to == t->type || !lm_dtype_of(p->to)->quantized)
        return LM_OK;
    p->importance = lm_imatrix_of(q->imatrix, t->name, &n);
    if (p->importance && n != want && strcmp(t->name, "token_embd.weight") != 0)
        return lm_fail(e, LM_BAD_MODEL, t->name, LM_NO_OFFSET,
                       "importance of %" PRIu64 " inputs; the tensor has %" PRIu64, n, want);
    p->importance = n == want ? p->importance : NULL;        /* an embedding used as the output head:
                                                                llama.cpp also omits it */
    r->unweighted = !p->importance;
    q->weighted += p->importance != NULL;
    return LM_OK;
}

/* Refuse a type of so few bits that it requires importance, if there is none for this tensor. */
static lm_status check_importance(const lm_quantizing *q, const lm_quantizing_tensor *p, lm_error *e)
{
    const char *type = lm_dtype_of(p->to)->name, *name = p->from->name;

    if (p->importance || p->to == p->from->type || q->o->dry_run ||
        !lm_requires_importance(q->chooser.type, name, p->to))
        return LM_OK;
    if (q->imatrix) {
        lm_fail(e, LM_USAGE, name, LM_NO_OFFSET,
                "%s requires importance, and the importance matrix does not contain this tensor", type);
        return lm_fail_hint(
            e, "measure the importance on a longer text, or give the tensor another type with `keep`");
    }
    lm_fail(e, LM_USAGE, name, LM_NO_OFFSET, "%s requires an importance matrix", type);
    return lm_fail_hint(e, "measure the importance of the model's inputs on a text and give it as `imatrix`");
}

lm_status lm_quantizing_choose(lm_quantizing *q, lm_error *e)
{
    q->n       = lm_container_n_tensors(q->in.seen);
    q->plan    = lm_arena_new(&q->arena, q->n + 1, lm_quantizing_tensor);
    q->tensors = lm_arena_new(&q->arena, q->n + 1, lm_quantized_tensor);
    if (!q->plan || !q->tensors)
        return lm_fail_memory(e, "tensors", q->n * sizeof *q->plan);
    for (size_t i = 0; i < q->n; i++) {
        const lm_tensor_info *t = lm_container_tensor(q->in.seen, i);
        char                 *end;
        long                  layer = strncmp(t->name, "blk.", 4) == 0 ? strtol(t->name + 4, &end, 10) : -1;
        q->plan[i] = (lm_quantizing_tensor){ .from = t, .index = i, .layer = layer };
    }
    qsort(q->plan, q->n, sizeof *q->plan, by_layer);
    for (size_t i = 0; i < q->n; i++) {
        q->tensors[i] = (lm_quantized_tensor){ 0 };
        LM_TRY(choose(q, &q->plan[i], &q->tensors[i], e));
        LM_TRY(find_importance(q, &q->plan[i], &q->tensors[i], e));
        LM_TRY(check_importance(q, &q->plan[i], e));
        q->bytes += q->tensors[i].bytes;
        q->was += q->plan[i].from->bytes;
        q->elements += q->plan[i].from->elements;
    }
    LM_TRY(check_kept(q, e));
    if (q->imatrix && !q->weighted) {
        lm_fail(e, LM_BAD_MODEL, NULL, LM_NO_OFFSET, "none of its %zu entries is a tensor that is quantised",
                lm_imatrix_entries(q->imatrix));
        return lm_fail_in(e, q->o->imatrix);
    }
    return LM_OK;
}
