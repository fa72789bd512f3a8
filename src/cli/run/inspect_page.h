/* inspect_page.h - lists of a file's tensors and metadata as text, from their JSON reports. */
#ifndef LM_CLI_INSPECT_PAGE_H
#define LM_CLI_INSPECT_PAGE_H

#include <jansson.h>

#include "lamina/buffer.h"

void lm_inspect_tensors(const json_t *tensors, lm_text *out);                 /* from LM_REPORT_TENSORS */
void lm_inspect_metadata(json_t *metadata, lm_text *out);                     /* from LM_REPORT_METADATA */

#endif
