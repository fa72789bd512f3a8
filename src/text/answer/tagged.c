/* tagged.c - calls whose arguments are between marks, one by one; their schemas define which are text. */
#include <jansson.h>
#include <string.h>

#include "text/answer/written.h"

enum { MAX_KEY = 256, MAX_VALUE = 1 << 20 };

/* ---- values ---- */

bool lm_schema_allows(const json_t *schema, const char *type)
{
    const json_t *t = json_object_get(schema, "type"), *any = json_object_get(schema, "anyOf");

    if (!any)
        any = json_object_get(schema, "oneOf");
    if (json_is_string(t))
        return strcmp(json_string_value(t), type) == 0;
    for (size_t i = 0; i < json_array_size(t); i++)
        if (json_is_string(json_array_get(t, i)) &&
            strcmp(json_string_value(json_array_get(t, i)), type) == 0)
            return true;
    if (json_is_array(t))
        return false;
    for (size_t i = 0; i < json_array_size(any); i++)
        if (lm_schema_allows(json_array_get(any, i), type))
            return true;
    if (json_is_array(any))
        return false;
    const json_t *list = json_object_get(schema, "enum");
    if (json_is_array(list) && strcmp(type, "string")) {
        for (size_t i = 0; i < json_array_size(list); i++)
            if (!json_is_string(json_array_get(list, i)))
                return true;
        return false;
    }
    return true;
}

static bool fits(const json_t *schema, const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_STRING:  return lm_schema_allows(schema, "string");
    case JSON_INTEGER: return lm_schema_allows(schema, "integer") || lm_schema_allows(schema, "number");
    case JSON_REAL:    return lm_schema_allows(schema, "number") || lm_schema_allows(schema, "integer");
    case JSON_TRUE:
    case JSON_FALSE:   return lm_schema_allows(schema, "boolean");
    case JSON_NULL:    return lm_schema_allows(schema, "null");
    case JSON_ARRAY:   return lm_schema_allows(schema, "array");
    case JSON_OBJECT:  return lm_schema_allows(schema, "object");
    }
    return false;
}

/* Convert Python's True, False and None to JSON; NULL: another word. */
static const char *python_word(const char *text, size_t n)
{
    static const char *const words[][2] = { { "True", "true" }, { "False", "false" }, { "None", "null" } };

    for (size_t i = 0; i < 3; i++)
        if (strlen(words[i][0]) == n && memcmp(words[i][0], text, n) == 0)
            return words[i][1];
    return NULL;
}

bool lm_schema_is_text(const json_t *schema)
{
    static const char *const others[] = { "integer", "number", "boolean", "null", "array", "object" };

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (schema && lm_schema_allows(schema, others[i]))
            return false;
    return schema && lm_schema_allows(schema, "string");
}

/* Set [*from, *to) to the text without white space around it. */
static void trim(const char *text, size_t *from, size_t *to)
{
    for (*from = 0; *from < *to && strchr(" \t\r\n", text[*from]) && text[*from]; ++*from)
        ;
    for (; *to > *from && strchr(" \t\r\n", text[*to - 1]) && text[*to - 1]; --*to)
        ;
}

void lm_value_add(const json_t *schema, const char *text, size_t n, int how, lm_text *out)
{
    size_t first, last = n;
    trim(text, &first, &last);
    const char *word = python_word(text + first, last - first);
    json_t *v = how == 1
                    ? NULL
                    : json_loadb(text, n, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    bool only_text = lm_schema_is_text(schema);

    if (how == -1 && v && json_is_string(v) && only_text) {
        json_decref(v);
        v = NULL;                                        /* the quotes are part of the text */
    }
    if (v && (how == 0 || (!only_text && (!schema || fits(schema, v)))))
        lm_text_add(out, text + first, last - first);
    else if (!v && how != 1 && word && !only_text)
        lm_text_add_str(out, word);
    else
        lm_text_add_json(out, text, n);
    json_decref(v);
}

/* ---- one argument ---- */

/* Read a mark of two tags; white space between them is optional. */
static lm_answer_reading loose_mark(lm_reader *r, const char *mark)
{
    const char *gap = *mark ? strchr(mark + 1, '<') : NULL;
    char first[64];
    lm_answer_reading was;

    if (!gap || (size_t)(gap - mark) >= sizeof first)
        return lm_reader_mark(r, mark);
    memcpy(first, mark, (size_t)(gap - mark));
    first[gap - mark] = 0;
    if ((was = lm_reader_mark(r, first)) != LM_READ_DONE)
        return was;
    lm_reader_space(r);
    if (r->at == r->n)
        return r->final ? LM_READ_NONE : LM_READ_MORE;
    return lm_reader_mark(r, gap);
}

/* Read the key, up to key_end. */
static lm_answer_reading read_key(const lm_answer_family *f, lm_reader *r, lm_text *key)
{
    size_t from = r->at, max = from + MAX_KEY;

    for (; r->at < r->n && r->at < max; r->at++) {
        lm_reader here = *r;
        lm_answer_reading was = loose_mark(&here, f->key_end);
        if (was == LM_READ_NONE)
            continue;
        if (was == LM_READ_DONE) {
            lm_text_add(key, r->s + from, r->at - from);
            *r = here;
        }
        return was;
    }
    return r->at >= max || r->final ? LM_READ_NONE : LM_READ_MORE;
}

/* Return whether another argument or the end of the call follows, ignoring white space. */
static lm_answer_reading follows(const lm_answer_family *f, lm_reader r)
{
    lm_reader_space(&r);
    if (r.at == r.n)
        return r.final ? LM_READ_DONE : LM_READ_MORE;
    lm_reader other = r;
    lm_answer_reading a = lm_reader_mark(&r, f->argument.open), b = lm_reader_mark(&other, f->call.close);
    if (a == LM_READ_DONE || b == LM_READ_DONE)
        return LM_READ_DONE;
    return a == LM_READ_MORE || b == LM_READ_MORE ? LM_READ_MORE : LM_READ_NONE;
}

/* Read up to a closing mark that something legal follows, because a text may contain the mark itself. Until
 * then *to is the end of what is certain to be part of the value. */
static lm_answer_reading read_value(const lm_answer_family *f, lm_reader *r, size_t *from, size_t *to)
{
    size_t size = strlen(f->argument.close);

    *from = r->at;
    for (size_t i = r->at; i < r->n && i - r->at <= MAX_VALUE; i++) {
        lm_reader here = { r->s, r->n, i, false };
        lm_answer_reading was = lm_reader_mark(&here, f->argument.close);
        here.final = r->final;
        if (was == LM_READ_DONE)
            was = follows(f, here);
        if (was == LM_READ_NONE)
            continue;
        *to = i;
        if (was == LM_READ_DONE)
            r->at = i + size;
        return was == LM_READ_MORE && r->final ? LM_READ_NONE : was;
    }
    *to = r->n;
    return r->final || r->n - r->at > MAX_VALUE ? LM_READ_NONE : LM_READ_MORE;
}

static lm_answer_reading read_type(const lm_answer_family *f, lm_reader *r, int *how)
{
    lm_answer_reading was;

    *how = -1;
    if (!f->typed)
        return LM_READ_DONE;
    if (f->typed == LM_TYPED_BY_NAME) {
        lm_text type = { 0 };
        if ((was = lm_reader_mark(r, " type=\"")) == LM_READ_DONE)
            was = lm_reader_until(r, "\"<|sep|>", MAX_KEY, &type);
        *how = type.size == 6 && memcmp(type.data, "string", 6) == 0;
        lm_text_free(&type);
        return was;
    }
    lm_reader other = *r;
    if ((was = lm_reader_mark(r, " string=\"true\">")) == LM_READ_DONE)
        *how = 1;
    else if (was == LM_READ_NONE && (was = lm_reader_mark(&other, " string=\"false\">")) == LM_READ_DONE) {
        *r = other;
        *how = 0;
    }
    return was;
}

static void unwrap_cdata(const char *s, size_t *from, size_t *to)
{
    if (*to - *from >= 12 && memcmp(s + *from, "<![CDATA[", 9) == 0 && memcmp(s + *to - 3, "]]>", 3) == 0) {
        *from += 9;
        *to -= 3;
    }
}

/* Leave out the line breaks that the model has put around a value. */
static void trim_lines(const lm_answer_family *f, const char *s, size_t *from, size_t *to)
{
    if ((f->lines || f->own_lines) && *from < *to && s[*from] == '\n') {
        ++*from;
        *to -= *from < *to && s[*to - 1] == '\n';
    }
}

/* Append what is certain of an incomplete text. */
static void add_start(const lm_answer_family *f, const char *s, size_t from, size_t to, lm_text *out)
{
    static const char wrapping[] = "<![CDATA[";
    size_t n = to - from < sizeof wrapping - 1 ? to - from : sizeof wrapping - 1;

    if (f->cdata && memcmp(s + from, wrapping, n) == 0)
        return;
    if ((f->lines || f->own_lines) && from < to && s[from] == '\n') {
        from++;
        to -= from < to && s[to - 1] == '\n';            /* it may be the last one */
    }
    lm_text_add_json_start(out, s + from, to - from);
}

/* Read one argument and append it to an object. */
static lm_answer_reading read_argument(const lm_answer_family *f, const json_t *properties, lm_reader *r,
                                       lm_text *out)
{
    lm_text key = { 0 };
    size_t from = 0, to = 0;
    int how;
    lm_answer_reading was = read_key(f, r, &key);

    if (was == LM_READ_DONE)
        was = read_type(f, r, &how);
    if (was == LM_READ_DONE) {
        const json_t *schema = json_object_get(properties, key.data ? key.data : "");
        lm_text_add_str(out, out->size ? ", " : "{");
        lm_text_add_json(out, key.data, key.size);
        lm_text_add_str(out, ": ");
        was = read_value(f, r, &from, &to);
        if (was == LM_READ_DONE) {
            trim_lines(f, r->s, &from, &to);
            if (f->cdata)
                unwrap_cdata(r->s, &from, &to);
            lm_value_add(schema, r->s + from, to - from, how, out);
        } else if (how == 1 || (how == -1 && lm_schema_is_text(schema))) {
            add_start(f, r->s, from, to, out);
        }
    }
    lm_text_free(&key);
    return was;
}

/* ---- the call ---- */

lm_answer_reading lm_tagged_name(const lm_answer_family *f, const lm_answer_options *o, lm_reader *r,
                                   lm_written *out)
{
    lm_text name = { 0 };
    size_t from, max;
    lm_answer_reading was = LM_READ_DONE;

    lm_reader_space(r);
    if (f->name_end) {
        was = lm_reader_until(r, f->name_end, MAX_KEY, &name);
    } else {
        for (from = r->at, max = from + MAX_KEY;
             r->at < r->n && r->at < max && !strchr("< \t\r\n", r->s[r->at]); r->at++)
            ;
        if (r->at == r->n)
            was = r->final ? LM_READ_NONE : LM_READ_MORE;
        lm_text_add(&name, r->s + from, r->at - from);
    }
    if (was == LM_READ_DONE && f->head_end) {
        lm_text attributes = { 0 };
        was = lm_reader_until(r, f->head_end, MAX_KEY, &attributes);
        lm_text_free(&attributes);
    }
    if (was == LM_READ_DONE && (!name.size || !(out->tool = lm_tool_of(o, name.data, name.size))))
        was = LM_READ_NONE;
    lm_text_free(&name);
    return was;
}

const json_t *lm_written_schema(lm_written *out)
{
    if (out->parsed == out->tool)
        return out->schema;
    json_decref(out->schema);
    out->schema = out->tool->parameters ? json_loads(out->tool->parameters, JSON_DECODE_ANY, NULL) : NULL;
    out->parsed = out->tool;
    return out->schema;
}

lm_answer_reading lm_call_tagged(const lm_answer_family *f, const lm_answer_options *o, lm_reader *r,
                                 lm_written *out)
{
    lm_answer_reading was = lm_tagged_name(f, o, r, out), next = was;
    const json_t *schema = was == LM_READ_DONE ? lm_written_schema(out) : NULL;

    while (next == LM_READ_DONE) {
        lm_reader_space(r);
        if ((was = lm_reader_mark(r, f->call.close)) == LM_READ_DONE) {
            lm_text_add_str(&out->arguments, out->arguments.size ? "}" : "{}");
            out->complete = true;
            out->end      = r->at;
            return was;
        }
        if ((next = lm_reader_mark(r, f->argument.open)) == LM_READ_DONE)
            next = was = read_argument(f, json_object_get(schema, "properties"), r, &out->arguments);
    }
    return was == LM_READ_MORE || next == LM_READ_MORE ? LM_READ_MORE : LM_READ_NONE;
}
