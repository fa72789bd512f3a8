/* notation.c - calls in special notations: Python's, as LFM2 writes them, and Gemma 4's. */
#include <jansson.h>
#include <string.h>

#include "base/str.h"
#include "text/answer/written.h"

enum { MAX_DEPTH = 64, MAX_NAME = 256 };

static lm_answer_reading wait_or_none(const lm_reader *r)
{
    return r->final || r->at < r->n ? LM_READ_NONE : LM_READ_MORE;
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
}

/* Read the name [*from, at). Something must follow it, so that it is known to be complete. */
static lm_answer_reading read_name(lm_reader *r, size_t *from)
{
    lm_reader_space(r);
    *from = r->at;
    while (r->at < r->n && is_name(r->s[r->at]))
        r->at++;
    if (r->at == r->n && !r->final)
        return r->at - *from > MAX_NAME ? LM_READ_NONE : LM_READ_MORE;
    return r->at > *from && r->at - *from <= MAX_NAME ? LM_READ_DONE : LM_READ_NONE;
}

/* Return the next character after white space; '\0': none. */
static char next(lm_reader *r)
{
    lm_reader_space(r);
    return r->at < r->n ? r->s[r->at] : '\0';
}

/* ---- plain values: numbers and words of JSON and Python ---- */

static lm_answer_reading read_plain(lm_reader *r, lm_text *out)
{
    static const char *const words[][2] = { { "True", "true" }, { "False", "false" }, { "None", "null" } };
    size_t from = r->at;
    json_t *v;

    while (r->at < r->n && (is_name(r->s[r->at]) || r->s[r->at] == '+'))
        r->at++;
    if (r->at == r->n)
        return wait_or_none(r);
    while (from + 1 < r->at && r->s[from] == '0' && r->s[from + 1] >= '0' && r->s[from + 1] <= '9')
        from++;                                          /* dates are written so: month=07 */
    for (size_t i = 0; i < 3; i++)
        if (strlen(words[i][0]) == r->at - from && memcmp(words[i][0], r->s + from, r->at - from) == 0) {
            lm_text_add_str(out, words[i][1]);
            return LM_READ_DONE;
        }
    v = json_loadb(r->s + from, r->at - from, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, NULL);
    if (!v)
        return LM_READ_NONE;
    json_decref(v);
    lm_text_add(out, r->s + from, r->at - from);
    return LM_READ_DONE;
}

/* ---- Python ---- */

static bool read_hex(const lm_reader *r, unsigned digits, uint32_t *code)
{
    *code = 0;
    for (unsigned i = 0; i < digits; i++) {
        int d = lm_hex_digit(r->s[r->at + i]);
        if (d < 0)
            return false;
        *code = *code * 16 + (uint32_t)d;
    }
    return *code <= 0x10ffff;
}

static void add_code(lm_text *out, uint32_t c)
{
    char b[4];
    size_t n = 0;

    if (c < 0x80) {
        b[n++] = (char)c;
    } else if (c < 0x800) {
        b[n++] = (char)(0xc0 | c >> 6);
        b[n++] = (char)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        b[n++] = (char)(0xe0 | c >> 12);
        b[n++] = (char)(0x80 | (c >> 6 & 63));
        b[n++] = (char)(0x80 | (c & 63));
    } else {
        b[n++] = (char)(0xf0 | c >> 18);
        b[n++] = (char)(0x80 | (c >> 12 & 63));
        b[n++] = (char)(0x80 | (c >> 6 & 63));
        b[n++] = (char)(0x80 | (c & 63));
    }
    lm_text_add(out, b, n);
}

/* Read what follows a backslash. */
static lm_answer_reading read_escape(lm_reader *r, lm_text *text)
{
    static const char from[] = "ntrbf0'\"\\/a", to[] = "\n\t\r\b\f\0'\"\\/\a";
    unsigned digits;
    uint32_t code;
    const char *at;
    char c;

    if (r->at == r->n)
        return wait_or_none(r);
    c = r->s[r->at++];
    digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits) {
        if (r->n - r->at < digits)
            return r->final ? LM_READ_NONE : LM_READ_MORE;
        if (!read_hex(r, digits, &code))
            return LM_READ_NONE;
        r->at += digits;
        add_code(text, code);
        return LM_READ_DONE;
    }
    if (c && (at = strchr(from, c))) {
        lm_text_add(text, to + (at - from), 1);
    } else {
        lm_text_add_char(text, '\\');                    /* unknown escapes stay as they are */
        lm_text_add_char(text, c);
    }
    return LM_READ_DONE;
}

static lm_answer_reading python_string(lm_reader *r, lm_text *out)
{
    char quote = r->s[r->at++];
    lm_text text = { 0 };
    lm_answer_reading was = LM_READ_MORE;

    while (r->at < r->n) {
        char c = r->s[r->at++];
        if (c == quote) {
            lm_text_add_json(out, text.data ? text.data : "", text.size);
            lm_text_free(&text);
            return LM_READ_DONE;
        }
        if (c != '\\')
            lm_text_add_char(&text, c);
        else if ((was = read_escape(r, &text)) != LM_READ_DONE)
            break;
    }
    lm_text_add_json_start(out, text.data ? text.data : "", text.size);
    lm_text_free(&text);
    return r->at < r->n ? was : wait_or_none(r);
}

/* ---- lists and objects ---- */

typedef lm_answer_reading part_reader(lm_reader *r, unsigned depth, lm_text *out);

/* How members are written. */
typedef struct notation {
    part_reader *key, *value;
    char         colon;              /* between a key and its value */
    bool         trailing;           /* a comma may follow the last member */
} notation;

/* Read the key of a member. */
static lm_answer_reading name_key(lm_reader *r, unsigned depth, lm_text *out)
{
    size_t from;
    lm_answer_reading was = read_name(r, &from);

    (void)depth;
    if (was == LM_READ_DONE)
        lm_text_add_json(out, r->s + from, r->at - from);
    return was;
}

/* Read values, or pairs of keys and values, from the opening bracket up to `close`. */
static lm_answer_reading read_members(lm_reader *r, const notation *f, bool pairs, char close, unsigned depth,
                                      lm_text *out)
{
    lm_answer_reading was;
    char c;

    r->at++;
    lm_text_add_char(out, pairs ? '{' : '[');
    for (unsigned i = 0; (c = next(r)) != close; i++) {
        if (!c)
            return wait_or_none(r);
        if (i && c != ',')
            return LM_READ_NONE;
        if (i) {
            r->at++;
            c = next(r);
            if (f->trailing && !c)
                return wait_or_none(r);
            if (f->trailing && c == close)
                break;
            lm_text_add_str(out, ", ");
        }
        if (pairs) {
            if ((was = f->key(r, depth, out)) != LM_READ_DONE)
                return was;
            if (next(r) != f->colon)
                return wait_or_none(r);
            r->at++;
            lm_text_add_str(out, ": ");
        }
        if ((was = f->value(r, depth, out)) != LM_READ_DONE)
            return was;
    }
    r->at++;
    lm_text_add_char(out, pairs ? '}' : ']');
    return LM_READ_DONE;
}

/* ---- Python ---- */

static part_reader python_key, python_value;
static const notation python = { python_key, python_value, ':', true };
static const notation python_call = { name_key, python_value, '=', false };

static lm_answer_reading python_key(lm_reader *r, unsigned depth, lm_text *out)
{
    char c = next(r);

    return c == '"' || c == '\'' ? python_value(r, depth, out) : LM_READ_NONE;
}

/* Find out whether braces hold the pairs of a dict or the values of a set, which becomes a list. Both begin
 * with a word, a number or a string. */
static lm_answer_reading holds_pairs(lm_reader r, bool *pairs)
{
    lm_text first = { 0 };
    lm_answer_reading was = LM_READ_DONE;

    r.at++;
    char c = next(&r);
    if (c != '}') {
        was = c == '\'' || c == '"' ? python_string(&r, &first) : read_plain(&r, &first);
        c = next(&r);
        *pairs = c == ':';
        if (was == LM_READ_DONE && !c)
            was = wait_or_none(&r);
    }
    lm_text_free(&first);
    return was;
}

static lm_answer_reading python_value(lm_reader *r, unsigned depth, lm_text *out)
{
    char c = next(r);
    lm_answer_reading was;

    if (!c || depth > MAX_DEPTH)
        return depth > MAX_DEPTH ? LM_READ_NONE : wait_or_none(r);
    if (c == '\'' || c == '"')
        return python_string(r, out);
    if (!strchr("[{(", c))
        return read_plain(r, out);
    bool pairs = c == '{';
    if (pairs && (was = holds_pairs(*r, &pairs)) != LM_READ_DONE)
        return was;
    return read_members(r, &python, pairs, c == '{' ? '}' : c == '(' ? ')' : ']', depth + 1, out);
}

lm_answer_reading lm_call_python(const lm_answer_options *o, lm_reader *r, lm_written *out)
{
    size_t from;
    lm_answer_reading was = read_name(r, &from);

    if (was != LM_READ_DONE)
        return was;
    const lm_answer_tool *tool = lm_tool_of(o, r->s + from, r->at - from);
    if (!tool)
        return LM_READ_NONE;
    if (next(r) != '(')
        return wait_or_none(r);
    out->tool = tool;
    was = read_members(r, &python_call, true, ')', 0, &out->arguments);
    out->complete = was == LM_READ_DONE;
    out->end      = r->at;
    return was;
}

/* ---- Gemma 4 ---- */

static part_reader gemma_value;
static const notation gemma = { name_key, gemma_value, ':', false };

/* The marks around strings of the two families that write calls with braces. */
static const char *const quotes[] = { "<|\"|>", "<escape>" };

static lm_answer_reading gemma_value(lm_reader *r, unsigned depth, lm_text *out)
{
    lm_text text = { 0 };
    char c = next(r);
    lm_answer_reading was;

    if (!c || depth > MAX_DEPTH)
        return depth > MAX_DEPTH ? LM_READ_NONE : wait_or_none(r);
    if (c == '{' || c == '[')
        return read_members(r, &gemma, c == '{', c == '{' ? '}' : ']', depth + 1, out);
    if (c != '<')
        return read_plain(r, out);
    const char *quote = r->at + 1 < r->n && r->s[r->at + 1] == 'e' ? quotes[1] : quotes[0];
    if (r->at + 1 == r->n)
        return r->final ? LM_READ_NONE : LM_READ_MORE;
    if ((was = lm_reader_mark(r, quote)) != LM_READ_DONE)
        return was;
    if ((was = lm_reader_until(r, quote, SIZE_MAX / 2, &text)) == LM_READ_DONE)
        lm_text_add_json(out, text.data ? text.data : "", text.size);
    else
        lm_text_add_json_start(out, r->s + r->at, r->n - r->at - lm_reader_part(r, quote));
    lm_text_free(&text);
    return was;
}

lm_answer_reading lm_call_gemma(const lm_answer_family *f, const lm_answer_options *o, lm_reader *r,
                                lm_written *out)
{
    size_t from;
    lm_answer_reading was = lm_reader_mark(r, "call:");

    if (was == LM_READ_DONE)
        was = read_name(r, &from);
    if (was != LM_READ_DONE)
        return was;
    const lm_answer_tool *tool = lm_tool_of(o, r->s + from, r->at - from);
    if (!tool)
        return LM_READ_NONE;
    if (next(r) != '{')
        return wait_or_none(r);
    out->tool = tool;
    was = read_members(r, &gemma, true, '}', 0, &out->arguments);
    out->complete = was == LM_READ_DONE;
    out->end      = r->at;
    return was == LM_READ_DONE ? lm_call_close(f, r) : was;
}
