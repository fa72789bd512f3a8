/* calls.c - tool calls in the format of a model family, each with arguments that fit the schema of its
 * tool. */
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/jsontext.h"
#include "base/str.h"
#include "grammar/calls_writer.h"
#include "grammar/grammar.h"

enum { MAX_SCHEMAS = 1024 };

typedef lm_calls_writer writer;

/* ---- schemas ---- */

static void add_schema(writer *w, const json_t *schema)
{
    lm_text_printf(&w->out, "schema-%zu ", w->n);
    lm_text_printf(&w->texts, "schema-%zu", w->n);
    lm_text_add_char(&w->texts, 0);
    w->texts.failed |= !lm_json_print(schema, JSON_COMPACT | JSON_ENCODE_ANY, &w->texts);
    lm_text_add_char(&w->texts, 0);
    w->n++;
}

static json_t *schema_of(const lm_answer_tool *t)
{
    json_t *schema = t->parameters ? json_loads(t->parameters, JSON_DECODE_ANY, NULL) : NULL;

    if (!schema || (json_is_object(schema) && json_object_size(schema) == 0)) {
        json_decref(schema);
        return json_pack("{s:s, s:b}", "type", "object", "additionalProperties", 1);
    }
    return schema;
}

/* Return whether the value is written as plain text between tags. */
static bool is_text(const json_t *schema)
{
    const char *type = json_string_value(json_object_get(schema, "type"));

    return type && strcmp(type, "string") == 0;
}

/* ---- arguments and calls ---- */

/* Write the value as JSON, with the definitions of the whole schema that it may refer to. */
static void add_json_value(writer *w, const json_t *whole, json_t *schema)
{
    static const char *const shared[] = { "$defs", "definitions" };
    json_t *copy = json_is_object(schema) ? json_copy(schema) : json_incref(schema);

    for (size_t i = 0; i < 2 && json_is_object(copy); i++)
        if (json_object_get(whole, shared[i]))
            json_object_set(copy, shared[i], json_object_get(whole, shared[i]));
    add_schema(w, copy);
    json_decref(copy);
}

static void add_choice(writer *w, const json_t *list)
{
    json_t *one;
    size_t  i;

    lm_text_add_str(&w->out, "( ");
    json_array_foreach(list, i, one) {
        if (i)
            lm_text_add_str(&w->out, "| ");
        lm_calls_literal(w, json_is_string(one) ? json_string_value(one) : "", json_string_length(one));
    }
    lm_text_add_str(&w->out, ") ");
}

static bool is_limited(const json_t *schema)
{
    static const char *const keywords[] = { "pattern", "maxLength", "minLength", "format", "const" };

    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (json_object_get(schema, keywords[i]))
            return true;
    return false;
}

static lm_status add_value(writer *w, lm_text *rules, const json_t *whole, json_t *schema)
{
    json_t     *list = json_object_get(schema, "enum");
    bool        text = is_text(schema), free_text = text && !json_is_array(list);

    if (w->f->typed == LM_TYPED_BY_NAME) {
        const char *type = json_string_value(json_object_get(schema, "type"));
        lm_calls_text(w, " type=\"");
        bool integer = type && strcmp(type, "integer") == 0;     /* templates know numbers only */
        lm_calls_text(w, text ? "string" : integer ? "number" : type ? type : "object");
        lm_calls_text(w, "\"");
        lm_calls_mark(w, w->f->head_end);
    } else if (w->f->typed)
        lm_calls_mark(w, text ? " string=\"true\">" : " string=\"false\">");
    if (free_text && is_limited(schema))
        return lm_fail(w->e, LM_UNSUPPORTED, NULL, LM_NO_OFFSET,
                       "'pattern', 'format', 'const', 'minLength' and 'maxLength' cannot be enforced for a "
                       "string that %s writes between tags",
                       w->f->name);
    if (free_text) {
        const char *line = w->f->own_lines ? "\n" : "";
        lm_text close = { 0 };
        lm_calls_text(w, line);
        lm_text_printf(&close, "%s%s", line, w->f->argument.close);
        lm_calls_until(w, rules, close.data ? close.data : "\n");
        lm_text_free(&close);
    } else {
        lm_calls_gap(w);
        if (text)
            add_choice(w, list);
        else
            add_json_value(w, whole, schema);
        lm_calls_gap(w);
        lm_calls_mark(w, w->f->argument.close);
    }
    return LM_OK;
}

static bool is_required(const json_t *schema, const char *name)
{
    const json_t *list = json_object_get(schema, "required");

    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_is_string(json_array_get(list, i)) &&
            strcmp(json_string_value(json_array_get(list, i)), name) == 0)
            return true;
    return false;
}

/* Write what is between the name of an argument and its value; white space may be between two tags. */
static void add_key_end(writer *w)
{
    const char *mark = w->f->key_end, *second = strchr(mark + 1, '<');
    char first[64];

    if (!second || (size_t)(second - mark) >= sizeof first) {
        lm_calls_mark(w, mark);
        return;
    }
    memcpy(first, mark, (size_t)(second - mark));
    first[second - mark] = 0;
    lm_calls_mark(w, first);
    lm_calls_gap(w);
    lm_calls_mark(w, second);
}

/* Write arguments between tags, in schema order. */
static lm_status add_tagged(writer *w, lm_text *rules, const json_t *schema)
{
    static const char *const known[] = { "type",    "properties",  "required", "additionalProperties",
                                         "$defs",   "definitions", "title",    "description",
                                         "$schema", "strict",      NULL };
    json_t *properties = json_object_get(schema, "properties"), *value;
    const char *name;

    json_object_foreach(lm_json_iterable(schema), name, value) {
        size_t k = 0;
        while (known[k] && strcmp(known[k], name))
            k++;
        if (!known[k])
            return lm_fail(w->e, LM_UNSUPPORTED, NULL, LM_NO_OFFSET,
                           "%.60s cannot be enforced for arguments that %s writes between tags", name,
                           w->f->name);
    }
    json_object_foreach(properties, name, value) {
        bool required = is_required(schema, name);
        if (!required)
            lm_text_add_str(&w->out, "( ");
        lm_calls_mark(w, w->f->argument.open);
        lm_calls_text(w, name);
        add_key_end(w);
        LM_TRY(add_value(w, rules, schema, value));
        lm_calls_gap(w);
        if (!required)
            lm_text_add_str(&w->out, ")? ");
    }
    return LM_OK;
}

/* {"name": …, "arguments": …}, with an id where the family writes one. */
static void add_object(writer *w, const char *name, const json_t *schema)
{
    const lm_answer_family *f = w->f;

    lm_calls_text(w, "{");
    lm_calls_gap(w);
    if (f->ids == LM_IDS_COUNTER) {
        lm_calls_key(w, "tool_call_id");
        lm_text_add_str(&w->out, "\"\\x22\" [0-9]{1,4} \"\\x22\" ");
        lm_calls_comma(w);
    }
    lm_calls_key(w, f->name_key);
    lm_calls_string(w, name);
    lm_calls_comma(w);
    lm_calls_key(w, f->arguments_key);
    add_schema(w, schema);
    if (f->ids == LM_IDS_NINE) {
        lm_text_add_str(&w->out, "( ");
        lm_calls_comma(w);
        lm_calls_key(w, "id");
        lm_text_add_str(&w->out, "\"\\x22\" [a-zA-Z0-9]{9} \"\\x22\" )? ");
    }
    lm_calls_gap(w);
    lm_calls_text(w, "}");
}

/* The name between marks, then arguments as JSON. */
static void add_named(writer *w, const char *name, const json_t *schema)
{
    const lm_answer_family *f = w->f;
    bool fenced = strcmp(f->name_end, "```json") == 0;

    if (f->ids == LM_IDS_KIMI)
        lm_calls_text(w, "functions.");
    if (f->id_first) {
        lm_text_add_str(&w->out, "[a-zA-Z0-9_]{1,40} ");
        lm_calls_mark(w, f->id_first);
    }
    lm_calls_text(w, name);
    if (f->ids == LM_IDS_KIMI)
        lm_text_add_str(&w->out, "\":\" [0-9]{1,4} ");
    if (f->id_mark) {
        lm_calls_mark(w, f->id_mark);
        lm_text_add_str(&w->out, "[a-zA-Z0-9]{9} ");
    }
    if (fenced)
        lm_calls_gap(w);
    lm_calls_mark(w, f->name_end);
    lm_calls_gap(w);
    add_schema(w, schema);
    if (f->call.close)
        lm_calls_gap(w);
}

/* A message to a tool; its recipient stands before or after the channel. */
static void add_message(writer *w, const char *name, const json_t *schema)
{
    lm_text to = { 0 };

    lm_text_printf(&to, " to=functions.%s", name);
    lm_text_add_str(&w->out, "( ");
    lm_calls_text(w, to.data ? to.data : "");
    lm_calls_mark(w, "<|channel|>");
    lm_calls_text(w, "commentary");
    lm_text_add_str(&w->out, "| ");
    lm_calls_mark(w, "<|channel|>");
    lm_calls_text(w, "commentary");
    lm_calls_text(w, to.data ? to.data : "");
    lm_text_add_str(&w->out, ") ( \" \" ( ");
    lm_calls_mark(w, "<|constrain|>");
    lm_text_add_str(&w->out, ")? ");
    lm_calls_text(w, "json");
    lm_text_add_str(&w->out, ")? ");
    lm_calls_mark(w, "<|message|>");
    add_schema(w, schema);
    lm_calls_mark(w, "<|call|>");
    lm_text_free(&to);
}

static lm_status add_call(writer *w, lm_text *rules, const lm_answer_tool *t)
{
    const lm_answer_family *f = w->f;
    json_t *schema = schema_of(t);
    lm_status status = LM_OK;

    switch (f->form) {
    case LM_FORM_OBJECT: add_object(w, t->name, schema); break;
    case LM_FORM_KEYED:
        lm_calls_text(w, "{");
        lm_calls_gap(w);
        lm_calls_key(w, t->name);
        add_schema(w, schema);
        lm_calls_gap(w);
        lm_calls_text(w, "}");
        break;
    case LM_FORM_NAMED: add_named(w, t->name, schema); break;
    case LM_FORM_TAGGED:
        lm_calls_text(w, t->name);
        lm_calls_mark(w, f->name_end);
        if (f->head_end) {
            lm_text_add_str(&w->out, "\" index=\\x22\" [0-9]{1,4} \"\\x22\" ");
            lm_calls_mark(w, f->head_end);
        }
        lm_calls_gap(w);
        status = add_tagged(w, rules, schema);
        break;
    case LM_FORM_HARMONY:
        if (!f->call.open) {
            add_message(w, t->name, schema);
            break;
        }
        /* fall through */
    default:
        status = lm_fail(w->e, LM_UNSUPPORTED, NULL, LM_NO_OFFSET,
                         "calls as %s writes them cannot be required", f->name);
    }
    json_decref(schema);
    return status;
}

/* ---- lists of calls ---- */

/* Return whether the calls are a list between brackets. */
static bool is_list(const lm_answer_family *f)
{
    return (f->form == LM_FORM_OBJECT || f->form == LM_FORM_KEYED) &&
           (f->array || (f->section.open && !f->bare && !f->apart));
}

static void write_reasoning(writer *w, lm_text *rules, const lm_grammar_calls_options *o)
{
    if (!o->in_reasoning) {
        lm_text_add_str(&w->out, "( ");
        lm_calls_mark(w, w->style->reasoning);
    }
    lm_calls_until(w, rules, w->style->reasoning_end);
    lm_text_printf(&w->out, "[\\n]{0,2} %s", o->in_reasoning ? "" : ")? ");
}

/* Write the repetition that matches further calls of the same answer. */
static void write_repetition(writer *w)
{
    const lm_answer_family *f = w->f;

    lm_text_add_str(&w->out, "( ");
    if (is_list(f)) {
        lm_calls_comma(w);
    } else if (f->section.close && strcmp(f->section.close, "</tool_call>") == 0) {
        lm_calls_gap(w);                                      /* each call has its own section */
        lm_calls_mark(w, f->section.close);
        lm_calls_gap(w);
        lm_calls_mark(w, f->section.open);
        lm_calls_gap(w);
    } else if (f->between) {
        lm_calls_gap(w);
        lm_calls_mark(w, f->between);
        lm_calls_gap(w);
    } else {
        lm_calls_gap(w);
    }
    lm_text_add_str(&w->out, "call )* ");
}

/* White space may follow the calls: a model that ends with a line break has not begun another call. */
static void write_end(writer *w, bool list)
{
    const lm_answer_family *f = w->f;

    if (list) {
        lm_calls_gap(w);
        lm_calls_text(w, "]");
    }
    if (f->section.close && !f->bare) {
        lm_calls_gap(w);
        lm_calls_mark(w, f->section.close);
    }
    for (size_t i = 0; i < LM_FAMILY_DROPS && f->drops[i] && !f->prompted; i++) {
        lm_text_add_str(&w->out, "( ");                  /* marks that end the answer's other parts */
        lm_calls_mark(w, f->drops[i]);
        lm_text_add_str(&w->out, ")? ");
    }
    if (f->form != LM_FORM_HARMONY)
        lm_calls_gap(w);
}

static void write_root(writer *w, lm_text *rules, const lm_grammar_calls_options *o)
{
    const lm_answer_family *f = w->f;
    bool list = is_list(f), bracketed = f->section.close && strcmp(f->section.close, "]") == 0;
    bool reasons = w->style->reasoning && (!o->no_reasoning || o->in_reasoning);

    lm_text_add_str(&w->out, "root ::= ");
    if (o->required && reasons && f->form != LM_FORM_HARMONY)
        write_reasoning(w, rules, o);
    if (f->section.open && !f->bare) {
        lm_calls_mark(w, f->section.open);
        lm_calls_gap(w);
    }
    if (list && !bracketed) {
        lm_calls_text(w, "[");
        lm_calls_gap(w);
    }
    lm_text_add_str(&w->out, f->prompted ? "body " : "call ");
    if (!o->single && (!f->bare || f->array) && f->form != LM_FORM_HARMONY)
        write_repetition(w);
    write_end(w, list && !bracketed);
    lm_text_add_str(&w->out, "\ngap ::= ( \" \" | \"\\x0A\"{1,2} \" \"{0,20} )?");
}

static lm_status write_all(writer *w, const lm_answer_tool *tools, size_t n,
                           const lm_grammar_calls_options *o)
{
    const lm_answer_family *f = w->f;
    lm_text rules = { 0 };
    lm_status status = LM_OK;
    bool gaps = f->form == LM_FORM_OBJECT && f->call.open;

    write_root(w, &rules, o);
    lm_text_add_str(&w->out, "\ncall ::= ");
    lm_calls_mark(w, f->call.open);
    if (gaps)
        lm_calls_gap(w);
    lm_text_add_str(&w->out, "body ");
    if (gaps)
        lm_calls_gap(w);
    lm_calls_mark(w, f->call.close);
    lm_text_add_str(&w->out, "\nbody ::= ");
    for (size_t i = 0; i < n && status == LM_OK; i++) {
        if (i)
            lm_text_add_str(&w->out, "| ");
        status = add_call(w, &rules, tools + i);
    }
    lm_text_add_str(&w->out, "\n");
    lm_text_add(&w->out, rules.data ? rules.data : "", rules.size);
    w->out.failed |= rules.failed;
    lm_text_free(&rules);
    return status;
}

static lm_trigger trigger_of(const writer *w, const char *mark, bool before)
{
    lm_token id = lm_calls_leading(w, mark);

    return (lm_trigger){ .word = id >= 0 ? NULL : mark, .token = id, .before = before };
}

/* Replace a grammar of calls by free text up to the mark that begins them, which does not count in reasoning
 * that the model opens itself. */
static lm_status wait_for_calls(const writer *w, const lm_grammar_calls_options *o, lm_grammar **calls)
{
    const lm_answer_style *s = w->style;
    lm_trigger begin = trigger_of(w, w->f->section.open ? w->f->section.open : w->f->call.open, false);
    lm_grammar *now = *calls, *later = NULL;
    lm_status status;

    *calls = NULL;
    status = lm_grammar_after(now, &begin, 1, false, calls, w->e);
    lm_grammar_free(now);
    if (status != LM_OK || !s->reasoning || o->in_reasoning)
        return status;
    lm_trigger open = trigger_of(w, s->reasoning, true), close = trigger_of(w, s->reasoning_end, true);
    now = *calls;
    *calls = NULL;
    status = lm_grammar_after_part(now, &open, &close, &later, w->e);
    lm_grammar_free(now);
    *calls = later;
    return status;
}

static lm_status compile(writer *w, const lm_grammar_calls_options *o, lm_grammar **out)
{
    lm_grammar_schema *schemas = lm_alloc_zero(w->n + 1, sizeof *schemas);
    lm_grammar_options options = {
        .schemas = schemas, .n_schemas = w->n, .whitespace = o->whitespace, .tokenizer = w->tokenizer
    };
    lm_status status;

    if (!schemas || w->out.failed || w->texts.failed) {
        lm_free(schemas);
        return lm_fail_memory(w->e, "a grammar", w->out.size);
    }
    for (size_t i = 0; i < w->n; i++)
        schemas[i] = (lm_grammar_schema){ .name = lm_text_string(&w->texts, 2 * i),
                                          .text = lm_text_string(&w->texts, 2 * i + 1) };
    status = lm_grammar_gbnf(w->out.data, w->out.size, &options, out, w->e);
    lm_free(schemas);
    return status == LM_OK && !o->required ? wait_for_calls(w, o, out) : status;
}

lm_status lm_grammar_calls(const lm_answer_style *style, const lm_answer_tool *tools, size_t n,
                           const lm_grammar_calls_options *o, lm_grammar **out, lm_error *e)
{
    LM_REQUIRE(e, style && tools && n && o && out);
    lm_error mine;
    writer w = { .style = style, .f = style->family, .tokenizer = o->tokenizer, .e = e ? e : &mine };
    lm_status status;

    *out = NULL;
    if (!w.f)
        return lm_fail(w.e, LM_UNSUPPORTED, NULL, LM_NO_OFFSET,
                       "tool calls are not supported for this model: %s",
                       style->unread ? style->unread : "no format");
    if (n > MAX_SCHEMAS)
        return lm_fail(w.e, LM_LIMIT, NULL, LM_NO_OFFSET, "the request has %zu tools; at most %d are allowed",
                       n, MAX_SCHEMAS);
    if (!o->required && (w.f->bare || w.f->form == LM_FORM_HARMONY || w.f->form == LM_FORM_PYTHON ||
                         w.f->form == LM_FORM_BRACED || w.f->form == LM_FORM_NESTED || w.f->prompted))
        return LM_OK;                                    /* calls begin like text */
    status = write_all(&w, tools, n, o);
    if (status == LM_OK)
        status = compile(&w, o, out);
    lm_text_free(&w.out);
    lm_text_free(&w.texts);
    return status;
}
