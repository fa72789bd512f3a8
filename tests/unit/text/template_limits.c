/* template_limits.c - the limits for hostile templates, the positions of errors, and which bytes of a
 * rendering are content. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "lamina/text.h"

static lm_status render(const char *source, size_t size, const char *context, lm_rendering *r, lm_error *e)
{
    lm_template *t = NULL;
    lm_status    status = lm_template_new(source, size, "test", &t, e);

    if (status == LM_OK)
        status = lm_template_render(t, context, strlen(context), r, e);
    lm_template_free(t);
    return status;
}

/* ---- bombs ---- */

static const struct bomb {
    const char *source;
    const char *message;         /* part of it */
} bombs[] = {
    { "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
      "more than 1000000 steps" },
    { "{% for i in range(100001) %}{% endfor %}", "at most 100000 items" },
    { "{{ range(10 ** 18) }}", "at most 100000 items" },
    { "{{ 'a' * 10 ** 9 }}", "more than 4194304 bytes" },
    { "{{ ' ' * 4000000 ~ ' ' * 4000000 }}", "more than 4194304 bytes" },
    { "{{ 'a'.center(999999999) }}", "more than 4194304 bytes" },
    { "{{ '%999999999d' % 1 }}", "more than 4096 characters" },
    { "{{ '{:999999999}'.format(1) }}", "more than 4096 characters" },
    { "{{ 'a\\nb'|indent(999999999) }}", "more than 4194304 bytes" },
    { "{{ [1]|tojson(indent=999999999) }}", "indent of more than 1000" },
    { "{{ '0'.zfill(999999999) }}", "more than 4194304 bytes" },
    { "{{ [0] * 10 ** 9 }}", "more than" },
    { "{% set ns = namespace(s='ab') %}{% for i in range(40) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ "
      "ns.s }}",
      "more than 4194304 bytes" },
    { "{% set ns = namespace(l=[0]) %}{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
      "more than" },
    { "{% set ns = namespace(l=[0]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ "
      "ns.l }}",
      "more than" },
    { "{% set ns = namespace(l=[0]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ "
      "ns.l == ns.l }}",
      "more than" },
    { "{% set ns = namespace(l=(0,)) %}{% for i in range(60) %}{% set ns.l = (ns.l, ns.l) %}{% endfor %}{{ "
      "{ns.l: 1} }}",
      "more than" },
    { "{% set ns = namespace(l=[0]) %}{% for i in range(400) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}",
      "nested deeper than 200" },
    { "{% set ns = namespace(l=[0]) %}{% for i in range(400) %}{% set ns.l = [ns.l] %}{% endfor %}{{ "
      "ns.l|tojson }}",
      "nested deeper than 200" },
    { "{% set ns = namespace(a=[0], b=[0]) %}{% for i in range(400) %}{% set ns.a = [ns.a] %}{% set ns.b = "
      "[ns.b] %}{% endfor %}{{ ns.a == ns.b }}{{ ns.a < ns.b }}",
      "nested deeper than 200" },
    { "{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}", "nested deeper than 200" },
    { "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "calls nested deeper than 64" },
    { "{% macro a(x) %}{{ b(x) }}{% endmacro %}{% macro b(x) %}{{ a([x]) }}{% endmacro %}{{ a(1) }}",
      "calls nested deeper than 64" },
    { "{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}{% macro n() %}{% call m() %}{{ n() }}"
      "{% endcall %}{% endmacro %}{{ n() }}",
      "calls nested deeper than 64" },
    { "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}", "calls nested deeper than 64" },
    { "{% set ns = namespace(g='a') %}{% for i in range(2000) %}{% set ns.g = ns.g|map('upper') %}{% endfor "
      "%}{{ ns.g|list }}",
      "nests deeper than" },
    { "{% set ns = namespace(g='a') %}{% for i in range(90000) %}{% set ns.g = ns.g|select %}"
      "{% endfor %}{{ ns.g|list }}",
      "nests deeper than" },
    { "{% for i in range(90000) %}{{ 'a' * 4000 }}{% endfor %}", "more than" },
    { "{% set s = 'a' * 4000000 %}{% for i in range(90000) %}{% set t = s.upper() %}{% endfor %}",
      "more than" },
    { "{% set s = 'a' * 4000000 %}{% for i in range(90000) %}{% set t = s.rfind('a' * 2000000 ~ 'b') %}{% "
      "endfor %}",
      "more than" },
    { "{% set s = 'a' * 2000000 %}{% for i in range(90000) %}{% set t = s.split('a') %}{% endfor %}",
      "more than" },
    { "{% set s = 'a' * 2000000 %}{% for i in range(90000) %}{% set t = s|list %}{% endfor %}", "more than" },
    { "{% set s = 'aa' * 1000000 %}{{ s.replace('a', s) }}", "more than 4194304 bytes" },
    { "{{ 2 ** 63 }}", "an integer beyond 64 bits" },
    { "{{ 9223372036854775807 + 1 }}", "an integer beyond 64 bits" },
    { "{{ -9223372036854775807 - 2 }}", "an integer beyond 64 bits" },
    { "{{ 9223372036854775807 * 2 }}", "an integer beyond 64 bits" },
    { "{{ (-9223372036854775807 - 1) // -1 }}", "an integer beyond 64 bits" },
    { "{{ 9223372036854775808 }}", "an integer beyond 64 bits" },
    { "{{ 1e300|int }}", "an integer beyond 64 bits" },
};

/* Each ends quickly with an error that names the limit, and leaks no memory. */
static void template_bombs_are_rejected(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bombs / sizeof *bombs; i++) {
        lm_rendering r = { 0 };
        lm_error     e = { 0 };
        uint64_t     before = lm_alloc_statistics().live_bytes;
        lm_status    status = render(bombs[i].source, strlen(bombs[i].source), "{}", &r, &e);
        if (status == LM_OK || !strstr(e.message, bombs[i].message) ||
            strncmp(e.where, "line 1, column ", 15) != 0)
            fail_msg("%s: wanted '%s', got %s: '%s'", bombs[i].source, bombs[i].message, e.where, e.message);
        if (status != LM_LIMIT && status != LM_BAD_MODEL)
            fail_msg("%s: status %s", bombs[i].source, lm_status_word(status));
        assert_int_equal(lm_alloc_statistics().live_bytes, before);
    }
}

/* Return `head`, then `middle` n times, then `tail`; the caller frees it. */
static char *repeated(const char *head, const char *middle, size_t n, const char *tail)
{
    size_t size = strlen(head) + n * strlen(middle) + strlen(tail) + 1, at;
    char  *text = malloc(size);

    assert_non_null(text);
    at = (size_t)snprintf(text, size, "%s", head);
    for (size_t i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, size - at, "%s", middle);
    snprintf(text + at, size - at, "%s", tail);
    return text;
}

static void nesting_is_bounded(void **state)
{
    static const struct { const char *head, *middle, *tail; } shapes[] = {
        { "{{ ", "(", "" },       { "{{ ", "[", "" },         { "{{ ", "-", "1 }}" },
        { "{{ ", "not ", "1 }}" }, { "{{ x", ".a", " }}" },    { "{{ x", "[0]", " }}" },
        { "{{ x", "|e", " }}" },   { "{{ x", "()", " }}" },    { "{{ x", " if y else x", " }}" },
        { "", "{% if a %}", "" },  { "", "{% for a in b %}", "" }, { "", "{% macro a() %}", "" },
        { "{{ ", "{1:", "" },      { "{{ x", " if x", " }}" }, { "{{ ", "f(", "" },
        { "{{ x ", "is defined ", "}}" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        char        *source = repeated(shapes[i].head, shapes[i].middle, 100000, shapes[i].tail);
        lm_rendering r = { 0 };
        lm_error     e = { 0 };
        lm_status    status = render(source, strlen(source), "{\"x\": 1}", &r, &e);
        free(source);
        if (status == LM_OK || (!strstr(e.message, "deeper than") && !strstr(e.message, "a chain of") &&
                                !strstr(e.message, "more than")))
            fail_msg("%s…: %s", shapes[i].middle, e.message);
    }
    /* long expressions are not deep */
    static const struct { const char *head, *middle, *tail; } rows[] = {
        { "{{ 0", " + 1", " }}" }, { "{{ ''", " ~ 'a'", " }}" }, { "{{ 1", " and 1", " }}" }, { "{{ 0", " or 1", " }}" },
        { "{{ [", "0, ", "] }}" }, { "{% if 0 %}", "{% elif 0 %}", "{% endif %}" }, { "", "{{ 1 }}", "" }, { "{{ 1", " == 1", " }}" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char        *source = repeated(rows[i].head, rows[i].middle, 3000, rows[i].tail);
        lm_rendering r = { 0 };
        lm_error     e = { 0 };
        lm_status    status = render(source, strlen(source), "{}", &r, &e);
        free(source);
        if (status != LM_OK)
            fail_msg("%s…: %s", rows[i].middle, e.message);
        lm_rendering_free(&r);
    }
}

/* Building a text or a list piece by piece takes time linear in its size. */
static void appending_is_linear(void **state)
{
    static const char source[] = "{% set ns = namespace(s='', t='', l=[]) %}{% for i in range(30000) %}"
                                 "{% set ns.s = ns.s + 'abcdefghij' + x %}{% set ns.t = ns.t ~ i % 10 ~ '.' %}"
                                 "{% if i % 2 %}{% set ns.l = ns.l + [i] %}{% endif %}{% endfor %}"
                                 "{{ ns.s|length }} {{ ns.t|length }} {{ ns.l|length }}";
    lm_rendering r = { 0 };
    lm_error     e = { 0 };

    (void)state;
    if (render(source, sizeof source - 1, "{\"x\": \"yz\"}", &r, &e) != LM_OK)
        fail_msg("%s", e.message);
    assert_string_equal(r.text.data, "360000 60000 15000");
    lm_rendering_free(&r);
}

/* ---- positions ---- */

static const struct place {
    const char *source;
    lm_status   status;
    const char *where, *message;
} places[] = {
    { "{{ (1, 2] }}", LM_BAD_MODEL, "line 1, column 9", "unexpected ']', expected ')'" },
    { "a\nb {{ }}", LM_BAD_MODEL, "line 2, column 6", "expected an expression, got '}}'" },
    { "é日😀{{ ? }}", LM_BAD_MODEL, "line 1, column 7", "unexpected char '?'" },
    { "\r\n\r\n{% nonsense %}", LM_BAD_MODEL, "line 3, column 4", "encountered unknown tag 'nonsense'" },
    { "{% for m in x %}\n{% if m %}\n{% endfor %}", LM_BAD_MODEL, "line 3, column 4", "encountered unknown tag 'endfor'" },
    { "\n  {% for m in x %}\n", LM_BAD_MODEL, "line 2, column 6", "this block is not closed: 'endfor' is missing" },
    { "{{ 'a'\n   |nonesuch }}", LM_BAD_MODEL, "line 2, column 5", "no filter named 'nonesuch'" },
    { "{{ 1 is nonesuch }}", LM_BAD_MODEL, "line 1, column 9", "no test named 'nonesuch'" },
    { "{{ 'abc", LM_BAD_MODEL, "line 1, column 4", "the string does not end" },
    { "x{# y", LM_BAD_MODEL, "line 1, column 4", "missing end of comment tag" },
    { "{% raw %}x", LM_BAD_MODEL, "line 1, column 10", "missing end of raw directive" },
    { "{{ a b }}", LM_BAD_MODEL, "line 1, column 6", "expected token '}}', got 'b'" },
    { "{{ messages", LM_BAD_MODEL, "line 1, column 12", "unexpected end of template, expected '}}'" },
    { "{% break %}", LM_BAD_MODEL, "line 1, column 4", "'break' outside loop" },
    { "{% include 'x' %}", LM_UNSUPPORTED, "line 1, column 4", "'include'" },
    { "ok\n{% if true %}\n  {{ missing.attr }}\n{% endif %}", LM_FAILED, "line 3, column 13", "'missing' is undefined" },
    { "{{ x.y.z }}", LM_FAILED, "line 1, column 7", "'dict object' has no attribute 'y'" },
    { "\n{{ 'a' + 1 }}", LM_FAILED, "line 2, column 4", "can only concatenate str (not \"int\") to str" },
    { "{% macro m() %}\n{{ none|length }}"
      "{% endmacro %}\n{{ m() }}", LM_FAILED, "line 2, column 9", "object of type 'NoneType' has no len()" },
    { "{{ raise_exception('no: ' ~ 1) }}", LM_FAILED, "line 1, column 19", "no: 1" },
    { "{{ x.items.append(1) }}", LM_FAILED, "line 1, column 18", "'builtin_function_or_method object' has no attribute 'append'" },
    { "{% set l = [] %}{{ l.append(1) }}", LM_FAILED, "line 1, column 28", "access to attribute 'append' of 'list' object is unsafe" },
    { "{% for a, b in [[1]] %}{% endfor %}", LM_FAILED, "line 1, column 4", "not enough values to unpack (expected 2, got 1)" },
    { "{{ x['y'][0] }}", LM_FAILED, "line 1, column 10", "'dict object' has no attribute 'y'" },
    { "{{ 'a'|replace('b') }}", LM_FAILED, "line 1, column 8", "replace() missing required argument 'new'" },
    { "{{ 'a'.upper(1) }}", LM_FAILED, "line 1, column 13", "upper() takes at most 0 arguments (1 given)" },
    { "{{ [3, 'a']|sort }}", LM_FAILED, "line 1, column 13", "'<' not supported between instances of 'str' and 'int'" },
};

static void errors_point_at_their_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        lm_rendering r = { 0 };
        lm_error     e = { 0 };
        lm_status    status = render(places[i].source, strlen(places[i].source), "{\"x\": {}}", &r, &e);
        if (status != places[i].status || strcmp(e.where, places[i].where) != 0 ||
            !strstr(e.message, places[i].message))
            fail_msg("%s: wanted %s, %s: '%s', got %s, %s: '%s'", places[i].source,
                     lm_status_word(places[i].status), places[i].where, places[i].message,
                     lm_status_word(status), e.where, e.message);
        assert_string_equal(e.file, "test");
    }
}

static void bad_input_is_rejected(void **state)
{
    static const char *const contexts[] = { "",
                                            "[",
                                            "[]",
                                            "\"x\"",
                                            "{\"messages\": [}",
                                            "{\"now\": \"yesterday\"}",
                                            "{\"now\": \"2024-13-01\"}",
                                            "{\"now\": \"2024-01-01T25:00\"}" };
    lm_rendering r = { 0 };
    lm_error     e = { 0 };
    lm_template *t = NULL;
    char        *deep = repeated("{\"x\": ", "[", 500, "");

    (void)state;
    for (size_t i = 0; i < sizeof contexts / sizeof *contexts; i++)
        assert_int_equal(render("{{ a }}", 7, contexts[i], &r, &e), LM_USAGE);
    char *closed = repeated(deep, "]", 500, "}");
    assert_int_equal(render("{{ x }}", 7, closed, &r, &e), LM_LIMIT);
    assert_int_equal(render("{{ y }}", 7, closed, &r, &e), LM_OK);       /* unused values are not converted */
    lm_rendering_free(&r);
    free(closed);
    free(deep);
    assert_int_equal(lm_template_new("a\xff", 2, "bad", &t, &e), LM_BAD_MODEL);
    assert_int_equal(e.offset, 1);
    char *large = repeated("", "0123456789abcdef", 65537, "");
    assert_int_equal(lm_template_new(large, strlen(large), "large", &t, &e), LM_LIMIT);
    free(large);
    assert_int_equal(lm_template_new("{{", 2, NULL, &t, NULL), LM_BAD_MODEL);
}

/* A failed allocation is always an error, never a crash or a leak. */
static void failing_memory_is_an_error(void **state)
{
    static const char source[] = "{% macro f(a, b=[1]) %}{{ a ~ b }}{{ varargs }}{% endmacro %}"
                                 "{% for m in messages if m.role %}{{ f(m.role) }}{{ m|tojson }}{% set x %}{{ loop.index }}{% "
                                 "endset %}{{ [x, 2]|map('string')|join(',') }}{% endfor %}";
    static const char context[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}";

    (void)state;
    for (uint64_t n = 1;; n++) {
        lm_rendering r = { 0 };
        lm_error e = { 0 };
        uint64_t before = lm_alloc_statistics().live_bytes;
        lm_alloc_fail_at(n);
        lm_status status = render(source, sizeof source - 1, context, &r, &e);
        lm_alloc_fail_at(0);
        lm_rendering_free(&r);
        assert_int_equal(lm_alloc_statistics().live_bytes, before);
        if (status == LM_OK) {
            assert_true(n > 3);
            break;
        }
        assert_int_equal(status, LM_NO_MEMORY);
    }
}

static void locale_does_not_matter(void **state)
{
    static const char source[] = "{{ 1.5 }} {{ '2.5'|float }} {{ 3.5|tojson }} {{ '%.2f' % 1.25 }} {{ "
                                 "strftime_now('%B %A') }} {{ 0.1 }}";
    lm_rendering r = { 0 };
    lm_error e = { 0 };

    (void)state;
    char *before = strdup(setlocale(LC_ALL, NULL));
    bool changed = setlocale(LC_ALL, "de_DE.UTF-8") || setlocale(LC_ALL, "fr_FR.UTF-8");
    assert_int_equal(render(source, sizeof source - 1, "{\"now\": \"2025-03-09\"}", &r, &e), LM_OK);
    assert_string_equal(r.text.data, "1.5 2.5 3.5 1.25 March Sunday 0.1");
    if (!changed)
        print_message("no locale with a decimal comma here\n");
    setlocale(LC_ALL, before);
    free(before);
    lm_rendering_free(&r);
}

/* ---- content ---- */

/* In `shown`, content is between « and ». */
static const struct marking { const char *source, *shown;
} markings[] = {
    { "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ eos_token }}{% endfor %}",
      "<s><|user|>« a<|x|>b »</s><|assistant|>«Yes»</s>" },
    { "{{ '<|' + messages[0].role + '|>' + messages[0].content|trim + '<|end|>' }}",
      "<|user|>«a<|x|>b»<|end|>" },
    { "{{ messages[0].content[1:3] }}{{ messages[0].content.split('<')[1] }}", "«a<|x|>b »" },
    { "{{ messages[0].content.replace('a', bos_token) }}", "« »<s>«<|x|>b »" },
    { "{{ ('<' ~ messages[1].content ~ '>').upper() }}{{ messages[1].content|lower }}", "<«YES»>«yes»" },
    { "{{ '%s|%s' % ('x', messages[1].content) }}{{ '{}-{}'.format(messages[1].content, 1) }}",
      "x|«YesYes»-1" },
    { "{{ messages[1]|tojson }}", "«{\"role\": \"assistant\", \"content\": \"Yes\"}»" },
    { "{{ messages[1].content|tojson }}{{ {'a': 1}|tojson }}", "\"«Yes»\"{\"a\": 1}" },
    { "{{ [messages[1].content] }}{{ [bos_token] }}", "«['Yes']»['<s>']" },
    { "{{ messages|map(attribute='content')|join(eos_token) }}", "« a<|x|>b »</s>«Yes»" },
    { "{% set t %}[{{ messages[1].content }}]{% endset %}{{ t }}{% filter replace('e', '<s>') %}{{ "
      "messages[1].content }}{% endfilter %}",
      "[«Yes»]«Y»<s>«s»" },
    { "{% macro m(x) %}({{ x }}){% endmacro %}{{ m(messages[1].content) }}{% for c in messages[1].content "
      "%}{{ c }}.{% endfor %}",
      "(«Yes»)«Y».«e».«s»." },
    { "{% set ns = namespace(s='') %}{% for m in messages %}{% set ns.s = ns.s + '<s>' + m.content + '|' %}"
      "{% endfor %}{{ ns.s }}{{ ns.s[:6] }}",
      "<s>« a<|x|>b »|<s>«Yes»|<s>« a<»" },
    { "{{ tools[0].name }}{{ documents[0] }}{{ system_prompt }}{{ pad_token }}", "«fds»<pad>" },
    { "{{ messages[1].content|indent(2, true) }}{{ messages[1].content|title }}"
      "{{ messages[1].content[::-1] }}{{ messages[1].content * 2 }}",
      "  «YesYesseYYesYes»" },
    { "{{ messages[2].role }}{{ messages[1].content|length }}", "«<|evil|>»3" },
    { "{{ 'a,b'.split(',') }}{{ messages[1].content.split('e')|join('-') }}", "['a', 'b']«Y»-«s»" },
};

static void content_is_marked(void **state)
{
    static const char context[] = "{\"messages\": [{\"role\": \"user\", \"content\": \" a<|x|>b \"}, "
                                  "{\"role\": \"assistant\", \"content\": \"Yes\"}, {\"role\": "
                                  "\"<|evil|>\"}], \"tools\": [{\"name\": \"f\"}], \"documents\": [\"d\"], "
                                  "\"system_prompt\": \"s\", \"bos_token\": \"<s>\", \"eos_token\": "
                                  "\"</s>\", \"pad_token\": \"<pad>\"}";

    (void)state;
    for (size_t i = 0; i < sizeof markings / sizeof *markings; i++) {
        lm_rendering r = { 0 };
        lm_error e = { 0 };
        const char *source = markings[i].source;
        char shown[1024];
        size_t n = 0, at = 0;
        /* the role of the third message is not a plain word, so it is content; loops over messages stop
         * before it */
        char *safe = NULL;
        if (strstr(source, "in messages") || strstr(source, "messages|")) {
            safe = repeated("{% set messages = messages[:2] %}", source, 1, "");
            source = safe;
        }
        if (render(source, strlen(source), context, &r, &e) != LM_OK)
            fail_msg("%s: %s: %s", source, e.where, e.message);
        for (size_t k = 0; k <= r.n_content; k++) {
            size_t from = k < r.n_content ? r.content[k].from : r.text.size,
                   to = k < r.n_content ? r.content[k].to : r.text.size;
            assert_true(at <= from && from <= to && to <= r.text.size);
            n += (size_t)snprintf(shown + n, sizeof shown - n, "%.*s%s%.*s%s", (int)(from - at),
                                  r.text.data + at, from < to ? "«" : "", (int)(to - from),
                                  r.text.data + from, from < to ? "»" : "");
            at = to;
        }
        if (strcmp(shown, markings[i].shown) != 0)
            fail_msg("%s: wanted %s, got %s", source, markings[i].shown, shown);
        free(safe);
        lm_rendering_free(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(template_bombs_are_rejected), cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(appending_is_linear),         cmocka_unit_test(errors_point_at_their_place),
        cmocka_unit_test(bad_input_is_rejected),       cmocka_unit_test(failing_memory_is_an_error),
        cmocka_unit_test(locale_does_not_matter),      cmocka_unit_test(content_is_marked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
