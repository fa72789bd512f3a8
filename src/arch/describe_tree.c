/* describe_tree.c - a config.json from a module tree, as PyTorch prints modules:
 *
 *   LlamaForCausalLM(
 *     (model): LlamaModel(
 *       (embed_tokens): Embedding(128256, 3072)
 *       (layers): ModuleList(
 *         (0-27): 28 x LlamaDecoderLayer(
 *           (self_attn): LlamaAttention(
 *             (q_proj): Linear(in_features=3072, out_features=3072, bias=False)
 *
 * Every parameter of the tree is counted while it is read; the caller compares the sum with the program's. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/config.h"
#include "arch/describe_match.h"
#include "arch/presets.h"
#include "base/alloc.h"
#include "base/number.h"
#include "lamina/describe.h"

enum { DEPTH = 32, NAME = 64 };

/* A module of the tree without submodules. */
typedef struct leaf {
    lm_view  name, class_name, arguments;
    uint32_t numbers[3];
    unsigned n_numbers;
    bool     bias;
    double   eps;
} leaf;

typedef struct tree {
    char     root[NAME];
    uint32_t vocab, positions, hidden, layers, intermediate, q, k, qk_norm;
    double   eps;
    bool     q_bias, o_bias, mlp_bias, gated, head;
    char     act[NAME];
    uint64_t parameters, head_parameters;
    uint32_t unlike[2];              /* two different widths of layers that must be equal */
    uint64_t times[DEPTH];           /* number of instances of the module at each depth */
    unsigned depth;
    unsigned line;
    const char *source;
    lm_error *e;
} tree;

static lm_status bad(tree *t, const char *why)
{
    char where[32];

    snprintf(where, sizeof where, "line %u", t->line);
    return lm_fail(t->e, LM_BAD_MODEL, where, LM_NO_OFFSET, "%s", why);
}

/* ---- parsing a line ---- */

static lm_view trimmed(lm_view v)
{
    while (v.size && (v.data[0] == ' ' || v.data[0] == '\t')) {
        v.data++;
        v.size--;
    }
    while (v.size && strchr(" \t\r", v.data[v.size - 1]))
        v.size--;
    return v;
}

static size_t find(lm_view v, const char *what)
{
    size_t n = strlen(what);

    for (size_t i = 0; i + n <= v.size; i++)
        if (memcmp(v.data + i, what, n) == 0)
            return i;
    return SIZE_MAX;
}

static bool whole(lm_view v, size_t *at, uint32_t *out)
{
    uint64_t n    = 0;
    size_t   from = *at;

    for (; *at < v.size && v.data[*at] >= '0' && v.data[*at] <= '9' && n < UINT32_MAX; ++*at)
        n = 10 * n + (uint64_t)(v.data[*at] - '0');
    *out = (uint32_t)n;
    return *at > from && n < UINT32_MAX;
}

/* Parse the head of a line: "(0-27): 28 x Name(" has a count, "(layers): " only a name. The rest is
 * "Name(…". */
static lm_status head_of_line(tree *t, lm_view *v, lm_view *name, uint64_t *times)
{
    size_t   at = 1;
    uint32_t n;

    *name  = (lm_view){ 0 };
    *times = 1;
    if (!v->size || v->data[0] != '(')
        return LM_OK;
    size_t end = find(*v, "): ");
    if (end == SIZE_MAX)
        return bad(t, "unclosed module name");
    *name = (lm_view){ v->data + 1, end - 1 };
    *v    = (lm_view){ v->data + end + 3, v->size - end - 3 };
    at    = 0;
    if (whole(*v, &at, &n) && at + 3 < v->size && memcmp(v->data + at, " x ", 3) == 0) {
        *times = n;
        *v     = (lm_view){ v->data + at + 3, v->size - at - 3 };
    }
    return LM_OK;
}

/* Read the whole numbers of the arguments, ignoring keywords: "in_features=3072, out_features=1024,
 * bias=False", "(3072,), eps=1e-05". */
static void arguments(leaf *l)
{
    lm_view a  = l->arguments;
    size_t  at = find(a, "eps=");

    l->bias = find(a, "bias=True") != SIZE_MAX;
    if (at != SIZE_MAX) {
        char text[32] = "";
        size_t n = a.size - at - 4;
        memcpy(text, a.data + at + 4, n < sizeof text - 1 ? n : sizeof text - 1);
        l->eps = lm_read_double(text, NULL);
        a.size = at;
    }
    at = find(a, "padding_idx");
    a.size = at != SIZE_MAX ? at : a.size;
    for (size_t i = 0; i < a.size && l->n_numbers < 3;) {
        if (a.data[i] < '0' || a.data[i] > '9' || !whole(a, &i, &l->numbers[l->n_numbers]))
            i++;
        else
            l->n_numbers++;
    }
}

/* ---- modules ---- */

static bool ends(lm_view v, const char *suffix)
{
    return lm_view_ends(v, lm_view_of(suffix));
}

static lm_status same(tree *t, uint32_t *field, uint32_t value)
{
    if (*field && *field != value && !t->unlike[0]) {
        t->unlike[0] = *field;
        t->unlike[1] = value;
    }
    *field = value;
    return LM_OK;
}

static lm_status see_linear(tree *t, const leaf *l, uint64_t times)
{
    uint32_t in = l->numbers[0], out = l->numbers[1];
    bool     transposed = lm_view_is(l->class_name, "Conv1D");

    if (l->n_numbers < 2)
        return bad(t, "a Linear without in_features and out_features");
    if (transposed) {                /* nf, nx */
        in  = l->numbers[1];
        out = l->numbers[0];
    }
    /* Conv1D always has a bias but does not print it */
    uint64_t n = (uint64_t)in * out + (l->bias || transposed ? out : 0);
    t->parameters += times * n;
    if (lm_view_is(l->name, "lm_head")) {
        t->head            = true;
        t->head_parameters = n;
        return LM_OK;
    }
    if (lm_view_is(l->name, "q_proj")) {
        t->q_bias |= l->bias;
        return same(t, &t->q, out);
    }
    if (lm_view_is(l->name, "k_proj"))
        return same(t, &t->k, out);
    if (lm_view_is(l->name, "o_proj"))
        t->o_bias |= l->bias;
    if (lm_view_is(l->name, "gate_proj"))
        t->gated = true;
    if (lm_view_is(l->name, "up_proj") || lm_view_is(l->name, "c_fc")) {
        t->mlp_bias |= l->bias;
        return same(t, &t->intermediate, out);
    }
    return LM_OK;
}

static lm_status see_leaf(tree *t, leaf *l)
{
    uint64_t times = t->times[t->depth];

    arguments(l);
    if (ends(l->class_name, "Linear") || lm_view_is(l->class_name, "Conv1D"))
        return see_linear(t, l, times);
    if (ends(l->class_name, "Embedding") && !ends(l->class_name, "RotaryEmbedding")) {
        if (l->n_numbers < 2)
            return bad(t, "an Embedding without its two sizes");
        t->parameters += times * l->numbers[0] * l->numbers[1];
        if (t->vocab) {
            t->positions = l->numbers[0];    /* the second table contains positions */
            return LM_OK;
        }
        t->vocab  = l->numbers[0];
        t->hidden = l->numbers[1];
        return LM_OK;
    }
    if (ends(l->class_name, "Norm")) {
        bool heads = lm_view_is(l->name, "q_norm") || lm_view_is(l->name, "k_norm");
        if (!l->n_numbers) {                     /* Cohere's norms print no size: that of their input, without
                                                    a bias */
            t->parameters += times * (lm_view_is(l->name, "q_norm")   ? t->q
                                      : lm_view_is(l->name, "k_norm") ? t->k
                                                                      : t->hidden);
            return LM_OK;
        }
        if (ends(l->class_name, "LayerNorm"))
            t->parameters += times * l->numbers[0];          /* the bias */
        t->parameters += times * l->numbers[0];
        t->eps = l->eps > 0 ? l->eps : t->eps;
        return heads ? same(t, &t->qk_norm, l->numbers[0]) : LM_OK;
    }
    if (lm_view_is(l->name, "act_fn") || lm_view_is(l->name, "act") || lm_view_is(l->name, "activation_fn"))
        snprintf(t->act, sizeof t->act, "%.*s",
                 (int)(l->class_name.size < NAME ? l->class_name.size : NAME - 1), l->class_name.data);
    return LM_OK;
}

static lm_status open_module(tree *t, lm_view name, lm_view class_name, uint64_t times)
{
    uint32_t n  = 0;
    size_t   at = 0;

    if (t->depth + 1 == DEPTH)
        return bad(t, "nested too deeply");
    if (t->depth == 0)
        snprintf(t->root, sizeof t->root, "%.*s", (int)(class_name.size < NAME ? class_name.size : NAME - 1),
                 class_name.data);
    t->times[t->depth + 1] = t->times[t->depth] * times;
    t->depth++;
    if (name.size && whole(name, &at, &n) && (ends(class_name, "Layer") || ends(class_name, "Block")))
        t->layers += (uint32_t)times;
    return t->times[t->depth] > LM_MAX_LAYERS * 1024 ? bad(t, "too many modules") : LM_OK;
}

static lm_status read_line(tree *t, lm_view v)
{
    lm_view  name;
    uint64_t times;

    v = trimmed(v);
    if (!v.size)
        return LM_OK;
    if (lm_view_is(v, ")")) {
        if (!t->depth)
            return bad(t, "unmatched closing parenthesis");
        t->depth--;
        return LM_OK;
    }
    LM_TRY(head_of_line(t, &v, &name, &times));
    size_t open = find(v, "(");
    if (open == SIZE_MAX || open == 0)
        return bad(t, "expected a module name");
    lm_view class_name = { v.data, open };
    if (open + 1 == v.size)
        return open_module(t, name, class_name, times);
    if (v.data[v.size - 1] != ')' || !t->depth)
        return bad(t, "unclosed module arguments");
    leaf l = { .name = name,
               .class_name = class_name,
               .arguments = { v.data + open + 1, v.size - open - 2 } };
    if (times > 1)
        return bad(t, "a leaf module cannot be repeated");
    return see_leaf(t, &l);
}

static lm_status read_tree(tree *t, const char *text, size_t n)
{
    t->times[0] = 1;
    while (n) {
        const char *end  = memchr(text, '\n', n);
        size_t      line = end ? (size_t)(end - text) : n;
        t->line++;
        LM_TRY(read_line(t, (lm_view){ text, line }));
        text += line + (end != NULL);
        n -= line + (end != NULL);
    }
    if (t->depth)
        return bad(t, "unclosed parenthesis at the end of the tree");
    return LM_OK;
}

/* Check that the widths required for a configuration are known. */
static lm_status need_widths(const tree *t)
{
    if (t->unlike[0])
        return lm_fail(t->e, LM_UNSUPPORTED, "layers", LM_NO_OFFSET,
                       "differ (%u and %u); a tree with different layers is not supported", t->unlike[0],
                       t->unlike[1]);
    if (!t->hidden || !t->layers || !t->q || !t->k || !t->intermediate)
        return lm_fail(t->e, LM_UNSUPPORTED, "module tree", LM_NO_OFFSET,
                       "requires an Embedding, layers, q_proj, k_proj and up_proj; this tree has %s%s%s%s%s",
                       t->hidden ? "" : "no Embedding ", t->layers ? "" : "no layers ",
                       t->q ? "" : "no q_proj ", t->k ? "" : "no k_proj ",
                       t->intermediate ? "" : "no up_proj");
    return LM_OK;
}

/* ---- values that a tree does not show ---- */

static const lm_family *family_of(const char *root)
{
    char name[2 * NAME];

    for (size_t i = 0; lm_family_at(i); i++) {
        const lm_family *f = lm_family_at(i);
        lm_root_class(f, name, sizeof name);
        if (strcmp(name, root) == 0 && f->hf_types)
            return f;
    }
    return NULL;
}

static uint32_t number(const lm_meta *m, const char *key, uint32_t fallback)
{
    uint32_t n = fallback;

    if (lm_meta_has(m, key))
        lm_meta_u32(m, key, 0, UINT32_MAX, &n, NULL);
    return n;
}

/* Return a preset of this family with the widths of the tree. */
static const lm_preset *same_widths(const tree *t, const lm_family *f)
{
    for (size_t i = 0; i < lm_n_presets; i++) {
        const lm_preset *p = &lm_preset_table[i];
        lm_meta         *m;
        lm_view          type;
        if (lm_meta_from_json(p->config, strlen(p->config), p->name, 32, &m, NULL) != LM_OK)
            continue;
        uint32_t heads = number(m, "num_attention_heads", 0), hidden = number(m, "hidden_size", 0);
        uint32_t lanes = number(m, "head_dim", heads ? hidden / heads : 0);
        bool equal = lm_meta_string(m, "model_type", &type, NULL) == LM_OK &&
                     lm_view_is(type, f->hf_types[0]) && hidden == t->hidden &&
                     number(m, "num_hidden_layers", 0) == t->layers &&
                     number(m, "vocab_size", 0) == t->vocab &&
                     number(m, "intermediate_size", 0) == t->intermediate && heads * lanes == t->q &&
                     number(m, "num_key_value_heads", heads) * lanes == t->k;
        lm_meta_free(m);
        if (equal)
            return p;
    }
    return NULL;
}

static const char *act_word(const tree *t)
{
    static const struct {
        const char *class_name, *word;
    } known[] = {
        { "SiLU", "silu" }, { "SiLUActivation", "silu" }, { "GELUActivation", "gelu" }, { "NewGELUActivation", "gelu_new" },
        { "PytorchGELUTanh", "gelu_pytorch_tanh" }, { "GELUTanh", "gelu_pytorch_tanh" }, { "ReLU", "relu" },
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].class_name, t->act) == 0)
            return known[i].word;
    return NULL;
}

static lm_status find_lanes(const tree *t, const lm_sizes *known, uint32_t *lanes, lm_text *notes,
                            lm_error *e)
{
    *lanes = known->head_dim                            ? known->head_dim
             : known->heads && t->q % known->heads == 0 ? t->q / known->heads
                                                        : t->qk_norm;
    if (known->heads && t->q != (uint64_t)known->heads * *lanes)
        return lm_fail(e, LM_USAGE, "heads", LM_NO_OFFSET, "%u heads do not make the tree's width of %u",
                       known->heads, t->q);
    if (!*lanes && t->q % 128 == 0 && t->k % 128 == 0) {
        *lanes = 128;
        lm_text_add_str(notes, "heads are not in a tree: 128 dimensions each are assumed; `heads` or "
                               "`head_dim` says otherwise\n");
    }
    if (!*lanes || t->q % *lanes || t->k % *lanes || t->q / *lanes % (t->k / *lanes))
        return lm_fail(e, LM_USAGE, "heads", LM_NO_OFFSET,
                       "not stated in the module tree, and not determined by the widths %u and %u; give the "
                       "number of heads",
                       t->q, t->k);
    return LM_OK;
}

static lm_status write_config(const tree *t, const lm_family *f, const lm_sizes *known, lm_text *config,
                              lm_text *notes, lm_error *e)
{
    uint32_t lanes = 0;

    LM_TRY(find_lanes(t, known, &lanes, notes, e));
    lm_text_printf(
        config,
        "{\"model_type\": \"%s\", \"hidden_size\": %u, \"num_hidden_layers\": %u, \"vocab_size\": %u, "
        "\"num_attention_heads\": %u, \"num_key_value_heads\": %u, \"head_dim\": %u, \"intermediate_size\": "
        "%u, \"max_position_embeddings\": %u, \"tie_word_embeddings\": %s",
        f->hf_types[0], t->hidden, t->layers, t->vocab, t->q / lanes, t->k / lanes, lanes, t->intermediate,
        known->context ? known->context : LM_DEFAULT_CONTEXT, known->tied || !t->head ? "true" : "false");
    if (t->eps > 0)
        lm_text_printf(config, ", \"%s\": %g", t->gated ? "rms_norm_eps" : "norm_epsilon", t->eps);
    if (act_word(t))
        lm_text_printf(config, ", \"hidden_act\": \"%s\"", act_word(t));
    if (t->q_bias && t->o_bias && t->gated)
        lm_text_add_str(config, ", \"attention_bias\": true");
    if (t->mlp_bias && t->gated)
        lm_text_add_str(config, ", \"mlp_bias\": true");
    lm_text_add_str(config, "}");
    if (!known->tied && t->head)
        lm_text_add_str(
            notes,
            "tying is not in a tree: the head is taken to have a matrix of its own; `tied` says otherwise\n");
    lm_text_printf(notes, "positions are not in a tree: rope_theta %s\n",
                   known->context ? "is the family's default" : "and context are the family's defaults");
    return LM_OK;
}

lm_status lm_describe_tree(const char *text, size_t n, const lm_sizes *known, lm_text *config, lm_text *notes,
                           uint64_t *parameters, lm_error *e)
{
    LM_REQUIRE(e, text && config && notes && parameters);
    LM_CHECK_RESERVED(e, known);
    static const lm_sizes nothing;
    tree t = { .e = e };
    lm_text c = { 0 }, remarks = { 0 };
    lm_status status;

    known = known ? known : &nothing;
    LM_TRY(read_tree(&t, text, n));
    const lm_family *f = family_of(t.root);
    if (!f)
        return lm_fail(e, LM_UNSUPPORTED, t.root, LM_NO_OFFSET, "unknown model class");
    bool sized = known->heads || known->head_dim;
    uint64_t unseen = 0;
    const lm_preset *p = sized ? NULL : same_widths(&t, f);
    if (!p && !sized)
        p = lm_preset_of_tree(f, &(lm_tree_shape){ t.hidden, t.layers, t.vocab, t.parameters }, &unseen);
    if (unseen)
        lm_text_printf(&remarks,
                       "experts are in a tree without their sizes: their %" PRIu64
                       " parameters are those of %s\n",
                       unseen, p->name);
    t.parameters += unseen;
    if (p && (known->tied || known->context)) {
        status = lm_fail(e, LM_USAGE, known->tied ? "tied" : "context", LM_NO_OFFSET,
                         "given by %s, whose widths the tree has; set it only together with heads", p->name);
    } else if (p) {
        lm_text_add_str(&c, p->config);
        lm_text_printf(
            &remarks,
            "heads, tying and positions are not in a tree: they are those of %s, whose widths are the same\n",
            p->name);
        status = LM_OK;
    } else if ((status = need_widths(&t)) == LM_OK) {
        status = write_config(&t, f, known, &c, &remarks, e);
    }
    size_t before = config->size;
    status = lm_text_deliver(&c, status, "a description", config, e);
    bool written = status == LM_OK;
    status = lm_text_deliver(&remarks, status, "a description", notes, e);
    if (status == LM_OK)
        *parameters = t.parameters;
    else if (written)
        lm_text_cut(config, before);
    return status;
}
