/* defaults.c - functions that return default options, which are all zero. */
#include "lamina/lamina.h"

#define DEFAULTS(options, name) \
    options name(void) { return (options){ 0 }; }

DEFAULTS(lm_tokenizer_options, lm_tokenizer_defaults)
DEFAULTS(lm_model_options, lm_model_defaults)
DEFAULTS(lm_engine_options, lm_engine_defaults)
DEFAULTS(lm_embed_options, lm_embed_defaults)
DEFAULTS(lm_verify_options, lm_verify_defaults)
DEFAULTS(lm_allot_options, lm_allot_defaults)
DEFAULTS(lm_diff_options, lm_diff_defaults)
DEFAULTS(lm_eval_text_options, lm_eval_text_defaults)
DEFAULTS(lm_measure_options, lm_measure_defaults)
DEFAULTS(lm_imatrix_options, lm_imatrix_defaults)
DEFAULTS(lm_convert_options, lm_convert_defaults)
DEFAULTS(lm_quantize_options, lm_quantize_defaults)
DEFAULTS(lm_synth_options, lm_synth_defaults)
DEFAULTS(lm_trace_options, lm_trace_defaults)
DEFAULTS(lm_sizes, lm_sizes_defaults)
