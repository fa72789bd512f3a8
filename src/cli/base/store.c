/* store.c - a linked list of allocations. */
#include "cli/base/store.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct lm_store_piece {
    struct lm_store_piece *before;
    _Alignas(max_align_t) unsigned char data[];
} piece;

void *lm_store_array(lm_store *s, size_t n, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, size, &bytes) || bytes > SIZE_MAX - sizeof(piece))
        return NULL;
    piece *p = calloc(1, sizeof *p + bytes);
    if (!p)
        return NULL;
    p->before = s->last;
    s->last = p;
    return p->data;
}

char *lm_store_strndup(lm_store *s, const char *text, size_t n)
{
    char *p = n < SIZE_MAX ? lm_store_array(s, n + 1, 1) : NULL;

    if (p && n)
        memcpy(p, text, n);
    return p;
}

char *lm_store_strdup(lm_store *s, const char *text)
{
    return lm_store_strndup(s, text, strlen(text));
}

char *lm_store_printf(lm_store *s, const char *format, ...)
{
    va_list args, again;

    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    char *p = n < 0 ? NULL : lm_store_array(s, (size_t)n + 1, 1);
    if (p)
        vsnprintf(p, (size_t)n + 1, format, again);
    va_end(again);
    va_end(args);
    return p;
}

void lm_store_free(lm_store *s)
{
    for (piece *p = s->last, *before; p; p = before) {
        before = p->before;
        free(p);
    }
    s->last = NULL;
}
