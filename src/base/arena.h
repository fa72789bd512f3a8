/* arena.h - memory with one lifetime: many small pieces, freed together.
 *
 * Pieces are 16-byte aligned and never move. Not thread-safe. */
#ifndef LM_BASE_ARENA_H
#define LM_BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lm_arena_block lm_arena_block;

typedef struct lm_arena {
    lm_arena_block *head;
    uint64_t        used;    /* bytes allocated */
} lm_arena;                  /* all zero: an empty arena */

/* Return `bytes` of zeroed memory, or NULL. lm_arena_new: an array of n `type`. */
void *lm_arena_alloc(lm_arena *a, size_t bytes);
void *lm_arena_array(lm_arena *a, size_t n, size_t size);
#define lm_arena_new(a, n, type) ((type *)lm_arena_array((a), (n), sizeof(type)))

/* Return a NUL-terminated copy. NULL: out of memory. */
char *lm_arena_strdup(lm_arena *a, const char *s);
char *lm_arena_strndup(lm_arena *a, const char *s, size_t n);
char *lm_arena_printf(lm_arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *lm_arena_vprintf(lm_arena *a, const char *format, va_list args) __attribute__((format(printf, 2, 0)));

/* Return the lines of these bytes that end in a line feed, as strings: `*n` of them. NULL: out of memory. */
const char *const *lm_arena_lines(lm_arena *a, const char *text, size_t size, size_t *n);

/* Free all pieces. */
void lm_arena_free(lm_arena *a);

#endif
