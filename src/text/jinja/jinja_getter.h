/* jinja_getter.h - "a.b.0": what several filters look up in every item. */
#ifndef LM_TEXT_JINJA_GETTER_H
#define LM_TEXT_JINJA_GETTER_H

#include "text/jinja/jinja.h"

typedef struct jgetter {
    jval  *parts;
    size_t n;
    jval   otherwise;                    /* for what is undefined on the way; J_MISSING: nothing */
    bool   lower;                        /* strings are compared without case */
} jgetter;

/* `attribute`: a string with dots, an index, or J_MISSING or None: the item itself. */
bool lm_jgetter_make(jinja *m, jval attribute, bool lower, jval otherwise, jgetter *g);
bool lm_jgetter_get(jinja *m, const jgetter *g, jval item, jval *out);

#endif
