/* jinja_spec.h - one formatted field, as format() and % describe it. */
#ifndef LM_TEXT_JINJA_SPEC_H
#define LM_TEXT_JINJA_SPEC_H

#include "text/jinja/jinja.h"

enum { J_MAX_FIELD = 4096, J_MAX_DIGITS = 512 };

typedef struct jspec {
    const jstr *fill;
    char        align;                   /* < > ^ = or 0 */
    char        sign;                    /* + - or space */
    bool        alternate, zero;
    char        group;                   /* , _ or 0 */
    int64_t     width, precision;        /* -1: none */
    char        type;                    /* 0: none */
} jspec;

/* Write the digits of |v| in a base; returns their number, at most 64. */
size_t lm_jspec_digits(int64_t v, int base, bool upper, char *out);
int    lm_jspec_base(char type);
/* Write the sign and the prefix of the base ("-0x"). */
void   lm_jspec_prefix(bool negative, char sign, const char *base, char out[8]);
/* Append prefix and digits, an integer, a float or a text, padded to the width. */
void   lm_jspec_padded(jinja *m, jbuild *b, const char *prefix, const char *digits, size_t n, const jspec *f);
bool   lm_jspec_int(jinja *m, jbuild *b, int64_t v, const jspec *f);
bool   lm_jspec_float(jinja *m, jbuild *b, double v, const jspec *f);
bool   lm_jspec_text(jinja *m, jbuild *b, const jstr *s, const jspec *f);
/* Read a decimal number at *at and move past it; false: there is none. Large ones stay above J_MAX_FIELD. */
bool   lm_jspec_count(const jstr *s, size_t *at, int64_t *out);

#endif
