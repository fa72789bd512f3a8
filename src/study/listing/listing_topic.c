/* listing_topic.c - the part of a model that a topic is about, as a separate listing that runs with or
 * without a checkpoint. */
#include "study/listing/listing_topic.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

typedef enum region { ATTENTION, MLP, ROUTER, ONE, LAYER, BEGINNING, HEAD, BOTH_ENDS, MASK } region;

/* The operations of each topic. `code`: an operation that their layer contains; for ONE, the operation
 * itself. */
static const struct { const char *topic; region region; lm_op_code code; } topics[] = {
    { "attention", ATTENTION, LM_OP_ATTENTION }, { "gqa", ATTENTION, LM_OP_ATTENTION }, { "mla", ATTENTION, LM_OP_JOIN },
    { "swa", ATTENTION, LM_OP_ATTENTION },       { "alibi", ATTENTION, LM_OP_ATTENTION }, { "mlp", MLP, LM_OP_ACT },
    { "relu", MLP, LM_OP_COUNT },                { "gelu", MLP, LM_OP_COUNT },            { "silu", MLP, LM_OP_COUNT },
    { "swiglu", MLP, LM_OP_GLU },                { "moe", MLP, LM_OP_EXPERTS },           { "router", ROUTER, LM_OP_ROUTE },
    { "rope", ONE, LM_OP_ROPE },                 { "norm", ONE, LM_OP_COUNT },            { "residual", LAYER, LM_OP_ADD },
    { "embedding", BEGINNING, LM_OP_EMBED },     { "learned", BEGINNING, LM_OP_POSITION },
    { "sinusoidal", BEGINNING, LM_OP_SINUSOID }, { "tying", BOTH_ENDS, LM_OP_EMBED },     { "mask", MASK, LM_OP_ATTENTION },
};

typedef struct piece { uint32_t from, to; int32_t layer; const char *name; } piece;

static lm_status unknown(const char *topic, lm_error *e)
{
    lm_text list = { 0 };

    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++)
        lm_text_printf(&list, "%s%s", i ? " " : "", topics[i].topic);
    lm_fail(e, LM_USAGE, topic, LM_NO_OFFSET, "is not an operation of a model; there are listings of %s",
            list.data ? list.data : "");
    lm_text_free(&list);
    return LM_USAGE;
}

/* ---- selection of operations ---- */

static bool is_wanted(const lm_listing *l, const char *topic, lm_op_code code, uint32_t i)
{
    const lm_node *n = &l->p->nodes[i];

    if (strcmp(topic, "swa") == 0)
        return n->code == LM_OP_ATTENTION && n->attention.spec.window;
    if (strcmp(topic, "norm") == 0)
        return lm_is_norm(n);
    if (code == LM_OP_COUNT)
        return n->code == LM_OP_ACT || n->code == LM_OP_GLU || n->code == LM_OP_EXPERTS;
    return n->code == code;
}

static uint16_t roles_of(region r)
{
    return r == ATTENTION ? LM_PRODUCT_QUERY | LM_PRODUCT_KEY | LM_PRODUCT_VALUE
                          : LM_PRODUCT_GATE | LM_PRODUCT_UP | LM_PRODUCT_DOWN | LM_PRODUCT_ROUTER;
}

static bool belongs(const lm_listing *l, region r, uint32_t i)
{
    lm_op_code code = l->p->nodes[i].code;

    return (l->f->ledger->roles[i] & roles_of(r)) ||
           code == (r == ATTENTION ? LM_OP_ATTENTION : LM_OP_EXPERTS);
}

/* Return the attention or MLP of the layer: from its first product to the end of its module, or to the last
 * product if products are directly in the layer. */
static piece block_of(const lm_listing *l, region r, int32_t layer)
{
    piece x = { .layer = layer };
    bool  any = false;

    for (uint32_t i = 0; i < l->p->n_nodes; i++) {
        if (l->p->nodes[i].layer != layer || !belongs(l, r, i))
            continue;
        x.from = any ? x.from : i;
        x.to   = i + 1;
        any    = true;
    }
    while (x.to < l->p->n_nodes && (l->f->ledger->roles[x.to] & LM_PRODUCT_OUTPUT) && r == ATTENTION)
        x.to++;
    uint32_t block = l->f->ledger->block[x.from];
    if (block != LM_NONE) {
        const lm_module *m = &l->p->modules[block];
        if (m->end_op > m->first_op + 1 && m->first_op <= x.from && m->end_op >= x.to) {
            x.from = m->first_op;
            x.to   = m->end_op;
            x.name = m->name;
        }
    }
    for (uint32_t i = x.from; i < x.to; i++)
        if (lm_is_residual(l->f->ledger, i))
            x.to = i;                            /* some modules add to the stream themselves */
    x.name = x.name ? x.name : r == ATTENTION ? "attend" : "mlp";
    return x;
}

static piece layer_of(const lm_listing *l, int32_t layer)
{
    piece x = { .layer = layer, .name = "layer" };

    while (l->p->nodes[x.from].layer != layer)
        x.from++;
    for (x.to = x.from; x.to < l->p->n_nodes && l->p->nodes[x.to].layer == layer;)
        x.to++;
    return x;
}

static unsigned find_pieces(const lm_listing *l, size_t t, piece out[2])
{
    const lm_program *p = l->p;
    piece begin = { .layer = -1, .name = "stream" }, end = { .to = p->n_nodes, .layer = -1, .name = "head" };
    uint32_t          at = 0;

    while (begin.to < p->n_nodes && p->nodes[begin.to].layer < 0)
        begin.to++;
    for (end.from = p->n_nodes; end.from > begin.to && p->nodes[end.from - 1].layer < 0;)
        end.from--;
    while (at < p->n_nodes && !is_wanted(l, topics[t].topic, topics[t].code, at))
        at++;
    if (at == p->n_nodes)
        return 0;
    switch (topics[t].region) {
    case ATTENTION:
    case MLP: out[0] = block_of(l, topics[t].region, p->nodes[at].layer); return 1;
    case ROUTER:
        out[0] = block_of(l, MLP, p->nodes[at].layer);
        while (!(l->f->ledger->roles[out[0].from] & LM_PRODUCT_ROUTER))
            out[0].from++;
        out[0].to   = at + 1;
        out[0].name = "routed";
        return 1;
    case ONE:
    case MASK:
        out[0] = (piece){ at, at + 1, p->nodes[at].layer,
                          lm_is_norm(&p->nodes[at]) ? "normalised" : "rotated" };
        return 1;
    case LAYER: out[0] = layer_of(l, p->nodes[at].layer < 0 ? 0 : p->nodes[at].layer); return 1;
    case BEGINNING: out[0] = begin; return 1;
    case HEAD: out[0] = end; return 1;
    case BOTH_ENDS: out[0] = begin; out[1] = end; return 2;
    }
    return 0;
}

/* ---- weights without a checkpoint ---- */

static void put_shape(const char *path, uint64_t a, uint64_t b, uint64_t c, lm_text *out)
{
    lm_text line = { 0 };

    for (bool digit = false; *path; path++) {            /* layer numbers become '*' */
        bool number = *path >= '0' && *path <= '9' &&
                      (digit || (path[-1] == '.' && path[strspn(path, "0123456789")] == '.'));
        if (!number)
            lm_text_add_char(&line, *path);
        else if (!digit)
            lm_text_add_char(&line, '*');
        digit = number;
    }
    lm_text_printf(&line, "\": (%" PRIu64 ",", a);
    if (b)
        lm_text_printf(&line, " %" PRIu64 "%s", b, c ? "," : "");
    if (c)
        lm_text_printf(&line, " %" PRIu64, c);
    lm_text_add_str(&line, "),\n");
    if (line.data && !(out->data && strstr(out->data, line.data)))
        lm_text_printf(out, "    \"%s", line.data);
    out->failed = out->failed || line.failed;
    lm_text_free(&line);
}

/* Append the shape as stored in checkpoints. */
static void put_weight_shape(const lm_weight *w, lm_text *out)
{
    const lm_interleaved *x = &w->interleaved;
    const lm_joint       *j = &w->joint;
    bool                  flip = w->transposed;

    if (x->path && w->n_dims == 2)
        put_shape(x->path, w->dims[0], x->of, 0, out);
    else if (x->path)
        put_shape(x->path, w->dims[0], x->transposed ? w->dims[2] : x->of, x->transposed ? x->of : w->dims[2],
                  out);
    else if (w->kind == LM_HEADS && j->by_head)
        put_shape(j->path, w->dims[0], w->dims[2], w->dims[1], out);
    else if (w->heads)
        put_shape(w->path, w->heads, w->elements / w->heads, 0, out);
    else if (w->kind == LM_HEADS)
        put_shape(j->path, w->dims[0] * j->of, j->transposed ? w->dims[1] : w->dims[2], 0, out);
    else if (strchr(w->path, '*'))
        put_shape(w->path, w->dims[1], w->n_dims > 2 ? w->dims[2] : 0, 0, out);
    else
        put_shape(w->path, w->dims[flip ? 1 : 0], w->n_dims > 1 ? w->dims[flip ? 0 : 1] : 0, 0, out);
}

static void put_shapes(const lm_listing *l, const piece *x, unsigned n, lm_text *out)
{
    lm_text list = { 0 };
    bool    torch = l->in == LM_LISTING_PYTORCH;

    for (unsigned k = 0; k < n; k++)
        for (uint32_t i = x[k].from; i < x[k].to; i++)
            for (unsigned w = 0; w < LM_MAX_WEIGHTS; w++)
                if (l->p->nodes[i].weights[w] != LM_NONE)
                    put_weight_shape(&l->p->weights[l->p->nodes[i].weights[w]], &list);
    lm_text_printf(out,
                   "SHAPES = {                              # of the weights; *: the number of a layer or an "
                   "expert\n%s}\n\n\n",
                   list.data ? list.data : "");
    lm_text_add_str(out,
                    "class Weights(dict):\n"
                    "    \"\"\"By their names in the checkpoint. One that was not loaded is made up when it "
                    "is asked for: small random numbers.\"\"\"\n"
                    "    prefix = \"\"\n\n"
                    "    def __missing__(self, name):\n"
                    "        if W:\n"
                    "            raise KeyError(f\"{self.prefix}{name} is not in the checkpoint\")\n"
                    "        shape = SHAPES[re.sub(r\"(?<=\\.)\\d+(?=\\.)\", \"*\", self.prefix + name)]\n");
    lm_text_add_str(
        out, torch
                 ? "        return 0.02 * torch.randn(shape)\n\n\n"
                 : "        return np.float32(0.02) * random.standard_normal(shape, dtype=np.float32)\n\n\n");
    lm_text_add_str(out, torch ? "torch.manual_seed(0)\nW = Weights()\n\n\n"
                               : "random = np.random.default_rng(0)\nW = Weights()\n\n\n");
    out->failed = out->failed || list.failed;
    lm_text_free(&list);
}

/* ---- output ---- */

static lm_status put_function(lm_listing *l, piece *x, lm_text *out, lm_error *e)
{
    const lm_program *p = l->p;
    lm_value in = LM_NONE, made = LM_NONE;
    const char *prefix;
    int n;

    LM_TRY(lm_listing_ends(l, x->from, x->to, &in, &made, e));
    if (in == LM_NONE)
        lm_text_printf(out, "def %s(ids):\n    \"\"\"Token numbers -> [T, %u].\"\"\"\n", x->name,
                       p->values[made].width);
    else if (x->layer < 0)
        lm_text_printf(out, "def %s(x):\n    \"\"\"x [T, %u] -> [T, %u].\"\"\"\n", x->name,
                       p->values[in].width, p->values[made].width);
    else
        lm_text_printf(out, "def %s(x, i):\n    \"\"\"Of layer i: x [T, %u] -> [T, %u].\"\"\"\n", x->name,
                       p->values[in].width, p->values[made].width);
    if (x->layer >= 0) {
        lm_listing_layer_prefix(l, &n, &prefix);
        lm_text_printf(out, "    w = weights_of(f\"%.*s{i}.\")\n", n, prefix);
    }
    LM_TRY(lm_listing_body(l, x->layer, x->from, x->to, out, e));
    lm_text_add_str(out, "\n\n");
    return LM_OK;
}

static void put_main(const lm_listing *l, const piece *x, unsigned n, lm_text *out)
{
    lm_value in = LM_NONE, made = LM_NONE;
    bool torch = l->in == LM_LISTING_PYTORCH;

    lm_text_add_str(out,
                    "if __name__ == \"__main__\":\n    if len(sys.argv) > 1:\n        load(sys.argv[1])\n");
    for (unsigned k = 0; k < n; k++) {
        bool routes = l->p->nodes[x[k].to - 1].code == LM_OP_ROUTE;
        if (lm_listing_ends(l, x[k].from, x[k].to, &in, &made, NULL) != LM_OK)
            return;
        if (in == LM_NONE) {
            lm_text_printf(out, "    print(tuple(%s([1, 2, 3, 4, 5]).shape))\n", x[k].name);
            continue;
        }
        lm_text_printf(out,
                       torch ? "    x = torch.randn(5, %u)\n"
                             : "    x = random.standard_normal((5, %u), dtype=np.float32)\n",
                       l->p->values[in].width);
        lm_text_printf(out, "    y = %s(x", x[k].name);
        if (x[k].layer >= 0)
            lm_text_printf(out, ", %d", x[k].layer);
        lm_text_add_str(
            out, routes
                     ? ")\n    print(y[0], y[1])                       # weights and numbers of the chosen\n"
                     : ")\n    print(tuple(x.shape), \"->\", tuple(y.shape))\n");
    }
}

/* Show the point of RoPE: the product of two rotated vectors depends only on the distance between their
 * positions. */
static void put_rope_proof(const lm_listing *l, const piece *x, lm_text *out)
{
    const lm_node *n = &l->p->nodes[x->from];
    bool torch = l->in == LM_LISTING_PYTORCH;
    unsigned width = l->p->values[n->out].width;

    lm_text_printf(
        out,
        torch ? "    q = rotated(torch.randn(1, %u).expand(12, -1), %d)      # the same row at positions 0 "
                "to 11\n"
                "    k = rotated(torch.randn(1, %u).expand(12, -1), %d)\n"
              : "    q = rotated(random.standard_normal((1, %u), dtype=np.float32).repeat(12, 0), %d)   # "
                "one row, at positions 0 to 11\n"
                "    k = rotated(random.standard_normal((1, %u), dtype=np.float32).repeat(12, 0), %d)\n",
        width, x->layer, width, x->layer);
    lm_text_printf(out,
                   "    scores = q[:, :%u] @ k[:, :%u].T         # of the first head\n"
                   "    for distance in 0, 1, 5:\n"
                   "        print(\"distance\", distance, [round(float(scores[t, t - distance]), 3) for t in "
                   "range(distance, 12, 3)])\n",
                   width / n->rope.n_heads, width / n->rope.n_heads);
}

static void put_mask(const lm_listing *l, const piece *x, lm_text *out)
{
    const lm_attention_spec *s = &l->p->nodes[x->from].attention.spec;
    uint32_t window  = 0;
    bool     chunked = false;

    for (uint32_t i = 0; i < l->p->n_nodes && !window; i++)
        if (l->p->nodes[i].code == LM_OP_ATTENTION) {
            window  = l->p->nodes[i].attention.spec.window;
            chunked = l->p->nodes[i].attention.spec.chunked;
        }
    lm_listing_add(l, out,
                   chunked ? "def visible(T, chunk=None):\n"
                             "    \"\"\"Which keys j a query t sees: none of the future, and those of its own chunk. "
                             "[T, T]\"\"\"\n"
                             "    behind, of = $.arange(T)[:, None] - $.arange(T), $.arange(T) // (chunk or T)\n"
                             "    return (behind >= 0) & (of[:, None] == of)\n\n\n"
                           : "def visible(T, window=None):\n"
                             "    \"\"\"Which keys j a query t sees: none of the future, and of a window the last "
                             "ones. [T, T]\"\"\"\n"
                             "    behind = $.arange(T)[:, None] - $.arange(T)\n"
                             "    return (behind >= 0) & (behind < (window or T))\n\n\n");
    if (s->sinks)
        lm_text_add_str(
            out,
            "# Besides them each head has a sink: a learned score without a value, which takes its share of "
            "the softmax.\n\n\n");
    lm_text_add_str(out, "def draw(seen):\n    for row in seen.tolist():\n        print(\" \".join(\"x\" if "
                         "see else \".\" for "
                         "see in row))\n"
                         "    print()\n\n\n"
                         "if __name__ == \"__main__\":\n    draw(visible(8))\n");
    if (window)
        lm_text_printf(out,
                       chunked ? "    draw(visible(8, chunk=3))              # the model's chunks: %u\n"
                               : "    draw(visible(8, window=3))             # the model's window: %u\n",
                       window);
    else
        lm_text_add_str(out, "    # the model has no window\n");
}

static lm_status write(lm_listing *l, size_t t, const char *title, piece *x, unsigned n, lm_text *out,
                       lm_error *e)
{
    bool alone = topics[t].region == MASK;

    lm_text_printf(out, "\"\"\"%s, of %s", title, l->f->s.name);
    if (x->layer >= 0)
        lm_text_printf(out, ": layer %d of %u", x->layer, l->p->n_layers);
    lm_text_add_str(out, ", one operation a line.\n\nMade by lamina from the program that it runs. ");
    if (alone) {
        lm_text_add_str(out, "T tokens.\n\n    python THIS.py\n\"\"\"\n");
        lm_listing_add(l, out,
                       l->in == LM_LISTING_PYTORCH ? "import torch\n\n\n" : "import numpy as np\n\n\n");
        put_mask(l, x, out);
        return out->failed ? lm_fail_memory(e, "a listing", 0) : LM_OK;
    }
    lm_text_add_str(
        out,
        "Shapes are in the comments: T tokens, H query heads, G\nkey/value heads of K lanes.\n\n"
        "    python THIS.py              with random weights of the model's shapes\n"
        "    python THIS.py FOLDER       with those of a checkpoint: FOLDER holds *.safetensors\n\"\"\"\n");
    lm_listing_imports(l, "import re\n", out);
    put_shapes(l, x, n, out);
    for (unsigned k = 0; k < n; k++) {
        l->from = x[k].from;
        l->to = x[k].to;
        if (k == 0)
            lm_listing_load(l, out);
        LM_TRY(lm_listing_helpers(l, out, e));
    }
    for (unsigned k = 0; k < n; k++)
        LM_TRY(put_function(l, &x[k], out, e));
    put_main(l, x, n, out);
    if (strcmp(topics[t].topic, "rope") == 0)
        put_rope_proof(l, x, out);
    return out->failed ? lm_fail_memory(e, "a listing", 0) : LM_OK;
}

lm_status lm_listing_part(lm_facts *f, const char *topic, const char *title, lm_listing_language in,
                          lm_text *out, lm_error *e)
{
    lm_listing l;
    piece x[2];
    size_t t = 0;
    lm_text text = { 0 };

    while (t < sizeof topics / sizeof *topics && strcmp(topics[t].topic, topic) != 0)
        t++;
    if (t == sizeof topics / sizeof *topics)
        return unknown(topic, e);
    lm_status status = lm_listing_begin(&l, f, in, e);
    unsigned n = status == LM_OK ? find_pieces(&l, t, x) : 0;
    if (status == LM_OK)
        status = n ? write(&l, t, title, x, n, &text, e)
                   : lm_fail(e, LM_UNSUPPORTED, topic, LM_NO_OFFSET, "%s does not have this", f->s.name);
    lm_listing_end(&l);
    return lm_text_deliver(&text, status, "a listing", out, e);
}
