/* svg_parts.h - append drawings that are not graphs as SVG. */
#ifndef LM_ANALYSIS_SVG_PARTS_H
#define LM_ANALYSIS_SVG_PARTS_H

#include <stdbool.h>

#include "base/str.h"

/* Query heads and the groups in which they read keys and values; `groups` divides `heads`. */
typedef struct lm_sharing { const char *title; uint64_t heads, groups; } lm_sharing;

void lm_svg_heads(const lm_sharing *kinds, size_t n, const char *name, bool alone, lm_text *out);

/* The cache after each of n tokens; each token adds `bytes`. */
void lm_svg_cache(const char *const *pieces, size_t n, uint64_t bytes, const char *name, bool alone,
                  lm_text *out);

/* The keys that each of n queries sees. `sink`: a column before the n keys that every query sees. */
/* window 0: all earlier keys */
typedef struct lm_mask { const char *title; unsigned n, window; bool sink, chunked; } lm_mask;

bool lm_mask_sees(const lm_mask *m, unsigned query, unsigned key);
void lm_svg_mask(const lm_mask *masks, size_t n, const char *name, bool alone, lm_text *out);

/* The kind of each of n layers, 0 to n_kinds - 1, and a line of the legend for each kind. */
enum { LM_PATTERN_KINDS = 6 };
void lm_svg_pattern(const uint32_t *kind_of, uint32_t n, const char *const *legend, uint32_t n_kinds,
                    const char *name, bool alone, lm_text *out);

#endif
