/* textfile.c - read text, check its encoding, and parse JSON lines. */
#include "base/textfile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_exact.h"
#include "base/jsontext.h"
#include "base/utf8.h"

#define BYTE_ORDER_MARK "\xEF\xBB\xBF"

enum { MARK = sizeof BYTE_ORDER_MARK - 1 };

/* ---- encodings ---- */

static bool begins(const char *text, size_t n, const char *with, size_t size)
{
    return n >= size && memcmp(text, with, size) == 0;
}

/* Return UTF-16 or UTF-32 by the mark or by the zeros of ASCII letters. NULL: neither. */
static const char *wide_encoding(const char *text, size_t n)
{
    size_t zeros[4] = { 0 }, quads = n / 4;

    if (begins(text, n, "\xFF\xFE\0\0", 4))
        return "UTF-32LE";
    if (begins(text, n, "\xFF\xFE", 2))
        return "UTF-16LE";
    if (begins(text, n, "\xFE\xFF", 2))
        return "UTF-16BE";
    for (size_t i = 0; i < 4 * quads && i < 4096; i++)
        zeros[i % 4] += !text[i];
    quads = quads < 1024 ? quads : 1024;
    if (zeros[1] + zeros[3] > quads && zeros[0] + zeros[2] < quads / 4 + 1)
        return "UTF-16LE";
    return zeros[0] + zeros[2] > quads && zeros[1] + zeros[3] < quads / 4 + 1 ? "UTF-16BE" : NULL;
}

/* In windows-1252 most letters beyond ASCII stand alone between ASCII letters; words of windows-1251 are made
 * of them, from 0xC0 on; Chinese of GB 18030 consists of pairs. */
static const char *narrow_encoding(const char *text, size_t n, size_t bad)
{
    size_t high = 0, letters = 0, runs = 0, odd = 0, run = 0;

    for (size_t i = bad; i <= n && i < bad + 65536; i++) {
        unsigned char c = i < n ? (unsigned char)text[i] : 0;
        high += c >= 0x80;
        letters += c >= 0xC0;
        if (c < 0x80 && run) {
            runs++;
            odd += run % 2;
        }
        run = c >= 0x80 ? run + 1 : 0;
    }
    if (2 * runs > high)
        return "windows-1252";
    if (!odd && letters < high)
        return "gb18030";
    return 10 * letters > 9 * high ? "windows-1251" : "windows-1252";
}

/* Return whether the text is UTF-8 except for some bytes: a longer character is before the first invalid
 * byte, or the text ends within one. */
static bool is_damaged(const char *text, size_t n, size_t bad)
{
    for (size_t i = 0; i < bad; i++)
        if ((unsigned char)text[i] >= 0x80)
            return true;
    lm_utf8 last = lm_utf8_next(text + bad, n - bad);
    return last.state == LM_UTF8_CUT && last.size > 1;
}

lm_status lm_check_utf8(const char *text, size_t n, uint64_t offset, const char *name, lm_error *e)
{
    size_t bad = n ? lm_utf8_valid_prefix(text, n) : 0;
    const char *wide = wide_encoding(text, n), *likely;

    if (bad == n && !wide)
        return LM_OK;
    bad = wide ? 0 : bad;
    name = name && strlen(name) < 100 ? name : "FILE";
    if (!wide && is_damaged(text, n, bad)) {
        lm_fail(e, LM_USAGE, NULL, (int64_t)(offset + bad), "an invalid byte of UTF-8, 0x%02X",
                (unsigned char)text[bad]);
        return lm_fail_hint(e, "iconv -c -f utf-8 -t utf-8 %s, which drops such bytes", name);
    }
    likely = wide ? wide : narrow_encoding(text, n, bad);
    lm_fail(e, LM_USAGE, NULL, (int64_t)(offset + bad), "the text is not UTF-8, but probably %s", likely);
    return lm_fail_hint(e, "iconv -f %s -t utf-8 %s", likely, name);
}

/* Return the line that byte `at` is in, from 1. */
static size_t line_of(const char *text, size_t at)
{
    size_t line = 1;

    for (size_t i = 0; i < at; i++)
        line += text[i] == '\n';
    return line;
}

lm_status lm_check_text(lm_text *t, size_t from, const char *name, lm_error *e)
{
    uint64_t offset = 0;

    if (t->size >= from && begins(t->data + from, t->size - from, BYTE_ORDER_MARK, MARK)) {
        t->size -= MARK;
        memmove(t->data + from, t->data + from + MARK, t->size - from + 1);
        offset = MARK;
    }
    lm_status status = t->size > from ? lm_check_utf8(t->data + from, t->size - from, offset, name, e)
                                      : LM_OK;
    if (status != LM_OK && e)
        snprintf(e->where, sizeof e->where, "line %zu",
                 line_of(t->data + from, (size_t)e->offset - (size_t)offset));
    return status;
}

lm_status lm_read_bytes(FILE *f, const char *name, size_t max, lm_text *out, lm_error *e)
{
    char   chunk[4096];
    size_t n, before = out->size;

    do {
        n = fread(chunk, 1, sizeof chunk, f);
        lm_text_add(out, chunk, n);
    } while (n == sizeof chunk && !out->failed && out->size - before <= max);
    if (ferror(f))
        lm_fail(e, LM_IO, NULL, LM_NO_OFFSET, "%s", strerror(errno));
    else if (out->failed)
        lm_fail_memory(e, NULL, out->size);
    else if (out->size - before > max)
        lm_fail(e, LM_LIMIT, NULL, LM_NO_OFFSET, "longer than %zu bytes", max);
    else
        return LM_OK;
    return lm_fail_in(e, name);
}

lm_status lm_read_stream(FILE *f, const char *name, size_t max, lm_text *out, lm_error *e)
{
    size_t before = out->size;

    LM_TRY(lm_read_bytes(f, name, max, out, e));
    return lm_check_text(out, before, name, e) == LM_OK ? LM_OK : lm_fail_in(e, name);
}

/* ---- lines ---- */

lm_status lm_next_line(lm_text_lines *l, lm_text *out, bool *end, lm_error *e)
{
    char   chunk[4096];
    size_t n;
    int    c = 0;

    lm_text_clear(out);
    l->number++;
    while (!out->failed && out->size <= LM_MAX_INPUT && c != EOF && c != '\n') {
        for (n = 0; n < sizeof chunk && c != '\n' && (c = getc_unlocked(l->file)) != EOF; n++)
            chunk[n] = (char)c;
        lm_text_add(out, chunk, n);
    }
    if (c == EOF && ferror(l->file))
        return lm_fail(e, LM_IO, NULL, LM_NO_OFFSET, "%s", strerror(errno));
    if (out->failed)
        return lm_fail_memory(e, NULL, out->size);
    if (out->size > LM_MAX_INPUT)
        return lm_fail(e, LM_LIMIT, NULL, LM_NO_OFFSET, "a line is longer than %zu bytes", LM_MAX_INPUT);
    *end = c == EOF && out->size == 0;
    uint64_t offset = l->offset;
    l->offset += out->size;
    return l->number == 1 ? lm_check_text(out, 0, l->name, e)
           : out->size    ? lm_check_utf8(out->data, out->size, offset, l->name, e)
                          : LM_OK;
}

static bool is_blank(const lm_text *t)
{
    for (size_t i = 0; i < t->size; i++)
        if (!strchr(" \t\r\n", t->data[i]) || !t->data[i])
            return false;
    return true;
}

/* Parse a value, with numbers of any size. A lone surrogate stays an error. */
static json_t *read_value(const lm_text *t, size_t flags, json_error_t *why)
{
    json_t *value = json_loadb(t->data, t->size, flags, why);
    lm_text mended = { 0 };

    if (!value && lm_text_add_mended_json(&mended, t->data, t->size) == 0 && mended.data)
        value = json_loadb(mended.data, mended.size, flags, why);
    lm_text_free(&mended);
    return value;
}

/* Write `what number` before the location of an error, unless output cannot be written. */
static lm_status name_record(const char *what, uint64_t number, lm_status status, lm_error *e)
{
    char where[192];

    if (!e || (e->where[0] && status == LM_IO))
        return status;
    snprintf(where, sizeof where, "%s", e->where);
    snprintf(e->where, sizeof e->where, "%s %" PRIu64 "%s%.*s", what, number, *where ? ": " : "",
             (int)sizeof where - 34, where);
    return status;
}

/* Read the rest of a file whose first line is `line` as one array. */
static lm_status read_array(lm_text_lines *l, lm_text *line, size_t flags, lm_jsonl_line each, void *arg,
                            lm_error *e)
{
    lm_text      more = { 0 }, one = { 0 };
    bool         end = false;
    uint64_t     first = l->number;
    json_error_t why;
    json_t      *value, *all = NULL;
    size_t       i;
    lm_status    status = LM_OK;

    while (status == LM_OK && !end) {
        status = lm_next_line(l, &more, &end, e);
        lm_text_add(line, more.data, more.size);
        if (status == LM_OK && line->size > LM_MAX_INPUT)
            status = lm_fail(e, LM_LIMIT, NULL, LM_NO_OFFSET, "longer than %zu bytes", LM_MAX_INPUT);
    }
    if (status != LM_OK)
        name_record("line", l->number, status, e);
    else if (line->failed)
        status = lm_fail_memory(e, NULL, line->size);
    else if (!(all = read_value(line, flags, &why)))
        status = name_record("line", first + (why.line > 0 ? (uint64_t)why.line - 1 : 0),
                             lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "not JSON: %s", why.text), e);
    for (i = 0; status == LM_OK && i < json_array_size(all); i++) {
        value = json_array_get(all, i);
        lm_text_clear(&one);
        status = lm_json_print(value, JSON_COMPACT | JSON_ENCODE_ANY, &one)
                     ? each(arg, value, NULL, &one, e)
                     : lm_fail_memory(e, NULL, 0);
        if (status != LM_OK)
            name_record("record", i + 1, status, e);
    }
    json_decref(all);
    lm_text_free(&one);
    lm_text_free(&more);
    return status;
}

/* Parse one line and hand it to `each`, which may accept a line that cannot be read (`bad`). */
static lm_status read_line(lm_text *line, const lm_error *bad, size_t flags, lm_jsonl_line each, void *arg,
                           lm_error *e)
{
    json_error_t why;
    json_t      *value = bad ? NULL : read_value(line, flags, &why);
    lm_status    status = each(arg, value, bad ? bad->message : value ? NULL : why.text, line, e);

    json_decref(value);
    if (status == LM_OK || !bad || !e)
        return status;
    *e = *bad;
    return bad->code;
}

lm_status lm_jsonl_each(lm_text_lines *l, size_t flags, bool arrays, lm_jsonl_line each, void *arg,
                        lm_error *e)
{
    lm_text   line = { 0 };
    lm_status status;
    bool      end = false, first = true;

    for (;;) {
        lm_error bad = { 0 };
        status = lm_next_line(l, &line, &end, &bad);
        if (status != LM_OK && status != LM_USAGE) {
            if (e)
                *e = bad;
            break;
        }
        if (status == LM_OK && end)
            break;
        if (status == LM_OK && is_blank(&line))
            continue;
        if (status == LM_OK && arrays && first && line.data[strspn(line.data, " \t\r\n")] == '[') {
            status = read_array(l, &line, flags, each, arg, e);
            lm_text_free(&line);
            return status;
        }
        first  = false;
        status = read_line(&line, status == LM_OK ? NULL : &bad, flags, each, arg, e);
        if (status != LM_OK)
            break;
    }
    lm_text_free(&line);
    return status == LM_OK ? LM_OK : name_record("line", l->number, status, e);
}
