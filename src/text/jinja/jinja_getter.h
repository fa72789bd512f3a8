/* jinja_getter.h - "a.b.0": a path that several filters look up in each item. */
#ifndef LM_TEXT_JINJA_GETTER_H
#define LM_TEXT_JINJA_GETTER_H

#include "text/jinja/jinja.h"

typedef struct jgetter {
    jval  *parts;
    size_t n;
    jval   otherwise;                    /* replaces an undefined value on the path; J_MISSING: nothing
                                            does */
    bool   lower;                        /* strings are compared without case */
} jgetter;

/* Make a getter. `attribute`: a string with dots or an index; J_MISSING or None: the item itself. */
bool lm_jgetter_make(jinja *m, jval attribute, bool lower, jval otherwise, jgetter *g);
bool lm_jgetter_get(jinja *m, const jgetter *g, jval item, jval *out);

#endif
