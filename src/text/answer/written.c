/* written.c - read calls whose arguments are JSON. */
#include "text/answer/written.h"

#include <jansson.h>
#include <string.h>

enum { MAX_NAME = 256 };

/* ---- members of objects ---- */

/* Read a string, whose contents are [*from, *to). */
static lm_answer_reading read_string(lm_reader *r, size_t *from, size_t *to)
{
    if (r->at == r->n)
        return r->final ? LM_READ_NONE : LM_READ_MORE;
    if (r->s[r->at] != '"')
        return LM_READ_NONE;
    *from = ++r->at;
    for (; r->at < r->n; r->at++) {
        if (r->s[r->at] == '\\')
            r->at++;
        else if (r->s[r->at] == '"') {
            *to = r->at++;
            return LM_READ_DONE;
        }
    }
    r->at = r->n;
    return r->final ? LM_READ_NONE : LM_READ_MORE;
}

/* Read a number or a word. */
static lm_answer_reading read_plain(lm_reader *r)
{
    size_t from = r->at;

    while (r->at < r->n && !strchr(",}] \t\r\n", r->s[r->at]))
        r->at++;
    if (r->at == r->n)
        return r->final ? LM_READ_NONE : LM_READ_MORE;
    return r->at > from ? LM_READ_DONE : LM_READ_NONE;
}

static lm_answer_reading read_any(lm_reader *r, size_t *from, size_t *to)
{
    size_t inside;
    lm_answer_reading was;

    *from = r->at;
    if (r->at == r->n)
        return r->final ? LM_READ_NONE : LM_READ_MORE;
    was = r->s[r->at] == '"'          ? read_string(r, &inside, to)
          : strchr("{[", r->s[r->at]) ? lm_reader_json(r, &inside)
                                      : read_plain(r);
    *to = r->at;
    return was;
}

static bool is_key(const lm_reader *r, size_t from, size_t to, const char *key)
{
    return key && to - from == strlen(key) && memcmp(r->s + from, key, to - from) == 0;
}

/* Decode a JSON string; copy anything else as it is. */
static void decode(const char *s, size_t n, lm_text *out)
{
    json_error_t why;
    json_t *v = json_loadb(s, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);

    if (!v && json_error_code(&why) == json_error_numeric_overflow)
        v = json_loadb(s, n, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);

    lm_text_clear(out);
    if (json_is_string(v))
        lm_text_add(out, json_string_value(v), json_string_length(v));
    else
        lm_text_add(out, s, n);
    json_decref(v);
}

static bool is_key_of(const lm_reader *r, size_t from, size_t to, const char *const names[3])
{
    for (size_t i = 0; i < 3; i++)
        if (is_key(r, from, to, names[i]))
            return true;
    return false;
}

/* Read a key and its colon. LM_READ_NONE also at the end of the object, which sets *end. */
static lm_answer_reading read_member_key(lm_reader *r, size_t *key, size_t *key_end, bool *end)
{
    lm_answer_reading was;

    lm_reader_space(r);
    was = lm_reader_mark(r, "}");
    *end = was == LM_READ_DONE;
    if (was != LM_READ_NONE)
        return was == LM_READ_DONE ? LM_READ_NONE : was;
    if ((was = lm_reader_mark(r, ",")) == LM_READ_MORE)
        return was;
    lm_reader_space(r);
    if ((was = read_string(r, key, key_end)) != LM_READ_DONE)
        return was;
    lm_reader_space(r);
    if ((was = lm_reader_mark(r, ":")) == LM_READ_DONE)
        lm_reader_space(r);
    return was;
}

lm_answer_reading lm_call_json(lm_reader *r, lm_written *out)
{
    size_t from;
    lm_answer_reading was = lm_reader_json(r, &from);

    lm_text_clear(&out->arguments);
    if (from < r->n && r->s[from] == '{')
        lm_text_add(&out->arguments, r->s + from, r->at - from);
    else if (was == LM_READ_DONE)
        was = LM_READ_NONE;
    out->complete = was == LM_READ_DONE;
    out->end      = r->at;
    return was;
}

/* Read arguments: an object, an object in a string, or null. */
static lm_answer_reading read_arguments(lm_reader *r, lm_written *out)
{
    size_t from, to;
    lm_answer_reading was;

    if (r->at < r->n && r->s[r->at] == '{')
        return lm_call_json(r, out);
    if ((was = read_any(r, &from, &to)) != LM_READ_DONE)
        return was;
    decode(r->s + from, to - from, &out->arguments);
    if (strcmp(out->arguments.data ? out->arguments.data : "", "null") == 0)
        lm_text_clear(&out->arguments), lm_text_add_str(&out->arguments, "{}");
    json_t *v = json_loadb(out->arguments.data ? out->arguments.data : "", out->arguments.size,
                           JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    out->complete = json_is_object(v);
    out->end      = r->at;
    json_decref(v);
    if (!out->complete)
        lm_text_clear(&out->arguments);
    return out->complete ? LM_READ_DONE : LM_READ_NONE;
}

/* Read members up to the end of the object. The first arguments count; `o->eager`: as an id behind them would
 * come too late, it does not. */
static lm_answer_reading read_members(const lm_answer_family *f, const lm_answer_options *o, lm_reader *r,
                                      lm_written *out)
{
    const char *const argument_keys[3] = { f->arguments_key, "arguments", "parameters" },
                      *const name_keys[3] = { f->name_key, "name" };
    const char *const id_keys[3] = { "id", "tool_call_id" };
    size_t from, to, key, key_end;
    lm_text name = { 0 };
    lm_answer_reading was;
    bool end;

    while ((was = read_member_key(r, &key, &key_end, &end)) == LM_READ_DONE) {
        if (!out->complete && is_key_of(r, key, key_end, argument_keys)) {
            if ((was = read_arguments(r, out)) != LM_READ_DONE)
                return was;
            continue;
        }
        if ((was = read_any(r, &from, &to)) != LM_READ_DONE)
            return was;
        if (is_key_of(r, key, key_end, name_keys)) {
            decode(r->s + from, to - from, &name);
            const lm_answer_tool *tool = lm_tool_of(o, name.data ? name.data : "", name.size);
            lm_text_free(&name);
            if (!tool || (out->tool && out->tool != tool))
                return LM_READ_NONE;
            out->tool = tool;
        } else if (is_key_of(r, key, key_end, id_keys) && !(o->eager && out->complete)) {
            decode(r->s + from, to - from, &out->id);
        }
    }
    return end ? LM_READ_DONE : was;
}

static lm_answer_reading read_object(const lm_answer_family *f, const lm_answer_options *o, lm_reader *r,
                                     lm_written *out)
{
    lm_answer_reading was = lm_reader_mark(r, "{");

    if (was == LM_READ_DONE)
        was = read_members(f, o, r, out);
    if (was != LM_READ_DONE)
        return was;
    if (!out->tool)
        return LM_READ_NONE;
    if (!out->complete)
        lm_text_add_str(&out->arguments, "{}");
    out->complete = true;
    out->end      = r->at;
    return lm_call_close(f, r);
}

static lm_answer_reading read_keyed(const lm_answer_options *o, lm_reader *r, lm_written *out)
{
    size_t from, to;
    lm_answer_reading was = lm_reader_mark(r, "{");

    if (was == LM_READ_DONE) {
        lm_reader_space(r);
        was = read_string(r, &from, &to);
    }
    if (was != LM_READ_DONE)
        return was;
    if (!(out->tool = lm_tool_of(o, r->s + from, to - from)))
        return LM_READ_NONE;
    lm_reader_space(r);
    if ((was = lm_reader_mark(r, ":")) != LM_READ_DONE)
        return was;
    lm_reader_space(r);
    if ((was = lm_call_json(r, out)) != LM_READ_DONE)
        return was;
    lm_reader_space(r);
    return lm_reader_mark(r, "}");
}

/* ---- a name between marks ---- */

/* Return the tool NAME of the id "functions.NAME:3". */
static const lm_answer_tool *kimi_tool(const lm_answer_options *o, const lm_text *header)
{
    const char *name = header->data, *colon = strrchr(name, ':');

    if (strncmp(name, "functions.", 10) == 0)
        name += 10;
    return lm_tool_of(o, name, colon && colon > name ? (size_t)(colon - name) : strlen(name));
}

static void trim(lm_text *t)
{
    size_t from = 0;

    while (t->size && strchr(" \t\r\n", t->data[t->size - 1]))
        t->data[--t->size] = 0;
    while (from < t->size && strchr(" \t\r\n", t->data[from]))
        from++;
    memmove(t->data, t->data + from, t->size - from + 1);
    t->size -= from;
}

static lm_answer_reading named_head(const lm_answer_family *f, const lm_answer_options *o, lm_reader *r,
                                    lm_written *out)
{
    lm_text name = { 0 };
    lm_answer_reading was = LM_READ_NONE;

    if (f->id_first) {
        lm_text_clear(&out->id);
        if ((was = lm_reader_until(r, f->id_first, MAX_NAME, &out->id)) == LM_READ_DONE)
            was = lm_reader_until(r, f->name_end, MAX_NAME, &name);
    } else if (f->id_mark) {
        lm_reader before = *r;
        if ((was = lm_reader_until(r, f->id_mark, MAX_NAME, &name)) == LM_READ_DONE) {
            lm_text_clear(&out->id);
            was = lm_reader_until(r, f->name_end, MAX_NAME, &out->id);
        } else if (was == LM_READ_NONE) {
            *r = before;                                 /* no id */
            was = lm_reader_until(r, f->name_end, MAX_NAME, &name);
        }
    } else {
        was = lm_reader_until(r, f->name_end, MAX_NAME, &name);
    }
    if (was == LM_READ_DONE && !name.size)
        was = LM_READ_NONE;
    if (was == LM_READ_DONE) {
        trim(&name);
        out->tool = f->ids == LM_IDS_KIMI ? kimi_tool(o, &name) : lm_tool_of(o, name.data, name.size);
        if (f->ids == LM_IDS_KIMI && strchr(name.data, ':')) {
            lm_text_clear(&out->id);
            lm_text_add(&out->id, name.data, name.size);
        }
        if (!out->tool)
            was = LM_READ_NONE;
    }
    lm_text_free(&name);
    if (was == LM_READ_DONE)
        lm_reader_space(r);
    return was;
}

static lm_answer_reading read_named(const lm_answer_family *f, const lm_answer_options *o, lm_reader *r,
                                    lm_written *out)
{
    lm_answer_reading was = named_head(f, o, r, out);

    if (was == LM_READ_DONE)
        was = lm_call_json(r, out);
    return was == LM_READ_DONE ? lm_call_close(f, r) : was;
}

/* ---- calls of any form ---- */

lm_answer_reading lm_call_read(const lm_answer_family *f, const lm_answer_options *o, lm_reader *r,
                               lm_written *out)
{
    lm_text_clear(&out->id);
    lm_text_clear(&out->arguments);
    out->complete = false;
    if (f->form != LM_FORM_HARMONY)                      /* there the header of the message named it */
        out->tool = NULL;
    switch (f->form) {
    case LM_FORM_OBJECT: return read_object(f, o, r, out);
    case LM_FORM_KEYED:  return read_keyed(o, r, out);
    case LM_FORM_NAMED:  return read_named(f, o, r, out);
    case LM_FORM_TAGGED:
        if (f->name_key && r->at < r->n && r->s[r->at] == '{')
            return read_object(f, o, r, out);
        return lm_call_tagged(f, o, r, out);
    case LM_FORM_NESTED: return lm_call_nested(f, o, r, out);
    case LM_FORM_PYTHON: return lm_call_python(o, r, out);
    case LM_FORM_BRACED:  return lm_call_gemma(f, o, r, out);
    case LM_FORM_HARMONY: return f->call.open ? lm_call_tagged(f, o, r, out) : LM_READ_NONE;
    }
    return LM_READ_NONE;
}
