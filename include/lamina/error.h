/* error.h - how every lamina function reports failure.
 *
 * Functions that can fail return an lm_status and write their results through out parameters, only on
 * success. An lm_error, owned by the caller and never allocated, describes what failed and where. It may be
 * NULL. */
#ifndef LAMINA_ERROR_H
#define LAMINA_ERROR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __GNUC__
#define LM_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define LM_PRINTF(text, first)
#endif

/* name, stable word used in JSON */
#define LM_STATUS_LIST(X)                             \
    X(LM_OK,           "ok")                          \
    X(LM_FAILED,       "failed")                      \
    X(LM_IO,           "io")                          \
    X(LM_NO_MEMORY,    "no_memory")                   \
    X(LM_NOT_FOUND,    "not_found")                   \
    X(LM_LIMIT,        "limit")                       \
    X(LM_USAGE,        "usage")                       \
    X(LM_BAD_MODEL,    "bad_model")                   \
    X(LM_UNSUPPORTED,  "unsupported")                 \
    X(LM_NO_FIT,       "no_fit")                      \
    X(LM_DIFFERS,      "differs")                     \
    X(LM_CANCELLED,    "cancelled")

typedef enum lm_status {
#define X(name, word) name,
    LM_STATUS_LIST(X)
#undef X
    LM_STATUS_COUNT
} lm_status;

#define LM_NO_OFFSET INT64_C(-1)

typedef struct lm_error {
    lm_status code;
    char      where[192];    /* tensor, metadata key, JSON pointer, flag …; "" when there is none */
    char      file[256];     /* path of the file concerned; "" when there is none */
    char      message[384];  /* one line, no trailing newline */
    char      hint[160];     /* what to do about it; "" when there is nothing to do */
    int64_t   offset;        /* byte offset in `file`, or LM_NO_OFFSET */
} lm_error;

/* The stable word of a status ("bad_model"), never NULL. */
const char *lm_status_word(lm_status s);

/* `WHERE: FILE: MESSAGE (offset N)` on one line: parts that are empty are left out, control characters are
 * escaped. Writes at most `size` bytes including the terminator and returns `out`. */
char *lm_error_text(const lm_error *e, char *out, size_t size);

/* Escape `text` for one line of a terminal: control characters, line separators, direction marks and invalid
 * UTF-8 become \xHH. Writes at most `size` bytes including the terminator, and whole characters only. */
void lm_escape(char *out, size_t size, const char *text);

/* ---- raising errors in programs and callbacks: thread-safe, `e` may be NULL ---- */

/* Return early when a call fails; its error is already written. */
#define LM_TRY(call)                      \
    do {                                  \
        lm_status lm_try_ = (call);       \
        if (lm_try_ != LM_OK)             \
            return lm_try_;               \
    } while (0)

/* Fill `e` and return `code`. `where` may be NULL; `offset` may be LM_NO_OFFSET. Bytes that are not printable
 * are escaped, so hostile names cannot break the one-line rule. lm_error_set takes the message as it is,
 * lm_fail as printf does. */
lm_status lm_error_set(lm_error *e, lm_status code, const char *where, int64_t offset, const char *message);
lm_status lm_fail(lm_error *e, lm_status code, const char *where, int64_t offset, const char *format, ...)
    LM_PRINTF(5, 6);

/* Set the file of an error that has none. Returns the last status raised by this thread, even if `e` is
 * NULL. */
lm_status lm_fail_in(lm_error *e, const char *file);

/* Add a hint ("convert it with …"). Returns the last status raised by this thread. */
lm_status lm_fail_hint(lm_error *e, const char *format, ...) LM_PRINTF(2, 3);

/* Report errno for the file `path` as LM_IO, or LM_NOT_FOUND if it does not exist: "WHAT: " and the system's
 * message. A missing file that "cannot be opened" is reported as "no such file or folder". */
lm_status lm_fail_errno(lm_error *e, const char *path, const char *what);

/* Report that allocating `what` failed; `bytes` 0: size unknown. */
lm_status lm_fail_memory(lm_error *e, const char *what, uint64_t bytes);

#ifdef __cplusplus
}
#endif
#endif
