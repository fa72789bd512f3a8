/* calls.c - tool calls in the format of a model family, each with arguments that fit the schema of its
 * tool. */
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/jsontext.h"
#include "base/str.h"
#include "grammar/grammar.h"
#include "lamina/grammar.h"
#include "text/answer/family.h"

enum { MAX_SCHEMAS = 1024 };

typedef struct writer {
    const lm_answer_style  *style;
    const lm_answer_family *f;
    const lm_tokenizer     *tokenizer;
    lm_text  out;                    /* GBNF */
    lm_text  texts;                  /* schemas and their names, each with a NUL */
    size_t   n;                      /* number of schemas */
    unsigned untils;
    lm_error *e;
} writer;

/* ---- GBNF output ---- */

/* Return the control token with this spelling; -1: it is plain text. */
static lm_token control(const writer *w, const char *mark)
{
    lm_tokens ids = { 0 };
    lm_token id = -1;

    if (w->tokenizer && lm_tokenize(w->tokenizer, mark, strlen(mark), 0, &ids, NULL) == LM_OK && ids.n == 1 &&
        lm_tokenizer_is_special(w->tokenizer, ids.ids[0]))
        id = ids.ids[0];
    lm_tokens_free(&ids);
    return id;
}

static void add_literal(writer *w, const char *text, size_t n)
{
    lm_text_add_char(&w->out, '"');
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c == '"' || c == '\\' || c == 0x7f)
            lm_text_printf(&w->out, "\\x%02X", c);
        else
            lm_text_add_char(&w->out, text[i]);
    }
    lm_text_add_str(&w->out, "\" ");
}

/* Write text in which control tokens are written as tokens. */
static void add_mark(writer *w, const char *text)
{
    static const char *const inner[] = {
        "<|channel|>",           "<|message|>",         "<|call|>", "<|constrain|>", "<｜tool▁sep｜>",
        "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", NULL
    };
    lm_token id = text ? control(w, text) : -1;

    if (!text)
        return;
    if (id >= 0) {
        lm_text_printf(&w->out, "<[%d]> ", id);
        return;
    }
    for (size_t i = 0; inner[i]; i++) {
        const char *at = strstr(text, inner[i]);
        char before[128];
        if (!at || strcmp(at, text) == 0 ? strcmp(text, inner[i]) == 0 : (size_t)(at - text) >= sizeof before)
            continue;
        if (!at || (id = control(w, inner[i])) < 0)
            continue;
        memcpy(before, text, (size_t)(at - text));
        before[at - text] = 0;
        if (*before)
            add_mark(w, before);
        lm_text_printf(&w->out, "<[%d]> ", id);
        if (at[strlen(inner[i])])
            add_mark(w, at + strlen(inner[i]));
        return;
    }
    add_literal(w, text, strlen(text));
}

static void add_class(lm_text *out, const char *c, size_t n)
{
    if (n == 1)
        lm_text_printf(out, "\\x%02X", (unsigned char)*c);
    else
        lm_text_add(out, c, n);
}

static size_t character(const char *s)
{
    unsigned char c = (unsigned char)*s;

    return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

/* Add a rule that matches any text up to and including a mark, whose first character must not occur in it
 * again. Return its number. */
static unsigned until_rule(writer *w, lm_text *rules, const char *mark)
{
    unsigned number = w->untils++;
    lm_token id = control(w, mark);
    size_t first = character(mark), state = 0;

    if (id >= 0) {
        lm_text_printf(rules, "until-%u ::= [^\\x00]* <[%d]>\n", number, id);
        return number;
    }
    lm_text_printf(rules, "until-%u ::= until-%u-0\n", number, number);
    for (size_t at = 0; mark[at]; state++) {
        size_t n = character(mark + at);
        lm_text_printf(rules, "until-%u-%zu ::= [^", number, state);
        add_class(rules, mark, first);
        if (state)
            add_class(rules, mark + at, n);
        lm_text_printf(rules, "] until-%u-0 | [", number);
        add_class(rules, mark, first);
        lm_text_printf(rules, "] until-%u-1", number);
        if (state) {
            lm_text_add_str(rules, " | [");
            add_class(rules, mark + at, n);
            if (mark[at + n])
                lm_text_printf(rules, "] until-%u-%zu", number, state + 1);
            else
                lm_text_add_str(rules, "]");
        }
        lm_text_add_str(rules, "\n");
        at += n;
    }
    return number;
}

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
        add_literal(w, json_is_string(one) ? json_string_value(one) : "", json_string_length(one));
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
    const char *gap  = w->f->own_lines ? "\n" : "";
    json_t     *list = json_object_get(schema, "enum");
    bool        text = is_text(schema), free_text = text && !json_is_array(list);
    lm_text     close = { 0 };

    if (w->f->typed)
        add_mark(w, text ? " string=\"true\">" : " string=\"false\">");
    if (free_text && is_limited(schema))
        return lm_fail(w->e, LM_UNSUPPORTED, NULL, LM_NO_OFFSET,
                       "'pattern', 'format', 'const', 'minLength' and 'maxLength' cannot be enforced for a "
                       "string that %s writes between tags",
                       w->f->name);
    lm_text_printf(&close, "%s%s", gap, w->f->argument.close);
    if (*gap)
        add_literal(w, gap, 1);
    if (free_text) {
        lm_text_printf(&w->out, "until-%u ", until_rule(w, rules, close.data));
    } else {
        if (text)
            add_choice(w, list);
        else
            add_json_value(w, whole, schema);
        add_literal(w, close.data, close.size);
    }
    lm_text_free(&close);
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
        add_mark(w, w->f->argument.open);
        add_literal(w, name, strlen(name));
        add_mark(w, w->f->key_end);
        LM_TRY(add_value(w, rules, schema, value));
        if (!w->f->tight)
            add_literal(w, "\n", 1);
        if (!required)
            lm_text_add_str(&w->out, ")? ");
    }
    return LM_OK;
}

static lm_status add_call(writer *w, lm_text *rules, const lm_answer_tool *t)
{
    const lm_answer_family *f = w->f;
    json_t *schema = schema_of(t);
    lm_text head = { 0 };
    lm_status status = LM_OK;

    switch (f->form) {
    case LM_FORM_OBJECT:
        lm_text_add_str(&head, "{");
        if (f->ids == LM_IDS_COUNTER) {
            lm_text_add_str(&head, "\"tool_call_id\": \"");
            add_literal(w, head.data, head.size);
            lm_text_add_str(&w->out, "[0-9]{1,4} ");
            lm_text_clear(&head);
            lm_text_add_str(&head, "\", ");
        }
        lm_text_printf(&head, "\"%s\": ", f->name_key);
        lm_text_add_json(&head, t->name, strlen(t->name));
        lm_text_printf(&head, ", \"%s\": ", f->arguments_key);
        add_literal(w, head.data, head.size);
        add_schema(w, schema);
        if (f->ids == LM_IDS_NINE) {
            add_literal(w, ", \"id\": \"", 9);
            lm_text_add_str(&w->out, "[a-zA-Z0-9]{9} ");
            add_literal(w, "\"", 1);
        }
        add_literal(w, "}", 1);
        break;
    case LM_FORM_KEYED:
        lm_text_add_str(&head, "{");
        lm_text_add_json(&head, t->name, strlen(t->name));
        lm_text_add_str(&head, ": ");
        add_literal(w, head.data, head.size);
        add_schema(w, schema);
        add_literal(w, "}", 1);
        break;
    case LM_FORM_NAMED:
        if (f->ids == LM_IDS_KIMI)
            add_literal(w, "functions.", 10);
        add_literal(w, t->name, strlen(t->name));
        if (f->ids == LM_IDS_KIMI)
            lm_text_add_str(&w->out, "\":\" [0-9]{1,4} ");
        if (f->id_mark) {
            add_mark(w, f->id_mark);
            lm_text_add_str(&w->out, "[a-zA-Z0-9]{9} ");
        }
        if (strcmp(f->name_end, "```json") == 0)
            add_literal(w, "\n```json\n", 9);
        else
            add_mark(w, f->name_end);
        add_schema(w, schema);
        if (strcmp(f->name_end, "```json") == 0)
            add_literal(w, "\n", 1);
        break;
    case LM_FORM_TAGGED:
        add_literal(w, t->name, strlen(t->name));
        add_mark(w, f->name_end);
        if (!f->tight)
            add_literal(w, "\n", 1);
        status = add_tagged(w, rules, schema);
        break;
    case LM_FORM_HARMONY:
        lm_text_printf(&head, " to=functions.%s", t->name);
        add_literal(w, head.data, head.size);
        add_mark(w, "<|channel|>");
        add_literal(w, "commentary json", 15);
        add_mark(w, "<|message|>");
        add_schema(w, schema);
        add_mark(w, "<|call|>");
        break;
    default:
        status = lm_fail(w->e, LM_UNSUPPORTED, NULL, LM_NO_OFFSET,
                         "calls as %s writes them cannot be required", f->name);
    }
    lm_text_free(&head);
    json_decref(schema);
    return status;
}

/* ---- lists of calls ---- */

/* Where a family puts line breaks, and what opens, separates and closes its list of calls. */
typedef struct call_layout { bool list, bracket, lines; const char *open, *between, *close; } call_layout;

static call_layout layout_of(const lm_answer_family *f)
{
    bool list = f->form == LM_FORM_OBJECT || f->form == LM_FORM_KEYED;

    return (call_layout){ .list = list,
                          .bracket = list && f->section.open && !f->bare,
                          .lines = (f->form == LM_FORM_TAGGED && !f->tight) || (list && f->call.open),
                          .open = f->list.open ? f->list.open : "[",
                          .between = f->list.between ? f->list.between : ", ",
                          .close = f->list.close ? f->list.close : "]" };
}

static void write_reasoning(writer *w, lm_text *rules, const lm_grammar_calls_options *o)
{
    unsigned rest = until_rule(w, rules, w->style->reasoning_end);

    if (!o->in_reasoning) {
        lm_text_add_str(&w->out, "( ");
        add_mark(w, w->style->reasoning);
    }
    lm_text_printf(&w->out, "until-%u [\\n]{0,2} %s", rest, o->in_reasoning ? "" : ")? ");
}

/* Write the repetition that matches further calls of the same answer. */
static void write_repetition(writer *w, const call_layout *l)
{
    const lm_answer_family *f = w->f;

    lm_text_add_str(&w->out, "( ");
    if (l->bracket) {
        add_literal(w, l->between, strlen(l->between));
    } else if (l->lines && f->section.open && f->section.close &&
               strcmp(f->section.close, "</tool_call>") == 0) {
        add_literal(w, "\n", 1);                         /* each call has its own section */
        add_mark(w, f->section.close);
        add_literal(w, "\n", 1);
        add_mark(w, f->section.open);
        add_literal(w, "\n", 1);
    } else if (l->lines || (f->name_end && strcmp(f->name_end, "```json") == 0)) {
        add_literal(w, "\n", 1);
    }
    lm_text_add_str(&w->out, "call )* ");
}

static void write_root(writer *w, lm_text *rules, const call_layout *l, const lm_grammar_calls_options *o)
{
    const lm_answer_family *f = w->f;

    lm_text_add_str(&w->out, "root ::= ");
    if (o->required && w->style->reasoning && f->form != LM_FORM_HARMONY)
        write_reasoning(w, rules, o);
    if (f->section.open && !f->bare)
        add_mark(w, f->section.open);
    if (l->bracket)
        add_literal(w, l->open, strlen(l->open));
    else if (l->lines && f->section.open)
        add_literal(w, "\n", 1);
    lm_text_add_str(&w->out, "call ");
    if (!o->single && !f->bare && f->form != LM_FORM_HARMONY)
        write_repetition(w, l);
    if (l->bracket)
        add_literal(w, l->close, strlen(l->close));
    else if (l->lines && f->section.close)
        add_literal(w, "\n", 1);
    if (!f->bare)
        add_mark(w, f->section.close);
}

static lm_status write_all(writer *w, const lm_answer_tool *tools, size_t n,
                           const lm_grammar_calls_options *o)
{
    const lm_answer_family *f = w->f;
    call_layout l = layout_of(f);
    lm_text rules = { 0 };
    lm_status status = LM_OK;
    bool breaks = l.list && f->call.open;

    write_root(w, &rules, &l, o);
    lm_text_add_str(&w->out, "\ncall ::= ");
    for (size_t i = 0; i < n && status == LM_OK; i++) {
        if (i)
            lm_text_add_str(&w->out, "| ");
        add_mark(w, f->call.open);
        if (breaks)
            add_literal(w, "\n", 1);
        status = add_call(w, &rules, tools + i);
        if (breaks)
            add_literal(w, "\n", 1);
        add_mark(w, f->call.close);
    }
    lm_text_add_str(&w->out, "\n");
    lm_text_add(&w->out, rules.data ? rules.data : "", rules.size);
    w->out.failed |= rules.failed;
    lm_text_free(&rules);
    return status;
}

static lm_status compile(writer *w, const lm_grammar_calls_options *o, lm_grammar **out)
{
    lm_grammar_schema *schemas = lm_alloc_zero(w->n + 1, sizeof *schemas);
    lm_grammar_options options = {
        .schemas = schemas, .n_schemas = w->n, .whitespace = o->whitespace, .tokenizer = w->tokenizer
    };
    const char *mark = w->f->section.open ? w->f->section.open : w->f->call.open;
    lm_grammar *calls;
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
    if (status != LM_OK || o->required)
        return status;
    calls = *out;
    *out = NULL;
    lm_token id = control(w, mark);
    lm_trigger trigger = { .word = id >= 0 ? NULL : mark, .token = id };
    status = lm_grammar_after(calls, &trigger, 1, false, out, w->e);
    lm_grammar_free(calls);
    return status;
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
                       "tool calls are not supported for this model (unknown format)");
    if (n > MAX_SCHEMAS)
        return lm_fail(w.e, LM_LIMIT, NULL, LM_NO_OFFSET, "the request has %zu tools; at most %d are allowed",
                       n, MAX_SCHEMAS);
    if (!o->required && (w.f->bare || w.f->form == LM_FORM_HARMONY || w.f->form == LM_FORM_PYTHON ||
                         w.f->form == LM_FORM_BRACED))
        return LM_OK; /* nothing distinguishes the beginning of a call from
                                                            text */
    status = write_all(&w, tools, n, o);
    if (status == LM_OK)
        status = compile(&w, o, out);
    lm_text_free(&w.out);
    lm_text_free(&w.texts);
    return status;
}
