/* constraints.c - the fields that constrain the output, and the grammar that is compiled from them. Read from
 * lm_constraints_compile upwards. Every function copies the constraints and adds vLLM's object to the copy
 * (merge_structured), so that the request's own values stay as they were sent. Threads: a worker. */
#include "server/ask/constraints.h"

#include <string.h>

#include "server/ask/request_limits.h"
#include "server/front/memory.h"

#define V(field) offsetof(lm_constraints, field)

const lm_field lm_constraints_fields[] = {
    { "response_format", LM_FIELD_OBJECT, V(response_format), 0, 0, NULL, false,
      "type text, json_object or json_schema (with json_schema.schema): the output is JSON that matches" },
    { "json_schema", LM_FIELD_ANY, V(schema), 0, 0, NULL, false,
      "the output is JSON that matches this schema" },
    { "grammar", LM_FIELD_STRING, V(grammar), 0, 0, NULL, false, "the output matches this grammar in GBNF" },
    { "grammar_lazy", LM_FIELD_BOOL, V(lazy), 0, 0, NULL, false,
      "with grammar: the output is free until one of grammar_triggers" },
    { "grammar_triggers", LM_FIELD_ARRAY, V(triggers), 0, 0, NULL, false,
      "objects with type 1 and a word as value, or type 0 and a control token as token; the grammar "
      "starts there" },
    { "structured_outputs", LM_FIELD_OBJECT, V(structured), 0, 0, NULL, false,
      "vLLM's: an object with one of json, regex, choice, grammar, json_object" },
    { "regex", LM_FIELD_STRING, V(regex), 0, 0, NULL, false, "SGLang's name of guided_regex" },
    { "ebnf", LM_FIELD_STRING, V(grammar), 0, 0, NULL, false, "SGLang's name of grammar" },
    LM_REFUSED("structural_tag", "tags within free text: use tools, or grammar_lazy"),
    LM_IGNORED("guided_decoding_backend"),
    { "guided_json", LM_FIELD_ANY, V(schema), 0, 0, NULL, false, "vLLM's name of json_schema" },
    { "guided_grammar", LM_FIELD_STRING, V(grammar), 0, 0, NULL, false, "vLLM's name of grammar" },
    { "guided_regex", LM_FIELD_STRING, V(regex), 0, 0, NULL, false,
      "the whole output matches this regular expression" },
    { "guided_choice", LM_FIELD_ARRAY, V(choice), 0, 0, NULL, false, "the output is one of these strings" },
    { "disable_any_whitespace", LM_FIELD_BOOL, V(compact), 0, 0, NULL, false,
      "constrained JSON, also arguments of tool calls, has no white space between its parts (true); false: a "
      "space, or line feeds and an "
      "indentation, is allowed" },
    LM_REFUSED("guided_whitespace_pattern", "use disable_any_whitespace"),
    LM_REFUSED("whitespace_pattern", "use disable_any_whitespace"),
    { 0 },
};

/* ---- kinds of constraints ---- */

lm_whitespace lm_constraints_whitespace(const lm_constraints *v)
{
    return v->compact ? LM_WHITESPACE_NONE : LM_WHITESPACE_BOUNDED;
}

static lm_status of_schema(const json_t *schema, bool strict, const lm_constraints *v, lm_grammar **out,
                           lm_error *e)
{
    lm_grammar_options o = { .strict = strict, .whitespace = lm_constraints_whitespace(v) };
    char *made = json_is_string(schema) ? NULL : json_dumps(schema, JSON_COMPACT | JSON_ENCODE_ANY);
    const char *text = made ? made : json_string_value(schema);
    lm_status status = text ? lm_grammar_json_schema(text, strlen(text), &o, out, e)
                            : lm_fail_memory(e, "a schema", 0);

    lm_heap_free(made);
    return status;
}

static lm_status of_any_object(const lm_constraints *v, lm_grammar **out, lm_error *e)
{
    lm_grammar_options o = { .whitespace = lm_constraints_whitespace(v) };

    return lm_grammar_json(&o, out, e);
}

/* An empty string or array requests nothing. An empty schema is a constraint: any JSON matches it. */
static bool is_empty(const json_t *v)
{
    return !v || json_is_null(v) || (json_is_string(v) && !json_string_length(v)) ||
           (json_is_array(v) && !json_array_size(v));
}

/* Return the schema of response_format, from where OpenAI, llama.cpp or Text Generation Inference puts it;
 * NULL: none. */
static const json_t *schema_of(const json_t *format)
{
    const json_t *schema = json_object_get(json_object_get(format, "json_schema"), "schema"),
                 *value = json_object_get(format, "value");

    if (!schema || json_is_null(schema))
        schema = json_object_get(format, "schema");
    if (!schema || json_is_null(schema))
        schema = json_is_object(value) ? value : NULL;
    return schema;
}

/* Return the expression or grammar of response_format: its member `value`, or the one named `name`. */
static const json_t *text_of(const json_t *format, const char *name)
{
    const json_t *value = json_object_get(format, "value");

    return value ? value : json_object_get(format, name);
}

static const char *type_of(const json_t *format)
{
    const char *type = json_string_value(json_object_get(format, "type"));

    return type ? type : "";
}

static bool format_is_nothing(const json_t *format)
{
    const char *type = type_of(format);
    const json_t *text = NULL;

    if (strcmp(type, "regex") == 0 || strcmp(type, "grammar") == 0)
        text = text_of(format, *type == 'r' ? "pattern" : "grammar");
    return !json_object_size(format) || strcmp(type, "text") == 0 || (text && is_empty(text));
}

static lm_status of_format_text(const json_t *format, const char *name, const lm_grammar_options *o,
                                lm_grammar **out, lm_error *e)
{
    const json_t *text = text_of(format, name);

    if (!json_is_string(text))
        return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "the type %s requires a string in value or %s",
                       type_of(format), name);
    return *name == 'p' ? lm_grammar_regex(json_string_value(text), json_string_length(text), o, out, e)
                        : lm_grammar_gbnf(json_string_value(text), json_string_length(text), o, out, e);
}

static lm_status of_format(const lm_constraints *v, const lm_grammar_options *o, lm_grammar **out,
                           lm_error *e)
{
    const json_t *format = v->response_format, *schema = schema_of(format);
    const char *type = type_of(format);

    if (strcmp(type, "json_object") == 0 || strcmp(type, "json") == 0)
        return schema ? of_schema(schema, false, v, out, e) : of_any_object(v, out, e);
    if (strcmp(type, "regex") == 0)
        return of_format_text(format, "pattern", o, out, e);
    if (strcmp(type, "grammar") == 0)
        return of_format_text(format, "grammar", o, out, e);
    if (strcmp(type, "json_schema"))
        return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET,
                       "the type \"%.40s\" is unknown: expected text, json_object, json_schema, regex or "
                       "grammar",
                       type);
    if (!schema)
        return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "json_schema.schema is required");
    return of_schema(schema, json_is_true(json_object_get(json_object_get(format, "json_schema"), "strict")),
                     v, out, e);
}

static lm_status of_choice(const json_t *list, lm_grammar **out, lm_error *e)
{
    size_t n = json_array_size(list);
    const char **texts = lm_memory_zero(n + 1, sizeof *texts);
    lm_status status = texts ? LM_OK : lm_fail_memory(e, "choices", n * sizeof *texts);

    for (size_t i = 0; status == LM_OK && i < n; i++)
        if (!(texts[i] = json_string_value(json_array_get(list, i))))
            status = lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "element %zu is not a string", i);
        else if (strlen(texts[i]) != json_string_length(json_array_get(list, i)))
            status = lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "element %zu contains a NUL character", i);
    if (status == LM_OK)
        status = lm_grammar_choice(texts, n, NULL, out, e);
    lm_heap_free(texts);
    return status;
}

static lm_status of_ollama(const lm_constraints *v, lm_grammar **out, lm_error *e)
{
    const char *word = json_string_value(v->format);

    if (word && strcmp(word, "json") == 0)
        return of_any_object(v, out, e);
    if (!json_is_object(v->format))
        return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "the value must be \"json\" or a schema");
    return of_schema(v->format, false, v, out, e);
}

/* ---- field names ---- */

/* Return the first of these names that the request contains; if it contains none, the first. */
static const char *sent(const lm_constraints *v, const char *const *names)
{
    for (size_t i = 0; v->body && names[i]; i++)
        if (!is_empty(json_object_get(v->body, names[i])))
            return names[i];
    return names[0];
}

/* Return the field of a constraint, after merge_structured. */
static const char *field_of(const lm_constraints *v)
{
    static const char *const grammars[] = { "grammar", "guided_grammar", "ebnf", "structured_outputs", NULL };
    static const char *const regexes[] = { "guided_regex", "regex", "structured_outputs", NULL };
    static const char *const choices[] = { "guided_choice", "structured_outputs", NULL };
    static const char *const schemas[] = { "json_schema", "guided_json", "structured_outputs", NULL };

    if (v->grammar || v->regex || v->choice || v->schema)
        return sent(v, v->grammar ? grammars : v->regex ? regexes : v->choice ? choices : schemas);
    return v->any_json ? "structured_outputs" : v->format ? "format" : "response_format";
}

/* Make an error of a grammar one about `field`; the location within it begins the message. */
static lm_status in_field(const char *field, lm_status status, lm_error *e)
{
    lm_error why;

    if (status != LM_USAGE && status != LM_UNSUPPORTED && status != LM_LIMIT)
        return status;
    why = *e;
    return lm_fail(e, LM_USAGE, field, LM_NO_OFFSET, "%s%s%s", why.where, *why.where ? ": " : "",
                   why.message);
}

/* ---- triggers ---- */

enum { TRIGGER_TOKEN, TRIGGER_WORD };        /* llama.cpp's numbers; 2 and 3 are patterns */

/* A word that is a single control token of the model never appears as text: the token is the trigger. */
static lm_status read_trigger(const lm_service *s, const json_t *o, lm_trigger *out, lm_error *e)
{
    const json_t *type = json_object_get(o, "type"), *value = json_object_get(o, "value"),
                 *token = json_object_get(o, "token");
    lm_tokens ids = { 0 };

    if (!json_is_integer(type) || json_integer_value(type) < TRIGGER_TOKEN ||
        json_integer_value(type) > TRIGGER_WORD)
        return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET,
                       "the type of a trigger must be 0 (token) or 1 (word); patterns are not supported");
    if (!json_string_length(value) || strlen(json_string_value(value)) != json_string_length(value))
        return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET,
                       "the value of a trigger must be a non-empty string without NUL characters");
    out->word = json_string_value(value);
    LM_TRY(lm_tokenize(s->tokenizer, out->word, strlen(out->word), 0, &ids, e));
    if (ids.n == 1 && lm_tokenizer_is_special(s->tokenizer, ids.ids[0])) {
        out->control = true;
        out->token = ids.ids[0];
    }
    lm_tokens_free(&ids);
    if (json_integer_value(type) == TRIGGER_WORD)
        return LM_OK;
    if (!out->control || !json_is_integer(token) || json_integer_value(token) != out->token)
        return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET,
                       "the token of a trigger is not the control token \"%.40s\"", out->word);
    return LM_OK;
}

/* Replace *g by a grammar of free text up to a trigger, then *g. */
static lm_status make_lazy(const lm_service *s, const json_t *triggers, lm_grammar **g, lm_error *e)
{
    lm_trigger all[LM_LIMIT_TRIGGERS] = { 0 };
    size_t n = json_array_size(triggers);
    lm_grammar *lazy;

    if (!n || n > LM_LIMIT_TRIGGERS)
        return lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "grammar_lazy requires 1 to %d triggers, got %zu",
                       LM_LIMIT_TRIGGERS, n);
    for (size_t i = 0; i < n; i++)
        LM_TRY(read_trigger(s, json_array_get(triggers, i), all + i, e));
    LM_TRY(lm_grammar_after(*g, all, n, false, &lazy, e));
    lm_grammar_free(*g);
    *g = lazy;
    return LM_OK;
}

static lm_status of_gbnf(const lm_service *s, const lm_constraints *v, lm_grammar **out, lm_error *e)
{
    lm_grammar_options o = { .tokenizer = s->tokenizer };

    LM_TRY(in_field(field_of(v), lm_grammar_gbnf(v->grammar, strlen(v->grammar), &o, out, e), e));
    if (!v->lazy)
        return LM_OK;
    lm_status status = in_field("grammar_triggers", make_lazy(s, v->triggers, out, e), e);
    if (status != LM_OK) {
        lm_grammar_free(*out);
        *out = NULL;
    }
    return status;
}

/* Whether a member only tells vLLM how to enforce its constraint, which has no effect here. */
static bool is_ignored(const char *name)
{
    static const char *const names[] = { "disable_fallback",  "disable_additional_properties",
                                         "_backend",          "backend",
                                         "_backend_was_auto", NULL };

    for (size_t i = 0; names[i]; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* Take a member of vLLM's structured_outputs. False: not a valid member, or the second of its kind. */
static bool set_structured(lm_constraints *v, const char *name, json_t *value)
{
    const char *text = json_string_value(value), **to = strcmp(name, "regex") == 0 ? &v->regex : &v->grammar;

    if (strcmp(name, "json") == 0 && !v->schema)
        return (v->schema = value);
    if (strcmp(name, "json_object") == 0)
        return (v->any_json = json_is_true(value));
    if (strcmp(name, "choice") == 0 && json_is_array(value) && !v->choice)
        return (v->choice = value);
    if ((strcmp(name, "regex") && strcmp(name, "grammar")) || !text || *to)
        return false;
    *to = text;
    return true;
}

static lm_status read_structured(lm_constraints *v, lm_error *e)
{
    const char *name;
    json_t *value;

    json_object_foreach(v->structured, name, value) {
        if (json_is_string(value) && strlen(json_string_value(value)) != json_string_length(value))
            return lm_fail(e, LM_USAGE, "structured_outputs", LM_NO_OFFSET,
                           "\"%.40s\" contains a NUL character", name);
        if (strcmp(name, "disable_any_whitespace") == 0 && json_is_boolean(value)) {
            v->compact = json_is_true(value);
            continue;
        }
        if (!is_empty(value) && !json_is_false(value) && !is_ignored(name) &&
            !set_structured(v, name, value))
            return lm_fail(e, LM_USAGE, "structured_outputs", LM_NO_OFFSET,
                           "\"%.40s\" is not supported here: expected one of json, regex, choice, grammar, "
                           "json_object",
                           name);
    }
    return LM_OK;
}

static void drop_empty(lm_constraints *v)
{
    json_t **const values[] = { &v->schema, &v->choice, &v->format, &v->triggers, &v->structured };

    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (is_empty(*values[i]))
            *values[i] = NULL;
    if (format_is_nothing(v->response_format))
        v->response_format = NULL;
}

/* Copy the constraints, without empty ones, and add the members of vLLM's object. */
static lm_status merge_structured(const lm_constraints *given, lm_constraints *v, lm_error *e)
{
    *v = *given;
    drop_empty(v);
    return read_structured(v, e);
}

lm_status lm_constraints_check(const lm_constraints *given, lm_error *e)
{
    lm_constraints copy, *v = &copy;

    LM_TRY(merge_structured(given, v, e));
    int n = !!v->grammar + !!v->regex + !!v->schema + !!v->response_format + !!v->choice + !!v->format;
    if (n + v->any_json > 1)
        return lm_fail(e, LM_USAGE, field_of(v), LM_NO_OFFSET,
                       "only one of response_format, json_schema, grammar, structured_outputs and guided_... "
                       "may be given");
    if ((v->lazy || v->triggers) && !(v->grammar && v->lazy))
        return lm_fail(e, LM_USAGE, v->lazy ? "grammar_lazy" : "grammar_triggers", LM_NO_OFFSET,
                       v->lazy ? "'grammar_lazy' requires grammar"
                               : "'grammar_triggers' requires grammar and \"grammar_lazy\": true");
    return LM_OK;
}

lm_status lm_constraints_compile(const lm_service *s, const lm_constraints *given, lm_grammar **out,
                                 lm_error *e)
{
    lm_grammar_options o = { .tokenizer = s->tokenizer };
    lm_constraints copy, *v = &copy;
    lm_status status = LM_OK;

    *out = NULL;
    LM_TRY(merge_structured(given, v, e));
    if (v->grammar)
        return of_gbnf(s, v, out, e);
    if (v->regex)
        status = lm_grammar_regex(v->regex, strlen(v->regex), &o, out, e);
    else if (v->choice)
        status = of_choice(v->choice, out, e);
    else if (v->schema)
        status = of_schema(v->schema, false, v, out, e);
    else if (v->any_json)
        status = of_any_object(v, out, e);
    else if (v->format)
        status = of_ollama(v, out, e);
    else if (v->response_format)
        status = of_format(v, &o, out, e);
    return in_field(field_of(v), status, e);
}

const char *lm_constraints_field(const lm_constraints *given)
{
    lm_constraints copy;

    return merge_structured(given, &copy, NULL) == LM_OK ? field_of(&copy) : "response_format";
}
