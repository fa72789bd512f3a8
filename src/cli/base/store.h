/* store.h - memory that is valid as long as a command runs: many small allocations, freed together.
 *
 * Allocations are zeroed and never move. NULL: out of memory. */
#ifndef LM_CLI_STORE_H
#define LM_CLI_STORE_H

#include <stddef.h>

typedef struct lm_store { struct lm_store_piece *last; } lm_store;       /* all zero: empty */

void *lm_store_array(lm_store *s, size_t n, size_t size);
#define lm_store_new(s, n, type) ((type *)lm_store_array((s), (n), sizeof(type)))

char *lm_store_strdup(lm_store *s, const char *text);
char *lm_store_strndup(lm_store *s, const char *text, size_t n);
char *lm_store_printf(lm_store *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

void lm_store_free(lm_store *s);

#endif
