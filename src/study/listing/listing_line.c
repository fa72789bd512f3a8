/* listing_line.c - write one operation as one assignment. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "program/op.h"
#include "study/listing/listing.h"

enum { COMMENT_COLUMN = 84 };

/* ---- names ---- */

static bool is_taken(const char *name)
{
    static const char *const words[] = {
        "W",       "w",        "T",          "i",       "e",          "ids",       "math",     "torch",
        "np",      "rope",     "rope_pairs", "attention", "experts",  "choose",
        "join",    "sinusoid",   "silu",    "gelu",       "gelu_tanh", "quick",    "relu",
        "relu2",   "xielu",   "sigmoid",  "tanh",       "forward", "layer",      "slopes",    "bfloat16", "load",
        "softmax", "rotary",   "weights_of", "in",      "is",         "as",        "or",       "lambda",
        "from",    "pass",     "kept",       "select_blocks", NULL
    };

    for (size_t i = 0; words[i]; i++)
        if (strcmp(words[i], name) == 0)
            return true;
    for (lm_op_code code = 0; code < LM_OP_COUNT; code++) {
        const char *helper = lm_op_of(code)->helper;                     /* "def NAME(…" */
        if (helper && strncmp(helper + 4, name, strlen(name)) == 0 && helper[4 + strlen(name)] == '(')
            return true;
    }
    return false;
}

/* Return whether a variable with this name is read after `node`. */
static bool is_alive(const lm_listing *l, const char *name, uint32_t node)
{
    if (l->given != LM_NONE && l->last[l->given] > node && strcmp(l->names[l->given], name) == 0)
        return true;
    for (uint32_t i = l->first; i < node; i++) {
        lm_value v = l->p->nodes[i].out;
        if (l->last[v] > node && strcmp(l->names[v], name) == 0)
            return true;
    }
    return false;
}

static const char *of_role(uint32_t roles)
{
    uint32_t attention = roles & (LM_PRODUCT_QUERY | LM_PRODUCT_KEY | LM_PRODUCT_VALUE);

    if (attention)
        return attention == LM_PRODUCT_QUERY                      ? "q"
               : attention == LM_PRODUCT_KEY                      ? "k"
               : attention == LM_PRODUCT_VALUE                    ? "v"
               : attention == (LM_PRODUCT_KEY | LM_PRODUCT_VALUE) ? "kv"
                                                                  : "qkv";
    if (roles & LM_PRODUCT_HEAD)
        return "logits";
    if (roles & LM_PRODUCT_ROUTER)
        return "scores";
    if (roles & LM_PRODUCT_OUTPUT)
        return "a";
    if (roles & LM_PRODUCT_DOWN)
        return "m";
    const bool gate = roles & LM_PRODUCT_GATE, up = roles & LM_PRODUCT_UP;
    return gate && up ? "gate_up" : gate ? "gate" : up ? "up" : NULL;
}

static const char *last_word(const char *path)
{
    const char *dot = strrchr(path, '.');

    return dot ? dot + 1 : path;
}

/* Return the name of a product's result: its module's, or the end of a long one. */
static const char *product_word(const char *path)
{
    const char *word = last_word(path), *end = strrchr(word, '_');

    return strlen(word) > 20 && end ? end + 1 : word;
}

static const char *candidate(const lm_listing *l, uint32_t i)
{
    const lm_node *n    = &l->p->nodes[i];
    const char *role = of_role(l->f->ledger->roles[i]),
               *same = n->n_in && l->last[n->in[0]] == i ? l->names[n->in[0]] : NULL;

    uint32_t block = l->f->ledger->block[i];
    if (block != LM_NONE && l->f->ledger->carries[block] && !l->f->ledger->attends[block])
        return last_word(n->path);
    switch (n->code) {
    case LM_OP_EMBED:
        return "x";
    case LM_OP_POSITION:
    case LM_OP_SINUSOID:
        return "positions";
    case LM_OP_LINEAR:
        return role ? role : product_word(n->path);
    case LM_OP_ADD:
        return lm_is_residual(l->f->ledger, i) || n->layer < 0 ? "x" : "m";
    case LM_OP_ATTENTION:
        return "a";
    case LM_OP_GLU:
    case LM_OP_EXPERTS:
        return "m";
    case LM_OP_ROUTE:
        return "chosen";
    case LM_OP_SELECT_KEYS:
        return "seen";
    case LM_OP_COLUMNS:
        return last_word(n->path);
    case LM_OP_REPEAT:
    case LM_OP_MERGE:
        return "x";
    case LM_OP_CONNECT:
        return "c";
    case LM_OP_BLEND:
        return n->layer < 0 ? "x" : "h";
    case LM_OP_JOIN:
        return n->layer < 0 ? "x" : last_word(n->path);
    case LM_OP_HEAD_LINEAR:
        return !n->heads.shared && same ? same : last_word(n->path);
    default:
        return same ? same : "h";
    }
}

/* Return whether input k of an operation comes from an earlier layer than the last one. */
static bool is_far(const lm_listing *l, const lm_node *n, uint32_t k)
{
    int32_t of = l->p->nodes[l->p->values[n->in[k]].producer].layer;

    return n->layer >= 0 && of < n->layer && (of + 1 < n->layer || (n->code == LM_OP_ATTENTION && k > 0));
}

void lm_listing_keep(lm_listing *l)
{
    for (uint32_t i = 0; i < l->p->n_nodes; i++) {
        const lm_node *n = &l->p->nodes[i];
        for (uint32_t k = 0; k < n->n_in; k++) {
            lm_value v  = n->in[k];
            int32_t  of = l->p->nodes[l->p->values[v].producer].layer;
            if (!is_far(l, n, k) || l->kept[v])
                continue;
            l->kept[v]       = true;
            const char *word = n->code != LM_OP_ATTENTION ? last_word(n->path)
                               : k == 3                   ? "seen"
                               : k == 1                   ? "k"
                                                          : "v";
            if (of < 0)
                snprintf(l->names[v], LM_LISTING_NAME, "kept[\"%.30s\"]", word);
            else
                snprintf(l->names[v], LM_LISTING_NAME, "kept[\"%.20s%u\"]", word, (unsigned)of);
            for (lm_value u = 0; u < l->p->n_values; u++)
                if (u != v && l->kept[u] && strcmp(l->names[u], l->names[v]) == 0)
                    snprintf(l->names[v], LM_LISTING_NAME, "kept[\"%u\"]", v);
        }
    }
}

static void give_name(lm_listing *l, uint32_t i)
{
    char       *name = l->names[l->p->nodes[i].out], base[LM_LISTING_NAME - 8];
    const char *want = candidate(l, i);
    size_t      n    = 0;

    if (l->kept[l->p->nodes[i].out])
        return;
    for (; want[n] && n + 1 < sizeof base; n++)
        base[n] = isalnum((unsigned char)want[n]) ? want[n] : '_';
    base[n] = '\0';
    snprintf(name, LM_LISTING_NAME, "%s%s", base[0] >= '0' && base[0] <= '9' ? "v" : "", base);
    if (is_taken(name))
        snprintf(name, LM_LISTING_NAME, "%s_", base);
    for (unsigned k = 2; is_alive(l, name, i); k++)
        snprintf(name, LM_LISTING_NAME, "%s%u", base, k);
}

/* ---- weights ---- */

/* Append `path` as an expression: from the layer's own dictionary if the weight belongs to it; "*" becomes
 * the variable `star`. */
static void put_path(const lm_listing *l, const char *path, const char *star, lm_text *out)
{
    const char *at = strchr(path, '*'), *of = lm_listing_own(l, &path) ? "w" : "W";

    if (at)
        lm_text_printf(out, "%s[f\"%.*s{%s}%s\"]", of, (int)(at - path), path, star, at + 1);
    else
        lm_text_printf(out, "%s[\"%s\"]", of, path);
}

static void put_weight(const lm_listing *l, uint32_t index, lm_text *out)
{
    const lm_weight *w = &l->p->weights[index];

    if (w->plus_one)
        lm_text_add_str(out, "1 + ");
    if (strchr(w->path, '*')) {          /* one vector per head, stored separately */
        lm_listing_add(l, out, "$.stack([");
        put_path(l, w->path, "n", out);
        lm_text_printf(out, " for n in range(%" PRIu64 ")])", w->dims[0]);
    } else {
        put_path(l, w->path, "", out);
    }
    if (w->padded || w->heads)
        lm_text_add_str(out, ".reshape(-1)");
    if (w->flat && w->dims[1] > 1)
        lm_text_printf(out, ".reshape(%" PRIu64 ", -1)", w->dims[0]);
}

/* Append a vector or None. */
static void put_vector(const lm_listing *l, uint32_t index, lm_text *out)
{
    if (index == LM_NONE)
        lm_text_add_str(out, "None");
    else
        put_weight(l, index, out);
}

/* Append [heads, out, in] of a matrix that is stored together with others, or of a list. */
static void put_heads(const lm_listing *l, uint32_t index, lm_text *out)
{
    const lm_weight *w = &l->p->weights[index];
    const lm_joint  *j = &w->joint;

    if (!j->path) {
        put_weight(l, index, out);
        return;
    }
    put_path(l, j->path, "", out);
    if (j->by_head) {
        lm_text_add_str(out, ".swapaxes(1, 2)");
        return;
    }
    lm_text_printf(out, ".reshape(%" PRIu64 ", %u, -1)[:, %u:%u]%s", w->dims[0], j->of, j->first,
                   j->first + j->n, j->transposed ? ".swapaxes(1, 2)" : "");
}

/* Append the matrix of expert e, [out, in], or its bias. */
static void put_expert(const lm_listing *l, uint32_t index, lm_text *out)
{
    const lm_weight      *w = &l->p->weights[index];
    const lm_interleaved *x = &w->interleaved;
    bool                  bias = w->n_dims == 2;

    if (!x->path) {
        put_path(l, w->path, "e", out);
        return;
    }
    put_path(l, x->path, "", out);
    lm_text_add_str(out, "[e]");
    if (x->transposed && !bias)
        lm_text_add_str(out, ".T");
    if (x->of == w->dims[1])
        return;
    if (x->step != 1)
        lm_text_printf(out, "[%u::%u]", x->first, x->step);
    else
        lm_text_printf(out, "[%" PRIu64 ":%" PRIu64 "]", (uint64_t)x->first, x->first + w->dims[1]);
}

/* ---- results of operations ---- */

static const char *in_name(const lm_listing *l, const lm_node *n, uint32_t k)
{
    return l->names[n->in[k]];
}

static void put_linear(const lm_listing *l, const lm_node *n, lm_text *out)
{
    bool scaled = n->weights[2] != LM_NONE, grouped = scaled && n->weights[1] != LM_NONE;

    lm_text_printf(out, "%s%s @ ", grouped ? "(" : "", in_name(l, n, 0));
    put_weight(l, n->weights[0], out);
    if (!l->p->weights[n->weights[0]].transposed)
        lm_text_add_str(out, ".T");
    if (n->weights[1] != LM_NONE) {
        lm_text_add_str(out, " + ");
        put_weight(l, n->weights[1], out);
    }
    if (!scaled)
        return;
    lm_text_printf(out, "%s %s ", grouped ? ")" : "", l->p->weights[n->weights[2]].inverse ? "/" : "*");
    put_weight(l, n->weights[2], out);
}

static void put_norm(const lm_listing *l, const lm_node *n, lm_text *out)
{
    const char *x = in_name(l, n, 0);

    lm_text_add_str(out, n->code == LM_OP_RMS_NORM ? "rms_norm(" : "layer_norm(");
    if (n->norm.groups > 1)
        lm_text_printf(out, "%s.reshape(T, %u, -1), ", x, n->norm.groups);
    else
        lm_text_printf(out, "%s, ", x);
    put_vector(l, n->weights[0], out);
    if (n->code == LM_OP_LAYER_NORM) {
        lm_text_add_str(out, ", ");
        put_vector(l, n->weights[1], out);
    }
    lm_text_printf(out, ", %g)%s", (double)n->norm.eps, n->norm.groups > 1 ? ".reshape(T, -1)" : "");
}

static void put_rope(const lm_listing *l, const lm_node *n, lm_text *out)
{
    const lm_rope_spec *s = &l->p->ropes[n->rope.table].spec;
    char                rotary[LM_LISTING_NAME];

    lm_listing_rotary(l, n->rope.table, rotary);
    lm_text_printf(out, "%s(%s, %u, *%s(T)%s)",
                   (s->pairing == LM_ROPE_PAIR) != s->permuted ? "rope_pairs" : "rope", in_name(l, n, 0),
                   n->rope.n_heads, rotary, s->last ? ", last=True" : "");
}

static void put_attention(const lm_listing *l, const lm_node *n, lm_text *out)
{
    const lm_attention_spec *s = &n->attention.spec;
    double                   scale = (double)s->scale;

    lm_text_printf(out, "attention(%s, %s, %s, heads=%u, kv_heads=%u, scale=", in_name(l, n, 0),
                   in_name(l, n, 1), s->v_in_k ? "None" : in_name(l, n, 2), s->n_heads, s->n_kv_heads);
    if (l->scores_by_layer)
        scale *= n->layer + 1;
    if (fabs(scale * sqrt(s->k_dim) - 1) < 1e-6)
        lm_text_printf(out, "%u ** -0.5", s->k_dim);
    else
        lm_text_printf(out, "%.9g", scale);
    if (l->scores_by_layer)
        lm_text_add_str(out, " / (i + 1)");
    if (s->v_in_k)
        lm_text_printf(out, ", v_dim=%u", s->v_dim);
    if (s->window)
        lm_text_printf(out, s->chunked ? ", chunk=%u" : ", window=%u", s->window);
    if (s->softcap > 0)
        lm_text_printf(out, ", softcap=%g", (double)s->softcap);
    if (s->rate)
        lm_text_printf(out, ",\n                  entries=%s, rate=%u", in_name(l, n, 4), s->rate);
    if (s->top_k)
        lm_text_printf(out, ", chosen=%s", in_name(l, n, 3));
    if (s->sinks) {
        lm_text_add_str(out, ", sinks=");
        put_weight(l, n->weights[0], out);
    }
    lm_text_add_char(out, ')');
}

static void put_experts(const lm_listing *l, const lm_node *n, lm_text *out)
{
    static const char *const words[6] = { "gate", "up", "down", "gate_bias", "up_bias", "down_bias" };

    lm_text_printf(out, "experts(%s, *%s", in_name(l, n, 0), in_name(l, n, 1));
    for (unsigned k = 0; k < 6; k++) {
        if (n->weights[k] == LM_NONE)
            continue;
        lm_text_printf(out, ",\n                %s=lambda e: ", words[k]);
        put_expert(l, n->weights[k], out);
    }
    lm_text_add_char(out, ')');
}

static void put_columns(const lm_listing *l, const lm_node *n, lm_text *out)
{
    uint32_t groups = n->columns.groups, width = l->p->values[n->out].width / groups,
             from = n->columns.offset;

    if (groups == 1 && l->kept[n->in[0]] && n->layer >= 0 && from == (uint32_t)n->layer * width)
        lm_text_printf(out, "%s[:, i * %u:(i + 1) * %u]", in_name(l, n, 0), width, width);
    else if (groups == 1)
        lm_text_printf(out, "%s[:, %u:%u]", in_name(l, n, 0), from, from + width);
    else
        lm_text_printf(out, "%s.reshape(T, %u, -1)[:, :, %u:%u].reshape(T, -1)", in_name(l, n, 0), groups,
                       from, from + width);
}

/* Append one word of an expression: the name of an input ("0"), a weight ("w0"), "width", or a number. */
static void put_word(const lm_listing *l, const lm_node *n, const char *word, size_t length, lm_text *out)
{
    if (*word >= '0' && *word <= '9')
        lm_text_add_str(out, in_name(l, n, (uint32_t)(*word - '0')));
    else if (length == 2 && *word == 'w')
        put_vector(l, n->weights[word[1] - '0'], out);
    else if (length == 5 && strncmp(word, "width", 5) == 0)
        lm_text_printf(out, "%u", l->p->values[n->out].width);
    else
        lm_op_put_number(n, word, length, 9, out);
}

/* Append an operation's expression (lm_op.expression). */
static void put_expression(const lm_listing *l, const lm_node *n, const char *x, lm_text *out)
{
    lm_text line = { 0 };

    for (; x && *x; x++) {
        if (*x != '{') {
            lm_text_add_char(&line, *x);
            continue;
        }
        size_t length = strcspn(x, "}");
        put_word(l, n, x + 1, length - 1, &line);
        x += length;
    }
    lm_listing_add(l, out, line.data ? line.data : "");
    out->failed |= line.failed;
    lm_text_free(&line);
}

/* A gate may have one lane for each equal part of what it gates. */
static void put_gated(const lm_listing *l, const lm_node *n, lm_text *out)
{
    uint32_t gates = l->p->values[n->in[0]].width;

    if (n->glu.limit > 0)
        lm_text_printf(out, n->glu.plus > 0 ? "%s(%s.clip(max=%g)) * (%s.clip(-%g, %g) + 1)"
                                            : "%s(%s.clip(max=%g)) * %s.clip(-%g, %g)",
                       lm_act_id(n->glu.act), in_name(l, n, 0), (double)n->glu.limit, in_name(l, n, 1),
                       (double)n->glu.limit, (double)n->glu.limit);
    else if (gates == 1 || gates == l->p->values[n->out].width)
        put_expression(l, n, lm_op_of(n->code)->expression, out);
    else
        lm_text_printf(out, "(%s(%s)[:, :, None] * %s.reshape(T, %u, -1)).reshape(T, -1)",
                       lm_act_id(n->glu.act), in_name(l, n, 0), in_name(l, n, 1), gates);
}

/* Rows of tokens; those that a small table does not have are its first one. */
static void put_rows(const lm_listing *l, const lm_node *n, lm_text *out)
{
    uint64_t rows = l->p->weights[n->weights[0]].dims[0];

    put_weight(l, n->weights[0], out);
    if (rows < l->p->values[l->p->logits].width)
        lm_text_printf(out, "[[i if i < %" PRIu64 " else 0 for i in ids]]", rows);
    else
        lm_text_add_str(out, "[ids]");
}

static void put_choice(const lm_listing *l, const lm_node *n, lm_text *out)
{
    const lm_attention_spec *s = &n->attention.spec;

    if (s->block)
        lm_text_printf(out, "select_blocks(%s, %s, heads=%u, block=%u, count=%u, local=%u)", in_name(l, n, 0),
                       in_name(l, n, 1), s->n_heads, s->block, lm_choice_width(s), s->local);
    else if (s->rate)
        lm_text_printf(out, "select_entries(%s, %s, %s, %u, %u)", in_name(l, n, 0), in_name(l, n, 1),
                       in_name(l, n, 2), s->top_k, s->rate);
    else
        put_expression(l, n, lm_op_of(n->code)->expression, out);
}

static void put_value(const lm_listing *l, const lm_node *n, lm_text *out)
{
    switch (n->code) {
    case LM_OP_EMBED:
        put_rows(l, n, out);
        return;
    case LM_OP_POSITION:
        put_weight(l, n->weights[0], out);
        lm_text_printf(out, n->position.offset ? "[%u:T + %u]" : "[:T]", n->position.offset,
                       n->position.offset);
        return;
    case LM_OP_LINEAR:
        put_linear(l, n, out);
        return;
    case LM_OP_RMS_NORM:
    case LM_OP_LAYER_NORM:
        put_norm(l, n, out);
        return;
    case LM_OP_ROPE:
        put_rope(l, n, out);
        return;
    case LM_OP_ATTENTION:
        put_attention(l, n, out);
        return;
    case LM_OP_SELECT_KEYS:
        put_choice(l, n, out);
        return;
    case LM_OP_COLUMNS:
        put_columns(l, n, out);
        return;
    case LM_OP_ROUTE:
        lm_text_printf(out, "choose(%s, top_k=%u", in_name(l, n, 0), n->route.spec.top_k);
        if (n->weights[0] != LM_NONE) {
            bool long_name = strlen(l->p->weights[n->weights[0]].path) > 50;
            lm_text_add_str(out, long_name ? ",\n                    correction=" : ", correction=");
            put_weight(l, n->weights[0], out);
        }
        if (n->weights[1] != LM_NONE) {
            lm_text_add_str(out, ",\n                    factors=");
            put_weight(l, n->weights[1], out);
        }
        if (n->weights[2] != LM_NONE) {
            lm_text_add_str(out, ",\n                    listed=");
            put_weight(l, n->weights[2], out);
            lm_text_add_str(out, "[kept[\"ids\"]]");
        }
        lm_text_add_char(out, ')');
        return;
    case LM_OP_EXPERTS:
        put_experts(l, n, out);
        return;
    case LM_OP_GLU:
        put_gated(l, n, out);
        return;
    case LM_OP_ACT:
        put_expression(l, n, n->weights[0] == LM_NONE ? lm_op_of(n->code)->expression
                                                      : "xielu({0}, {w0}, {w1}, {w2}, {w3})", out);
        return;
    case LM_OP_HEAD_LINEAR:
        lm_text_printf(out, n->heads.shared ? "per_head(%s[:, None]," : "per_head(%s.reshape(T, %u, -1),",
                       in_name(l, n, 0), n->heads.n_heads);
        lm_text_add_str(out, "\n                 ");
        put_heads(l, n->weights[0], out);
        lm_text_add_char(out, ')');
        return;
    case LM_OP_MIX:
        lm_text_printf(out, "mix(%s, %s, %s, %u, %u, %g)", in_name(l, n, 0), in_name(l, n, 1),
                       n->n_in > 2 ? in_name(l, n, 2) : "None", n->mix.streams, n->mix.first,
                       (double)n->mix.plus);
        return;
    case LM_OP_JOIN:
        lm_text_printf(out, "join(%s.reshape(T, %u, -1), %s.reshape(T, %u, -1))", in_name(l, n, 0),
                       n->join.groups, in_name(l, n, 1), n->join.shared ? 1 : n->join.groups);
        return;
    default:                     /* split and edited programs have no listings */
        put_expression(l, n, lm_op_of(n->code)->expression, out);
    }
}

void lm_listing_line(lm_listing *l, uint32_t node, lm_text *out)
{
    const lm_node *n = &l->p->nodes[node];
    lm_text        line = { 0 };

    put_value(l, n, &line);                              /* reads the names of the inputs before the result
                                                            may reuse one */
    give_name(l, node);
    size_t start = out->size;
    lm_text_printf(out, "    %s = ", l->names[n->out]);
    lm_text_add(out, line.data, line.size);
    for (size_t i = start; i < out->size; i++)
        start = out->data && out->data[i] == '\n' ? i + 1 : start;
    do
        lm_text_add_char(out, ' ');
    while (!out->failed && out->size - start < COMMENT_COLUMN);
    if (n->code == LM_OP_ROUTE)
        lm_text_printf(out, "# weights and numbers of the chosen: [T, %u] each\n", n->route.spec.top_k);
    else
        lm_text_printf(out, "# [T, %u]\n", l->p->values[n->out].width);
    out->failed = out->failed || line.failed;
    lm_text_free(&line);
}
