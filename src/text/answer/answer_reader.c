/* answer_reader.c - the building blocks for reading calls. */
#include "text/answer/written.h"
#include <jansson.h>
#include "base/utf8.h"
#include <string.h>

enum { MAX_DEPTH = 256 };

/* Finds the end of a JSON value by its brackets, byte by byte. */
typedef struct balance { unsigned depth; bool string, escape; } balance;

/* Return whether the value, an object or array, ends with c. */
static bool add_byte(balance *b, char c)
{
    if (b->string) {
        if (b->escape)
            b->escape = false;
        else if (c == '\\')
            b->escape = true;
        else if (c == '"')
            b->string = false;
        return false;
    }
    if (c == '"')
        b->string = true;
    else if (c == '{' || c == '[')
        b->depth++;
    else if ((c == '}' || c == ']') && b->depth)
        return --b->depth == 0;
    return false;
}

void lm_reader_space(lm_reader *r)
{
    while (r->at < r->n && strchr(" \t\r\n", r->s[r->at]) && r->s[r->at])
        r->at++;
}

lm_answer_reading lm_reader_mark(lm_reader *r, const char *mark)
{
    size_t size = strlen(mark), here = r->n - r->at, n = here < size ? here : size;

    if (memcmp(r->s + r->at, mark, n) != 0)
        return LM_READ_NONE;
    if (n < size)
        return r->final ? LM_READ_NONE : LM_READ_MORE;
    r->at += size;
    return LM_READ_DONE;
}

lm_answer_reading lm_reader_until(lm_reader *r, const char *mark, size_t max, lm_text *out)
{
    size_t size = strlen(mark);

    for (size_t i = r->at; i + size <= r->n && i - r->at <= max; i++)
        if (memcmp(r->s + i, mark, size) == 0) {
            lm_text_add(out, r->s + r->at, i - r->at);
            r->at = i + size;
            return LM_READ_DONE;
        }
    return r->final || r->n - r->at > max + size ? LM_READ_NONE : LM_READ_MORE;
}

size_t lm_reader_part(const lm_reader *r, const char *mark)
{
    size_t n = strlen(mark) - 1;

    while (n > r->n - r->at || (n && memcmp(r->s + r->n - n, mark, n) != 0))
        n--;
    return n;
}

lm_answer_reading lm_reader_json(lm_reader *r, size_t *from)
{
    balance b = { 0 };
    size_t i = r->at;
    json_t *value;

    *from = i;
    if (i == r->n)
        return r->final ? LM_READ_NONE : LM_READ_MORE;
    if (r->s[i] != '{' && r->s[i] != '[')
        return LM_READ_NONE;
    for (; i < r->n; i++)
        if (add_byte(&b, r->s[i])) {
            r->at = i + 1;
            value = json_loadb(r->s + *from, r->at - *from, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
            json_decref(value);
            return value ? LM_READ_DONE : LM_READ_NONE;
        } else if (b.depth > MAX_DEPTH) {
            r->at = i;
            return LM_READ_NONE;
        }
    r->at = r->n;
    return r->final ? LM_READ_NONE : LM_READ_MORE;
}

void lm_text_add_json_start(lm_text *out, const char *s, size_t n)
{
    for (size_t i = n; i && n - i < 4; i--)
        if (lm_utf8_next(s + i - 1, n - i + 1).state == LM_UTF8_CUT)
            n = i - 1;
    lm_text_add_json(out, s, n);
    if (out->size)
        lm_text_cut(out, out->size - 1);
}

const lm_answer_tool *lm_tool_of(const lm_answer_options *o, const char *name, size_t size)
{
    for (size_t i = 0; i < o->n_tools; i++)
        if (strlen(o->tools[i].name) == size && memcmp(o->tools[i].name, name, size) == 0)
            return o->tools + i;
    return NULL;
}

void lm_written_free(lm_written *w)
{
    lm_text_free(&w->id);
    lm_text_free(&w->arguments);
    json_decref(w->schema);
    w->schema = NULL;
    w->parsed = NULL;
}

lm_answer_reading lm_call_close(const lm_answer_family *f, lm_reader *r)
{
    lm_answer_reading was;

    if (!f->call.close)
        return LM_READ_DONE;
    lm_reader_space(r);
    if (r->at == r->n)                                   /* the text ended where the mark was due: it is still
                                                            a call */
        return r->final ? LM_READ_DONE : LM_READ_MORE;
    if (r->final && r->n - r->at < strlen(f->call.close) &&
        memcmp(r->s + r->at, f->call.close, r->n - r->at) == 0)
        r->at = r->n;                                    /* or within the mark */
    was = lm_reader_mark(r, f->call.close);
    return was == LM_READ_NONE ? LM_READ_DONE : was;
}
