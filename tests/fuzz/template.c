/* template.c - fuzz target: compiling and rendering chat templates.
 *
 * Input: the template, then (optionally) a NUL and the JSON object of its variables. */
#include "fuzz.h"
#include "lamina/text.h"

static const char *const contexts[] = {
    "{\"messages\":[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":\"hé 🦙 <b>\"}],"
    "\"add_generation_prompt\":true,\"bos_token\":\"<s>\",\"eos_token\":\"</s>\",\"now\":\"2024-07-26\"}",
    "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"t\"},{\"type\":\"image\"}]},"
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"function\":"
    "{\"name\":\"f\",\"arguments\":{\"x\":[1,2.5,-3,null,true]}}}]},"
    "{\"role\":\"tool\",\"content\":\"{}\",\"tool_call_id\":\"1\"}],\"tools\":[{\"type\":\"function\",\"function\":"
    "{\"name\":\"f\",\"description\":\"d\",\"parameters\":{\"type\":\"object\",\"properties\":"
    "{\"x\":{\"type\":\"array\"}}}}}],\"add_generation_prompt\":false}",
    "{}",
};

/* Pieces of templates, so that a mutation is likely to parse. */
static const char *const pieces[] = {
    "{% for m in messages %}", "{% for k, v in x.items() recursive %}", "{% endfor %}", "{% if x %}",
    "{% elif y is defined %}", "{% else %}", "{% endif %}", "{% set x = ", "{% set x %}", "{% endset %}",
    "{% set ns = namespace(a=1) %}", "{% set ns.a = ns.a + 1 %}", "{% macro f(a, b=2) %}", "{% endmacro %}",
    "{{ f(1, b=3) }}", "{% call f(1) %}", "{% endcall %}", "{% filter upper %}", "{% endfilter %}",
    "{% generation %}", "{% endgeneration %}", "{% raw %}", "{% endraw %}", "{% break %}", "{% continue %}",
    "{# c #}", "{{- ", " -}}", "{{ ", " }}", "{%- ", " -%}", " %}", "messages", "messages[0]['content']",
    "messages[-1].role", "tools", "loop.index0", "loop.previtem", "loop.cycle('a','b')", "[1, 2.5, 'x', none]",
    "{'a': 1, 'b': [2]}", "(1, 2)", "x[1:-1]", "x[::-1]", "x[::0]", "range(3)", "range(10**9)", "range(0, -5, -1)",
    " + ", " - ", " * ", " / ", " // ", " % ", " ** ", " ~ ", " in ", " not in ", " and ", " or ", "not ", " == ",
    " != ", " < ", " >= ", " is string", " is not none", " is mapping", " is divisibleby(3)", " is sameas true",
    " if x else ", "|tojson", "|tojson(indent=2)", "|join(', ')", "|trim", "|length", "|upper", "|title",
    "|default('d', true)", "|map(attribute='role')", "|map('upper')", "|select('string')",
    "|selectattr('role', 'equalto', 'user')", "|rejectattr('role')", "|list", "|first", "|last", "|sort", "|unique",
    "|groupby('role')", "|reverse", "|replace('a', 'b')", "|indent(4)", "|round(2)", "|int", "|float", "|string",
    "|items", "|dictsort", "|sum", "|min", "|max", "|batch(2)", "|slice(2)", "|wordwrap(5)", "|center(80)",
    "|format(1)", "|escape", "|safe", "|abs", ".strip()", ".split('a')", ".startswith('x')", ".format(1, a=2)",
    ".join(['a'])", ".title()", ".items()", ".get('a', 1)", ".append(1)", ".__class__", "'x' * 100000000", "'%s' % x",
    "raise_exception('no')", "strftime_now('%d %b %Y')", "9223372036854775807", "-9223372036854775808", "1e308",
    "0.1", "\"\\u00e9\"", "'\\n'", "((((((((", "[[[[[[[[", "not not not not ", "- - - - ", "\xf0\x9f\xa6\x99", "\xff",
};

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    for (size_t n = 1 + below(&seed, 3); n; n--) {
        const char *piece = pieces[below(&seed, sizeof pieces / sizeof *pieces)];
        size_t length = strlen(piece), at = below(&seed, size + 1),
               out = below(&seed, 2) ? below(&seed, 12) : 0;
        if (below(&seed, 3) == 0) {
            size = LLVMFuzzerMutate(data, size, max_size);
            continue;
        }
        if (out > size - at)
            out = size - at;
        if (size - out + length > max_size)
            continue;
        memmove(data + at + length, data + at + out, size - at - out);
        memcpy(data + at, piece, length);
        size = size - out + length;
    }
    return size;
}

static void check_error(lm_status s, const lm_error *e)
{
    char text[1200];

    PROMISE(s == LM_BAD_MODEL || s == LM_UNSUPPORTED || s == LM_LIMIT || s == LM_USAGE || s == LM_FAILED);
    PROMISE(e->code == s && *e->message);
    PROMISE(!strpbrk(lm_error_text(e, text, sizeof text), "\n\r\t\x1b"));
}

/* Spans are in rising order, do not overlap and lie in the text. */
static void check_rendering(const lm_rendering *r)
{
    size_t last = 0;

    PROMISE(r->text.size <= (4u << 20) + 64);
    PROMISE(!r->text.data || !r->text.data[r->text.size]);
    for (size_t i = 0; i < r->n_content; i++) {
        PROMISE(r->content[i].from >= last && r->content[i].from <= r->content[i].to &&
                r->content[i].to <= r->text.size);
        last = r->content[i].to;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    size_t         n = end ? (size_t)(end - data) : size;
    const char    *context = end ? (const char *)end + 1 : contexts[size % 3];
    size_t         context_size = end ? size - n - 1 : strlen(context);
    lm_template   *t;
    lm_error       e = { .offset = LM_NO_OFFSET };
    lm_status      s = lm_template_new((const char *)data, n, "input", &t, &e);

    if (s != LM_OK) {
        check_error(s, &e);
        return 0;
    }
    lm_rendering r = { 0 };
    s = lm_template_render(t, context, context_size, &r, &e);
    if (s == LM_OK)
        check_rendering(&r);
    else
        check_error(s, &e);
    lm_rendering_free(&r);
    lm_template_free(t);
    return 0;
}
