/* status.h - assertions about the status of calls, which show the error if it is not the expected one. */
#ifndef LM_TEST_STATUS_H
#define LM_TEST_STATUS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"

#define assert_ok(call)                                              \
    do {                                                             \
        lm_error  e_ = { .offset = LM_NO_OFFSET };                   \
        lm_error *e = &e_;                                           \
        char      text_[1200];                                       \
        if ((call) != LM_OK)                                         \
            fail_msg("%s: %s", #call, lm_error_text(e, text_, sizeof text_)); \
    } while (0)

/* Assert that the call fails with this status and a message that contains `part`. */
#define assert_fails(status, part, call)                             \
    do {                                                             \
        lm_error  e_ = { .offset = LM_NO_OFFSET };                   \
        lm_error *e = &e_;                                           \
        char      text_[1200];                                       \
        assert_string_equal(lm_status_word(status), lm_status_word(call)); \
        assert_int_equal(e->code, status);                           \
        if (!strstr(lm_error_text(e, text_, sizeof text_), part))    \
            fail_msg("%s: \"%s\" is not in: %s", #call, part, text_); \
    } while (0)

#endif
