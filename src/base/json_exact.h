/* json_exact.h - JSON text changed so that parsers keep what it says. Not exported: the program and the
 * server include it too (tests/lint/rules_modules.py). Implemented in json_mend.c and widenum.c.
 * Thread-safe on distinct texts. */
#ifndef LM_BASE_JSON_EXACT_H
#define LM_BASE_JSON_EXACT_H

#include "lamina/buffer.h"

/* Append JSON changed so that any parser reads it: numbers beyond a double or a 64-bit integer become the
 * nearest that fits; lone surrogates and bytes that are not UTF-8 become U+FFFD. Returns how many of the
 * latter there were. Syntax errors stay. */
size_t lm_text_add_mended_json(lm_text *t, const char *json, size_t n);

/* Integers of any size, through parsers that make doubles of them. First: append the numbers of `json` from
 * 2^63 on, one a line. Second: append `json`, in which numbers of that list (NULL or empty: none) are written
 * as in the list again. LM_USAGE, `where` "numbers": two numbers of the list are the same double; nothing is
 * appended. */
void lm_text_add_wide_numbers(lm_text *t, const char *json, size_t n);
lm_status lm_text_add_exact_json(lm_text *t, const char *json, size_t n, const lm_text *wide, lm_error *e);

#endif
