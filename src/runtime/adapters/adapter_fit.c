/* adapter_fit.c - match an adapter's tensors with the modules of a model, and check that none is missing. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/map.h"
#include "program/adapt.h"
#include "runtime/adapters/adapter_file.h"
#include "runtime/adapters/adapter_names.h"
#include "runtime/adapters/adapters.h"

typedef struct fitting {
    const lm_model        *m;
    const lm_program      *p;
    const lm_adapter_file *f;
    lm_adapter            *a;
    lm_map                *entries;      /* by name */
    bool                  *used;         /* [n_entries] */
    uint32_t               n_zero;       /* modules whose B is zero */
} fitting;

/* ---- the entry of a module ---- */

static bool found(const fitting *t, const char *name, size_t n, size_t *out)
{
    uint64_t at;

    if (!lm_map_get(t->entries, (lm_view){ name, n }, &at))
        return false;
    *out = (size_t)at;
    return true;
}

/* Find the entry of a module of the language model in a vision-language model:
 * "model.language_model.layers…". */
static bool found_inside(const fitting *t, const char *module, size_t *out)
{
    static const char *const words[] = { "language_model.model.", "model.language_model.",
                                         "language_model." };
    const char              *rest    = strncmp(module, "model.", 6) == 0 ? module + 6 : module;
    char                     name[512];

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        int n = snprintf(name, sizeof name, "%s%s", words[i], rest);
        if (n > 0 && (size_t)n < sizeof name && found(t, name, (size_t)n, out))
            return true;
    }
    return false;
}

/* Find the entry of a module that checkpoints name differently: transformers 5 calls every decoder "model",
 * checkpoints of some families "backbone". */
static bool found_renamed(const fitting *t, const char *rest, size_t *out)
{
    char name[512];
    int  n = snprintf(name, sizeof name, "model.%s", rest);

    return n > 0 && (size_t)n < sizeof name && found(t, name, (size_t)n, out);
}

/* Find the entry of a module by the name that the file uses. Adapters of the bare decoder leave out the first
 * word of every path. */
static bool entry_of(const fitting *t, uint32_t node, const lm_adapt_shape *s, size_t *out)
{
    const char *name = s->module, *dot = strchr(name, '.');

    if (t->f->format == LM_ADAPTER_GGUF) {
        bool tied = t->p->nodes[node].code == LM_OP_LINEAR &&
                    t->p->weights[t->p->nodes[node].weights[0]].kind == LM_TABLE;
        name      = tied ? "output.weight" : s->gguf;
        return name && found(t, name, strlen(name), out);
    }
    return found(t, name, strlen(name), out) || (dot && found(t, dot + 1, strlen(dot + 1), out)) ||
           (dot && found_renamed(t, dot + 1, out)) || found_inside(t, name, out);
}

/* ---- one module ---- */

static lm_status check_shape(const fitting *t, const lm_adapter_entry *x, const lm_adapt_shape *s,
                             lm_error *e)
{
    uint64_t in = lm_adapter_in(t->f, x), out = lm_adapter_out(t->f, x);

    if (x->table != s->table)
        return lm_adapter_wrong(t->f, x->a, LM_BAD_MODEL, e, "is of a %s, but %s is a %s",
                                x->table ? "look-up" : "product", s->module,
                                s->table ? "look-up" : "product");
    if (in == s->out && out == s->in && in != out && !s->table)
        return lm_adapter_wrong(t->f, x->a, LM_BAD_MODEL, e,
                                "is turned: %s has %" PRIu64 " inputs and %" PRIu64 " outputs", s->module,
                                s->in, s->out);
    if (in != s->in)
        return lm_adapter_wrong(t->f, x->a, LM_BAD_MODEL, e,
                                "has %" PRIu64 " %s, %s of the model has %" PRIu64, in,
                                s->table ? "rows" : "inputs", s->module, s->in);
    if (out != s->out)
        return lm_adapter_wrong(t->f, x->b, LM_BAD_MODEL, e,
                                "has %" PRIu64 " outputs, %s of the model has %" PRIu64, out, s->module,
                                s->out);
    return LM_OK;
}

static lm_status refuse(const fitting *t, const lm_tensor_info *tensor, const char *what, lm_error *e)
{
    return lm_adapter_wrong(t->f, tensor, LM_UNSUPPORTED, e,
                            "%s: not a pair of small matrices added to the model", what);
}

typedef struct unpacking { const fitting *t; const lm_adapter_entry *x; float *a, *b, *bias; } unpacking;

static lm_status unpack(void *arg)
{
    const unpacking *u = arg;
    bool turn_a = u->t->f->turned || (u->x->table && u->t->f->format != LM_ADAPTER_GGUF);

    lm_adapter_unpack(u->t->f, u->x->a, turn_a, u->a);
    lm_adapter_unpack(u->t->f, u->x->b, u->t->f->turned, u->b);
    if (u->x->bias)
        lm_adapter_unpack(u->t->f, u->x->bias, false, u->bias);
    return LM_OK;
}

lm_gguf_rows lm_adapter_rows(const lm_model *m, uint32_t node)
{
    const lm_config *c     = &m->config;
    lm_gguf_rows     fused = { .groups = c->qkv_groups_hf };

    if (fused.groups) {
        fused.q  = (uint64_t)c->n_heads * c->head_dim / fused.groups;
        fused.kv = (uint64_t)c->n_kv_heads * c->head_dim / fused.groups;
    }
    return lm_gguf_rows_of(m->program, node, &fused);
}

bool lm_adapter_in_gguf_order(const lm_model *m)
{
    return m->container && lm_container_kind_of(m->container) == LM_GGUF;
}

/* Reorder rows from the order of the file to that of the model. `row`: space for all of them. */
static void order_rows(const fitting *t, uint32_t node, float *b, float *row, uint64_t n, uint64_t cols)
{
    lm_gguf_rows order = lm_adapter_rows(t->m, node);
    bool         from_gguf = t->f->format == LM_ADAPTER_GGUF, to_gguf = lm_adapter_in_gguf_order(t->m);

    if (from_gguf == to_gguf)
        return;
    memcpy(row, b, n * cols * sizeof *row);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t k = lm_gguf_row_from(&order, i);
        memcpy(b + (to_gguf ? i : k) * cols, row + (to_gguf ? k : i) * cols, cols * sizeof *b);
    }
}

/* The same for the columns of A, which has n rows. */
static void order_columns(const fitting *t, uint32_t node, float *a, float *row, uint64_t n, uint64_t cols)
{
    lm_gguf_rows order = lm_adapter_rows(t->m, node);
    bool         from_gguf = t->f->format == LM_ADAPTER_GGUF, to_gguf = lm_adapter_in_gguf_order(t->m);

    if (from_gguf == to_gguf)
        return;
    memcpy(row, a, n * cols * sizeof *row);
    for (uint64_t i = 0; i < n * cols; i++) {
        uint64_t k = i - i % cols + lm_gguf_column_from(&order, i % cols);
        a[to_gguf ? i : k] = row[to_gguf ? k : i];
    }
}

static bool is_zero(const float *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (x[i] != 0)
            return false;
    return true;
}

static lm_status take(fitting *t, uint32_t node, const lm_adapt_shape *s, const lm_adapter_entry *x,
                      lm_error *e)
{
    lm_arena *arena = &t->a->arena;
    uint64_t  size_a, size_b;

    if (x->magnitude || x->base_bias)
        return refuse(t, x->magnitude ? x->magnitude : x->base_bias,
                      x->magnitude ? "DoRA scales whole rows" : "a trained bias of the base", e);
    LM_TRY(check_shape(t, x, s, e));
    size_a = x->a->elements;
    size_b = x->b->elements;
    float    *a = lm_arena_new(arena, size_a, float), *b = lm_arena_new(arena, size_b, float);
    uint64_t  larger = size_a > size_b ? size_a : size_b;
    float    *bias = x->bias ? lm_arena_new(arena, s->out, float) : NULL;
    float    *row  = lm_alloc(larger * sizeof *row);
    unpacking u = { t, x, a, b, bias };
    lm_status status = a && b && row && (bias || !x->bias)
                           ? LM_OK
                           : lm_fail_memory(e, x->name, (size_a + size_b) * sizeof *a);
    if (status == LM_OK)
        status = lm_filemap_guard(unpack, &u, t->f->path, e);
    if (status == LM_OK) {
        order_columns(t, node, a, row, x->rank, size_a / x->rank);
        order_rows(t, node, b, row, s->out, x->rank);
        if (bias)
            order_rows(t, node, bias, row, s->out, 1);
        t->n_zero += is_zero(b, size_b) && (!bias || is_zero(bias, s->out));
        t->a->parts[t->a->n_parts++] = (lm_adapter_part){ node, s->module, x->rank, (float)x->scale,
                                                          a, b, bias };
        t->a->info.parameters += size_a + size_b + (bias ? s->out : 0);
        t->a->info.bytes += x->a->bytes + x->b->bytes + (x->bias ? x->bias->bytes : 0);
        t->a->info.rank = x->rank > t->a->info.rank ? x->rank : t->a->info.rank;
    }
    lm_free(row);
    return status;
}

/* ---- modules that the config names ---- */

typedef struct promise { lm_module_list targets, except, saved; lm_meta_value layers; } promise;

/* Return whether only some layers were adapted, and this one was not. */
static bool other_layer(const promise *q, int32_t layer)
{
    lm_meta_value v;

    if (q->layers.kind == LM_META_UINT)
        return layer >= 0 && (uint64_t)layer != q->layers.u;
    for (uint64_t i = 0; q->layers.kind == LM_META_ARRAY && i < q->layers.a.n; i++)
        if (lm_meta_at(&q->layers, i, &v) && v.kind == LM_META_UINT && v.u == (uint64_t)layer)
            return false;
    return q->layers.kind == LM_META_ARRAY;
}

static lm_status check_missing(const fitting *t, const promise *q, uint32_t node, const lm_adapt_shape *s,
                               lm_error *e)
{
    bool is, not, saved;

    LM_TRY(lm_module_list_has(&q->targets, s->module, &is, e));
    LM_TRY(lm_module_list_has(&q->except, s->module, &not, e));
    LM_TRY(lm_module_list_has(&q->saved, s->module, &saved, e));
    if (!is || not || saved || other_layer(q, t->p->nodes[node].layer))
        return LM_OK;
    lm_fail(e, LM_BAD_MODEL, s->module, LM_NO_OFFSET,
            "target_modules names it, but the adapter has no lora_A and lora_B of it");
    return lm_fail_in(e, t->f->path);
}

static lm_status read_promise(const lm_adapter_file *f, promise *q, lm_error *e)
{
    if (f->format != LM_ADAPTER_PEFT)
        return LM_OK;
    LM_TRY(lm_module_list_read(f->config, "target_modules", &q->targets, e));
    LM_TRY(lm_module_list_read(f->config, "exclude_modules", &q->except, e));
    LM_TRY(lm_module_list_read(f->config, "modules_to_save", &q->saved, e));
    if (lm_meta_has(f->config, "layers_to_transform"))
        lm_meta_get(f->config, "layers_to_transform", &q->layers);
    return LM_OK;
}

static void end_promise(promise *q)
{
    lm_module_list_free(&q->targets);
    lm_module_list_free(&q->except);
    lm_module_list_free(&q->saved);
}

/* ---- the whole adapter ---- */

static lm_status fit_all(fitting *t, const promise *q, lm_error *e)
{
    lm_adapt_shape s;
    size_t         at;

    for (uint32_t i = 0; i < t->p->n_nodes; i++) {
        if (!lm_adapt_possible(t->p, i, &s))
            continue;
        if (!entry_of(t, i, &s, &at)) {
            LM_TRY(check_missing(t, q, i, &s, e));
            continue;
        }
        if (t->used[at])
            continue;
        t->used[at] = true;
        LM_TRY(take(t, i, &s, &t->f->entries[at], e));
    }
    return LM_OK;
}

/* Reject entries that no module has taken. */
static lm_status refuse_others(const fitting *t, lm_error *e)
{
    for (size_t i = 0; i < t->f->n_entries; i++) {
        const lm_adapter_entry *x = &t->f->entries[i];
        if (t->used[i])
            continue;
        if (!x->a)
            return refuse(t, x->base_bias ? x->base_bias : x->magnitude, "a trained bias of the base", e);
        if (strstr(x->name, ".experts.") || lm_view_ends(lm_view_of(x->name), LM_VIEW(".experts")) ||
            strstr(x->name, "_exps.") || lm_program_module(t->p, x->name) != LM_NONE)
            return lm_adapter_wrong(t->f, x->a, LM_UNSUPPORTED, e,
                                    "an adapter of %s is not supported: adapted are products and look-ups",
                                    x->name);
        return lm_adapter_wrong(t->f, x->a, LM_BAD_MODEL, e, "this model (%s, %u layers) has no %s",
                                t->m->family->name, t->p->n_layers, x->name);
    }
    return t->f->n_whole ? refuse(t, t->f->whole[0], "a module that was trained whole", e) : LM_OK;
}

static lm_status check_architecture(const fitting *t, lm_error *e)
{
    const char *const *known = t->m->family->gguf_archs;

    if (!t->f->architecture)
        return LM_OK;
    for (size_t i = 0; known && known[i]; i++)
        if (strcmp(known[i], t->f->architecture) == 0)
            return LM_OK;
    lm_fail(e, LM_BAD_MODEL, "general.architecture", LM_NO_OFFSET, "the adapter is for %s, the model is %s",
            t->f->architecture, known && known[0] ? known[0] : t->m->family->name);
    return lm_fail_in(e, t->f->path);
}

/* Warn of what is unusual but harmless. */
static void warn(const fitting *t)
{
    lm_text *w = &t->a->warnings;
    char     mine[65];

    if (t->f->warnings.size)
        lm_text_add_view(w, lm_text_view(&t->f->warnings));
    if (t->n_zero == t->a->n_parts)
        lm_text_add_str(w, "every lora_B is zero: the adapter has no effect\n");
    else if (t->n_zero)
        lm_text_printf(w, "lora_B of %u of %u modules is zero: the adapter has no effect there\n", t->n_zero,
                       t->a->n_parts);
    if (t->f->fingerprint && lm_model_fingerprint(t->m, mine, NULL) == LM_OK &&
        strcmp(mine, t->f->fingerprint) != 0)
        lm_text_add_str(w, "the adapter was trained on another file: another quantisation, or another model "
                           "of the same shape\n");
    for (size_t i = 0; i < w->size; i++)
        if (w->data[i] == '\n')
            w->data[i] = '\0';
}

static void hash_parts(lm_adapter *a)
{
    lm_blake2b h;

    lm_blake2b_begin(&h);
    for (uint32_t i = 0; i < a->n_parts; i++) {
        const lm_adapter_part *p = &a->parts[i];
        lm_adapt_shape         s;
        lm_adapt_possible(a->model->program, p->node, &s);
        lm_blake2b_add(&h, p->module, strlen(p->module) + 1);
        lm_blake2b_add(&h, &p->rank, sizeof p->rank);
        lm_blake2b_add(&h, &p->scale, sizeof p->scale);
        lm_blake2b_add(&h, p->a, s.in * p->rank * sizeof *p->a);
        lm_blake2b_add(&h, p->b, s.out * p->rank * sizeof *p->b);
        if (p->bias)
            lm_blake2b_add(&h, p->bias, s.out * sizeof *p->bias);
    }
    lm_blake2b_end(&h, a->hash);
}

/* Return an escaped copy for display; NULL: `text` is NULL, or no memory. */
static const char *shown(lm_arena *arena, const char *text)
{
    size_t n   = text ? 4 * strlen(text) + 1 : 0;
    char  *out = n ? lm_arena_alloc(arena, n) : NULL;

    if (out)
        lm_escape(out, n, text);
    return out;
}

static lm_status describe(fitting *t, lm_error *e)
{
    static const char *const formats[] = { "peft", "mlx", "gguf" };
    lm_adapter_info         *i         = &t->a->info;

    i->name      = shown(&t->a->arena, t->f->name);
    i->source    = shown(&t->a->arena, t->f->path);
    i->base      = shown(&t->a->arena, t->f->base);
    i->format    = formats[t->f->format];
    i->alpha     = t->f->alpha;
    i->n_modules = t->a->n_parts;
    i->task_name     = shown(&t->a->arena, t->f->task_name);
    i->prompt_prefix = shown(&t->a->arena, t->f->prompt_prefix);
    return i->name && i->source && (i->base || !t->f->base) ? LM_OK : lm_fail_memory(e, t->f->path, 0);
}

static lm_status fit(fitting *t, lm_error *e)
{
    promise   q      = { 0 };
    lm_status status = LM_OK;

    t->a->parts = lm_arena_new(&t->a->arena, t->f->n_entries + 1, lm_adapter_part);
    t->used     = lm_alloc_zero(t->f->n_entries + 1, sizeof *t->used);
    t->entries  = lm_map_new(t->f->n_entries);
    if (!t->a->parts || !t->used || !t->entries)
        return lm_fail_memory(e, t->f->path, 0);
    for (size_t i = 0; i < t->f->n_entries; i++)
        lm_map_add(t->entries, lm_view_of(t->f->entries[i].name), i);
    if (lm_map_failed(t->entries))
        return lm_fail_memory(e, t->f->path, 0);
    LM_TRY(check_architecture(t, e));
    status = read_promise(t->f, &q, e);
    if (status == LM_OK)
        status = fit_all(t, &q, e);
    end_promise(&q);
    LM_TRY(status);
    LM_TRY(refuse_others(t, e));
    LM_TRY(describe(t, e));
    warn(t);
    hash_parts(t->a);
    return t->a->warnings.failed ? lm_fail_memory(e, t->f->path, 0) : LM_OK;
}

lm_status lm_adapter_open(const lm_model *m, const char *path, lm_adapter **out, lm_error *e)
{
    LM_REQUIRE(e, m && path && out);
    lm_adapter_file *f = NULL;
    fitting          t = { .m = m, .p = m->program, .a = lm_alloc_zero(1, sizeof *t.a) };

    if (!t.a)
        return lm_fail_memory(e, path, sizeof *t.a);
    t.a->model       = m;
    lm_status status = m->exchange ? lm_fail(e, LM_UNSUPPORTED, path, LM_NO_OFFSET,
                                             "a model on several ranks takes no adapters")
                                   : lm_adapter_file_open(path, &f, e);
    t.f              = f;
    if (status == LM_OK)
        status = fit(&t, e);
    lm_map_free(t.entries);
    lm_free(t.used);
    lm_adapter_file_close(f);
    if (status != LM_OK) {
        lm_adapter_close(t.a);
        return status;
    }
    *out = t.a;
    return LM_OK;
}

void lm_adapter_close(lm_adapter *a)
{
    if (!a)
        return;
    lm_text_free(&a->warnings);
    lm_arena_free(&a->arena);
    lm_free(a);
}
