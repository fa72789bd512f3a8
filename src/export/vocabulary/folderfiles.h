/* folderfiles.h - the small files of a Hugging Face folder created from a GGUF file. */
#ifndef LM_EXPORT_FOLDERFILES_H
#define LM_EXPORT_FOLDERFILES_H

#include <jansson.h>

#include "formats/container.h"

/* Create tokenizer.json and tokenizer_config.json, with chat templates, and the end tokens for
 * lm_generation_config (NULL: none). The first two are NULL if the file has no
 * vocabulary, or one that tokenizer.json cannot represent; then `notes` gets a line. They are read back and
 * must give the ids of the file, otherwise LM_UNSUPPORTED. The caller owns all. */
lm_status lm_folder_tokenizer(const lm_meta *m, lm_text *notes, json_t **tokenizer, json_t **config,
                              json_t **ends, lm_error *e);

/* Create generation_config.json, and the text of a README.md whose front matter contains the general.* keys,
 * which may be empty. */
json_t *lm_generation_config(const lm_meta *m, json_t *ends);
void    lm_folder_card(const lm_meta *m, lm_text *out);

#endif
