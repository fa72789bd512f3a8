/* jinja_lexer.c - see jinja_lexer.h. The rules are those of jinja2/lexer.py 3.1 and are tried in its
 * order. */
#include "text/jinja/jinja_lexer.h"

#include <stdio.h>
#include <string.h>

#include "text/jinja/jinja_ast.h"

typedef struct lexer {
    const char *s;
    size_t      size;
    size_t      at;
    lm_arena   *arena;
    lm_error   *e;
    jtoken     *items;
    size_t      n, capacity;
    bool        line_starting;    /* the last match ended a line */
    char       *closing;          /* open brackets, as the characters that close them */
    size_t      n_closing, closing_capacity;
} lexer;

static const char *const token_names[] = {
#define X(name, text) text,
    JINJA_TOKENS(X)
#undef X
};

const char *lm_jinja_token_name(jtoken_type t) { return token_names[t]; }

void lm_jinja_position(const char *source, size_t size, size_t at, char out[48])
{
    size_t line = 1, column = 1;

    for (size_t i = 0; i < at && i < size; i++) {
        if (source[i] == '\n') {
            line++;
            column = 1;
        } else if (((unsigned char)source[i] & 0xC0) != 0x80) {
            column++;
        }
    }
    snprintf(out, 48, "line %zu, column %zu", line, column);
}

__attribute__((format(printf, 3, 4)))
static lm_status fail(const lexer *l, size_t at, const char *format, ...)
{
    char where[48], message[256];
    va_list args;

    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    lm_jinja_position(l->s, l->size, at, where);
    return lm_fail(l->e, LM_BAD_MODEL, where, LM_NO_OFFSET, "%s", message);
}

static lm_status add(lexer *l, jtoken t)
{
    if (l->n == l->capacity) {
        size_t capacity = l->capacity ? 2 * l->capacity : 256;
        jtoken *items = lm_arena_new(l->arena, capacity, jtoken);
        if (!items)
            return lm_fail_memory(l->e, "a template's tokens", capacity * sizeof *items);
        if (l->n)
            memcpy(items, l->items, l->n * sizeof *items);
        l->items = items;
        l->capacity = capacity;
    }
    l->items[l->n++] = t;
    return LM_OK;
}

static bool looking_at(const lexer *l, size_t at, const char *what)
{
    size_t n = strlen(what);
    return l->size - at >= n && memcmp(l->s + at, what, n) == 0;
}

static size_t skip_space(const lexer *l, size_t at)
{
    size_t n;
    while (at < l->size && lm_cp_is_space(lm_cp_at(l->s, at, &n)))
        at += n;
    return at;
}

/* Return where the white space that ends at `to` begins. */
static size_t space_before(const lexer *l, size_t from, size_t to)
{
    size_t n;
    while (to > from && lm_cp_is_space(lm_cp_before(l->s, to, &n)))
        to -= n;
    return to;
}

/* Add template data [from, to) before a tag. `sign` is the tag's: '-' strips, '+' keeps, 0 strips white space
 * that is alone on its line before a block or comment. */
static lm_status add_data(lexer *l, size_t from, size_t to, char sign, bool is_variable)
{
    if (sign == '-') {
        to = space_before(l, from, to);
    } else if (sign != '+' && !is_variable) {
        size_t line = to;
        while (line > from && l->s[line - 1] != '\n')
            line--;
        if ((line > from || l->line_starting) && skip_space(l, line) >= to)
            to = line;
    }
    if (to == from)
        return LM_OK;
    return add(l, (jtoken){ .type = T_DATA, .at = (uint32_t)from, .text = { l->s + from, to - from } });
}

static char sign_at(const lexer *l, size_t at)
{
    return at < l->size && (l->s[at] == '-' || l->s[at] == '+') ? l->s[at] : 0;
}

/* Match the closing `end` of a tag at `at`, which may begin with a sign. True: it matches, and text continues
 * at *to. */
static bool tag_end(const lexer *l, size_t at, const char *end, bool may_keep, bool trims, size_t *to)
{
    char sign = sign_at(l, at);
    size_t from = at + (sign ? 1 : 0);

    if (!looking_at(l, from, end) || (sign == '+' && !may_keep))
        return false;
    from += strlen(end);
    if (sign == '-')
        from = skip_space(l, from);
    else if (!sign && trims && from < l->size && l->s[from] == '\n')
        from++;
    *to = from;
    return true;
}

static void move(lexer *l, size_t to)
{
    l->line_starting = to > 0 && l->s[to - 1] == '\n';
    l->at = to;
}

static lm_status lex_comment(lexer *l, size_t at)
{
    for (size_t i = at; i < l->size; i++) {
        size_t to;
        if (tag_end(l, i, "#}", true, true, &to)) {
            move(l, to);
            return LM_OK;
        }
    }
    if (at < l->size)
        return fail(l, at, "missing end of comment tag");
    l->at = at;                                     /* nothing after the opening: jinja2 accepts that */
    return LM_OK;
}

/* Match `{% raw %}` at `at`: *to is where its text begins. */
static bool raw_begin(const lexer *l, size_t at, size_t *to)
{
    size_t i = at + 2;
    i += sign_at(l, i) ? 1 : 0;
    i = skip_space(l, i);
    if (!looking_at(l, i, "raw"))
        return false;
    return tag_end(l, skip_space(l, i + 3), "%}", false, false, to);
}

static lm_status lex_raw(lexer *l, size_t from)
{
    move(l, from);
    for (size_t i = from; i < l->size; i++) {
        size_t to, j = i + 2;
        if (!looking_at(l, i, "{%"))
            continue;
        char sign = sign_at(l, j);
        j = skip_space(l, j + (sign ? 1 : 0));
        if (!looking_at(l, j, "endraw") || !tag_end(l, skip_space(l, j + 6), "%}", true, true, &to))
            continue;
        LM_TRY(add_data(l, from, i, sign, false));
        move(l, to);
        return LM_OK;
    }
    if (from < l->size)
        return fail(l, from, "missing end of raw directive");
    return LM_OK;
}

/* Read `digits` hexadecimal digits after the escape letter at s[*i]. */
static lm_status hex_escape(const lexer *l, size_t start, size_t end, size_t *i, int digits, int32_t *cp)
{
    uint32_t value = 0;
    for (int d = 1; d <= digits; d++) {
        int h = *i + (size_t)d < end ? lm_hex_digit(l->s[*i + (size_t)d]) : -1;
        if (h < 0)
            return fail(l, start, "truncated \\%c escape", l->s[*i]);
        value = value * 16 + (uint32_t)h;
    }
    if (value > 0x10FFFF)
        return fail(l, start, "illegal Unicode character");
    *cp = (int32_t)value;
    *i += (size_t)digits;
    return LM_OK;
}

/* Read the number of an escape, octal or after x, u or U. A pair of \\u surrogates is one character. */
static lm_status numbered(const lexer *l, size_t start, size_t end, size_t *i, int32_t *cp)
{
    char c = l->s[*i];

    if (c >= '0' && c <= '7') {
        *cp = c - '0';
        for (int d = 0; d < 2 && *i + 1 < end && l->s[*i + 1] >= '0' && l->s[*i + 1] <= '7'; d++)
            *cp = *cp * 8 + (l->s[++*i] - '0');
        return LM_OK;
    }
    LM_TRY(hex_escape(l, start, end, i, c == 'x' ? 2 : c == 'u' ? 4 : 8, cp));
    if (*cp >= 0xD800 && *cp < 0xDC00 && *i + 6 < end && l->s[*i + 1] == '\\' && l->s[*i + 2] == 'u') {
        int32_t low = 0;
        *i += 2;
        LM_TRY(hex_escape(l, start, end, i, 4, &low));
        if (low >= 0xDC00 && low < 0xE000)
            *cp = 0x10000 + ((*cp - 0xD800) << 10) + (low - 0xDC00);
    }
    return *cp >= 0xD800 && *cp < 0xE000 ? fail(l, start, "a lone surrogate in a string") : LM_OK;
}

/* Decode one escape of a string literal; *i is at the character after the backslash and moves to the last one
 * of the escape. */
static lm_status unescape(const lexer *l, size_t start, size_t end, size_t *i, char *out, size_t *n)
{
    static const char simple[] = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v";
    char c = l->s[*i];
    int32_t cp = 0;

    for (size_t k = 0; k + 1 < sizeof simple; k += 2) {
        if (simple[k] == c) {
            out[(*n)++] = simple[k + 1];
            return LM_OK;
        }
    }
    if (c == '\n')
        return LM_OK;
    if ((c >= '0' && c <= '7') || c == 'x' || c == 'u' || c == 'U') {
        LM_TRY(numbered(l, start, end, i, &cp));
    } else if (c == 'N') {
        return fail(l, start, "\\N{…} escapes are not supported");
    } else if ((unsigned char)c >= 0x80) {
        /* Python's round trip through ASCII makes the code point's own escape visible here. */
        size_t length;
        int32_t wide = lm_cp_at(l->s, *i, &length);
        const char *format = wide < 0x100 ? "\\x%02x" : wide < 0x10000 ? "\\u%04x" : "\\U%08x";
        *n += (size_t)snprintf(out + *n, 11, format, (unsigned)wide);
        *i += length - 1;
        return LM_OK;
    } else {
        out[(*n)++] = '\\';
        out[(*n)++] = c;
        return LM_OK;
    }
    *n += lm_utf8_encode((uint32_t)cp, out + *n);
    return LM_OK;
}

static lm_status lex_string(lexer *l)
{
    size_t start = l->at, end = start + 1, n = 0;

    while (end < l->size && l->s[end] != l->s[start])
        end += l->s[end] == '\\' ? 2 : 1;
    if (end >= l->size)
        return fail(l, start, "unexpected char %s: the string does not end",
                    l->s[start] == '"' ? "'\"'" : "\"'\"");

    /* An escape never grows, except that of a wide character after a backslash: 3 bytes become 6, 4 become
     * 10. */
    char *out = lm_arena_alloc(l->arena, 3 * (end - start) + 1);
    if (!out)
        return lm_fail_memory(l->e, "a string of a template", end - start);
    for (size_t i = start + 1; i < end; i++) {
        if (l->s[i] != '\\') {
            out[n++] = l->s[i];
            continue;
        }
        i++;
        LM_TRY(unescape(l, start, end, &i, out, &n));
    }
    l->at = end + 1;
    return add(l, (jtoken){ .type = T_STRING, .at = (uint32_t)start, .text = { out, n } });
}

/* Match (\d+_)*\d+ at `i`: digits with underscores only between them. Returns the end, or `i` if there are
 * none. */
static size_t digits_end(const lexer *l, size_t i)
{
    size_t end = i;
    while (i < l->size && l->s[i] >= '0' && l->s[i] <= '9') {
        end = ++i;
        if (i + 1 < l->size && l->s[i] == '_' && l->s[i + 1] >= '0' && l->s[i + 1] <= '9')
            i++;
    }
    return end;
}

static size_t float_end(const lexer *l)
{
    size_t i = digits_end(l, l->at), fraction = i, end = l->at;

    if (i == l->at || (l->at > 0 && l->s[l->at - 1] == '.'))
        return l->at;
    if (i + 1 < l->size && l->s[i] == '.' && digits_end(l, i + 1) > i + 1)
        end = fraction = digits_end(l, i + 1);
    if (fraction < l->size && (l->s[fraction] == 'e' || l->s[fraction] == 'E')) {
        size_t sign = fraction + 1;
        if (sign < l->size && (l->s[sign] == '+' || l->s[sign] == '-'))
            sign++;
        if (digits_end(l, sign) > sign)
            end = digits_end(l, sign);
    }
    return end;
}

static size_t integer_end(const lexer *l, int *base)
{
    static const struct { char letter; int base; } prefixes[] = { { 'b', 2 }, { 'o', 8 }, { 'x', 16 } };
    size_t i = l->at;

    *base = 10;
    if (l->s[i] != '0')
        return digits_end(l, i);
    for (size_t p = 0; p < 3; p++) {
        if (i + 1 < l->size && (l->s[i + 1] | 0x20) == prefixes[p].letter) {
            size_t end = i + 2, next = end;
            for (;;) {
                size_t d = next + (next < l->size && l->s[next] == '_' ? 1 : 0);
                int h = d < l->size ? lm_hex_digit(l->s[d]) : -1;
                if (h < 0 || h >= prefixes[p].base)
                    break;
                end = next = d + 1;
            }
            if (end > i + 2) {
                *base = prefixes[p].base;
                return end;
            }
        }
    }
    for (i++; i < l->size;) {
        if (l->s[i] == '0')
            i++;
        else if (l->s[i] == '_' && i + 1 < l->size && l->s[i + 1] == '0')
            i += 2;
        else
            break;
    }
    return i;
}

static lm_status lex_number(lexer *l)
{
    size_t start = l->at, end = float_end(l);
    jtoken t = { .type = T_FLOAT, .at = (uint32_t)start };
    int base;
    bool overflow = false;

    if (end > start) {
        if (!lm_float_read(l->s + start, end - start, &t.real))
            return fail(l, start, "a number that cannot be read");
    } else {
        t.type = T_INTEGER;
        end = integer_end(l, &base);
        if (!lm_int_read(l->s + start, end - start, base, &t.integer, &overflow))
            return fail(l, start, overflow ? "an integer beyond 64 bits" : "a number that cannot be read");
    }
    l->at = end;
    return add(l, t);
}

static lm_status lex_name(lexer *l)
{
    size_t start = l->at, n;
    int32_t first = lm_cp_at(l->s, start, &n);

    while (l->at < l->size && lm_cp_is_word(lm_cp_at(l->s, l->at, &n)))
        l->at += n;
    if (first != '_' && (!lm_cp_is_word(first) || lm_cp_is_numeric(first)))
        return fail(l, start, "invalid character in identifier");
    return add(l, (jtoken){ .type = T_NAME, .at = (uint32_t)start, .text = { l->s + start, l->at - start } });
}

static lm_status balance(lexer *l, char c)
{
    static const char opening[] = "([{", closing[] = ")]}";
    const char *p;

    if ((p = strchr(opening, c))) {
        if (l->n_closing == l->closing_capacity) {
            size_t capacity = l->closing_capacity ? 2 * l->closing_capacity : 64;
            char *grown = lm_arena_alloc(l->arena, capacity);
            if (!grown)
                return lm_fail_memory(l->e, "open brackets", capacity);
            if (l->n_closing)
                memcpy(grown, l->closing, l->n_closing);
            l->closing = grown;
            l->closing_capacity = capacity;
        }
        l->closing[l->n_closing++] = closing[p - opening];
    } else if (strchr(closing, c)) {
        if (!l->n_closing)
            return fail(l, l->at, "unexpected '%c'", c);
        if (l->closing[--l->n_closing] != c)
            return fail(l, l->at, "unexpected '%c', expected '%c'", c, l->closing[l->n_closing]);
    }
    return LM_OK;
}

static lm_status lex_operator(lexer *l)
{
    for (int t = T_POW; t < T_COUNT; t++) {
        if (!looking_at(l, l->at, token_names[t]))
            continue;
        LM_TRY(balance(l, l->s[l->at]));
        LM_TRY(add(l, (jtoken){ .type = (jtoken_type)t, .at = (uint32_t)l->at }));
        l->at += strlen(token_names[t]);
        return LM_OK;
    }
    size_t n;
    lm_cp_at(l->s, l->at, &n);
    return fail(l, l->at, "unexpected char '%.*s'", (int)n, l->s + l->at);
}

/* Split the inside of {{ … }} or {% … %} into tokens, including its end. */
static lm_status lex_tag(lexer *l, bool is_variable)
{
    const char *end = is_variable ? "}}" : "%}";

    while (l->at < l->size) {
        size_t to, n;
        if (!l->n_closing && tag_end(l, l->at, end, !is_variable, !is_variable, &to)) {
            LM_TRY(add(l, (jtoken){ .type = is_variable ? T_VARIABLE_END : T_BLOCK_END,
                                    .at = (uint32_t)l->at }));
            move(l, to);
            return LM_OK;
        }
        int32_t c = lm_cp_at(l->s, l->at, &n);
        if (lm_cp_is_space(c))
            l->at = skip_space(l, l->at);
        else if (c >= '0' && c <= '9')
            LM_TRY(lex_number(l));
        else if (lm_cp_is_word(c))
            LM_TRY(lex_name(l));
        else if (c == '"' || c == '\'')
            LM_TRY(lex_string(l));
        else
            LM_TRY(lex_operator(l));
    }
    return LM_OK;
}

/* Add the text up to the next tag, and the tag. */
static lm_status lex_root(lexer *l)
{
    size_t from = l->at, i = from, to;

    while (i < l->size && !(l->s[i] == '{' && i + 1 < l->size && strchr("{%#", l->s[i + 1]) && l->s[i + 1]))
        i++;
    if (i >= l->size) {
        l->at = l->size;
        return add(l,
                   (jtoken){ .type = T_DATA, .at = (uint32_t)from, .text = { l->s + from, l->size - from } });
    }

    char kind = l->s[i + 1], sign = sign_at(l, i + 2);
    LM_TRY(add_data(l, from, i, sign, kind == '{'));
    if (kind == '%' && raw_begin(l, i, &to))
        return lex_raw(l, to);
    l->at = i + 2 + (sign ? 1 : 0);
    if (kind == '#')
        return lex_comment(l, l->at);
    LM_TRY(add(l, (jtoken){ .type = kind == '{' ? T_VARIABLE_BEGIN : T_BLOCK_BEGIN, .at = (uint32_t)i }));
    return lex_tag(l, kind == '{');
}

lm_status lm_jinja_lex(const char *source, size_t size, lm_arena *arena, jtokens *out, lm_error *e)
{
    lexer l = { .s = source, .size = size, .arena = arena, .e = e, .line_starting = true };

    while (l.at < l.size)
        LM_TRY(lex_root(&l));
    LM_TRY(add(&l, (jtoken){ .type = T_EOF, .at = (uint32_t)size }));
    *out = (jtokens){ l.items, l.n };
    return LM_OK;
}
