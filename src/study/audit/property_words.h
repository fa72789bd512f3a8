/* property_words.h - the words of a text about properties as letters (property_words.c), which properties.c judges. */
#ifndef LM_ANALYSIS_AUDIT_PROPERTY_WORDS_H
#define LM_ANALYSIS_AUDIT_PROPERTY_WORDS_H

#include "study/audit/reading.h"

enum {
    HARMLESS = '.', UNKNOWN = '?', BREAK = ',', DOUBT = 'd', HEDGE = 'h',
    ATTENTION = 'a', ROTARY = 'r', LEARNED = 'l', SINUSOIDAL = 's', LINEAR = 'b',        /* subjects; LINEAR: biases of scores */
    INVARIANT = 'i', EQUIVARIANT = 'e', EXTRAPOLATES = 'x', EXTRAPOLATION = 'n',         /* properties */
    GOOD = '+', POOR = '-', ENABLES = 'v', DENIAL = '!',
    TICK = 'Y', CROSS = 'Z',         /* count if no word affirms or denies */
    MAY_DENY = 'm',                  /* a text in another language that may contain a negation */
    SCALED = 'c', FREQUENCY = 'f',   /* conditions: positions are scaled; their frequencies, or the window, are others */
    PART = 'k', CONTEXT = 'C',       /* of attention: the order of keys, of the context, has no effect on one query */
    NEED = 'u', UNLESS = 'U', CONTRAST = 'B',
};

/* Write a letter for each of the n items. `cell`: they are of a table. */
void lm_read_property_words(const lm_item *items, char *letters, size_t n, bool cell);

/* Return whether the item is one of the words of `list`, in lower case, each between spaces. */
bool lm_is_among(const lm_item *x, const char *list);

#endif
