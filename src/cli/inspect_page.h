/* inspect_page.h - the pages of `lamina inspect` for people, from the JSON that scripts read. */
#ifndef LM_CLI_INSPECT_PAGE_H
#define LM_CLI_INSPECT_PAGE_H

#include <jansson.h>

#include "base/str.h"
#include "lamina/model.h"

void lm_inspect_page(const json_t *report, const lm_model_info *info, bool bars, lm_buf *out);     /* of LM_REPORT_INSPECT */
void lm_inspect_tensors(const json_t *tensors, lm_buf *out);                 /* of LM_REPORT_TENSORS */
void lm_inspect_metadata(const json_t *metadata, lm_buf *out);               /* of LM_REPORT_METADATA */

#endif
