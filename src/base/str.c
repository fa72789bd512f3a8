/* str.c - views and buffers of bytes. */
#include "base/str.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"

lm_view lm_view_of(const char *s)
{
    return (lm_view){ s, s ? strlen(s) : 0 };
}

bool lm_view_equal(lm_view a, lm_view b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

bool lm_view_is(lm_view a, const char *s)
{
    return lm_view_equal(a, lm_view_of(s));
}

bool lm_view_starts(lm_view a, lm_view prefix)
{
    return a.size >= prefix.size && (prefix.size == 0 || memcmp(a.data, prefix.data, prefix.size) == 0);
}

bool lm_view_ends(lm_view a, lm_view suffix)
{
    return a.size >= suffix.size &&
           (suffix.size == 0 || memcmp(a.data + a.size - suffix.size, suffix.data, suffix.size) == 0);
}

bool lm_text_reserve(lm_text *b, size_t more)
{
    if (b->failed)
        return false;
    if (more < b->capacity - b->size)
        return true;
    if (more > SIZE_MAX / 2 - b->size - 1) {
        b->failed = true;
        return false;
    }
    size_t need = b->size + more + 1, capacity = b->capacity ? b->capacity : 64;
    while (capacity < need)
        capacity *= 2;
    char *p = lm_realloc(b->data, capacity);
    if (!p) {
        b->failed = true;
        return false;
    }
    b->data          = p;
    b->capacity      = capacity;
    b->data[b->size] = '\0';
    return true;
}

void lm_text_add(lm_text *b, const void *data, size_t n)
{
    if (!b || (!data && n))
        return;
    if (!lm_text_reserve(b, n))
        return;
    if (n)
        memcpy(b->data + b->size, data, n);
    b->size += n;
    b->data[b->size] = '\0';
}

void lm_text_add_str(lm_text *b, const char *s)
{
    if (s)
        lm_text_add(b, s, strlen(s));
}

void lm_text_add_view(lm_text *b, lm_view v)
{
    lm_text_add(b, v.data, v.size);
}

void lm_text_add_char(lm_text *b, char c)
{
    if (!b)
        return;
    lm_text_add(b, &c, 1);
}

void lm_text_vprintf(lm_text *b, const char *format, va_list args)
{
    va_list again;

    va_copy(again, args);
    int n = lm_vprint(NULL, 0, format, args);
    if (n < 0)
        b->failed = true;
    else if (lm_text_reserve(b, (size_t)n)) {
        lm_vprint(b->data + b->size, (size_t)n + 1, format, again);
        b->size += (size_t)n;
    }
    va_end(again);
}

void lm_text_printf(lm_text *b, const char *format, ...)
{
    if (!b || !format)
        return;
    va_list args;

    va_start(args, format);
    lm_text_vprintf(b, format, args);
    va_end(args);
}

void lm_text_cut(lm_text *t, size_t size)
{
    if (t->data)
        t->data[size] = '\0';
    t->size = size;
}

void lm_text_clear(lm_text *b)
{
    if (!b)
        return;
    b->size   = 0;
    b->failed = false;
    if (b->data)
        b->data[0] = '\0';
}

void lm_text_free(lm_text *b)
{
    if (!b)
        return;
    lm_free(b->data);
    *b = (lm_text){ 0 };
}

lm_view lm_text_view(const lm_text *b)
{
    return (lm_view){ b->data, b->size };
}

int lm_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

size_t lm_edit_distance(const char *a, const char *b)
{
    enum { MAX = 64 };
    size_t m = strlen(a), n = strlen(b), rows[3][MAX + 1] = { { 0 } }, *before = rows[0], *above = rows[1],
           *row = rows[2];

    if (m > MAX || n > MAX)
        return m > n ? m : n;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; i <= m; i++) {
        size_t *oldest = before;
        before         = above;
        above          = row;
        row            = oldest;
        row[0]         = i;
        for (size_t j = 1; j <= n; j++) {
            size_t best = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < best)
                best = above[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
    }
    return row[n];
}

const char *lm_text_string(const lm_text *b, size_t i)
{
    const char *p = b->data, *end = p + b->size;

    for (; p && p < end; p += strlen(p) + 1)
        if (i-- == 0)
            return p;
    return NULL;
}
