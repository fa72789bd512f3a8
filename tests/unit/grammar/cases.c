/* cases.c - grammars, and texts that match them or do not, as other implementations decide
 * (tests/golden/grammar/NAME.jsonl).
 *
 * A line: {"name", "kind": gbnf | regex | choice | json | schema, "text", "options"?, "accept"?, "maybe"?,
 * "reject"?, "refused"?}. Each list has texts, or lists of texts that are spellings of one value. `accept`:
 * all must match. `maybe`: all spellings match, or the grammar is narrower there, which is counted. `reject`:
 * no spelling may ever match. `refused`: the compiler must reject the grammar with this message; "": it may
 * reject it, and must then name a keyword and the pointer to it. The last line of a file may be {"least": n}:
 * the minimum number of values that are decided as others decide them, which only rises. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "lamina/grammar.h"

typedef struct tally { unsigned cases, refused, accepted, rejected, narrowed, wrong; } tally;

/* Other implementations allow white space between the parts of JSON, and so do these tests, except those of
 * texts without any. */
static lm_status compile(const json_t *c, lm_whitespace w, lm_grammar **out, lm_error *e)
{
    const json_t      *o = json_object_get(c, "options");
    const char *kind = json_string_value(json_object_get(c, "kind")),
               *text = json_string_value(json_object_get(c, "text"));
    size_t             size = json_string_length(json_object_get(c, "text"));
    lm_grammar_options options = lm_grammar_defaults();

    options.any_order    = json_is_true(json_object_get(o, "any_order"));
    options.open = json_is_true(json_object_get(o, "open"));
    options.strict       = json_is_true(json_object_get(o, "strict"));
    options.whitespace   = w;
    if (strcmp(kind, "gbnf") == 0)
        return lm_grammar_gbnf(text, size, &options, out, e);
    if (strcmp(kind, "regex") == 0)
        return lm_grammar_regex(text, size, &options, out, e);
    if (strcmp(kind, "json") == 0)
        return lm_grammar_json(&options, out, e);
    return lm_grammar_json_schema(text, size, &options, out, e);
}

static bool fits(const lm_grammar *g, const json_t *text)
{
    bool      whole = false;
    size_t    n;
    lm_error  e;
    lm_status status = lm_grammar_matches(g, json_string_value(text), json_string_length(text), &whole, &n,
                                          &e);

    if (status != LM_OK)
        fail_msg("%s", e.message);
    return whole;
}

/* Return how many spellings of a value match; `of`: how many there are. */
static size_t fitting(const lm_grammar *g, const json_t *value, size_t *of)
{
    size_t  n = 0, i;
    json_t *text;

    *of = json_is_array(value) ? json_array_size(value) : 1;
    if (!json_is_array(value))
        return fits(g, value);
    json_array_foreach(value, i, text)
        n += fits(g, text);
    return n;
}

static const char *shown(const json_t *value)
{
    return json_string_value(json_is_array(value) ? json_array_get(value, 0) : value);
}

/* Check that the file allows this rejection. A rejection because no value fits has decided about all
 * values. */
static void check_refusal(const json_t *c, lm_status status, const lm_error *e, tally *t)
{
    const char *name = json_string_value(json_object_get(c, "name")),
               *refused = json_string_value(json_object_get(c, "refused"));
    bool        none = strstr(e->message, "no value fits") != NULL;

    t->refused++;
    if (!refused || !strstr(e->message, refused) ||
        (!*refused && (!e->where[0] || (status != LM_UNSUPPORTED && !none)))) {
        print_message("%s: refused: %s: %s\n", name, e->where, e->message);
        t->wrong++;
    }
    if (none) {
        t->rejected += (unsigned)json_array_size(json_object_get(c, "reject"));
        t->narrowed += (unsigned)json_array_size(json_object_get(c, "maybe"));
    }
    if (getenv("LM_SHOW_NARROWED"))
        print_message("%s: refused: %s: %s\n", name, e->where, e->message);
}

static void run_case(const json_t *c, tally *t)
{
    const char *name = json_string_value(json_object_get(c, "name")),
               *refused = json_string_value(json_object_get(c, "refused"));
    lm_grammar *g = NULL;
    lm_error    e = { .offset = LM_NO_OFFSET };
    lm_status   status = compile(c, LM_WHITESPACE_BOUNDED, &g, &e);
    json_t     *value;
    size_t      i, of;

    t->cases++;
    if (status != LM_OK) {
        check_refusal(c, status, &e, t);
        return;
    }
    if (refused && *refused) {
        print_message("%s: not refused, but should be: %s\n", name, refused);
        t->wrong++;
    }
    json_array_foreach(json_object_get(c, "accept"), i, value) {
        bool ok = fitting(g, value, &of) == of;
        t->accepted += ok;
        if (!ok) {
            print_message("%s: does not fit: %.300s\n", name, shown(value));
            t->wrong++;
        }
    }
    json_array_foreach(json_object_get(c, "maybe"), i, value) {
        bool ok = fitting(g, value, &of) == of;
        t->accepted += ok;
        t->narrowed += !ok;
        if (!ok && getenv("LM_SHOW_NARROWED"))
            print_message("%s: narrowed: %.300s\n", name, shown(value));
    }
    json_array_foreach(json_object_get(c, "reject"), i, value) {
        bool ok = fitting(g, value, &of) == 0;
        t->rejected += ok;
        if (!ok) {
            print_message("%s: FITS, and must not: %.300s\n", name, shown(value));
            t->wrong++;
        }
    }
    lm_grammar_free(g);
}

/* ---- without white space ---- */

static bool has_space(const char *text)
{
    bool string = false;

    for (; *text; text++) {
        if (*text == '\\' && string && text[1])
            text++;
        else if (*text == '"')
            string = !string;
        else if (!string && strchr(" \t\r\n", *text))
            return true;
    }
    return false;
}

static void check_compact(const char *name, const lm_grammar *with, const lm_grammar *without,
                          const json_t *text, tally *t)
{
    bool expected = fits(with, text) && !has_space(json_string_value(text));

    t->cases++;
    t->accepted += expected;
    if (fits(without, text) != expected) {
        print_message("%s: without white space %s: %.300s\n", name,
                      expected ? "does not fit" : "FITS, and must not", json_string_value(text));
        t->wrong++;
    }
}

/* With the grammar without white space, exactly the matching texts that have none match. */
static void run_compact(const json_t *c, tally *t)
{
    static const char *const lists[] = { "accept", "maybe", "reject" };
    const char *kind = json_string_value(json_object_get(c, "kind"));
    lm_grammar *with = NULL, *without = NULL;
    json_t     *value, *text;
    size_t      k, j;
    lm_error    e;

    if (strcmp(kind, "json") && strcmp(kind, "schema"))
        return;
    assert_int_equal(compile(c, LM_WHITESPACE_BOUNDED, &with, &e),
                     compile(c, LM_WHITESPACE_NONE, &without, &e));
    for (size_t i = 0; with && i < sizeof lists / sizeof *lists; i++)
        json_array_foreach(json_object_get(c, lists[i]), k, value) {
            if (!json_is_array(value))
                check_compact(json_string_value(json_object_get(c, "name")), with, without, value, t);
            json_array_foreach(value, j, text)
                check_compact(json_string_value(json_object_get(c, "name")), with, without, text, t);
        }
    lm_grammar_free(with);
    lm_grammar_free(without);
}

static void run_file(const char *path)
{
    FILE   *f = fopen(path, "r");
    char   *line = NULL;
    size_t  room = 0;
    tally   t = { 0 }, compact = { 0 };
    int64_t min = 0;

    assert_non_null(f);
    while (getline(&line, &room, f) > 0) {
        json_t *c = json_loads(line, JSON_ALLOW_NUL, NULL), *ratchet;
        assert_non_null(c);
        if ((ratchet = json_object_get(c, "least")))
            min = json_integer_value(ratchet);
        else
            run_case(c, &t);
        if (!ratchet)
            run_compact(c, &compact);
        json_decref(c);
    }
    free(line);
    fclose(f);
    print_message("%s: %u cases, %u refused, %u accepted, %u rejected, %u narrowed, %u wrong\n", path,
                  t.cases, t.refused, t.accepted, t.rejected, t.narrowed, t.wrong);
    print_message("%s: %u texts without white space, %u fit, %u wrong\n", path, compact.cases,
                  compact.accepted, compact.wrong);
    assert_int_equal(t.wrong, 0);
    assert_int_equal(compact.wrong, 0);
    assert_true(t.cases > 0);
    assert_true((int64_t)t.accepted + t.rejected >= min);
}

static const char *the_path;
static void others_agree(void **state)
{
    (void)state;
    run_file(the_path);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(others_agree) };
    int failed = 0;

    for (int i = 1; i < argc; i++) {
        the_path = argv[i];
        failed |= cmocka_run_group_tests(tests, NULL, NULL);
    }
    return failed;
}
