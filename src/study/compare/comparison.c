/* comparison.c - choose the facts that are compared. */
#include "study/compare/comparison.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "study/facts/figure.h"
#include "base/alloc.h"
#include "base/error.h"

/* ---- words derived from facts ---- */

/* Return the words of a row. NULL: use the fact at the row's path instead. "": neither, because the model has
 * no such component. */
typedef const char *lm_worder(lm_comparison *c, size_t i);

static const char *write_heads(lm_comparison *c, size_t i)
{
    uint64_t q = lm_compare_count(c, i, "attention.heads"), kv = lm_compare_count(c, i, "attention.kv_heads");

    if (!q)
        return NULL;
    if (lm_compare_fact(c, i, "attention.latent"))
        return lm_compare_printf(c, "%" PRIu64, lm_compare_count(c, i, "attention.latent.heads"));
    return q == kv ? lm_compare_printf(c, "%" PRIu64, q)
                   : lm_compare_printf(c, "%" PRIu64 ":%" PRIu64, q, kv);
}

/* Return the cached latent, which is not a number of key/value heads. */
static const char *write_kv_heads(lm_comparison *c, size_t i)
{
    if (!lm_compare_fact(c, i, "attention.latent"))
        return NULL;
    return lm_compare_printf(c, _("latent of %" PRIu64), lm_compare_count(c, i, "attention.latent.cached"));
}

static const char *write_head_dim(lm_comparison *c, size_t i)
{
    uint64_t k = lm_compare_count(c, i, "attention.head_dim"),
             v = lm_compare_count(c, i, "attention.value_dim");

    if (lm_compare_fact(c, i, "attention.latent")) {
        k = lm_compare_count(c, i, "attention.latent.qk_dim");
        v = lm_compare_count(c, i, "attention.latent.v_dim");
    }
    return k == v ? NULL : lm_compare_printf(c, "qk %" PRIu64 ", v %" PRIu64, k, v);
}

static const char *write_active(lm_comparison *c, size_t i)
{
    return lm_compare_count(c, i, "parameters.active") == lm_compare_count(c, i, "parameters.total") ? ""
                                                                                                     : NULL;
}

static const char *write_window(lm_comparison *c, size_t i)
{
    uint64_t some = lm_compare_count(c, i, "attention.windowed_layers"),
             full = lm_compare_count(c, i, "attention.full_layers");
    char     figure[LM_FIG];

    if (!some)
        return "";
    if (!full)
        return NULL;
    return lm_compare_printf(c, _("%s in %" PRIu64 " of %" PRIu64 " layers"),
                             lm_fig_count(figure, lm_compare_count(c, i, "attention.window")), some,
                             some + full);
}

static const char *write_applied(lm_comparison *c, size_t i)
{
    switch (c->traits[i].position) {
    case LM_POSITION_ROTARY: {
        const char *q = lm_compare_text(c, i, "rope.applied_to[0]"),
                   *k = lm_compare_text(c, i, "rope.applied_to[1]");
        uint64_t some = c->traits[i].n_rotated, all = lm_compare_count(c, i, "architecture.layers");
        if (some == all)
            return lm_compare_printf(c, _("%s and %s rotated in each layer"), q, k);
        return lm_compare_printf(c, _("%s and %s rotated in %" PRIu64 " of %" PRIu64 " layers"), q, k, some,
                                 all);
    }
    case LM_POSITION_ALIBI:
        return N_("bias on the scores");
    default:
        return c->traits[i].position == LM_POSITION_NONE ? NULL : N_("added to the embedding");
    }
}

static const char *write_relative(lm_comparison *c, size_t i)
{
    lm_position_kind p = c->traits[i].position;

    if (p == LM_POSITION_ROTARY || p == LM_POSITION_ALIBI)
        return N_("yes");
    return p == LM_POSITION_NONE ? NULL : N_("no");
}

static const char *write_beyond(lm_comparison *c, size_t i)
{
    const lm_traits *t = &c->traits[i];

    if (lm_compare_truth(c, i, "architecture.context_is_hard"))
        return N_("impossible: no position embedding");
    if (t->position == LM_POSITION_ALIBI)
        return N_("designed for it");
    if (!t->attention)
        return "";
    if (t->position != LM_POSITION_ROTARY)
        return N_("poor");
    return t->rope->stored_divisors || t->rope->type != LM_ROPE_DEFAULT ? N_("by scaling, as trained")
                                                                        : N_("poor without scaling");
}

/* Omit what sharing saves where no heads share. */
static const char *write_saved(lm_comparison *c, size_t i)
{
    return c->traits[i].sharing == LM_SHARES_MHA ? "" : NULL;
}

/* Nothing if the number is 0 in all models; else the fact. */
static const char *write_unless_zero(const lm_comparison *c, const char *path)
{
    for (size_t k = 0; k < c->n; k++)
        if (lm_compare_count(c, k, path))
            return NULL;
    return "";
}

static const char *write_states(lm_comparison *c, size_t i)
{
    (void)i;
    return write_unless_zero(c, "states.layers");
}

/* The opposite. */
static const char *write_without_states(lm_comparison *c, size_t i)
{
    return write_states(c, i) ? NULL : "";
}

static const char *write_cached(lm_comparison *c, size_t i)
{
    (void)i;
    return write_unless_zero(c, "kv.elements_per_token");
}

/* Only beside layers with a state: other layers all have attention. */
static const char *write_attending(lm_comparison *c, size_t i)
{
    if (write_states(c, i))
        return "";
    return lm_compare_printf(c, "%u", c->traits[i].n_attentions);
}

static const char *write_experts(lm_comparison *c, size_t i)
{
    uint64_t n = lm_compare_count(c, i, "mlp.experts");

    return n ? lm_compare_printf(c, _("%" PRIu64 " of %" PRIu64),
                                 lm_compare_count(c, i, "mlp.experts_per_token"), n)
             : NULL;
}

static const char *write_norm_bias(lm_comparison *c, size_t i)
{
    return lm_truth_text("norm_bias", lm_compare_truth(c, i, "architecture.norm_bias"));
}

static const char *write_block(lm_comparison *c, size_t i)
{
    if (lm_compare_truth(c, i, "architecture.parallel_blocks"))
        return "x + attention(N(x)) + mlp(N(x))";
    return lm_norm_form(c->traits[i].norm_position);
}

/* ---- rows ---- */

typedef struct row_def { const char *label, *path; lm_worder *word; const char *rule; } row_def;
typedef struct section_def { const char *name, *title, *output, *summary; const row_def *rows; } section_def;

static const row_def specification[] = {
    { N_("parameters"), "parameters.total", NULL, NULL }, { N_("active per token"), "parameters.active", write_active, NULL },
    { N_("layers"), "architecture.layers", NULL, NULL }, { N_("layers with attention"), NULL, write_attending, NULL },
    { N_("layers with a state"), "states.layers", write_states, NULL }, { N_("width"), "architecture.hidden", NULL, NULL },
    { N_("query heads"), "attention.heads", NULL, NULL }, { N_("key/value heads"), "attention.kv_heads", write_kv_heads, NULL },
    { N_("queries per key/value"), "attention.group", NULL, NULL }, { N_("head width"), "attention.head_dim", write_head_dim, NULL },
    { N_("MLP width"), "mlp.intermediate", NULL, NULL }, { N_("MLP expansion"), "mlp.expansion", NULL, NULL },
    { N_("experts per token"), NULL, write_experts, NULL }, { N_("vocabulary"), "architecture.vocabulary", NULL, NULL },
    { N_("context"), "architecture.context", NULL, NULL }, { NULL, NULL, NULL, NULL },
};
static const row_def embedding[] = {
    { N_("vocabulary"), "architecture.vocabulary", NULL, NULL }, { N_("width"), "architecture.hidden", NULL, NULL },
    { N_("embedding parameters"), "parameters.embedding", NULL, NULL }, { N_("head tied to it"), "architecture.tied", NULL, NULL },
    { N_("head parameters"), "parameters.head", NULL, NULL }, { N_("share of the embedding"), "parameters.shares.embedding", NULL, NULL },
    { NULL, NULL, NULL, NULL },
};
static const row_def attention[] = {
    { N_("attention type"), "attention.type", NULL, NULL }, { N_("query heads"), "attention.heads", NULL, NULL },
    { N_("key/value heads"), "attention.kv_heads", write_kv_heads, NULL }, { N_("head width"), "attention.head_dim", write_head_dim, NULL },
    { N_("queries per key/value"), "attention.group", NULL, NULL }, { N_("window"), "attention.window", write_window, NULL },
    { N_("reach"), "attention.reach", NULL, NULL }, { N_("biases of Q, K, V"), "architecture.qkv_bias", NULL, NULL },
    { N_("bias of the output"), "architecture.attention_output_bias", NULL, NULL },
    { N_("norms of Q and K"), "architecture.qk_norm", NULL, NULL },
    { NULL, NULL, NULL, NULL },
};
static const row_def position[] = {
    { N_("position method"), "architecture.position", NULL, NULL }, { N_("position applied"), NULL, write_applied, NULL },
    { N_("relative positions"), NULL, write_relative, N_("scores of rotary and ALiBi positions depend on distances") },
    { N_("beyond the trained context"), NULL, write_beyond, N_("method, scaling and whether positions end") },
    { N_("rotary base"), "rope.base", NULL, NULL }, { N_("dimensions rotated"), "rope.dim", NULL, NULL }, { N_("rotary scaling"), "rope.scaling", NULL, NULL },
    { N_("scaling factor"), "rope.factor", NULL, NULL }, { N_("trained positions"), "rope.original_context", NULL, NULL },
    { N_("context"), "architecture.context", NULL, NULL }, { NULL, NULL, NULL, NULL },
};
static const row_def mlp[] = {
    { N_("MLP type"), "mlp.type", NULL, NULL }, { N_("activation"), "mlp.activation", NULL, NULL }, { N_("MLP matrices"), "mlp.matrices", NULL, NULL },
    { N_("MLP width"), "mlp.intermediate", NULL, NULL }, { N_("MLP expansion"), "mlp.expansion", NULL, NULL },
    { N_("expert width"), "mlp.expert_width", NULL, NULL }, { N_("experts per token"), NULL, write_experts, NULL },
    { N_("MLP biases"), "architecture.mlp_bias", NULL, NULL }, { NULL, NULL, NULL, NULL },
};
static const row_def norm[] = {
    { N_("norm type"), "architecture.norm", NULL, NULL }, { N_("norm position"), "architecture.norm_position", NULL, NULL },
    { N_("block"), NULL, write_block, NULL }, { N_("norm bias"), NULL, write_norm_bias, NULL }, { N_("norm epsilon"), "architecture.norm_eps", NULL, NULL },
    { N_("norms"), "architecture.norms", NULL, NULL }, { N_("final norms"), "architecture.final_norms", NULL, NULL }, { NULL, NULL, NULL, NULL },
};
static const row_def parameters[] = {
    { N_("embedding"), "parameters.embedding", NULL, NULL }, { N_("attention"), "parameters.attention", NULL, NULL },
    { N_("layers with a state"), "parameters.state", write_states, NULL },
    { N_("mlp"), "parameters.mlp", NULL, NULL }, { N_("norms"), "parameters.norm", NULL, NULL }, { N_("head"), "parameters.head", NULL, NULL },
    { N_("total"), "parameters.total", NULL, NULL }, { N_("if the head were untied"), "parameters.untied_total", NULL, NULL },
    { N_("active per token"), "parameters.active", write_active, NULL }, { N_("share of attention"), "parameters.shares.attention", NULL, NULL },
    { N_("share of the MLP"), "parameters.shares.mlp", NULL, NULL }, { NULL, NULL, NULL, NULL },
};
static const row_def cache[] = {
    { N_("layers"), "architecture.layers", NULL, NULL }, { N_("key/value heads"), "attention.kv_heads", write_kv_heads, NULL },
    { N_("head width"), "attention.head_dim", write_head_dim, NULL },
    { N_("values cached per token"), "kv.elements_per_token", write_cached, NULL }, { N_("in the first layer"), "kv.elements_per_layer[0]", write_cached, NULL },
    { N_("in a layer, as MHA"), "kv.by_method.mha", NULL, NULL }, { N_("in a layer, as GQA"), "kv.by_method.gqa", NULL, NULL },
    { N_("in a layer, as MQA"), "kv.by_method.mqa", NULL, NULL }, { N_("in a layer, as MLA"), "kv.by_method.mla", NULL, NULL },
    { N_("bytes per token"), "kv.bytes_per_token", write_cached, NULL }, { N_("cache at 4,096 tokens"), "kv.at[4096].bytes", write_cached, NULL },
    { N_("cache at 32,768 tokens"), "kv.at[32768].bytes", write_cached, NULL },
    { N_("cache, whole context"), "kv.bytes_at_context", write_cached, NULL }, { N_("saved against MHA"), "kv.mha.saved", write_saved, NULL },
    { N_("state of a sequence"), "states.bytes", write_states, NULL },
    { NULL, NULL, NULL, NULL },
};
static const row_def compute[] = {
    { N_("operations per token"), "flops.per_token_matmul", NULL, NULL }, { N_("of which the head"), "flops.head", NULL, NULL },
    { N_("more per key"), "flops.per_context_token", write_cached, NULL },
    { N_("more per key, MLA naive"), "flops.per_context_token_naive", NULL, NULL },
    { N_("more per key past windows and choices"), "flops.per_context_token_past_windows", NULL, NULL }, { N_("a token at 4,096"), "flops.at[4096].total", NULL, NULL },
    { N_("a prompt of 512"), "flops.prefill_of[512].total", NULL, NULL },
    { N_("a prompt of 512, MLA naive"), "flops.prefill_of[512].naive", NULL, NULL }, { NULL, NULL, NULL, NULL },
};
static const row_def memory[] = {
    { N_("weights as f32"), "weights.as.f32.bytes", NULL, NULL }, { N_("weights as f16"), "weights.as.f16.bytes", NULL, NULL },
    { N_("weights as Q8_0"), "weights.as.Q8_0.bytes", NULL, NULL }, { N_("weights as Q4_K_M"), "weights.as.Q4_K_M.bytes", NULL, NULL },
    { N_("pages of the cache"), "memory.kv", write_without_states, NULL },
    { N_("pages of cache and states"), "memory.kv", write_states, NULL }, { NULL, NULL, NULL, NULL },
};
static const row_def stored[] = {
    { N_("types of the weights"), "weights.types", NULL, NULL }, { N_("bits per weight"), "weights.bits_per_weight", NULL, NULL },
    { N_("types of the embedding"), "weights.types_by_part.embedding", NULL, NULL },
    { N_("types of attention"), "weights.types_by_part.attention", NULL, NULL },
    { N_("types of the MLP"), "weights.types_by_part.mlp", NULL, NULL }, { N_("types of the head"), "weights.types_by_part.head", NULL, NULL },
    { N_("size of the embedding"), "weights.by_part.embedding", NULL, NULL }, { N_("size of attention"), "weights.by_part.attention", NULL, NULL },
    { N_("size of the MLP"), "weights.by_part.mlp", NULL, NULL }, { N_("size of the norms"), "weights.by_part.norm", NULL, NULL },
    { N_("size of the head"), "weights.by_part.head", NULL, NULL }, { N_("size of other weights"), "weights.by_part.other", NULL, NULL },
    { N_("size of all weights"), "weights.bytes", NULL, NULL }, { N_("size of the files"), "weights.file_bytes", NULL, NULL },
    { NULL, NULL, NULL, NULL },
};
static const row_def summary[] = {
    { N_("parameters"), "parameters.total", NULL, NULL }, { N_("layers"), "architecture.layers", NULL, NULL },
    { N_("width"), "architecture.hidden", NULL, NULL }, { N_("attention"), "architecture.attention", NULL, NULL },
    { N_("heads"), NULL, write_heads, NULL }, { N_("position"), "architecture.position", NULL, NULL }, { N_("MLP"), "architecture.mlp", NULL, NULL },
    { N_("norm"), "architecture.norm", NULL, NULL }, { N_("norm position"), "architecture.norm_position", NULL, NULL },
    { N_("vocabulary"), "architecture.vocabulary", NULL, NULL }, { N_("context"), "architecture.context", NULL, NULL },
    { N_("tied"), "architecture.tied", NULL, NULL }, { NULL, NULL, NULL, NULL },
};

static const section_def defs[] = {
    { "specification", N_("Specification"), "O-10, O-11", N_("sizes and their differences"), specification },
    { "embedding", N_("Embedding and head"), "O-22", N_("vocabulary, width, tying"), embedding },
    { "attention", N_("Attention"), "O-23", N_("heads, windows, biases"), attention },
    { "position", N_("Positions"), "O-24", N_("method, scaling, extrapolation"), position },
    { "mlp", N_("MLP"), "O-25", N_("type, activation, width, experts"), mlp },
    { "norm", N_("Norms and blocks"), "O-26, O-27", N_("norm type and position, block form"), norm },
    { "parameters", N_("Parameters"), "O-12", N_("by part"), parameters },
    { "kv", N_("Cache"), "O-16, O-17", N_("cached values and bytes, per token and per context"), cache },
    { "flops", N_("Compute"), "O-18", N_("operations per token and per prompt"), compute },
    { "memory", N_("Memory"), "O-21", N_("weights by precision, cache"), memory },
    { "stored", N_("As stored"), "O-21", N_("types and bytes of the weights in their files"), stored },
    { "summary", N_("Summary"), "O-28", N_("twelve features of each"), summary },
};

enum { SECTIONS = sizeof defs / sizeof *defs };

const char *lm_compare_view(size_t i, const char **what)
{
    static const struct { const char *name, *summary; } more[] = {
        { "reading", N_("what the differences mean") }, { "timeline", N_("models in order of publication") },
        { "trends", N_("first model with each feature") }, { "history", N_("timeline and trends") }, { "all", N_("everything") },
    };
    if (i < SECTIONS) {
        if (what)
            *what = defs[i].summary;
        return defs[i].name;
    }
    if (i - SECTIONS >= sizeof more / sizeof *more)
        return NULL;
    if (what)
        *what = more[i - SECTIONS].summary;
    return more[i - SECTIONS].name;
}

/* ---- values ---- */

static bool equal(const lm_compared *a, const lm_compared *b)
{
    if (a->word || b->word)
        return a->word && b->word && strcmp(a->word, b->word) == 0;
    if (!a->fact || !b->fact)
        return a->fact == b->fact;
    if (a->fact->kind != b->fact->kind)
        return false;
    switch (a->fact->kind) {
    case LM_FACT_BOOL:
        return a->fact->truth == b->fact->truth;
    case LM_FACT_COUNT:
        return a->fact->count == b->fact->count;
    case LM_FACT_NUMBER:
        return !(a->fact->number < b->fact->number) && !(b->fact->number < a->fact->number);
    case LM_FACT_TEXT:
        return strcmp(a->fact->text, b->fact->text) == 0;
    default:
        return true;
    }
}

/* Return whether the path is of a context, "kv.at[4096].bytes", and the model cannot have that many
 * positions. */
static bool ends_before(const lm_comparison *c, size_t i, const char *path)
{
    const char *at      = strstr(path, ".at[");
    uint64_t    context = at ? strtoull(at + strlen(".at["), NULL, 10) : 0;

    return lm_compare_truth(c, i, "architecture.context_is_hard") &&
           lm_compare_count(c, i, "architecture.context") < context;
}

/* Add a row, unless no model has a value for it. */
static void add_row(lm_comparison *c, const row_def *d)
{
    lm_comparison_row *r   = &c->rows[c->n_rows];
    bool               any = false;

    *r = (lm_comparison_row){ .label = d->label, .path = d->path, .rule = d->rule, .same = true };
    for (size_t i = 0; i < c->n; i++) {
        const char *word = d->word ? d->word(c, i) : NULL;
        if (word && *word)
            r->value[i].word = word;
        else if (!word && d->path && !ends_before(c, i, d->path))
            r->value[i].fact = lm_compare_fact(c, i, d->path);
        r->value[i].binary = d->path && strncmp(d->path, "kv.", 3) == 0;
        any |= r->value[i].word || r->value[i].fact;
        r->same &= equal(&r->value[0], &r->value[i]);
    }
    c->n_rows += any;
}

static void add_rows(lm_comparison *c)
{
    for (size_t s = 0; s < SECTIONS; s++) {
        c->sections[c->n_sections++] = (lm_comparison_section){
            defs[s].name, defs[s].title, defs[s].output, c->n_rows, 0 };
        for (const row_def *d = defs[s].rows; d->label; d++)
            add_row(c, d);
        c->sections[c->n_sections - 1].end = c->n_rows;
        /* drop a section without rows */
        c->n_sections -= c->sections[c->n_sections - 1].first == c->n_rows;
    }
}

/* ---- creation ---- */

lm_status lm_comparison_new(lm_facts *const *models, size_t n, lm_comparison **out, lm_error *e)
{
    if (n < 1 || n > LM_COMPARED)
        return lm_fail(e, LM_USAGE, "compare", LM_NO_OFFSET, "%zu models given; 1 to %d can be compared", n,
                       LM_COMPARED);
    lm_comparison *c = lm_alloc_zero(1, sizeof *c);
    if (!c)
        return lm_fail_memory(e, "comparison", sizeof *c);
    c->models = models;
    c->n      = n;
    for (size_t i = 0; i < n; i++)
        lm_find_traits(models[i]->ledger, &c->traits[i]);
    lm_compare_names(c);
    add_rows(c);
    lm_compare_readings(c);
    lm_compare_events(c);
    if (c->failed) {
        lm_comparison_free(c);
        return lm_fail_memory(e, "comparison", 0);
    }
    *out = c;
    return LM_OK;
}

void lm_comparison_free(lm_comparison *c)
{
    if (c)
        lm_arena_free(&c->arena);
    lm_free(c);
}
