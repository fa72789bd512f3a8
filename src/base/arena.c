/* arena.c - blocks that grow geometrically. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"

#define FIRST_BLOCK ((size_t)4096)
#define LARGEST     ((size_t)1 << 20)

struct lm_arena_block {
    lm_arena_block *next;
    size_t          size, at;
    _Alignas(16) unsigned char data[];
};

void *lm_arena_alloc(lm_arena *a, size_t bytes)
{
    size_t need = (bytes + 15) & ~(size_t)15;

    if (need < bytes)
        return NULL;
    if (!a->head || a->head->size - a->head->at < need) {
        size_t size = a->head ? a->head->size * 2 : FIRST_BLOCK;
        if (size > LARGEST)
            size = LARGEST;
        if (size < need)
            size = need;
        if (size > SIZE_MAX - sizeof(lm_arena_block))
            return NULL;
        lm_arena_block *b = lm_alloc(sizeof *b + size);
        if (!b)
            return NULL;
        *b      = (lm_arena_block){ .next = a->head, .size = size };
        a->head = b;
    }
    void *p = a->head->data + a->head->at;
    a->head->at += need;
    a->used += need;
    return memset(p, 0, bytes);
}

void *lm_arena_array(lm_arena *a, size_t n, size_t size)
{
    size_t bytes;

    return __builtin_mul_overflow(n, size, &bytes) ? NULL : lm_arena_alloc(a, bytes);
}

char *lm_arena_strndup(lm_arena *a, const char *s, size_t n)
{
    char *p = n < SIZE_MAX ? lm_arena_alloc(a, n + 1) : NULL;

    if (p && n)
        memcpy(p, s, n);
    return p;
}

char *lm_arena_strdup(lm_arena *a, const char *s)
{
    return lm_arena_strndup(a, s, strlen(s));
}

/* Format short strings, which are nearly all, only once. */
char *lm_arena_vprintf(lm_arena *a, const char *format, va_list args)
{
    va_list again;
    char    text[256];

    va_copy(again, args);
    int   n = lm_vprint(text, sizeof text, format, args);
    char *p = n >= 0 ? lm_arena_alloc(a, (size_t)n + 1) : NULL;
    if (p && (size_t)n < sizeof text)
        memcpy(p, text, (size_t)n + 1);
    else if (p)
        lm_vprint(p, (size_t)n + 1, format, again);
    va_end(again);
    return p;
}

char *lm_arena_printf(lm_arena *a, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    char *p = lm_arena_vprintf(a, format, args);
    va_end(args);
    return p;
}

void lm_arena_free(lm_arena *a)
{
    for (lm_arena_block *b = a->head, *next; b; b = next) {
        next = b->next;
        lm_free(b);
    }
    *a = (lm_arena){ 0 };
}

const char *const *lm_arena_lines(lm_arena *a, const char *text, size_t size, size_t *n)
{
    size_t lines = 0;

    *n = 0;
    for (size_t i = 0; i < size; i++)
        lines += text[i] == '\n';
    const char **list = lm_arena_new(a, lines + 1, const char *);
    for (size_t at = 0; list && *n < lines;) {
        size_t length = (size_t)((const char *)memchr(text + at, '\n', size - at) - (text + at));
        if (!(list[(*n)++] = lm_arena_strndup(a, text + at, length)))
            return NULL;
        at += length + 1;
    }
    return list;
}
