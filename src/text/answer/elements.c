/* elements.c - calls whose arguments are elements named after them, as MiniMax M3 writes them:
 *
 *   TAG<invoke name="f">TAG<city>Paris TAG</city>TAG<items>TAG<item>1 TAG</item>TAG</items>TAG</invoke>
 *
 * TAG is in front of every tag. An element with children is an object, or a list where its schema allows one
 * and the children are called item. */
#include <jansson.h>
#include <string.h>

#include "base/jsontext.h"
#include "text/answer/written.h"

enum { MAX_DEPTH = 64, MAX_NAME = 256, MAX_CALL = 1 << 20 };

/* Read TAG< or TAG</, the name and >. */
static lm_answer_reading read_tag(const char *tag, const char *opens, lm_reader *r, lm_text *name)
{
    lm_answer_reading was = lm_reader_mark(r, tag);

    if (was == LM_READ_DONE)
        was = lm_reader_mark(r, opens);
    return was == LM_READ_DONE ? lm_reader_until(r, ">", MAX_NAME, name) : was;
}

static bool begins_element(const char *tag, lm_reader r)
{
    lm_reader_space(&r);
    return lm_reader_mark(&r, tag) == LM_READ_DONE && r.at + 1 < r.n && r.s[r.at] == '<' &&
           r.s[r.at + 1] != '/';
}

/* Print an object of JSON texts. */
static void print_values(const json_t *values, lm_text *out)
{
    const char *key;
    json_t *value;

    lm_text_add_char(out, '{');
    json_object_foreach(lm_json_iterable(values), key, value) {
        if (out->data[out->size - 1] != '{')
            lm_text_add_str(out, ", ");
        lm_text_add_json(out, key, strlen(key));
        lm_text_add_str(out, ": ");
        lm_text_add(out, json_string_value(value), json_string_length(value));
    }
    lm_text_add_char(out, '}');
}

static lm_answer_reading read_value(const char *tag, const char *name, const json_t *schema, lm_reader *r,
                                    unsigned depth, lm_text *out);

/* Read elements while there are any: the members of an object, or the items of a list. */
static lm_answer_reading read_elements(const char *tag, const json_t *schema, bool list, lm_reader *r,
                                       unsigned depth, lm_text *out)
{
    json_t *values = json_object();
    lm_answer_reading was = LM_READ_DONE;
    unsigned n = 0;

    lm_text_add_str(out, list ? "[" : "");
    while (was == LM_READ_DONE && begins_element(tag, *r)) {
        lm_text name = { 0 }, value = { 0 };
        lm_reader_space(r);
        was = read_tag(tag, "<", r, &name);
        const json_t *inner = json_object_get(schema, list ? "items" : "properties");
        if (!list && was == LM_READ_DONE)
            inner = json_object_get(inner, name.data ? name.data : "");
        if (was == LM_READ_DONE)
            was = read_value(tag, name.data ? name.data : "", inner, r, depth, &value);
        if (was == LM_READ_DONE && list)
            lm_text_printf(out, "%s%s", n++ ? ", " : "", value.data ? value.data : "null");
        else if (was == LM_READ_DONE)
            json_object_set_new(values, name.data ? name.data : "",
                                json_stringn(value.data ? value.data : "", value.size));
        lm_text_free(&name);
        lm_text_free(&value);
    }
    if (list)
        lm_text_add_str(out, "]");
    else
        print_values(values, out);
    json_decref(values);
    lm_reader_space(r);
    return was;
}

/* Read what an element holds, and its closing tag. */
static lm_answer_reading read_value(const char *tag, const char *name, const json_t *schema, lm_reader *r,
                                    unsigned depth, lm_text *out)
{
    lm_text close = { 0 }, text = { 0 };
    lm_answer_reading was;

    lm_text_printf(&close, "%s</%s>", tag, name);
    bool nests = !schema || lm_schema_allows(schema, "object") || lm_schema_allows(schema, "array");
    if (depth > MAX_DEPTH || !close.data) {
        was = LM_READ_NONE;
    } else if (nests && begins_element(tag, *r)) {
        lm_reader first = *r;
        lm_reader_space(&first);
        lm_text child = { 0 };
        read_tag(tag, "<", &first, &child);
        bool list = lm_schema_allows(schema, "array") && child.data && strcmp(child.data, "item") == 0;
        lm_text_free(&child);
        was = read_elements(tag, schema, list, r, depth + 1, out);
        if (was == LM_READ_DONE)
            was = lm_reader_mark(r, close.data);
    } else if ((was = lm_reader_until(r, close.data, MAX_CALL, &text)) == LM_READ_DONE) {
        lm_value_add(schema, text.data ? text.data : "", text.size, -1, out);
    }
    lm_text_free(&close);
    lm_text_free(&text);
    return was;
}

lm_answer_reading lm_call_nested(const lm_answer_family *f, const lm_answer_options *o, lm_reader *r,
                                 lm_written *out)
{
    lm_text body = { 0 };
    lm_answer_reading was = lm_tagged_name(f, o, r, out);

    if (was == LM_READ_DONE)
        was = lm_reader_until(r, f->call.close, MAX_CALL, &body);
    if (was == LM_READ_DONE) {
        lm_reader inner = { body.data ? body.data : "", body.size, 0, true };
        was = read_elements(f->tag, lm_written_schema(out), false, &inner, 0, &out->arguments);
        if (was == LM_READ_DONE && inner.at < inner.n)
            was = LM_READ_NONE;
        if (was != LM_READ_DONE)
            lm_text_clear(&out->arguments);
        out->complete = was == LM_READ_DONE;
        out->end      = r->at;
    }
    lm_text_free(&body);
    return was;
}
