/* tracejson.c - write a trace as JSON. */
#include <math.h>
#include <string.h>

#include "base/str.h"
#include "base/utf8.h"
#include "trace/tracer.h"

static void put_number(lm_text *out, const char *key, double x)
{
    lm_text_printf(out, isfinite(x) ? ", \"%s\": %.9g" : ", \"%s\": null", key, x);
}

static void put_text(const lm_tracer *t, lm_token id, lm_text *out)
{
    const lm_tokenizer *k = lm_model_tokenizer(t->m);
    lm_text             piece = { 0 };

    if (k && id >= 0 && (uint32_t)id < lm_tokenizer_size(k) &&
        lm_detokenize(k, &id, 1, 0, &piece, NULL) == LM_OK)
        lm_text_add_json(out, piece.data ? piece.data : "", piece.size);
    else
        lm_text_add_str(out, "\"\"");
    lm_text_free(&piece);
}

/* Write the bytes of a token that is not valid UTF-8, because its text does not show them. */
static void put_bytes(const lm_tracer *t, lm_token id, lm_text *out)
{
    const lm_tokenizer *k     = lm_model_tokenizer(t->m);
    lm_text             bytes = { 0 };

    if (k && id >= 0 && (uint32_t)id < lm_tokenizer_size(k) && lm_token_bytes(k, id, &bytes, NULL) == LM_OK &&
        bytes.size && lm_utf8_valid_prefix(bytes.data, bytes.size) < bytes.size) {
        for (size_t i = 0; i < bytes.size; i++)
            lm_text_printf(out, i ? ", %u" : ", \"bytes\": [%u", (unsigned char)bytes.data[i]);
        lm_text_add_char(out, ']');
    }
    lm_text_free(&bytes);
}

static void put_id(const lm_tracer *t, lm_token id, lm_text *out)
{
    lm_text_printf(out, "\"id\": %d, \"text\": ", id);
    put_text(t, id, out);
    put_bytes(t, id, out);
}

static void put_top(const lm_tracer *t, const lm_trace_choice *top, uint32_t n, lm_text *out)
{
    lm_text_add_str(out, ", \"top\": [");
    for (uint32_t i = 0; i < n && top[i].id >= 0; i++) {
        lm_text_add_str(out, i ? ", {" : "{");
        put_id(t, top[i].id, out);
        put_number(out, "p", (double)top[i].p);
        lm_text_add_char(out, '}');
    }
    lm_text_add_char(out, ']');
}

static void put_token(const lm_tracer *t, const lm_trace_token *x, lm_text *out)
{
    lm_text_add_char(out, '{');
    if (x->id >= 0) {
        put_id(t, x->id, out);
        lm_text_add_str(out, ", ");
    }
    lm_text_printf(out, "\"position\": %u", x->position);
    if (x->id >= 0)
        put_number(out, "p", x->predicted ? x->p : NAN);
    if (x->id >= 0)
        put_number(out, "surprise", x->predicted ? x->surprise : NAN);
    put_number(out, "entropy", x->predicted ? x->entropy : NAN);
    put_top(t, x->top, x->predicted ? x->n_top : 0, out);
    lm_text_add_char(out, '}');
}

static void put_place(lm_text *out, const char *path, int32_t layer, uint32_t position)
{
    lm_text_add_str(out, "{\"path\": ");
    lm_text_add_json(out, path, strlen(path));
    lm_text_printf(out, ", \"layer\": %d, \"position\": %u", layer, position);
}

/* ---- the lists of a row, without brackets; `first`: no separator is needed ---- */

static void put_lens(const lm_tracer *t, const lm_trace_row *r, bool *first, lm_text *out)
{
    for (size_t i = 0; i < r->n_lens; i++, *first = false) {
        const lm_trace_lens *x = &r->lens[i];
        lm_text_add_str(out, *first ? "" : ", ");
        put_place(out, x->path, x->layer, r->position);
        lm_text_printf(out, ", \"part\": \"%s\", \"rank\": %u", lm_trace_part_word(x->part), x->rank);
        put_number(out, "p", x->p);
        put_number(out, "kl", x->kl);
        put_top(t, x->top, x->n_top, out);
        lm_text_add_char(out, '}');
    }
}

static void put_shares(const lm_trace_row *r, const lm_trace_contribution *list, size_t n, const char *what,
                       bool *first, lm_text *out)
{
    for (size_t i = 0; i < n; i++, *first = false) {
        lm_text_add_str(out, *first ? "" : ", ");
        put_place(out, list[i].path, list[i].layer, r->position);
        lm_text_printf(out, ", \"part\": \"%s\"", lm_trace_part_word(list[i].part));
        put_number(out, what, list[i].value);
        lm_text_add_char(out, '}');
    }
}

static void put_attribution(const lm_tracer *t, const lm_trace_row *r, bool *first, lm_text *out)
{
    (void)t;
    put_shares(r, r->attribution, r->n_attribution, "logit", first, out);
}

static void put_norms(const lm_tracer *t, const lm_trace_row *r, bool *first, lm_text *out)
{
    (void)t;
    put_shares(r, r->norms, r->n_norms, "norm", first, out);
}

static void put_experts(const lm_tracer *t, const lm_trace_row *r, bool *first, lm_text *out)
{
    (void)t;
    for (size_t i = 0; i < r->n_experts; i++, *first = false) {
        const lm_trace_experts *x = &r->experts[i];
        lm_text_add_str(out, *first ? "" : ", ");
        put_place(out, x->path, x->layer, r->position);
        lm_text_add_str(out, ", \"experts\": [");
        for (uint32_t k = 0; k < x->n; k++) {
            lm_text_printf(out, "%s{\"expert\": %u", k ? ", " : "", x->expert[k]);
            put_number(out, "weight", (double)x->weight[k]);
            lm_text_add_char(out, '}');
        }
        lm_text_add_str(out, "]}");
    }
}

static void put_heads(const lm_tracer *t, const lm_trace_row *r, bool *first, lm_text *out)
{
    for (size_t i = 0; i < r->n_attention; i++, *first = false) {
        const lm_trace_head *h = &r->attention[i];
        lm_text_printf(out, "%s{\"layer\": %u, \"head\": %u, \"position\": %u", *first ? "" : ", ", h->layer,
                       h->head, r->position);
        put_number(out, "entropy", h->entropy);
        put_number(out, "first", h->first);
        put_number(out, "distance", h->distance);
        lm_text_add_str(out, ", \"top\": [");
        for (unsigned k = 0; k < 3 && h->weight[k] > 0; k++) {
            lm_text_printf(out, "%s{\"position\": %u, \"text\": ", k ? ", " : "", h->at[k]);
            put_text(t, h->at[k] < t->n ? t->ids[h->at[k]] : -1, out);
            put_number(out, "weight", (double)h->weight[k]);
            lm_text_add_char(out, '}');
        }
        lm_text_add_str(out, "]}");
    }
}

static void put_weights(const lm_tracer *t, const lm_trace_row *r, bool *first, lm_text *out)
{
    (void)t;
    for (size_t i = 0; i < r->n_attention; i++) {
        const lm_trace_head *h = &r->attention[i];
        if (!h->weights)
            continue;
        lm_text_printf(
            out, "%s{\"layer\": %u, \"head\": %u, \"position\": %u, \"first_position\": %u, \"weights\": [",
            *first ? "" : ", ", h->layer, h->head, r->position, h->first_position);
        for (uint32_t k = 0; k < h->n_weights; k++)
            lm_text_printf(out, isfinite((double)h->weights[k]) ? "%s%.6g" : "%snull", k ? ", " : "",
                           (double)h->weights[k]);
        lm_text_add_str(out, "]}");
        *first = false;
    }
}

typedef struct list {
    const char *name;
    void      (*put)(const lm_tracer *t, const lm_trace_row *r, bool *first, lm_text *out);
} list;

static const list lists[] = {
    { "lens", put_lens },       { "attribution", put_attribution }, { "norms", put_norms },
    { "experts", put_experts }, { "attention", put_heads },         { "weights", put_weights },
};

static bool is_requested(const lm_tracer *t, const char *name)
{
    const lm_trace_options *o = &t->o;

    switch (name[0]) {
    case 'l': return o->lens;
    case 'n': return o->norms;
    case 'e': return o->experts;
    case 'w': return o->n_heads;
    default:
        return name[2] == 't' && name[3] == 'r' ? o->attribution : o->attention || o->n_layers || o->n_heads;
    }
}

static void put_row(const lm_tracer *t, const lm_trace_record *r, lm_text *out)
{
    lm_text_printf(out, "{\"position\": %u, \"token\": {", r->position);
    put_id(t, r->row.token, out);
    put_number(out, "p", r->row.p);
    lm_text_add_char(out, '}');
    put_number(out, "logit", r->row.logit);
    if (r->row.note) {
        lm_text_add_str(out, ", \"note\": ");
        lm_text_add_json(out, r->row.note, strlen(r->row.note));
    }
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        bool first = true;
        if (!is_requested(t, lists[i].name))
            continue;
        lm_text_printf(out, ", \"%s\": [", lists[i].name);
        lists[i].put(t, &r->row, &first, out);
        lm_text_add_char(out, ']');
    }
    lm_text_add_char(out, '}');
}

/* ---- complete trace ---- */

static void put_loads(const lm_tracer *t, lm_text *out)
{
    lm_trace_load x;

    lm_text_add_str(out, ", \"experts_load\": [");
    for (size_t i = 0; lm_tracer_load(t, i, &x); i++) {
        lm_text_add_str(out, i ? ", {\"path\": " : "{\"path\": ");
        lm_text_add_json(out, x.path, strlen(x.path));
        lm_text_printf(out, ", \"layer\": %d, \"load\": [", x.layer);
        for (uint32_t k = 0; k < x.n_experts; k++)
            lm_text_printf(out, "%s%llu", k ? ", " : "", (unsigned long long)x.visits[k]);
        lm_text_add_str(out, "]}");
    }
    lm_text_add_char(out, ']');
}

static void put_times(lm_tracer *t, lm_text *out)
{
    lm_trace_time x;

    lm_text_add_str(out, ", \"times\": [");
    for (size_t i = 0; lm_tracer_time(t, i, &x); i++) {
        lm_text_add_str(out, i ? ", {\"path\": " : "{\"path\": ");
        lm_text_add_json(out, x.path, strlen(x.path));
        lm_text_printf(out, ", \"layer\": %d, \"operation\": \"%s\"", x.layer, x.operation);
        put_number(out, "seconds", x.seconds);
        lm_text_add_char(out, '}');
    }
    lm_text_add_char(out, ']');
}

static lm_status close_rows(lm_tracer *t, lm_error *e)
{
    lm_trace_record *r;

    for (size_t i = 0; i < t->n_records; i++)
        LM_TRY(lm_trace_take(t, t->records[i]->position, -1, &r, e));
    return LM_OK;
}

static void put_rows(const lm_tracer *t, lm_text *out)
{
    bool first = true;

    lm_text_add_str(out, ", \"rows\": [");
    for (size_t i = 0; i < t->n_records; i++)
        if (t->records[i]->inside) {
            lm_text_add_str(out, first ? "" : ", ");
            put_row(t, t->records[i], out);
            first = false;
        }
    lm_text_add_char(out, ']');
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
        first = true;
        if (!is_requested(t, lists[k].name))
            continue;
        lm_text_printf(out, ", \"%s\": [", lists[k].name);
        for (size_t i = 0; i < t->n_records; i++)
            if (t->records[i]->inside)
                lists[k].put(t, &t->records[i]->row, &first, out);
        lm_text_add_char(out, ']');
    }
}

lm_status lm_tracer_json(lm_tracer *t, lm_text *out, lm_error *e)
{
    LM_REQUIRE(e, t && out);
    lm_text        text = { 0 };
    lm_trace_token x;
    lm_status      status;

    pthread_mutex_lock(&t->lock);
    status = close_rows(t, e);
    if (status == LM_OK) {
        lm_text_add_str(&text, "{\"ids\": [");
        for (size_t i = 0; i < t->n; i++)
            lm_text_printf(&text, "%s%d", i ? ", " : "", t->ids[i]);
        lm_text_add_str(&text, "], \"tokens\": [");
        for (size_t i = 0; i < t->n && lm_tracer_token(t, (uint32_t)i, &x); i++) {
            lm_text_add_str(&text, i ? ", " : "");
            put_token(t, &x, &text);
        }
        lm_text_add_char(&text, ']');
        if (t->n && lm_tracer_token(t, (uint32_t)t->n, &x)) {
            x.id = -1;
            lm_text_add_str(&text, ", \"next\": ");
            put_token(t, &x, &text);
        }
        put_rows(t, &text);
        if (t->o.experts)
            put_loads(t, &text);
        if (t->times)
            put_times(t, &text);
        lm_text_add_char(&text, '}');
    }
    pthread_mutex_unlock(&t->lock);
    return lm_text_deliver(&text, status, "a trace", out, e);
}

lm_status lm_tracer_event(lm_tracer *t, uint32_t position, lm_token id, lm_text *out, lm_error *e)
{
    LM_REQUIRE(e, t && out && position && id >= 0);
    lm_text          text = { 0 };
    lm_trace_record *r    = NULL;

    pthread_mutex_lock(&t->lock);
    lm_status status = (uint32_t)id < t->p->n_vocab
                           ? lm_trace_take(t, position - 1, id, &r, e)
                           : lm_fail(e, LM_USAGE, "token", LM_NO_OFFSET, "%d is outside the vocabulary", id);
    if (status == LM_OK) {
        lm_text_add_str(&text, "{\"token\": ");
        put_token(t, &t->tokens[position], &text);
        if (r->inside) {
            lm_text_add_str(&text, ", \"row\": ");
            put_row(t, r, &text);
        }
        lm_text_add_char(&text, '}');
        lm_trace_forget(t, position - 1);
    }
    pthread_mutex_unlock(&t->lock);
    return lm_text_deliver(&text, status, "a trace", out, e);
}

/* ---- traceable values ---- */

/* Write a value with each path that refers to it. */
static void put_path(const lm_program *p, uint32_t i, const char *path, bool *first, lm_text *out)
{
    if (!path[0] || p->nodes[i].out == p->logits || lm_program_value(p, path) != p->nodes[i].out)
        return;
    lm_text_add_str(out, *first ? "{\"path\": " : ", {\"path\": ");
    lm_text_add_json(out, path, strlen(path));
    lm_text_printf(out, ", \"width\": %u, \"layer\": %d, \"operation\": \"%s\"}",
                   p->values[p->nodes[i].out].width, p->nodes[i].layer, lm_op_of(p->nodes[i].code)->name);
    *first = false;
}

static void put_layer(const lm_program *p, int32_t layer, lm_text *out)
{
    const lm_node *attention = NULL, *mlp = NULL, *route = NULL;
    const char    *path = lm_trace_layer_path(p, layer);

    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node *n = &p->nodes[i];
        if (n->layer != layer)
            continue;
        attention = n->code == LM_OP_ATTENTION ? n : attention;
        mlp       = n->code == LM_OP_GLU || n->code == LM_OP_ACT || n->code == LM_OP_EXPERTS ? n : mlp;
        route     = n->code == LM_OP_ROUTE ? n : route;
    }
    lm_text_printf(out, "%s{\"layer\": %d, \"path\": ", layer ? ", " : "", layer);
    lm_text_add_json(out, path ? path : "", path ? strlen(path) : 0);
    if (attention) {
        path = lm_trace_block(p, attention->module);
        lm_text_add_str(out, ", \"attention\": ");
        lm_text_add_json(out, path, strlen(path));
        lm_text_printf(out, ", \"n_heads\": %u, \"n_kv_heads\": %u, \"window\": %u",
                       attention->attention.spec.n_heads, attention->attention.spec.n_kv_heads,
                       attention->attention.spec.window);
    }
    if (mlp) {
        path = lm_trace_block(p, mlp->module);
        lm_text_add_str(out, ", \"mlp\": ");
        lm_text_add_json(out, path, strlen(path));
        lm_text_printf(out, ", \"neurons\": %u", mlp->code == LM_OP_EXPERTS ? 0 : p->values[mlp->out].width);
    }
    lm_text_printf(out, ", \"n_experts\": %u}", route ? route->route.spec.n_experts : 0);
}

lm_status lm_trace_paths(const lm_model *m, lm_text *out, lm_error *e)
{
    LM_REQUIRE(e, m && out);
    const lm_program *p     = m->program;
    lm_text           text  = { 0 };
    bool              first = true;

    lm_text_add_str(&text, "{\"paths\": [");
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        bool is_module = false;
        for (uint32_t k = 0; k < p->n_modules; k++)
            if (p->modules[k].out == p->nodes[i].out) {
                put_path(p, i, p->modules[k].path, &first, &text);
                is_module = is_module || strcmp(p->modules[k].path, p->nodes[i].path) == 0;
            }
        if (!is_module)
            put_path(p, i, p->nodes[i].path, &first, &text);
    }
    lm_text_add_str(&text, "], \"layers\": [");
    for (uint32_t l = 0; l < p->n_layers; l++)
        put_layer(p, (int32_t)l, &text);
    lm_text_add_str(&text, "]}");
    return lm_text_deliver(&text, LM_OK, "paths", out, e);
}
