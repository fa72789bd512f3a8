/* map.h - a hash map from byte strings to 64-bit values. Keys are views that the caller keeps alive. Keyed
 * hashing (SipHash from libsodium with a random key): malicious keys cannot make it slow. */
#ifndef LM_BASE_MAP_H
#define LM_BASE_MAP_H

#include <stdbool.h>

#include "base/str.h"

typedef struct lm_map lm_map;

lm_map *lm_map_new(size_t expected);
void    lm_map_free(lm_map *m);
/* Add a key; false: it exists already (the old value stays), or out of memory (see lm_map_failed). */
bool    lm_map_add(lm_map *m, lm_view key, uint64_t value);
bool    lm_map_set(lm_map *m, lm_view key, uint64_t value);   /* adds or replaces; false: out of memory */
bool    lm_map_get(const lm_map *m, lm_view key, uint64_t *value);
bool    lm_map_failed(const lm_map *m);

#endif
