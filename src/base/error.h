/* error.h - raising errors inside the library. The type is public: lamina/error.h. */
#ifndef LM_BASE_ERROR_H
#define LM_BASE_ERROR_H

#include <stddef.h>

#include "lamina/error.h"

/* Return early when a call fails; its error is already written. */
#define LM_TRY(call)                      \
    do {                                  \
        lm_status lm_try_ = (call);       \
        if (lm_try_ != LM_OK)             \
            return lm_try_;               \
    } while (0)

/* The same inside a function with one exit that frees: needs `lm_status status` and a label `done`. */
#define LM_TRY_GOTO(call)                 \
    do {                                  \
        status = (call);                  \
        if (status != LM_OK)              \
            goto done;                    \
    } while (0)

/* Fill `e` (may be NULL) and return `code`. `where` may be NULL; `offset` may be LM_NO_OFFSET. Bytes of the message that
 * are not printable are escaped, so hostile names cannot break the one-line rule. */
lm_status lm_fail(lm_error *e, lm_status code, const char *where, int64_t offset, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Name the file of an error that has none yet. Returns what was raised last, also when `e` is NULL. */
lm_status lm_fail_in(lm_error *e, const char *file);

/* Add a hint line ("convert it with …"). Returns what was raised last. */
lm_status lm_fail_hint(lm_error *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* LM_IO about the file `path`, LM_NOT_FOUND where there is none: "WHAT: " and what errno says. */
lm_status lm_fail_errno(lm_error *e, const char *path, const char *what);

/* Out of memory while making `what`. */
lm_status lm_fail_memory(lm_error *e, const char *what, uint64_t bytes);

/* `text` as it may be shown on one line of a terminal: control characters, line separators, direction marks and bytes that
 * are not UTF-8 become \xHH. At most `size` bytes, the terminator included; never half a character. */
void lm_escape(char *out, size_t size, const char *text);

#endif
