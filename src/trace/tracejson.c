/* tracejson.c - tracejson.h: a trace as JSON, built from its results; the text of lamina/trace.h is printed
 * from that. */
#include "trace/tracejson.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/jsontext.h"
#include "base/str.h"
#include "base/utf8.h"
#include "trace/tracer.h"

enum { DIGITS = 9, WEIGHT_DIGITS = 6 };

/* What is written, and what the results refer to. Threads: the model and the options do not change. */
typedef struct writing {
    const lm_model         *m;
    const lm_trace_options *o;
    const lm_token         *ids;         /* [n], of the positions that heads attend to */
    size_t                  n;
    bool                    failed;      /* out of memory */
} writing;

/* Set a member to a new value; NULL: out of memory. */
static void put(writing *w, json_t *object, const char *key, json_t *value)
{
    w->failed |= json_object_set_new(object, key, value) != 0;
}

static void append(writing *w, json_t *list, json_t *value)
{
    w->failed |= json_array_append_new(list, value) != 0;
}

static void put_number(writing *w, json_t *object, const char *key, double x)
{
    put(w, object, key, lm_json_rounded(x, DIGITS));
}

static json_t *text_of(const writing *w, lm_token id)
{
    const lm_tokenizer *k = lm_model_tokenizer(w->m);
    lm_text             piece = { 0 };
    json_t             *out;

    if (k && id >= 0 && (uint32_t)id < lm_tokenizer_size(k))
        lm_detokenize(k, &id, 1, 0, &piece, NULL);
    out = lm_json_text(piece.data ? piece.data : "", piece.size);
    lm_text_free(&piece);
    return out;
}

/* Add the bytes of a token that is not valid UTF-8, because its text does not show them. */
static void put_bytes(writing *w, json_t *object, lm_token id)
{
    const lm_tokenizer *k     = lm_model_tokenizer(w->m);
    lm_text             bytes = { 0 };

    if (k && id >= 0 && (uint32_t)id < lm_tokenizer_size(k) && lm_token_bytes(k, id, &bytes, NULL) == LM_OK &&
        bytes.size && lm_utf8_valid_prefix(bytes.data, bytes.size) < bytes.size) {
        json_t *list = json_array();
        for (size_t i = 0; i < bytes.size; i++)
            append(w, list, json_integer((unsigned char)bytes.data[i]));
        put(w, object, "bytes", list);
    }
    lm_text_free(&bytes);
}

static void put_id(writing *w, json_t *object, lm_token id)
{
    put(w, object, "id", json_integer(id));
    put(w, object, "text", text_of(w, id));
    put_bytes(w, object, id);
}

static json_t *top_json(writing *w, const lm_trace_choice *top, uint32_t n)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < n && top[i].id >= 0; i++) {
        json_t *one = json_object();
        put_id(w, one, top[i].id);
        put_number(w, one, "p", (double)top[i].p);
        append(w, list, one);
    }
    return list;
}

static json_t *token_json(writing *w, const lm_trace_token *x)
{
    json_t *o = json_object();

    if (x->id >= 0)
        put_id(w, o, x->id);
    put(w, o, "position", json_integer(x->position));
    if (x->id >= 0)
        put_number(w, o, "p", x->predicted ? x->p : NAN);
    if (x->id >= 0)
        put_number(w, o, "surprise", x->predicted ? x->surprise : NAN);
    put_number(w, o, "entropy", x->predicted ? x->entropy : NAN);
    put(w, o, "top", top_json(w, x->top, x->predicted ? x->n_top : 0));
    return o;
}

static json_t *place_json(const char *path, int32_t layer, uint32_t position)
{
    return json_pack("{s:s, s:i, s:I}", "path", path, "layer", layer, "position", (json_int_t)position);
}

/* ---- the lists of a row ---- */

static void add_lens(writing *w, const lm_trace_row *r, json_t *list)
{
    for (size_t i = 0; i < r->n_lens; i++) {
        const lm_trace_lens *x = &r->lens[i];
        json_t              *o = place_json(x->path, x->layer, r->position);
        put(w, o, "part", json_string(lm_trace_part_word(x->part)));
        put(w, o, "rank", json_integer(x->rank));
        put_number(w, o, "p", x->p);
        put_number(w, o, "kl", x->kl);
        put(w, o, "top", top_json(w, x->top, x->n_top));
        append(w, list, o);
    }
}

static void add_shares(writing *w, const lm_trace_row *r, const lm_trace_contribution *shares, size_t n,
                       const char *what, json_t *list)
{
    for (size_t i = 0; i < n; i++) {
        json_t *o = place_json(shares[i].path, shares[i].layer, r->position);
        put(w, o, "part", json_string(lm_trace_part_word(shares[i].part)));
        put_number(w, o, what, shares[i].value);
        append(w, list, o);
    }
}

static void add_attribution(writing *w, const lm_trace_row *r, json_t *list)
{
    add_shares(w, r, r->attribution, r->n_attribution, "logit", list);
}

static void add_norms(writing *w, const lm_trace_row *r, json_t *list)
{
    add_shares(w, r, r->norms, r->n_norms, "norm", list);
}

static void add_experts(writing *w, const lm_trace_row *r, json_t *list)
{
    for (size_t i = 0; i < r->n_experts; i++) {
        const lm_trace_experts *x = &r->experts[i];
        json_t                 *o = place_json(x->path, x->layer, r->position), *experts = json_array();
        for (uint32_t k = 0; k < x->n; k++) {
            json_t *one = json_object();
            put(w, one, "expert", json_integer(x->expert[k]));
            put_number(w, one, "weight", (double)x->weight[k]);
            append(w, experts, one);
        }
        put(w, o, "experts", experts);
        append(w, list, o);
    }
}

static json_t *head_json(const lm_trace_row *r, const lm_trace_head *h)
{
    return json_pack("{s:I, s:I, s:I}", "layer", (json_int_t)h->layer, "head", (json_int_t)h->head,
                     "position", (json_int_t)r->position);
}

static void add_heads(writing *w, const lm_trace_row *r, json_t *list)
{
    for (size_t i = 0; i < r->n_attention; i++) {
        const lm_trace_head *h = &r->attention[i];
        json_t              *o = head_json(r, h), *top = json_array();
        put_number(w, o, "entropy", h->entropy);
        put_number(w, o, "first", h->first);
        put_number(w, o, "distance", h->distance);
        for (unsigned k = 0; k < 3 && h->weight[k] > 0; k++) {
            json_t *one = json_object();
            put(w, one, "position", json_integer(h->at[k]));
            put(w, one, "text", text_of(w, h->at[k] < w->n ? w->ids[h->at[k]] : -1));
            put_number(w, one, "weight", (double)h->weight[k]);
            append(w, top, one);
        }
        put(w, o, "top", top);
        append(w, list, o);
    }
}

static void add_weights(writing *w, const lm_trace_row *r, json_t *list)
{
    for (size_t i = 0; i < r->n_attention; i++) {
        const lm_trace_head *h = &r->attention[i];
        if (!h->weights)
            continue;
        json_t *o = head_json(r, h), *weights = json_array();
        put(w, o, "first_position", json_integer(h->first_position));
        for (uint32_t k = 0; k < h->n_weights; k++)
            append(w, weights, lm_json_rounded((double)h->weights[k], WEIGHT_DIGITS));
        put(w, o, "weights", weights);
        append(w, list, o);
    }
}

typedef struct row_list {
    const char *name;
    void      (*add)(writing *w, const lm_trace_row *r, json_t *list);
} row_list;

static const row_list lists[] = {
    { "lens", add_lens },       { "attribution", add_attribution }, { "norms", add_norms },
    { "experts", add_experts }, { "attention", add_heads },         { "weights", add_weights },
};

static bool is_requested(const lm_trace_options *o, const char *name)
{
    switch (name[0]) {
    case 'l': return o->lens;
    case 'n': return o->norms;
    case 'e': return o->experts;
    case 'w': return o->n_heads;
    default:
        return name[2] == 't' && name[3] == 'r' ? o->attribution : o->attention || o->n_layers || o->n_heads;
    }
}

static json_t *row_json(writing *w, const lm_trace_record *r)
{
    json_t *o = json_object(), *token = json_object();

    put_id(w, token, r->row.token);
    put_number(w, token, "p", r->row.p);
    put(w, o, "position", json_integer(r->position));
    put(w, o, "token", token);
    put_number(w, o, "logit", r->row.logit);
    if (r->row.note)
        put(w, o, "note", lm_json_text(r->row.note, strlen(r->row.note)));
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        if (!is_requested(w->o, lists[i].name))
            continue;
        json_t *values = json_array();
        lists[i].add(w, &r->row, values);
        put(w, o, lists[i].name, values);
    }
    return o;
}

/* Return the finished value, or NULL and an error. */
static lm_status finish(const writing *w, json_t *o, json_t **out, lm_error *e)
{
    if (o && !w->failed) {
        *out = o;
        return LM_OK;
    }
    json_decref(o);
    return lm_fail_memory(e, "a trace", 0);
}

/* Print a value as the text that a caller of the library receives. Takes `o`. */
static lm_status print(lm_status status, json_t *o, lm_text *out, lm_error *e)
{
    lm_text text = { 0 };

    if (status == LM_OK)
        text.failed |= !lm_json_print(o, JSON_REAL_PRECISION(DIGITS), &text);
    json_decref(o);
    return lm_text_deliver(&text, status, "a trace", out, e);
}

/* ---- complete trace ---- */

static json_t *loads_json(writing *w, const lm_tracer *t)
{
    json_t       *list = json_array();
    lm_trace_load x;

    for (size_t i = 0; lm_tracer_load(t, i, &x); i++) {
        json_t *load = json_array();
        for (uint32_t k = 0; k < x.n_experts; k++)
            append(w, load, json_integer((json_int_t)x.visits[k]));
        append(w, list, json_pack("{s:s, s:i, s:o}", "path", x.path, "layer", x.layer, "load", load));
    }
    return list;
}

static json_t *times_json(writing *w, lm_tracer *t)
{
    json_t       *list = json_array();
    lm_trace_time x;

    for (size_t i = 0; lm_tracer_time(t, i, &x); i++)
        append(w, list, json_pack("{s:s, s:i, s:s, s:o}", "path", x.path, "layer", x.layer, "operation",
                                  x.operation, "seconds", lm_json_rounded(x.seconds, DIGITS)));
    return list;
}

static lm_status close_rows(lm_tracer *t, lm_error *e)
{
    lm_trace_record *r;

    for (size_t i = 0; i < t->n_records; i++)
        LM_TRY(lm_trace_take(t, t->records[i]->position, -1, &r, e));
    return LM_OK;
}

static json_t *rows_json(writing *w, const lm_tracer *t)
{
    json_t *rows = json_array();

    for (size_t i = 0; i < t->n_records; i++)
        if (t->records[i]->inside)
            append(w, rows, row_json(w, t->records[i]));
    return rows;
}

static void put_flat(writing *w, const lm_tracer *t, json_t *o)
{
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
        if (!is_requested(w->o, lists[k].name))
            continue;
        json_t *values = json_array();
        for (size_t i = 0; i < t->n_records; i++)
            if (t->records[i]->inside)
                lists[k].add(w, &t->records[i]->row, values);
        put(w, o, lists[k].name, values);
    }
}

static json_t *all_json(writing *w, lm_tracer *t, bool flat)
{
    json_t        *o = json_object(), *ids = json_array(), *tokens = json_array();
    lm_trace_token x;

    for (size_t i = 0; i < t->n; i++)
        append(w, ids, json_integer(t->ids[i]));
    for (size_t i = 0; i < t->n && lm_tracer_token(t, (uint32_t)i, &x); i++)
        append(w, tokens, token_json(w, &x));
    put(w, o, "ids", ids);
    put(w, o, "tokens", tokens);
    if (t->n && lm_tracer_token(t, (uint32_t)t->n, &x)) {
        x.id = -1;
        put(w, o, "next", token_json(w, &x));
    }
    put(w, o, "rows", rows_json(w, t));
    if (flat)
        put_flat(w, t, o);
    if (t->o.experts)
        put(w, o, "experts_load", loads_json(w, t));
    if (t->times)
        put(w, o, "times", times_json(w, t));
    return o;
}

lm_status lm_trace_document(lm_tracer *t, bool flat, json_t **out, lm_error *e)
{
    pthread_mutex_lock(&t->lock);
    writing   w      = { t->m, &t->o, t->ids, t->n, false };
    lm_status status = close_rows(t, e);
    if (status == LM_OK)
        status = finish(&w, all_json(&w, t, flat), out, e);
    pthread_mutex_unlock(&t->lock);
    return status;
}

lm_status lm_tracer_json(lm_tracer *t, lm_text *out, lm_error *e)
{
    LM_REQUIRE(e, t && out);
    json_t   *o      = NULL;
    lm_status status = lm_trace_document(t, true, &o, e);

    return print(status, o, out, e);
}

/* ---- a token of a generation ---- */

lm_status lm_trace_failure(lm_tracer *t, lm_error *e)
{
    pthread_mutex_lock(&t->lock);
    lm_status status = t->failed ? t->failure.code : LM_OK;
    if (t->failed)
        *e = t->failure;
    pthread_mutex_unlock(&t->lock);
    return status;
}

struct lm_trace_event {
    lm_trace_token   token;              /* points into the record */
    lm_trace_record *record;
    lm_token        *ids;                /* [record->position + 1]; NULL: no heads are shown */
};

void lm_trace_event_free(lm_trace_event *x)
{
    if (!x)
        return;
    lm_trace_free_record(x->record);
    lm_free(x->ids);
    lm_free(x);
}

/* Take the record that predicted the token, complete, out of the tracer. Requires the lock. */
static lm_status take_record(lm_tracer *t, uint32_t position, lm_token id, lm_trace_event *x, lm_error *e)
{
    lm_trace_record *r = NULL;

    if ((uint32_t)id >= t->p->n_vocab)
        return lm_fail(e, LM_USAGE, "token", LM_NO_OFFSET, "%d is outside the vocabulary", id);
    LM_TRY(lm_trace_take(t, position - 1, id, &r, e));
    if (r->row.n_attention) {
        x->ids = lm_alloc(position * sizeof *x->ids);
        if (!x->ids)
            return lm_fail_memory(e, "a trace", position * sizeof *x->ids);
        memcpy(x->ids, t->ids, position * sizeof *x->ids);
    }
    x->token  = t->tokens[position];
    x->record = lm_trace_detach(t, position - 1);
    return LM_OK;
}

lm_status lm_trace_event_take(lm_tracer *t, uint32_t position, lm_token id, lm_trace_event **out,
                              lm_error *e)
{
    lm_trace_event *x = lm_alloc_zero(1, sizeof *x);

    if (!x)
        return lm_fail_memory(e, "a trace", sizeof *x);
    pthread_mutex_lock(&t->lock);
    lm_status status = take_record(t, position, id, x, e);
    pthread_mutex_unlock(&t->lock);
    if (status == LM_OK)
        *out = x;
    else
        lm_trace_event_free(x);
    return status;
}

lm_status lm_trace_event_json(const lm_tracer *t, const lm_trace_event *x, json_t **out, lm_error *e)
{
    writing w = { t->m, &t->o, x->ids, x->ids ? x->record->position + 1 : 0, false };
    json_t *o = json_object();

    put(&w, o, "token", token_json(&w, &x->token));
    if (x->record->inside)
        put(&w, o, "row", row_json(&w, x->record));
    return finish(&w, o, out, e);
}

lm_status lm_tracer_event(lm_tracer *t, uint32_t position, lm_token id, lm_text *out, lm_error *e)
{
    LM_REQUIRE(e, t && out && position && id >= 0);
    lm_trace_event *x = NULL;
    json_t         *o = NULL;
    lm_status       status = lm_trace_event_take(t, position, id, &x, e);

    if (status == LM_OK)
        status = lm_trace_event_json(t, x, &o, e);
    lm_trace_event_free(x);
    return print(status, o, out, e);
}
