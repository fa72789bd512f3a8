/* defaults_explain.c - default options for explaining models, which are all zero. */
#include "lamina/study.h"

#define DEFAULTS(options, name) \
    options name(void) { return (options){ 0 }; }

DEFAULTS(lm_facts_options, lm_facts_defaults)
DEFAULTS(lm_view_options, lm_view_defaults)
DEFAULTS(lm_compare_options, lm_compare_defaults)
DEFAULTS(lm_explain_options, lm_explain_defaults)
DEFAULTS(lm_report_options, lm_report_defaults)
DEFAULTS(lm_fit_options, lm_fit_defaults)
