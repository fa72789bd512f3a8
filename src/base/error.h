/* error.h - raise errors inside the library, with the functions of lamina/error.h. */
#ifndef LM_BASE_ERROR_H
#define LM_BASE_ERROR_H

#include <stdbool.h>

#include "lamina/error.h"

/* LM_TRY inside a function with one exit that frees: on failure it leaves for `label`, with the failure in
 * `status`. */
#define LM_TRY_GOTO(status, call, label)  \
    do {                                  \
        (status) = (call);                \
        if ((status) != LM_OK)            \
            goto label;                   \
    } while (0)

/* For the beginning of a public function. LM_REQUIRE: LM_USAGE if a required argument is NULL.
 * LM_CHECK_RESERVED: LM_USAGE if options (NULL: the defaults) have reserved words that are not zero, as those
 * of a later version may. */
#define LM_REQUIRE(e, given)                \
    do {                                  \
        if (!(given))                     \
            return lm_fail_null((e), __func__); \
    } while (0)
#define LM_CHECK_RESERVED(e, o)                    \
    do {                                  \
        if ((o) && lm_any_reserved((o)->reserved, sizeof (o)->reserved)) \
            return lm_fail_reserved((e), __func__); \
    } while (0)
lm_status lm_fail_null(lm_error *e, const char *function);
lm_status lm_fail_reserved(lm_error *e, const char *function);
bool      lm_any_reserved(const uint64_t *words, size_t bytes);

#endif
