/* derive_sizes.c - the names of widths. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "study/derive/topics.h"

static void let_latent(lm_derivation *d)
{
    lm_let_fact(d, "kv_rank", "R", _("width of the latent of keys and values"), "attention.latent.kv_rank");
    lm_let_fact(d, "rope_dim", "K_R", _("dimensions of the key that all heads share"),
                "attention.latent.rope_dim");
    lm_let_fact(d, "nope_dim", "K_N", _("dimensions of a query or key head without the shared ones"),
                "attention.latent.nope_dim");
    lm_let_fact(d, "v_dim", "K_V", _("dimensions of a value head"), "attention.latent.v_dim");
    if (lm_facts_count(d->f, "attention.latent.q_rank"))
        lm_let_fact(d, "q_rank", "R_Q", _("width of the latent of queries"), "attention.latent.q_rank");
}

static void let_attention(lm_derivation *d)
{
    if (!lm_facts_has(d->f, "attention.heads"))
        return;
    lm_let_fact(d, "heads", "H", _("query heads"), "attention.heads");
    if (lm_facts_has(d->f, "attention.latent")) {
        let_latent(d);
        return;
    }
    lm_let_fact(d, "kv_heads", "G", _("heads of keys and values"), "attention.kv_heads");
    lm_let_fact(d, "head_dim", "K", _("dimensions of a head"), "attention.head_dim");
    if (lm_facts_count(d->f, "attention.value_dim") != lm_facts_count(d->f, "attention.head_dim"))
        lm_let_fact(d, "value_dim", "K_V", _("dimensions of a value head"), "attention.value_dim");
}

void lm_let_sizes(lm_derivation *d)
{
    lm_facts *f = d->f;

    lm_let_fact(d, "layers", "L", _("decoder layers"), "architecture.layers");
    lm_let_fact(d, "hidden", "D", _("width of the residual stream"), "architecture.hidden");
    lm_let_fact(d, "vocab", "V", _("tokens of the vocabulary"), "architecture.vocabulary");
    let_attention(d);
    if (lm_facts_has(f, "mlp.intermediate"))
        lm_let_fact(d, "ffn", "F", _("width of the MLP"), "mlp.intermediate");
    if (!lm_facts_has(f, "mlp.experts"))
        return;
    lm_let_fact(d, "experts", "E", _("routed experts of a layer"), "mlp.experts");
    lm_let_fact(d, "top_k", "E_a", _("active experts per token (top-k)"), "mlp.experts_per_token");
    lm_let_fact(d, "expert_width", "F_E", _("width of an expert"), "mlp.expert_width");
    if (lm_facts_has(f, "mlp.shared_width") &&
        lm_facts_count(f, "mlp.shared_width") != lm_facts_count(f, "mlp.intermediate"))
        lm_let_fact(d, "shared_width", "F_S", _("width of the shared experts"), "mlp.shared_width");
}

/* ---- widths in symbols ---- */

static bool is_width(lm_derivation *d, const char *formula, uint64_t width)
{
    lm_symbol_value q;

    return lm_try_formula(d, formula, &q) && q.whole && (uint64_t)q.n == width;
}

const char *lm_width_formula(lm_derivation *d, uint16_t role, bool inner, uint64_t width)
{
    static const struct {
        uint16_t    role;
        bool        inner;
        const char *formulas[5];
    } table[] = {
        { LM_PRODUCT_QUERY | LM_PRODUCT_KEY | LM_PRODUCT_VALUE, false, { "(heads + 2 * kv_heads) * head_dim", "3 * hidden" } },
        { LM_PRODUCT_KEY | LM_PRODUCT_VALUE, false, { "kv_rank + rope_dim", "2 * kv_heads * head_dim" } },
        { LM_PRODUCT_QUERY, false, { "heads * head_dim", "heads * (nope_dim + rope_dim)", "q_rank" } },
        { LM_PRODUCT_KEY, false, { "kv_heads * head_dim", "kv_rank + rope_dim" } },
        { LM_PRODUCT_VALUE, false, { "kv_heads * value_dim", "kv_heads * head_dim" } },
        { LM_PRODUCT_QUERY, true, { "hidden", "q_rank" } },
        { LM_PRODUCT_OUTPUT, true, { "heads * value_dim", "heads * v_dim", "heads * head_dim" } },
        { LM_PRODUCT_GATE | LM_PRODUCT_UP, false, { "2 * ffn" } },
        { LM_PRODUCT_GATE, false, { "ffn", "shared_width" } },
        { LM_PRODUCT_UP, false, { "ffn", "shared_width" } },
        { LM_PRODUCT_DOWN, true, { "ffn", "shared_width" } },
        { LM_PRODUCT_ROUTER, false, { "experts" } },
        { LM_PRODUCT_HEAD, false, { "vocab" } },
    };
    static const char *const any[] = { "hidden", "ffn", "vocab", "head_dim", "kv_rank", "q_rank" };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (const char *const *f = table[i].formulas;
             (table[i].role & role) == table[i].role && table[i].inner == inner && *f; f++)
            if (is_width(d, *f, width))
                return *f;
    for (size_t i = 0; i < sizeof any / sizeof *any; i++)
        if (is_width(d, any[i], width))
            return any[i];
    return lm_derive_text(d, "%" PRIu64, width);
}

const char *lm_head_formula(lm_derivation *d)
{
    const lm_program *p    = d->f->s.program;
    const lm_node    *head = &p->nodes[d->f->ledger->head];

    return lm_derive_text(d, "vocab * %s",
                          lm_width_formula(d, 0, true, head->n_in ? p->values[head->in[0]].width : 0));
}

/* ---- caches ---- */

static bool reads_cache(const lm_node *n, uint32_t cache)
{
    return (n->code == LM_OP_ATTENTION || n->code == LM_OP_SELECT_KEYS) &&
           (n->attention.cache == cache ||
            (n->code == LM_OP_ATTENTION && lm_node_rate(n) && n->attention.entries == cache));
}

static bool alike(const lm_program *p, uint32_t i, uint32_t j, lm_class_by by)
{
    const lm_cache *a = &p->caches[i], *b = &p->caches[j];
    const lm_node  *x = lm_attention_of(p, i), *y = lm_attention_of(p, j);

    return x->code == y->code && x->attention.spec.n_heads == y->attention.spec.n_heads &&
           (by != LM_BY_REACH ||
            (lm_node_reach(x) == lm_node_reach(y) && lm_node_rate(x) == lm_node_rate(y) &&
                                  x->attention.spec.top_k == y->attention.spec.top_k)) &&
           a->rate == b->rate &&
           a->n_kv_heads == b->n_kv_heads && a->k_dim == b->k_dim && a->v_dim == b->v_dim &&
           a->v_in_k == b->v_in_k &&
           (by == LM_BY_SHAPE || (a->window == b->window && a->chunked == b->chunked));
}

size_t lm_cache_classes(const lm_program *p, lm_class_by by, lm_cache_class out[LM_MAX_CLASSES])
{
    size_t n = 0, k;

    for (uint32_t i = 0; i < p->n_caches; i++) {
        for (k = 0; k < n && !alike(p, out[k].first, i, by); k++)
            ;
        if (k == LM_MAX_CLASSES)
            return 0;
        if (k == n)
            out[n++] = (lm_cache_class){ i, 0, 0 };
        out[k].n++;
        for (uint32_t j = 0; j < p->n_nodes; j++)
            out[k].readers += reads_cache(&p->nodes[j], i);
    }
    return n;
}

const char *lm_heads_formula(lm_derivation *d, const lm_node *attention)
{
    uint32_t n = attention->attention.spec.n_heads;

    return is_width(d, "heads", n) ? "heads" : lm_derive_text(d, "%u", n);
}

const char *lm_elements_formula(lm_derivation *d, bool every_head)
{
    const lm_program *p = d->f->s.program;
    lm_cache_class    classes[LM_MAX_CLASSES];
    size_t            n   = lm_cache_classes(p, LM_BY_SHAPE, classes);
    const char       *sum = NULL;

    for (size_t i = 0; i < n; i++) {
        const lm_cache *c    = &p->caches[classes[i].first];
        if (every_head && (c->rate || lm_attention_of(p, classes[i].first)->code == LM_OP_SELECT_KEYS))
            continue;                    /* an indexer's keys are not those of attention, nor are entries */
        const char     *heads = lm_heads_formula(d, lm_attention_of(p, classes[i].first));
        const char *each = every_head ? lm_derive_text(d, "%s * (%u + %u)", heads, c->k_dim, c->v_dim)
                                      : lm_cache_formula(d, c);
        each = lm_derive_text(d, "%s * %s", lm_layers_formula(d, classes[i].n), each);
        sum  = sum ? lm_derive_text(d, "%s + %s", sum, each) : each;
    }
    return sum;
}

const char *lm_cache_formula(lm_derivation *d, const lm_cache *c)
{
    const char *forms[] = { "2 * kv_heads * head_dim", "kv_heads * (head_dim + value_dim)" };

    if (c->rate)
        return lm_derive_text(d, "floor(%u / %u)", c->k_dim, c->rate);

    if (c->v_in_k)
        return is_width(d, "kv_rank + rope_dim", c->k_dim) ? "(kv_rank + rope_dim)"
                                                           : lm_derive_text(d, "%u", c->k_dim);
    for (size_t i = 0; i < 2; i++)
        if (is_width(d, forms[i], (uint64_t)c->n_kv_heads * (c->k_dim + c->v_dim)))
            return forms[i];
    return lm_derive_text(d, "%u * (%u + %u)", c->n_kv_heads, c->k_dim, c->v_dim);
}

const lm_node *lm_attention_of(const lm_program *p, uint32_t cache)
{
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (reads_cache(&p->nodes[i], cache))
            return &p->nodes[i];
    return NULL;
}

const char *lm_expert_formula(lm_derivation *d)
{
    const lm_program *p = d->f->s.program;

    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].code == LM_OP_EXPERTS)
            return lm_derive_text(d, "%u * %s * expert_width%s", lm_expert_matrices(&p->nodes[i]),
                                  lm_width_formula(d, 0, true, p->values[p->nodes[i].in[0]].width),
                                  p->nodes[i].weights[3] == LM_NONE ? "" : " + 2 * expert_width + hidden");
    return "0";
}

unsigned lm_expert_matrices(const lm_node *n)
{
    unsigned matrices = 0;

    for (unsigned k = 0; k < 3; k++)
        matrices += n->weights[k] != LM_NONE && (k != 1 || n->weights[1] != n->weights[0]);
    return matrices;
}

const char *lm_router_formula(lm_derivation *d)
{
    const lm_program *p = d->f->s.program;

    for (uint32_t i = 0; i < p->n_nodes; i++)
        if ((d->f->ledger->roles[i] & LM_PRODUCT_ROUTER) && p->nodes[i].weights[1] != LM_NONE)
            return "hidden * experts + experts";
    return "hidden * experts";
}

const char *lm_layers_formula(lm_derivation *d, uint64_t n)
{
    return is_width(d, "layers", n) ? "layers" : lm_derive_text(d, "%" PRIu64, n);
}
