/* folderends.h - the end tokens of a folder as GGUF keys, and of a GGUF file as a folder's list. */
#ifndef LM_EXPORT_FOLDERENDS_H
#define LM_EXPORT_FOLDERENDS_H

#include <jansson.h>

#include "formats/endkeys.h"
#include "formats/gguf.h"
#include "text/vocab_spec.h"

typedef struct lm_folder_ends {
    int64_t  ids[LM_MAX_ENDS];       /* what eos_token_id of generation_config.json and config.json list */
    uint32_t n;
} lm_folder_ends;

/* Read the ids below `rows` from two documents, which may be NULL. */
void lm_folder_ends_listed(const json_t *generation, const json_t *model, uint32_t rows, lm_folder_ends *out);

/* Add the keys that are needed for a reader to find the folder's end tokens: of its tokenizer `t`, or those
 * in `listed` if t is NULL. `*eos` is the id of eos_token_id; -1: none is named, and the first end token
 * becomes it. `notes` gets a line if only LM_ENDS_KEY can hold them. LM_UNSUPPORTED: more than
 * LM_MAX_ENDS. */
lm_status lm_add_end_keys(lm_gguf_writer *w, const lm_tokenizer *t, const lm_folder_ends *listed,
                          uint32_t rows, int64_t *eos, lm_text *notes, lm_error *e);

/* Return eos_token_id for a generation_config.json: an id, a list, or NULL without end tokens. `t` NULL: the
 * file has no tokenizer that can be read. */
json_t *lm_ends_of_file(const lm_meta *m, const lm_tokenizer *t);

#endif
