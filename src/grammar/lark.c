/* lark.c - grammars in Lark's notation as regular expressions: rules are expanded where they are used,
 * beginning with `start`, so a rule that uses itself has no expansion.
 *
 * Source: the grammar reference of Lark (lark-parser.readthedocs.io), of which this is what OpenAI's custom
 * tools use. Read from lm_grammar_lark_regex upwards. */
#include "lamina/grammar.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { MAX_RULES = 256, MAX_DEPTH = 48, MAX_PATTERN = 64 * 1024 };

/* A definition: its name, and where its alternatives begin. */
typedef struct rule { const char *name, *body; size_t n_name; bool active; } rule;

typedef struct lark {
    rule      rules[MAX_RULES];
    size_t    n;
    unsigned  depth;
    lm_text  *out;
    lm_error *e;
} lark;

/* Terminals of Lark's library `common`. */
static const struct { const char *name, *pattern; } common[] = {
    { "LF", "\\n" }, { "CR", "\\r" }, { "NEWLINE", "(?:\\r?\\n)+" }, { "WS", "[ \\t\\f\\r\\n]+" },
    { "WS_INLINE", "[ \\t]+" }, { "DIGIT", "[0-9]" }, { "HEXDIGIT", "[0-9a-fA-F]" }, { "INT", "[0-9]+" },
    { "SIGNED_INT", "[+-]?[0-9]+" }, { "LETTER", "[a-zA-Z]" }, { "UCASE_LETTER", "[A-Z]" },
    { "LCASE_LETTER", "[a-z]" }, { "WORD", "[a-zA-Z]+" }, { "CNAME", "[_a-zA-Z][_a-zA-Z0-9]*" },
};

static lm_status wrong(const lark *l, lm_status status, const char *what, const char *at)
{
    return lm_fail(l->e, status, NULL, LM_NO_OFFSET, "the Lark grammar %s at \"%.*s\"", what,
                   (int)strcspn(at, "\n") < 40 ? (int)strcspn(at, "\n") : 40, at);
}

static bool is_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static size_t name_size(const char *at)
{
    size_t n = 0;

    while (is_name(at[n]))
        n++;
    return n;
}

/* Skip spaces, comments, and line ends before a line that continues the definition. */
static const char *skip(const char *at)
{
    for (;;) {
        const char *next = at + strspn(at, " \t\r\n");

        if (strncmp(next, "//", 2) == 0)
            next += strcspn(next, "\n");
        else if (next > at && next[-1] == '\n' && *next != '|')
            return next - 1;                             /* a definition begins in column 0 */
        if (next == at)
            return at;
        at = next;
    }
}

static bool at_end(const char *at)
{
    return !*at || *at == '\n';
}

/* ---- texts ---- */

static void add_char(lark *l, char c, bool any_case)
{
    if (any_case && isalpha((unsigned char)c))
        lm_text_printf(l->out, "[%c%c]", tolower((unsigned char)c), toupper((unsigned char)c));
    else if (c == '\n')
        lm_text_add_str(l->out, "\\n");
    else if (is_name(c) || c == ' ' || (unsigned char)c < ' ' || (unsigned char)c >= 0x7F)
        lm_text_add_char(l->out, c);
    else
        lm_text_printf(l->out, "\\%c", c);
}

/* Read the character of a string at *at, which may be escaped. */
static bool read_char(const char **at, char *out)
{
    static const char letters[] = "nrtf\\\"'/", values[] = "\n\r\t\f\\\"'/";
    const char *found;

    if (!**at || **at == '\n')
        return false;
    if (**at != '\\') {
        *out = *(*at)++;
        return true;
    }
    found = (*at)[1] ? strchr(letters, (*at)[1]) : NULL;
    if (!found)
        return false;
    *out = values[found - letters];
    *at += 2;
    return true;
}

/* Write "text", "text"i or a range "a".."z". */
static lm_status add_string(lark *l, const char **at)
{
    const char *begin = *at, *end = begin + 1;
    char c, last;

    while (*end && *end != '"' && *end != '\n')
        end += *end == '\\' && end[1] ? 2 : 1;
    if (*end != '"')
        return wrong(l, LM_USAGE, "has a string without an end", begin);
    bool any_case = end[1] == 'i';
    *at = end + 1 + any_case;
    begin++;
    if (strncmp(*at, "..\"", 3) == 0) {
        const char *to = *at + 3;
        if (!read_char(&begin, &c) || begin != end || !read_char(&to, &last) || *to != '"')
            return wrong(l, LM_USAGE, "has a range that is not of two characters", end);
        lm_text_add_char(l->out, '[');
        add_char(l, c, false);
        lm_text_add_char(l->out, '-');
        add_char(l, last, false);
        lm_text_add_char(l->out, ']');
        *at = to + 1;
        return LM_OK;
    }
    lm_text_add_str(l->out, "(?:");
    while (begin < end) {
        if (!read_char(&begin, &c))
            return wrong(l, LM_UNSUPPORTED, "has an unknown escape sequence", begin);
        add_char(l, c, any_case);
    }
    lm_text_add_char(l->out, ')');
    return LM_OK;
}

/* Write /expression/. */
static lm_status add_expression(lark *l, const char **at)
{
    const char *begin = *at, *end = begin + 1;

    while (*end && *end != '/' && *end != '\n')
        end += *end == '\\' && end[1] ? 2 : 1;
    if (*end != '/')
        return wrong(l, LM_USAGE, "has an expression without an end", begin);
    if (isalpha((unsigned char)end[1]))
        return wrong(l, LM_UNSUPPORTED, "has an expression with flags, which are not supported,", begin);
    lm_text_add_str(l->out, "(?:");
    for (const char *c = begin + 1; c < end; c++)
        if (*c == '\\' && c[1] == '/')
            lm_text_add_str(l->out, "/"), c++;
        else if (*c == '\\')
            lm_text_add(l->out, c++, 2);
        else
            lm_text_add_char(l->out, *c);
    lm_text_add_char(l->out, ')');
    *at = end + 1;
    return LM_OK;
}

/* ---- rules ---- */

static lm_status add_alternatives(lark *l, const char **at, char close);

static lm_status add_name(lark *l, const char **at)
{
    const char *name = *at, *body;
    size_t n = name_size(name);
    lm_status status;

    *at += n;
    if (**at == '{')
        return wrong(l, LM_UNSUPPORTED, "has a template, which is not supported,", name);
    for (size_t i = 0; i < l->n; i++) {
        rule *r = &l->rules[i];

        if (r->n_name != n || memcmp(r->name, name, n) != 0)
            continue;
        if (r->active)
            return wrong(l, LM_UNSUPPORTED, "has a rule that uses itself, which is not supported,", r->name);
        r->active = true;
        body = r->body;
        status = add_alternatives(l, &body, 0);
        r->active = false;
        return status;
    }
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        if (strlen(common[i].name) == n && memcmp(common[i].name, name, n) == 0) {
            lm_text_printf(l->out, "(?:%s)", common[i].pattern);
            return LM_OK;
        }
    return wrong(l, LM_USAGE, "has no rule for the name", name);
}

/* Write ?, *, +, ~n and ~n..m. */
static lm_status add_suffix(lark *l, const char **at)
{
    unsigned long n, m;
    char *end;

    if (**at == '?' || **at == '*' || **at == '+') {
        lm_text_add_char(l->out, *(*at)++);
        return LM_OK;
    }
    if (**at != '~')
        return LM_OK;
    n = m = strtoul(*at + 1, &end, 10);
    if (strncmp(end, "..", 2) == 0)
        m = strtoul(end + 2, &end, 10);
    if (!isdigit((unsigned char)end[-1]) || m < n)
        return wrong(l, LM_USAGE, "has a repetition that is not ~n or ~n..m", *at);
    lm_text_printf(l->out, "{%lu,%lu}", n, m);
    *at = end;
    return LM_OK;
}

static lm_status add_item(lark *l, const char **at)
{
    char c = **at;
    lm_status status;

    if (c == '(' || c == '[') {
        ++*at;
        status = add_alternatives(l, at, c == '(' ? ')' : ']');
    } else if (c == '"') {
        status = add_string(l, at);
    } else if (c == '/') {
        status = add_expression(l, at);
    } else if (is_name(c)) {
        status = add_name(l, at);
    } else {
        return wrong(l, LM_USAGE, "is malformed", *at);
    }
    LM_TRY(status);
    if (c != '[')
        return add_suffix(l, at);
    lm_text_add_char(l->out, '?');
    return LM_OK;
}

/* Write alternatives up to `close`, or to the end of the definition. */
static lm_status add_alternatives(lark *l, const char **at, char close)
{
    if (++l->depth > MAX_DEPTH)
        return lm_fail(l->e, LM_LIMIT, NULL, LM_NO_OFFSET, "the Lark grammar is nested deeper than %d",
                       MAX_DEPTH);
    lm_text_add_str(l->out, "(?:");
    for (*at = skip(*at); !at_end(*at) && **at != close; *at = skip(*at)) {
        if (**at == '|') {
            lm_text_add_char(l->out, *(*at)++);
        } else if (strncmp(*at, "->", 2) == 0) {         /* a name for trees */
            *at = skip(*at + 2);
            *at += name_size(*at);
        } else {
            LM_TRY(add_item(l, at));
        }
        if (l->out->size > MAX_PATTERN)
            return lm_fail(l->e, LM_LIMIT, NULL, LM_NO_OFFSET,
                           "the Lark grammar has an expansion of more than %d bytes", MAX_PATTERN);
    }
    lm_text_add_char(l->out, ')');
    l->depth--;
    if (close && **at != close)
        return wrong(l, LM_USAGE, "has a group without an end", *at);
    *at += close != 0;
    return LM_OK;
}

/* ---- definitions ---- */

/* Read the definition, or the directive, that begins a line. */
static lm_status read_definition(lark *l, const char *at)
{
    const char *name = at + strspn(at, "?!");
    size_t n = name_size(name);
    const char *body = name + n;

    if (strncmp(at, "%import common", 14) == 0 && !strstr(at, "->"))
        return LM_OK;
    if (*at == '%')
        return wrong(l, LM_UNSUPPORTED, "has a directive that is not supported", at);
    if (*body == '.')                                    /* a priority */
        body += 1 + strspn(body + 1, "-0123456789");
    body += strspn(body, " \t");
    if (!n || *body != ':')
        return wrong(l, *body == '{' ? LM_UNSUPPORTED : LM_USAGE, "has no definition", at);
    if (l->n == MAX_RULES)
        return lm_fail(l->e, LM_LIMIT, NULL, LM_NO_OFFSET, "the Lark grammar has more than %d rules",
                       MAX_RULES);
    l->rules[l->n++] = (rule){ .name = name, .n_name = n, .body = body + 1 };
    return LM_OK;
}

lm_status lm_grammar_lark_regex(const char *grammar, lm_text *out, lm_error *e)
{
    LM_REQUIRE(e, grammar && out);
    lark l = { .out = out, .e = e };
    const char *start = "start";

    for (const char *at = grammar; *at; at += strcspn(at, "\n"), at += *at == '\n')
        if (!strchr(" \t\r\n|", *at) && strncmp(at, "//", 2) != 0)
            LM_TRY(read_definition(&l, at));
    LM_TRY(add_name(&l, &start));
    return out->failed ? lm_fail_memory(e, "a grammar", out->size) : LM_OK;
}
