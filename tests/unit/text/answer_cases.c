/* Answers of every family, parsed into reasoning, content and calls in pieces of any size. Cases:
 * tests/golden/answers (JSON lines). families.jsonl is our own; the others are made from the tests of other
 * programs by tools/oracle/answers/, with their templates in a file of their own. */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lamina/answer.h"
#include "lamina/grammar.h"

typedef struct heard { lm_text reasoning, content, arguments; json_t *calls; } heard;

static size_t deltas;                                    /* events with arguments, since this was set to 0 */

static void on_event(void *arg, const lm_answer_event *event)
{
    heard *h = arg;
    json_t *last = json_array_get(h->calls, json_array_size(h->calls) - 1);

    switch (event->kind) {
    case LM_ANSWER_REASONING: lm_text_add(&h->reasoning, event->text, event->size); break;
    case LM_ANSWER_CONTENT:   lm_text_add(&h->content, event->text, event->size); break;
    case LM_ANSWER_CALL:
        assert_int_equal(event->call, json_array_size(h->calls));
        json_array_append_new(h->calls, json_pack("{s:s%, s:s, s:s, s:b}", "name", event->text, event->size,
                                                  "id", event->id, "arguments", "", "ended", 0));
        break;
    case LM_ANSWER_ARGUMENTS:                            /* an event may end within a character */
        assert_non_null(last);
        deltas++;
        lm_text_add(&h->arguments, event->text, event->size);
        break;
    case LM_ANSWER_CALL_END:
        assert_true(json_is_false(json_object_get(last, "ended")));
        json_object_set_new(last, "arguments",
                            json_stringn(h->arguments.data ? h->arguments.data : "", h->arguments.size));
        lm_text_clear(&h->arguments);
        json_object_set_new(last, "ended", json_true());
        break;
    }
}

static json_t *templates;                                /* by name; NULL: a case holds its template */

static const char *template_of(const json_t *c)
{
    const char *given = json_string_value(json_object_get(c, "template")),
               *named = given ? json_string_value(json_object_get(templates, given)) : NULL;

    return named ? named : given;
}

/* The style of a template; the last one is kept. */
static lm_answer_style style_of(const char *template)
{
    static lm_answer_style last;
    static char *kept;

    if (!kept || strcmp(kept, template)) {
        free(kept);
        lm_answer_style_free(&last);
        kept = strdup(template);
        lm_answer_style_of(template, &last);
        assert_true(!lm_answer_style_name(&last) == (last.unread != NULL));
    }
    return last;
}

/* Parse the first `length` bytes in pieces: the first one of `first` bytes, the others of `piece` bytes (0:
 * the rest). If the text is longer, a limit has cut it. */
static json_t *read_start(const json_t *c, size_t length, size_t first, size_t piece, bool eager)
{
    const char *text = json_string_value(json_object_get(c, "text")), *template = template_of(c),
               *prompt = json_string_value(json_object_get(c, "prompt")),
               *format = json_string_value(json_object_get(c, "format"));
    const char *ends[] = { json_string_value(json_object_get(c, "end")), NULL };
    size_t whole = json_string_length(json_object_get(c, "text")), size = length < whole ? length : whole;
    json_t *tools = json_object_get(c, "tools"), *result;
    lm_answer_tool list[16] = { 0 };
    char *schemas[16] = { 0 };
    lm_answer_options o = { .tools = list,
                            .n_tools = json_array_size(tools),
                            .ends = ends[0] ? ends : NULL,
                            .ids = 7,
                            .eager = eager,
                            .in_reasoning = json_is_true(json_object_get(c, "in_reasoning")) };
    lm_answer_style style = style_of(template);
    lm_answer *a;
    heard h = { .calls = json_array() };
    lm_error e;

    for (size_t i = 0; i < o.n_tools; i++) {
        json_t *schema = json_object_get(json_array_get(tools, i), "parameters");
        list[i].name = json_string_value(json_object_get(json_array_get(tools, i), "name"));
        list[i].parameters = schemas[i] = schema ? json_dumps(schema, 0) : NULL;
    }
    if (prompt)
        o.in_reasoning = lm_answer_in_reasoning(&style, prompt, strlen(prompt));
    o.keep_reasoning = format && strcmp(format, "none") == 0;
    assert_int_equal(lm_answer_new(&style, &o, &a, &e), LM_OK);
    for (size_t at = 0, n; at < size; at += n) {
        n = at == 0 && first ? first : piece;
        n = !n || size - at < n ? size - at : n;
        assert_int_equal(lm_answer_feed(a, text + at, n, on_event, &h, &e), LM_OK);
    }
    bool cut = size < whole || json_is_true(json_object_get(c, "partial"));
    assert_int_equal((cut ? lm_answer_cut : lm_answer_end)(a, on_event, &h, &e), LM_OK);
    lm_answer_free(a);
    result = json_pack("{s:s%, s:s%, s:o}", "reasoning", h.reasoning.data ? h.reasoning.data : "",
                       h.reasoning.size, "content", h.content.data ? h.content.data : "", h.content.size,
                       "calls", h.calls);
    assert_non_null(result);
    for (size_t i = 0; i < o.n_tools; i++)
        free(schemas[i]);
    lm_text_free(&h.reasoning);
    lm_text_free(&h.content);
    lm_text_free(&h.arguments);
    return result;
}
static json_t *read_answer(const json_t *c, size_t first, size_t piece, bool eager)
{
    return read_start(c, SIZE_MAX, first, piece, eager);
}

/* Whether two texts are the same, apart from spaces. */
static bool same_written(const char *a, const char *b)
{
    for (;; a++, b++) {
        a += strspn(a, " ");
        b += strspn(b, " ");
        if (*a != *b || !*a)
            return *a == *b;
    }
}

/* Whether the calls are the same, apart from white space in their arguments. Null: any. */
static bool same_call(const json_t *got, const json_t *want)
{
    const char *a = json_string_value(json_object_get(got, "arguments")),
               *b = json_string_value(json_object_get(want, "arguments"));
    const char *id = json_string_value(json_object_get(want, "id"));
    json_t *x = json_loads(a, JSON_ALLOW_NUL, NULL);
    json_t *y = b ? json_loads(b, JSON_ALLOW_NUL, NULL) : json_incref(x);
    bool same = (x && y ? json_equal(x, y) : !x && !y && same_written(a, b)) &&
                json_equal(json_object_get(got, "name"), json_object_get(want, "name")) &&
                json_is_true(json_object_get(got, "ended")) &&
                (!id || !*id || strcmp(id, json_string_value(json_object_get(got, "id"))) == 0);

    json_decref(x);
    json_decref(y);
    return same;
}

/* Whether a text is the same; in cases of other programs, apart from white space at its ends. */
static bool same_text(const json_t *got, const json_t *want, const char *member)
{
    if (json_is_true(json_object_get(want, "around")))   /* other text, which the case does not give */
        return true;

    const char *a = json_string_value(json_object_get(got, member)),
               *b = json_string_value(json_object_get(want, member));
    size_t n, m;

    if (!templates)
        return strcmp(a, b) == 0;
    a += strspn(a, " \t\r\n");
    b += strspn(b, " \t\r\n");
    for (n = strlen(a); n && strchr(" \t\r\n", a[n - 1]); n--)
        ;
    for (m = strlen(b); m && strchr(" \t\r\n", b[m - 1]); m--)
        ;
    return n == m && memcmp(a, b, n) == 0;
}

static bool as_wanted(const json_t *got, const json_t *c)
{
    json_t *calls = json_object_get(got, "calls"), *want = json_object_get(c, "calls");

    if (json_array_size(calls) != json_array_size(want))
        return false;
    for (size_t i = 0; i < json_array_size(want); i++)
        if (!same_call(json_array_get(calls, i), json_array_get(want, i)))
            return false;
    return same_text(got, c, "content") && same_text(got, c, "reasoning");
}

/* Whether the reading is the case's, or one of those that other programs have (`also`). */
static bool is_allowed(const json_t *got, const json_t *c)
{
    const json_t *also = json_object_get(c, "also");
    bool allowed = as_wanted(got, c);

    for (size_t i = 0; !allowed && i < json_array_size(also); i++)
        allowed = as_wanted(got, json_array_get(also, i));
    return allowed;
}

static void show(const char *what, size_t line, const json_t *c, const json_t *got)
{
    char *a = json_dumps(c, JSON_COMPACT), *b = json_dumps(got, JSON_COMPACT);

    fprintf(stderr, "case %zu, %s\n  %s\n  %s\n", line, what, a, b);
    free(a);
    free(b);
}

static const char *path;

/* Whether every way of cutting an answer in two, and pieces of 1 to 7 bytes, give the same reading. */
static bool all_cuts_are_equal(const json_t *c, const json_t *whole, size_t line, bool eager)
{
    size_t size = json_string_length(json_object_get(c, "text"));

    for (size_t i = 1; i < size + 7; i++) {
        size_t first = i < size ? i : 0, piece = i < size ? 0 : i - size + 1;
        json_t *again = read_answer(c, first, piece, eager);
        bool same = json_equal(whole, again);
        if (!same) {
            fprintf(stderr, "first %zu, pieces of %zu\n", first, piece);
            show(eager ? "eager, in pieces" : "in pieces", line, whole, again);
        }
        json_decref(again);
        if (!same)
            return false;
    }
    return true;
}

static void cases_are_read(void **state)
{
    FILE *f = fopen(path, "r");
    char *line = NULL;
    size_t capacity = 0, n = 0, wrong = 0;

    (void)state;
    assert_non_null(f);
    while (getline(&line, &capacity, f) > 0) {
        json_t *c = json_loads(line, JSON_ALLOW_NUL, NULL), *got;
        const char *family = json_string_value(json_object_get(c, "family"));

        assert_non_null(c);
        n++;
        lm_answer_style style = style_of(template_of(c));
        if (family && (!lm_answer_style_name(&style) || strcmp(family, lm_answer_style_name(&style)))) {
            fprintf(stderr, "case %zu: %s, not %s\n", n, lm_answer_style_name(&style), family);
            wrong++;
        }
        got = read_answer(c, 0, 0, false);
        if (!is_allowed(got, c)) {
            show("whole", n, c, got);
            wrong++;
        }
        wrong += !all_cuts_are_equal(c, got, n, false);
        json_t *eager = read_answer(c, 0, 0, true);
        wrong += !all_cuts_are_equal(c, eager, n, true);
        if (!json_is_true(json_object_get(c, "broken")) && !templates && !as_wanted(eager, c)) {
            show("eager", n, c, eager);
            wrong++;
        }
        json_decref(eager);
        json_decref(got);
        json_decref(c);
    }
    free(line);
    fclose(f);
    assert_true(n > 0);
    assert_int_equal(wrong, 0);
}

/* Every template of other programs that shows calls has a format: a family's, or the one that is learned. */
static void templates_are_known(void **state)
{
    static const char *const without[] = {
        "HuggingFaceTB-SmolLM3-3B", "google-gemma-2-2b-it", "llama-cpp-rwkv-world",
        "microsoft-Phi-3.5-mini-instruct", NULL
    };
    const char *name;
    json_t *template;

    (void)state;
    json_object_foreach(templates, name, template) {
        lm_answer_style style = style_of(json_string_value(template));
        size_t i = 0;
        while (without[i] && strcmp(without[i], name) != 0)
            i++;
        if (!lm_answer_style_name(&style) != (without[i] != NULL))
            fail_msg("%s: %s", name, style.unread ? style.unread : lm_answer_style_name(&style));
    }
}

/* ---- outputs that a limit cuts ---- */

static bool begins(const json_t *whole, const json_t *part, const char *member)
{
    const char *a = json_string_value(json_object_get(whole, member)),
               *b = json_string_value(json_object_get(part, member));

    size_t n = strlen(b);

    while (n && strchr(" \t\r\n", b[n - 1]))           /* not yet known to be at the end */
        n--;
    return strncmp(a, b, n) == 0;
}

/* Whether the reading of a start is a start of the reading: no marker is text, no call is another one. */
static bool is_start(const json_t *whole, const json_t *part)
{
    json_t *all = json_object_get(whole, "calls"), *calls = json_object_get(part, "calls");
    bool start = begins(whole, part, "content") && begins(whole, part, "reasoning") &&
                 json_array_size(calls) <= json_array_size(all);

    for (size_t i = 0; start && i < json_array_size(calls); i++)
        start = json_equal(json_object_get(json_array_get(all, i), "name"),
                           json_object_get(json_array_get(calls, i), "name")) &&
                (i + 1 == json_array_size(calls) ||
                 json_equal(json_object_get(json_array_get(all, i), "arguments"),
                            json_object_get(json_array_get(calls, i), "arguments")));
    return start;
}

static void starts_have_no_markers(void **state)
{
    FILE *f = fopen(path, "r");
    char *line = NULL;
    size_t capacity = 0, n = 0, wrong = 0;

    (void)state;
    assert_non_null(f);
    while (getline(&line, &capacity, f) > 0) {
        json_t *c = json_loads(line, JSON_ALLOW_NUL, NULL);
        const char *text = json_string_value(json_object_get(c, "text"));
        bool checked = !json_is_true(json_object_get(c, "broken")) && !json_object_get(c, "also") &&
                       !strstr(text, "Action:") && !strstr(text, "functools");     /* begin like words */
        n++;
        for (int eager = 0; checked && eager < 2; eager++) {
            json_t *whole = read_answer(c, 0, 0, eager);
            const char *reasoning = json_string_value(json_object_get(whole, "reasoning"));
            /* in reasoning, a quoted call that is cut is a call */
            checked = !strstr(reasoning, "arg1") && !strstr(reasoning, "f1");
            for (size_t size = 1; checked && size < json_string_length(json_object_get(c, "text")); size++) {
                if (((unsigned char)text[size] & 0xc0) == 0x80)
                    continue;                            /* within a character */
                json_t *part = read_start(c, size, 0, 0, eager);
                if (!is_start(whole, part)) {
                    fprintf(stderr, "cut at %zu\n", size);
                    show(eager ? "eager" : "cut", n, whole, part);
                    wrong++;
                    checked = false;
                }
                json_decref(part);
            }
            json_decref(whole);
        }
        json_decref(c);
    }
    free(line);
    fclose(f);
    assert_int_equal(wrong, 0);
}

/* Arguments arrive while they are written, in every family: byte by byte, those of one call are several
 * events. */
static void arguments_are_streamed(void **state)
{
    FILE *f = fopen(path, "r");
    json_t *most = json_object(), *one;
    char *line = NULL;
    const char *family;
    size_t capacity = 0, late = 0;

    (void)state;
    assert_non_null(f);
    while (getline(&line, &capacity, f) > 0) {
        json_t *c = json_loads(line, JSON_ALLOW_NUL, NULL);
        json_t *call = json_array_get(json_object_get(c, "calls"), 0);
        const char *arguments = json_string_value(json_object_get(call, "arguments"));
        family = json_string_value(json_object_get(c, "family"));
        if (family && arguments && strchr(arguments, ':') && !json_is_true(json_object_get(c, "broken"))) {
            deltas = 0;
            json_decref(read_answer(c, 0, 1, true));
            if ((json_int_t)deltas > json_integer_value(json_object_get(most, family)))
                json_object_set_new(most, family, json_integer((json_int_t)deltas));
        }
        json_decref(c);
    }
    free(line);
    fclose(f);
    json_object_foreach(most, family, one) {
        if (json_integer_value(one) < 2)
            fprintf(stderr, "%s: %d\n", family, (int)json_integer_value(one));
        late += json_integer_value(one) < 2;
    }
    assert_true(templates || json_object_size(most) > 30);
    assert_int_equal(late, 0);
    json_decref(most);
}

/* ---- grammars ---- */

/* Return 1 if the whole text of a case matches the grammar of a required call, 0 if not, -1 if the family's
 * calls cannot be required. */
static int fits_grammar(const json_t *c)
{
    json_t *tools = json_object_get(c, "tools");
    const char *text = json_string_value(json_object_get(c, "text")),
               *end = json_string_value(json_object_get(c, "end"));
    size_t size = strlen(text), n = json_array_size(tools), fits = 0;
    lm_answer_tool list[16] = { 0 };
    char *schemas[16] = { 0 };
    lm_grammar_calls_options o = { .required = true, .whitespace = LM_WHITESPACE_SPACED };
    lm_answer_style style = style_of(template_of(c));
    lm_grammar *g = NULL;
    bool whole = false;
    lm_error e;

    for (size_t i = 0; i < n; i++) {
        json_t *schema = json_object_get(json_array_get(tools, i), "parameters");
        list[i].name = json_string_value(json_object_get(json_array_get(tools, i), "name"));
        list[i].parameters = schemas[i] = schema ? json_dumps(schema, 0) : NULL;
    }
    if (end && size >= strlen(end) && strcmp(text + size - strlen(end), end) == 0)
        size -= strlen(end);
    lm_status status = lm_grammar_calls(&style, list, n, &o, &g, &e);
    if (status == LM_OK)
        assert_int_equal(lm_grammar_matches(g, text, size, &whole, &fits, &e), LM_OK);
    if (whole) {                                         /* a line break may follow */
        lm_text more = { 0 };
        lm_text_add(&more, text, size);
        lm_text_add_str(&more, "\n");
        assert_int_equal(lm_grammar_matches(g, more.data, more.size, &whole, &fits, &e), LM_OK);
        whole |= strncmp(lm_answer_style_name(&style), "harmony", 7) == 0;
        lm_text_free(&more);
    }
    if (status != LM_OK)
        assert_int_equal(status, LM_UNSUPPORTED);
    lm_grammar_free(g);
    for (size_t i = 0; i < n; i++)
        free(schemas[i]);
    return status == LM_OK ? whole : -1;
}

/* Whether a case consists of calls and nothing else. */
static bool is_bare(const json_t *c)
{
    return json_array_size(json_object_get(c, "calls")) && !json_is_true(json_object_get(c, "broken")) &&
           json_object_get(c, "family") && !*json_string_value(json_object_get(c, "content")) &&
           !*json_string_value(json_object_get(c, "reasoning"));
}

/* The grammar of a required call is the notation of the family: at least one of the family's own texts
 * matches it unchanged. Notations of Python and of Gemma have no grammar and return LM_UNSUPPORTED. */
static void grammars_hold_what_families_write(void **state)
{
    FILE *f = fopen(path, "r");
    json_t *found = json_object();
    char *line = NULL;
    size_t capacity = 0, held = 0;
    const char *family;
    json_t *one;

    (void)state;
    assert_non_null(f);
    while (getline(&line, &capacity, f) > 0) {
        json_t *c = json_loads(line, JSON_ALLOW_NUL, NULL);
        if (is_bare(c)) {
            int fit = fits_grammar(c);
            family = json_string_value(json_object_get(c, "family"));
            if (strcmp(family, "general") == 0)          /* each template has its own notation */
                family = template_of(c);
            if (!json_object_get(found, family) || fit > 0)
                json_object_set_new(found, family, json_integer(fit));
        }
        json_decref(c);
    }
    free(line);
    fclose(f);
    json_object_foreach(found, family, one) {
        static const char *const without[] = { "gemma4", "functiongemma", "lfm2", "lfm2.5", "minicpm3",
                                               "olmo3", "llama4-pythonic", "pythonic", "minimax-m3",
                                               "muse" };
        bool refuses = false;
        for (size_t i = 0; i < sizeof without / sizeof *without; i++)
            refuses |= strcmp(family, without[i]) == 0 || strstr(family, "<py>");
        if (json_integer_value(one) != (refuses ? -1 : 1))
            fprintf(stderr, "%s: %d\n", family, (int)json_integer_value(one));
        held += json_integer_value(one) == (refuses ? -1 : 1);
    }
    assert_int_equal(held, json_object_size(found));
    json_decref(found);
}

/* A call that is quoted in reasoning does not begin the grammar of calls; one after it does. */
static void reasoning_is_free(void **state)
{
    static const struct { const char *text; bool whole; } texts[] = {
        { "maybe <tool_call> then</think>No.", true },
        { "maybe</think><tool_call>{\"name\":\"f\", \"arguments\":{}}</tool_call>\n", true },
        { "maybe</think><tool_call> then", false },
        { "only reasoning", true },
        { "only <tool_call> reasoning", true },
        { "maybe <tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call> then</think>No.", true },
    };
    const lm_answer_tool tool = { .name = "f" };
    lm_grammar_calls_options o = { .in_reasoning = true };
    const lm_trigger end = { .word = "</think>", .before = true };
    lm_answer_style style;
    lm_grammar *calls = NULL, *later = NULL, *opened = NULL;
    lm_error e;

    (void)state;
    lm_answer_style_of("<tool_call>{\"name\": …}</tool_call> <think>", &style);
    assert_int_equal(lm_grammar_calls(&style, &tool, 1, &o, &calls, &e), LM_OK);
    assert_int_equal(lm_grammar_after(calls, &end, 1, false, &later, &e), LM_OK);
    o.in_reasoning = false;
    assert_int_equal(lm_grammar_calls(&style, &tool, 1, &o, &opened, &e), LM_OK);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        bool whole;
        size_t fits;
        size_t size = strlen(texts[i].text);
        assert_int_equal(lm_grammar_matches(later, texts[i].text, size, &whole, &fits, &e), LM_OK);
        assert_int_equal(whole, texts[i].whole);
        lm_text self = { 0 };                            /* reasoning that the model opens itself */
        lm_text_printf(&self, "\n<think>%s", texts[i].text);
        assert_int_equal(lm_grammar_matches(opened, self.data, self.size, &whole, &fits, &e), LM_OK);
        assert_int_equal(whole, texts[i].whole);
        lm_text_free(&self);
    }
    static const char *const without[] = {
        "No.", "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>", "So <tool_call> then",
        "So <think> <tool_call> then"
    };
    for (size_t i = 0; i < 4; i++) {
        bool whole;
        size_t fits;
        size_t size = strlen(without[i]);
        assert_int_equal(lm_grammar_matches(opened, without[i], size, &whole, &fits, &e), LM_OK);
        assert_int_equal(whole, i < 2);
    }
    lm_grammar_free(opened);
    lm_grammar_free(calls);
    /* a required call follows reasoning, unless it is turned off */
    static const char required[] = "<think>So.</think><tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
    for (int off = 0; off < 2; off++) {
        bool whole, bare;
        size_t fits, at = strlen("<think>So.</think>");
        o.required = true;
        o.no_reasoning = off;
        assert_int_equal(lm_grammar_calls(&style, &tool, 1, &o, &calls, &e), LM_OK);
        assert_int_equal(lm_grammar_matches(calls, required, sizeof required - 1, &whole, &fits, &e), LM_OK);
        assert_int_equal(lm_grammar_matches(calls, required + at, sizeof required - 1 - at, &bare, &fits, &e),
                         LM_OK);
        assert_true(whole == !off && bare);
        lm_grammar_free(calls);
    }
    lm_grammar_free(later);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(cases_are_read),
                                        cmocka_unit_test(templates_are_known),
                                        cmocka_unit_test(starts_have_no_markers),
                                        cmocka_unit_test(arguments_are_streamed),
                                        cmocka_unit_test(grammars_hold_what_families_write),
                                        cmocka_unit_test(reasoning_is_free) };

    path = argc > 1 ? argv[1] : "";
    for (int i = 2; i < argc; i++) {
        json_t *file = json_load_file(argv[i], 0, NULL);
        if (!file || (templates && json_object_update(templates, file)))
            return 1;
        if (templates)
            json_decref(file);
        else
            templates = file;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
