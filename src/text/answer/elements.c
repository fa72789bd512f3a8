/* elements.c - calls whose arguments are elements named after them, as MiniMax M3 writes them:
 *
 *   TAG<invoke name="f">TAG<city>Paris TAG</city>TAG<items>TAG<item>1 TAG</item>TAG</items>TAG</invoke>
 *
 * TAG is in front of every tag. An element with children is an object, or a list where its schema allows one
 * and the children are called item. */
#include <jansson.h>
#include <string.h>

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

/* Whether an element begins here, after white space. */
static lm_answer_reading begins_element(const char *tag, lm_reader r)
{
    lm_answer_reading was;

    lm_reader_space(&r);
    if ((was = lm_reader_mark(&r, tag)) == LM_READ_DONE)
        was = lm_reader_mark(&r, "<");
    if (was == LM_READ_DONE && r.at == r.n)
        return r.final ? LM_READ_NONE : LM_READ_MORE;
    return was == LM_READ_DONE && r.s[r.at] == '/' ? LM_READ_NONE : was;
}

static lm_answer_reading read_value(const char *tag, const char *name, const json_t *schema, lm_reader *r,
                                    unsigned depth, lm_text *out);

/* Read elements while there are any: the members of an object, or the items of a list. */
static lm_answer_reading read_elements(const char *tag, const json_t *schema, bool list, lm_reader *r,
                                       unsigned depth, lm_text *out)
{
    const json_t *properties = json_object_get(schema, "properties"), *items = json_object_get(schema, "items");
    lm_answer_reading was;

    for (unsigned n = 0; (was = begins_element(tag, *r)) == LM_READ_DONE; n++) {
        lm_text name = { 0 };
        lm_reader_space(r);
        if ((was = read_tag(tag, "<", r, &name)) == LM_READ_DONE) {
            const char *key = name.data ? name.data : "";
            lm_text_add_str(out, n ? ", " : list ? "[" : "{");
            if (!list) {
                lm_text_add_json(out, key, name.size);
                lm_text_add_str(out, ": ");
            }
            was = read_value(tag, key, list ? items : json_object_get(properties, key), r, depth, out);
        }
        lm_text_free(&name);
        if (was != LM_READ_DONE)
            return was;
    }
    if (was == LM_READ_MORE)
        return was;
    lm_reader_space(r);
    return LM_READ_DONE;
}

/* Read the elements of a value, which is a list if its schema allows one and they are called item. */
static lm_answer_reading read_nested(const char *tag, const json_t *schema, lm_reader *r, unsigned depth,
                                     lm_text *out)
{
    lm_text child = { 0 };
    lm_reader first = *r;

    lm_reader_space(&first);
    lm_answer_reading was = read_tag(tag, "<", &first, &child);
    bool list = lm_schema_allows(schema, "array") && child.data && strcmp(child.data, "item") == 0;
    lm_text_free(&child);
    if (was == LM_READ_DONE)
        was = read_elements(tag, schema, list, r, depth + 1, out);
    if (was == LM_READ_DONE)
        lm_text_add_char(out, list ? ']' : '}');
    return was;
}

/* Read what an element holds, and its closing tag. */
static lm_answer_reading read_value(const char *tag, const char *name, const json_t *schema, lm_reader *r,
                                    unsigned depth, lm_text *out)
{
    bool nests = !schema || lm_schema_allows(schema, "object") || lm_schema_allows(schema, "array");
    lm_answer_reading was = nests && depth <= MAX_DEPTH ? begins_element(tag, *r) : LM_READ_NONE;
    lm_text close = { 0 }, text = { 0 };

    lm_text_printf(&close, "%s</%s>", tag, name);
    const char *mark = close.data ? close.data : tag;
    if (was == LM_READ_DONE) {
        if ((was = read_nested(tag, schema, r, depth, out)) == LM_READ_DONE)
            was = lm_reader_mark(r, mark);
    } else if (was == LM_READ_NONE) {
        if ((was = lm_reader_until(r, mark, MAX_CALL, &text)) == LM_READ_DONE)
            lm_value_add(schema, text.data ? text.data : "", text.size, -1, out);
        else if (lm_schema_is_text(schema))
            lm_text_add_json_start(out, r->s + r->at, r->n - r->at - lm_reader_part(r, mark));
    }
    lm_text_free(&close);
    lm_text_free(&text);
    return was;
}

lm_answer_reading lm_call_nested(const lm_answer_family *f, const lm_answer_options *o, lm_reader *r,
                                 lm_written *out)
{
    lm_answer_reading was = lm_tagged_name(f, o, r, out);

    if (was == LM_READ_DONE)
        was = read_elements(f->tag, lm_written_schema(out), false, r, 0, &out->arguments);
    if (was == LM_READ_DONE)
        was = lm_reader_mark(r, f->call.close);
    if (was == LM_READ_DONE) {
        lm_text_add_str(&out->arguments, out->arguments.size ? "}" : "{}");
        out->complete = true;
        out->end      = r->at;
    }
    return was;
}
