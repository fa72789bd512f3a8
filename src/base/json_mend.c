/* json_mend.c - repair what JSON allows and parsers cannot represent: numbers of any size, partial
 * characters. */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_exact.h"
#include "base/number.h"
#include "base/str.h"

#define REPLACED "\xEF\xBF\xBD"

typedef struct mending { const char *text; size_t n, at, mended; lm_text out; } mending;

/* ---- numbers ---- */

static bool in_number(char c)
{
    return (c >= '0' && c <= '9') || c == '.' || c == '+' || c == '-' || c == 'e' || c == 'E';
}

static void mend_number(mending *m)
{
    char digits[512];
    size_t from = m->at, n, kept;
    bool whole = true;

    for (; m->at < m->n && in_number(m->text[m->at]); m->at++)
        whole &= !strchr(".eE", m->text[m->at]);
    n = m->at - from;
    kept = n < sizeof digits ? n : sizeof digits - 1;
    memcpy(digits, m->text + from, kept);
    digits[kept] = 0;
    errno = 0;
    if (whole && n > 18)
        strtoll(digits, NULL, 10);
    double x = whole && n > kept ? (*digits == '-' ? -(double)INFINITY : (double)INFINITY)
                                 : lm_read_double(digits, NULL);
    if (isinf(x))
        lm_text_add_str(&m->out, x < 0 ? "-1.7976931348623157e308" : "1.7976931348623157e308");
    else if (whole && errno == ERANGE) {
        lm_text_printf(&m->out, "%.16e", x);
    } else {
        lm_text_add(&m->out, m->text + from, n);
    }
}

/* ---- characters ---- */

/* Return the number of the escape "\uXXXX" at `at`; -1: there is none. */
static long escaped(const mending *m, size_t at)
{
    char hex[5] = "", *end;
    long code;

    if (at + 6 > m->n || m->text[at] != '\\' || m->text[at + 1] != 'u')
        return -1;
    memcpy(hex, m->text + at + 2, 4);
    code = strtol(hex, &end, 16);
    return end == hex + 4 && hex[0] != '+' && hex[0] != '-' && hex[0] != ' ' ? code : -1;
}

static void mend_escape(mending *m)
{
    long code = escaped(m, m->at), next = escaped(m, m->at + 6);
    bool high = code >= 0xD800 && code <= 0xDBFF, pair = high && next >= 0xDC00 && next <= 0xDFFF;
    size_t n = pair ? 12 : code >= 0 ? 6 : 2;

    if (code >= 0xD800 && code <= 0xDFFF && !pair) {
        lm_text_add_str(&m->out, REPLACED);
        m->mended++;
    } else {
        n = n > m->n - m->at ? m->n - m->at : n;
        lm_text_add(&m->out, m->text + m->at, n);
    }
    m->at += n;
}

/* Return the size of the UTF-8 character at m->at; 0: it is not valid. */
static size_t whole_character(const mending *m)
{
    const unsigned char *s = (const unsigned char *)m->text + m->at;
    size_t left = m->n - m->at, n = *s < 0x80                 ? 1
                                    : *s >= 0xC2 && *s < 0xE0 ? 2
                                    : (*s & 0xF0) == 0xE0     ? 3
                                    : *s >= 0xF0 && *s < 0xF5 ? 4
                                                              : 0;

    if (!n || n > left)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF0 && s[1] < 0x90) ||
        (s[0] == 0xF4 && s[1] > 0x8F))
        return 0;
    return n;
}

static void mend_character(mending *m)
{
    size_t n = whole_character(m);

    if (n) {
        lm_text_add(&m->out, m->text + m->at, n);
        m->at += n;
        return;
    }
    lm_text_add_str(&m->out, REPLACED);
    m->mended++;
    do {
        m->at++;
    } while (m->at < m->n && ((unsigned char)m->text[m->at] & 0xC0) == 0x80);
}

static void mend_string(mending *m)
{
    lm_text_add_char(&m->out, m->text[m->at++]);
    while (m->at < m->n && m->text[m->at] != '"') {
        if (m->text[m->at] == '\\')
            mend_escape(m);
        else
            mend_character(m);
    }
    if (m->at < m->n)
        lm_text_add_char(&m->out, m->text[m->at++]);
}

size_t lm_text_add_mended_json(lm_text *t, const char *json, size_t n)
{
    mending m = { .text = json, .n = n };

    if (!t || !json)
        return 0;
    m.out = *t;
    while (m.at < n) {
        if (json[m.at] == '"')
            mend_string(&m);
        else if (json[m.at] == '-' || (json[m.at] >= '0' && json[m.at] <= '9'))
            mend_number(&m);
        else
            lm_text_add_char(&m.out, json[m.at++]);
    }
    *t = m.out;
    return m.mended;
}
