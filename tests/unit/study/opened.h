/* opened.h - a preset as an open model, for tests that need no weights. */
#ifndef LM_TEST_OPENED_H
#define LM_TEST_OPENED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "lamina/model.h"
#include "lamina/preset.h"

/* Open a preset; the test fails if it cannot be opened. */
static inline lm_model *open_preset(const char *name)
{
    lm_model_options o = { .weights_optional = true };
    lm_model        *m = NULL;
    lm_error         e;
    char             path[64];

    snprintf(path, sizeof path, LM_PRESET_PREFIX "%s", name);
    if (lm_model_open(path, &o, &m, &e) != LM_OK)
        fail_msg("%s: %s", e.where, e.message);
    return m;
}

#endif
