/* number.h - numbers as text. The decimal separator is a point, whatever the locale of the program that uses
 * the library; C's own functions obey setlocale. */
#ifndef LM_BASE_NUMBER_H
#define LM_BASE_NUMBER_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/* strtod and strtof; `end` may be NULL. */
double lm_read_double(const char *text, char **end);
float  lm_read_float(const char *text, char **end);

/* snprintf and vsnprintf. Formats without decimals need neither. */
int lm_print(char *out, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
int lm_vprint(char *out, size_t size, const char *format, va_list args) __attribute__((format(printf, 3, 0)));

/* Write a number of bytes with three digits: "46.2 GB", "512 B". */
enum { LM_SIZE_TEXT = 32 };
char *lm_size_text(char out[LM_SIZE_TEXT], uint64_t bytes);

/* Return a float as the shortest decimal that is the same float: 1e-05, not 9.99999975e-06. */
double lm_decimal(float x);

/* Write a double's shortest decimal that reads back the same. */
const char *lm_number_text(char out[32], double x);

#endif
