/* probes.h - texts that tell tokenizers apart. */
#ifndef LM_EXPORT_PROBES_H
#define LM_EXPORT_PROBES_H

#include "base/str.h"
#include "lamina/text.h"

enum { LM_PROBES = 6 };
extern const char *const lm_probes[LM_PROBES];

/* Set *same if two tokenizers give the same ids for all probes, with and without the tokens added around a
 * text. */
lm_status lm_probe_tokenizers(const lm_tokenizer *a, const lm_tokenizer *b, bool *same, lm_error *e);

#endif
