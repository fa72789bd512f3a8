/* exact.h - JSON for templates, with numbers as clients wrote them. Threads: any. */
#ifndef LM_SERVER_EXACT_H
#define LM_SERVER_EXACT_H

#include <jansson.h>

#include "lamina/buffer.h"

/* Append the document to `out`; numbers in `wide`, a list of lm_text_add_wide_numbers, are written as in that
 * list. It fails as lm_text_add_exact_json does. */
lm_status lm_json_exact(const json_t *o, const lm_text *wide, lm_text *out, lm_error *e);

#endif
