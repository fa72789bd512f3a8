/* error.h - how every lamina function reports failure.
 *
 * Functions that can fail return an lm_status and write their results through out parameters, only on success. An
 * lm_error, owned by the caller and never allocated, says what went wrong and where. Passing NULL for it is allowed. */
#ifndef LAMINA_ERROR_H
#define LAMINA_ERROR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* name, process exit status, stable word used in JSON */
#define LM_STATUS_LIST(X)                             \
    X(LM_OK,           0,   "ok")                     \
    X(LM_FAILED,       1,   "failed")                 \
    X(LM_IO,           1,   "io")                     \
    X(LM_NO_MEMORY,    1,   "no_memory")              \
    X(LM_NOT_FOUND,    1,   "not_found")              \
    X(LM_LIMIT,        1,   "limit")                  \
    X(LM_USAGE,        2,   "usage")                  \
    X(LM_BAD_MODEL,    3,   "bad_model")              \
    X(LM_UNSUPPORTED,  3,   "unsupported")            \
    X(LM_NO_FIT,       4,   "no_fit")                 \
    X(LM_DIFFERS,      5,   "differs")                \
    X(LM_CANCELLED,    130, "cancelled")

typedef enum lm_status {
#define X(name, exit_code, word) name,
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

/* The process exit status a command ends with. */
int lm_status_exit(lm_status s);

/* `WHERE: FILE: MESSAGE (offset N)` on one line: parts that are empty are left out, control characters are escaped.
 * Writes at most `size` bytes including the terminator and returns `out`. */
char *lm_error_text(const lm_error *e, char *out, uint64_t size);

#ifdef __cplusplus
}
#endif
#endif
