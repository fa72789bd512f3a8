/* derive_parameters.c - every matrix of a model in symbols, summed and compared with the program's count;
 * FLOPs likewise. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "study/derive/topics.h"

enum { MAX_KINDS = 4 };

/* Layers with the same weights, whatever else differs (windows, rotation). */
typedef struct layer_kind {
    uint32_t    first, last, n;
    const char *sum;             /* name of the sum of one layer */
} layer_kind;

typedef struct counting {
    lm_derivation *d;
    const lm_program *p;
    const lm_ledger *l;
    bool             flops;      /* FLOPs per token instead of parameters */
    layer_kind       kinds[MAX_KINDS];
    size_t           n_kinds;    /* 0: too many to list */
    const char      *sums[LM_PARTS][MAX_KINDS];          /* names of the sums; NULL: none */
} counting;

/* ---- one weight, or one product ---- */

static const char *linear_formula(counting *c, uint32_t i)
{
    const lm_node *n   = &c->p->nodes[i];
    uint64_t       in = c->p->values[n->in[0]].width, out = c->p->values[n->out].width;
    const char    *of      = lm_width_formula(c->d, c->l->roles[i], true, in);
    const char    *to      = lm_width_formula(c->d, c->l->roles[i], false, out);
    const char    *product = lm_derive_text(c->d, "%s * (%s)", of, to);
    bool           bias    = n->weights[1] != LM_NONE && c->l->reader[n->weights[1]] == i;

    if (strchr(of, '+') || strchr(of, '*'))
        product = lm_derive_text(c->d, "(%s) * (%s)", of, to);
    if (c->flops)
        return lm_derive_text(c->d, "2 * (%s)", product);
    if (n->weights[0] == LM_NONE || c->l->reader[n->weights[0]] != i)
        return bias ? to : NULL;                             /* the matrix belongs to another module */
    return bias ? lm_derive_text(c->d, "%s + %s", product, to) : product;
}

static const char *experts_formula(counting *c, const lm_node *n)
{
    const char *width    = lm_width_formula(c->d, 0, true, c->p->values[n->in[0]].width);
    const char *products = lm_derive_text(c->d, "%s%u * %s * expert_width * %s", c->flops ? "2 * " : "",
                                          lm_expert_matrices(n), width, c->flops ? "top_k" : "experts");
    if (c->flops || n->weights[3] == LM_NONE)
        return products;
    /* biases of the experts */
    return lm_derive_text(c->d, "%s + (2 * expert_width + hidden) * experts", products);
}

static const char *heads_formula(counting *c, const lm_node *n)
{
    const lm_weight *w    = &c->p->weights[n->weights[0]];
    const uint64_t  *dims = w->dims;
    const char *a = lm_width_formula(c->d, 0, false, dims[1]), *b = lm_width_formula(c->d, 0, false, dims[2]);
    lm_symbol_value q;

    /* a list of matrices, not one of a head */
    if (w->kind == LM_EXPERTS || (int64_t)dims[0] != lm_derived(c->d, "heads").n)
        return lm_derive_text(c->d, "%s%llu * %s * %s", c->flops ? "2 * " : "",
                              (unsigned long long)dims[0], b, a);
    if (lm_try_formula(c->d, "nope_dim", &q) && (uint64_t)q.n == dims[2])
        b = "nope_dim";
    if (lm_try_formula(c->d, "v_dim", &q) && (uint64_t)q.n == dims[1])
        a = "v_dim";
    return lm_derive_text(c->d, "%sheads * %s * %s", c->flops ? "2 * " : "", b, a);
}

/* Return the formula of vectors and tables, from their sizes. */
static const char *other_formula(counting *c, uint32_t i)
{
    const lm_node *n = &c->p->nodes[i];
    lm_text         b = { 0 };

    for (uint32_t k = 0; k < LM_MAX_WEIGHTS && !c->flops; k++) {
        uint32_t w = n->weights[k];
        if (w == LM_NONE || c->l->reader[w] != i || c->p->weights[w].constant)
            continue;
        lm_text_add_str(&b, b.size ? " + " : "");
        for (uint32_t dim = 0; dim < c->p->weights[w].n_dims; dim++) {
            uint64_t    size = c->p->weights[w].dims[dim];
            uint16_t role = n->code == LM_OP_EMBED && dim == 0 ? LM_PRODUCT_HEAD
                            : n->code == LM_OP_ROUTE           ? LM_PRODUCT_ROUTER
                                                               : 0;
            lm_text_printf(&b, "%s%s", dim ? " * " : "", lm_width_formula(c->d, role, false, size));
        }
    }
    const char *text = b.size ? lm_derive_text(c->d, "%s", b.data) : NULL;
    lm_text_free(&b);
    return text;
}

/* Return the formula of an operation; NULL: it adds nothing. */
static const char *formula_of(counting *c, uint32_t i)
{
    const lm_node *n = &c->p->nodes[i];

    switch (n->code) {
    case LM_OP_LINEAR:
        return linear_formula(c, i);
    case LM_OP_EXPERTS:
        return experts_formula(c, n);
    case LM_OP_HEAD_LINEAR:
        return heads_formula(c, n);
    default:
        return other_formula(c, i);
    }
}

/* ---- names ---- */

static bool is_name(const char *s)
{
    return isalpha((unsigned char)*s) &&
           !s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.")];
}

/* Return the last component of the path if it is unique in the layer, otherwise the path relative to the
 * layer. */
static const char *name_of(counting *c, uint32_t i)
{
    const lm_node   *n = &c->p->nodes[i];
    const char      *last = strrchr(n->path, '.') ? strrchr(n->path, '.') + 1 : n->path;
    const lm_module *m = n->layer >= 0 ? &c->p->modules[c->l->layer[n->layer]] : NULL;

    for (uint32_t k = m ? m->first_op : 0; k < (m ? m->end_op : c->p->n_nodes); k++) {
        const char *other = strrchr(c->p->nodes[k].path, '.');
        if (k != i && (m || c->p->nodes[k].layer < 0) && other && strcmp(other + 1, last) == 0)
            last = m ? n->path + strlen(m->path) + 1 : n->path;
    }
    const char *below = m ? n->path + strlen(m->path) + 1 : n->path;
    const char *name  = is_name(last) && strlen(last) > 1 && strcmp(last, "layer") != 0 ? last : below;
    return is_name(name) ? name : lm_derive_text(c->d, "op%u", i);
}

/* Return an unused name. */
static const char *fresh(counting *c, const char *wanted)
{
    const char *name = wanted;

    for (char suffix = 'b'; lm_has_symbol(c->d, name) && suffix <= 'z'; suffix++)
        name = lm_derive_text(c->d, "%s_%c", wanted, suffix);
    return name;
}

/* ---- kinds of layers ---- */

static bool same_weights(const counting *c, uint32_t a, uint32_t b)
{
    const lm_module *x = &c->p->modules[c->l->layer[a]], *y = &c->p->modules[c->l->layer[b]];

    if (x->end_op - x->first_op != y->end_op - y->first_op)
        return false;
    for (uint32_t i = 0; i < x->end_op - x->first_op; i++) {
        const lm_node *m = &c->p->nodes[x->first_op + i], *n = &c->p->nodes[y->first_op + i];
        if (m->code != n->code || c->p->values[m->out].width != c->p->values[n->out].width)
            return false;
        for (uint32_t k = 0; k < LM_MAX_WEIGHTS; k++)
            if ((m->weights[k] == LM_NONE) != (n->weights[k] == LM_NONE) ||
                (m->weights[k] != LM_NONE &&
                 c->p->weights[m->weights[k]].elements != c->p->weights[n->weights[k]].elements))
                return false;
    }
    return true;
}

static void find_kinds(counting *c)
{
    for (uint32_t i = 0; i < c->p->n_layers; i++) {
        size_t k = 0;
        while (k < c->n_kinds && !same_weights(c, c->kinds[k].first, i))
            k++;
        if (k == MAX_KINDS) {
            c->n_kinds = 0;
            return;
        }
        if (k == c->n_kinds)
            c->kinds[c->n_kinds++] = (layer_kind){ .first = i };
        c->kinds[k].last = i;
        c->kinds[k].n++;
    }
}

/* ---- sums ---- */

static void append(lm_text *sum, const char *name)
{
    lm_text_printf(sum, "%s%s", sum->size ? " + " : "", name);
}

static const char *derive_sum(counting *c, const char *name, const char *title, const char *path,
                              lm_text *sum)
{
    const char *made = NULL;

    if (sum->failed && c->d->status == LM_OK)
        c->d->status = lm_fail_memory(c->d->e, "a derivation", 0);
    if (sum->size) {
        made = fresh(c, name);
        lm_derive(c->d, made, title, c->flops ? LM_UNIT_FLOPS : LM_UNIT_PARAMETERS, path, sum->data);
    }
    lm_text_free(sum);
    return made;
}

/* Derive a matrix. One with the same name and value in an earlier kind of layer is listed only once. */
static const char *derive_one(counting *c, uint32_t i, const char *formula)
{
    const char *name = name_of(c, i);
    lm_symbol_value q;

    if (lm_has_symbol(c->d, name) && lm_try_formula(c->d, formula, &q) && q.whole &&
        q.n == lm_derived(c->d, name).n)
        return name;
    name = fresh(c, name);
    lm_derive(c->d, name, NULL, c->flops ? LM_UNIT_FLOPS : LM_UNIT_PARAMETERS, NULL, formula);
    return name;
}

static void derive_kind(counting *c, size_t kind)
{
    static const char *const titles[LM_PARTS] = { [LM_PART_ATTENTION] = N_("attention of a layer"),
                                                  [LM_PART_STATE] = N_("a layer's part with a state"),
                                                  [LM_PART_MLP] = N_("MLP of a layer"),
                                                  [LM_PART_NORM] = N_("norms of a layer"),
                                                  [LM_PART_OTHER] = N_("the rest of a layer") };
    static const char *const names[LM_PARTS] = { [LM_PART_ATTENTION] = "attention",
                                                 [LM_PART_STATE] = "state",
                                                 [LM_PART_MLP] = "mlp",
                                                 [LM_PART_NORM] = "norms",
                                                 [LM_PART_OTHER] = "rest" };
    layer_kind       *k      = &c->kinds[kind];
    const lm_module  *m      = &c->p->modules[c->l->layer[k->first]];
    lm_text            layer  = { 0 };

    if (c->n_kinds == 1)
        lm_derive_heading(c->d, _("in each layer"));
    else if (c->n_kinds > 1 && k->n == 1)
        lm_derive_heading(c->d, _("layer %u"), k->first);
    else if (c->n_kinds > 1 && k->n == k->last - k->first + 1)
        lm_derive_heading(c->d, _("layers %u to %u"), k->first, k->last);
    else if (c->n_kinds > 1)
        lm_derive_heading(c->d, _("layer %u and %u like it"), k->first, k->n - 1);
    for (int part = 0; part < LM_PARTS; part++) {
        lm_text sum = { 0 };
        for (uint32_t i = m->first_op; i < m->end_op; i++) {
            const char *formula = c->l->part[i] == (lm_part)part ? formula_of(c, i) : NULL;
            if (formula)
                append(&sum, derive_one(c, i, formula));
        }
        bool        fact = part == LM_PART_ATTENTION || part == LM_PART_STATE || part == LM_PART_MLP;
        const char *path = NULL;
        if (c->flops && fact)
            path = lm_derive_text(c->d, "flops.layer[%u].%s", k->first, names[part]);
        c->sums[part][kind] = derive_sum(c, names[part] ? names[part] : "part",
                                         titles[part] ? _(titles[part]) : NULL, path, &sum);
        if (c->sums[part][kind])
            append(&layer, c->sums[part][kind]);
    }
    k->sum = derive_sum(c, c->n_kinds > 1 ? lm_derive_text(c->d, "layer_%u", k->first) : "layer",
                        _("one layer"),
                        lm_derive_text(c->d, c->flops ? "flops.layer[%u].matmul" : "parameters.per_layer[%u]",
                                       k->first),
                        &layer);
}

/* Derive the sum of all layers: each kind times its number of layers. If there are too many kinds, layer by
 * layer as counted. */
static void derive_stack(counting *c, bool alone)
{
    lm_text sum = { 0 };

    for (size_t k = 0; k < c->n_kinds; k++)
        if (c->kinds[k].sum)
            lm_text_printf(&sum, "%s%s * %s", sum.size ? " + " : "", lm_layers_formula(c->d, c->kinds[k].n),
                           c->kinds[k].sum);
    for (uint32_t i = 0; !c->n_kinds && i < c->p->n_layers; i++)
        lm_text_printf(&sum, "%s%" PRIu64, i ? " + " : "",
                       c->flops ? lm_facts_count(c->d->f, "flops.layer[%u].matmul", i)
                                : lm_facts_count(c->d->f, "parameters.per_layer[%u]", i));
    derive_sum(c, "all_layers", _("all layers"), c->flops && alone ? "flops.layers" : NULL, &sum);
}

/* Derive the sum of a part over all layers and compare it with the program's count. */
static void derive_part(counting *c, lm_part part, const char *name, const char *title, const char *path)
{
    lm_text sum = { 0 };

    for (size_t k = 0; k < c->n_kinds; k++)
        if (c->sums[part][k])
            lm_text_printf(&sum, "%s%s * %s", sum.size ? " + " : "", lm_layers_formula(c->d, c->kinds[k].n),
                           c->sums[part][k]);
    derive_sum(c, name, title, path, &sum);
}

/* Derive the weights outside the layers, except the head. */
static void derive_outside(counting *c, lm_text *total)
{
    for (uint32_t i = 0; i < c->p->n_nodes; i++) {
        const char *formula = c->p->nodes[i].layer < 0 && i != c->l->head ? formula_of(c, i) : NULL;
        if (formula)
            append(total, derive_one(c, i, formula));
    }
}

static counting *start(lm_derivation *d, bool flops)
{
    counting *c = lm_arena_new(&d->f->arena, 1, counting);

    if (!c) {
        d->status = lm_fail_memory(d->e, "a derivation", 0);
        return NULL;
    }
    *c = (counting){ .d = d, .p = d->f->s.program, .l = d->f->ledger, .flops = flops };
    lm_let_sizes(d);
    find_kinds(c);
    return c;
}

/* ---- parameters ---- */

static void derive_active(lm_derivation *d, const counting *c)
{
    uint64_t layers = 0;

    for (uint32_t i = 0; i < c->p->n_nodes; i++)
        layers += c->p->nodes[i].code == LM_OP_EXPERTS;
    if (!layers)
        return;
    lm_derivef(d, "active", _("active per token: without the experts that are not selected"),
               LM_UNIT_PARAMETERS, "parameters.active", "total - %s * (%s) * (experts - top_k)",
               lm_layers_formula(d, layers), lm_expert_formula(d));
    if (!lm_facts_truth(d->f, "architecture.tied"))
        lm_derive(d, "multiplied", _("active, without embedding"), LM_UNIT_PARAMETERS,
                  "parameters.active_without_embedding", "active - vocab * hidden");
}

void lm_derive_parameters(lm_derivation *d)
{
    counting   *c     = start(d, false);
    lm_text      total = { 0 };
    const char *head;

    if (!c)
        return;
    lm_derive_heading(d, _("outside the layers"));
    derive_outside(c, &total);
    head = formula_of(c, c->l->head);
    if (head)
        append(&total, derive_one(c, c->l->head, head));
    for (size_t k = 0; k < c->n_kinds; k++)
        derive_kind(c, k);
    lm_derive_heading(d, _("together"));
    derive_part(c, LM_PART_ATTENTION, "all_attention", _("attention of all layers"), "parameters.attention");
    derive_part(c, LM_PART_STATE, "all_states", _("parts with a state of all layers"), "parameters.state");
    derive_part(c, LM_PART_MLP, "all_mlp", _("MLPs of all layers"), "parameters.mlp");
    derive_stack(c, false);
    append(&total, "all_layers");
    derive_sum(c, "total", _("all parameters"), "parameters.total", &total);
    if (lm_facts_truth(d->f, "architecture.tied"))
        lm_derive(d, "untied", _("if the head were untied"), LM_UNIT_PARAMETERS,
                  "parameters.untied_total", lm_derive_text(d, "total + %s", lm_head_formula(d)));
    derive_active(d, c);
}

/* ---- FLOPs ---- */

const char *lm_score_formula(lm_derivation *d, const lm_node *n)
{
    const lm_attention_spec *s = &n->attention.spec;

    if (n->code == LM_OP_SELECT_KEYS)
        return lm_derive_text(d, s->block ? "2 * %u * %u" : "2 * %u * (%u + 1)", s->n_heads, s->k_dim);
    if (s->v_in_k && lm_has_symbol(d, "kv_rank"))
        return "2 * heads * ((kv_rank + rope_dim) + kv_rank)";
    if ((uint64_t)lm_derived(d, "head_dim").n == s->k_dim && s->k_dim == s->v_dim)
        return lm_derive_text(d, "2 * %s * (head_dim + head_dim)", lm_heads_formula(d, n));
    return lm_derive_text(d, "2 * %s * (%u + %u)", lm_heads_formula(d, n), s->k_dim, s->v_dim);
}

/* Append the cost of the keys that the last token sees. */
static void put_reach(const char *name, const lm_node *n, uint32_t reach, lm_text *at)
{
    const lm_attention_spec *s = &n->attention.spec;

    if (s->rate && n->code == LM_OP_SELECT_KEYS)
        lm_text_printf(at, " + %s * floor(tokens / %u)", name, s->rate);
    else if (s->rate && s->top_k)
        lm_text_printf(at, " + %s * (min(tokens, %u) + min(floor(tokens / %u), %u))", name, s->window,
                       s->rate, s->top_k);
    else if (s->rate)
        lm_text_printf(at, " + %s * (min(tokens, %u) + floor(tokens / %u))", name, s->window, s->rate);
    else if (lm_node_chunked(n))
        lm_text_printf(at, " + %s * (tokens - %u * floor((tokens - 1) / %u))", name, reach, reach);
    else
        lm_text_printf(at, " + %s * min(tokens, %u)", name, reach);
}

/* Derive the cost per key of layers that see entries, class number i, or of their indexers. */
static const char *derive_entries(counting *c, const lm_node *n, size_t i, lm_text *sum)
{
    return derive_sum(c, lm_derive_text(c->d, "per_key_%zu", i),
                      n->code == LM_OP_SELECT_KEYS ? _("scores of the indexers, per entry")
                                                   : _("scores, per key of the window and per entry"),
                      NULL, sum);
}

/* The same of layers with a window or a choice, one of n classes. */
static const char *derive_bounded(counting *c, size_t n, bool chooses, lm_text *sum)
{
    return derive_sum(c, n == 1 ? "per_key" : chooses ? "per_key_chosen" : "per_key_window",
                      n == 1    ? _("scores, per token of context")
                      : chooses ? _("scores, per token of context, until as many keys are chosen")
                                : _("scores, per token of context, in layers with a window"),
                      n == 1 ? "flops.per_context_token" : NULL, sum);
}

/* Derive the cost per visible key: layers with a window or a choice, layers without and indexers, and
 * both. */
static void derive_scores(counting *c, lm_text *at)
{
    lm_cache_class classes[LM_MAX_CLASSES];
    size_t         n = lm_cache_classes(c->p, LM_BY_REACH, classes);
    lm_text         open = { 0 }, all = { 0 };
    bool            chooses = false;
    const char    *name;

    for (size_t i = 0; i < n; i++) {
        const lm_node *x     = lm_attention_of(c->p, classes[i].first);
        uint32_t       reach = lm_acting_window(c->p, lm_node_reach(x));
        lm_text        one   = { 0 };
        if (c->p->caches[classes[i].first].rate && x->code == LM_OP_ATTENTION)
            continue;                    /* entries are keys of the same attention as its window */
        bool bounded = reach || lm_node_rate(x);
        append(bounded ? &one : &open,
               lm_derive_text(c->d, "%s * (%s)", lm_layers_formula(c->d, classes[i].readers),
                              lm_score_formula(c->d, x)));
        if (!bounded)
            continue;
        chooses |= x->attention.spec.top_k > 0 && !lm_node_rate(x);
        name = lm_node_rate(x) ? derive_entries(c, x, i, &one) : derive_bounded(c, n, chooses, &one);
        put_reach(name ? name : "", x, reach, at);
        if (n > 1)
            append(&all, name ? name : "");
    }
    bool mixed = all.size > 0;
    name = derive_sum(c, mixed ? "per_key_open" : "per_key",
                      !mixed    ? _("scores, per token of context")
                      : chooses ? _("scores of the indexers, per token of context")
                                : _("scores, per token of context, in layers without a window"),
                      mixed ? "flops.per_context_token_past_windows" : "flops.per_context_token", &open);
    if (name)
        lm_text_printf(at, " + %s * tokens", name);
    if (name && mixed)
        append(&all, name);
    derive_sum(c, "per_key", _("scores, per token of context"), "flops.per_context_token", &all);
}

void lm_derive_flops(lm_derivation *d)
{
    counting *c  = start(d, true);
    lm_text    at = { 0 }, total = { 0 };

    if (!c)
        return;
    for (size_t k = 0; k < c->n_kinds; k++)
        derive_kind(c, k);
    lm_derive_heading(d, _("together"));
    derive_outside(c, &total);
    derive_stack(c, total.size == 0);
    append(&total, "all_layers");
    lm_derive(d, "head", _("the head: one logit per token of the vocabulary"), LM_UNIT_FLOPS,
              "flops.head", lm_derive_text(d, "2 * %s", lm_head_formula(d)));
    append(&total, "head");
    derive_sum(c, "per_token", _("matrix products of one token"), "flops.per_token_matmul", &total);
    lm_let_fact(d, "tokens", "S", _("tokens of context that it attends to"), "kv.context");
    lm_text_add_str(&at, "per_token");
    derive_scores(c, &at);
    derive_sum(c, "at_context", _("one token with a full context"), "flops.at_context", &at);
    if (!lm_facts_has(d->f, "flops.per_context_token_naive"))
        return;
    lm_derive_heading(d, _("the two forms of latent attention, for a prompt as long as the context"));
    lm_derive(d, "pairs", _("pairs of a query and a visible key"), LM_UNIT_NONE, NULL,
              "tokens * (tokens + 1) / 2");
    lm_derive(d, "prompt", _("absorbed: scores on the latent itself"), LM_UNIT_FLOPS, "flops.prefill",
              "tokens * (per_token - head) + head + pairs * per_key");
    lm_derivef(d, "per_key_naive",
               _("naive: scores per token of context, with the keys and values of every head"), LM_UNIT_FLOPS,
               "flops.per_context_token_naive", "2 * %s * heads * (nope_dim + rope_dim + v_dim)",
               lm_layers_formula(d, d->f->s.program->n_caches));
    lm_derive(d, "prompt_naive", _("naive: the prompt"), LM_UNIT_FLOPS, "flops.prefill_naive",
              "tokens * (per_token - head) + head + pairs * per_key_naive");
}
