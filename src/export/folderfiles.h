/* folderfiles.h - the small files of a Hugging Face folder that is made of a GGUF file. */
#ifndef LM_EXPORT_FOLDERFILES_H
#define LM_EXPORT_FOLDERFILES_H

#include <jansson.h>

#include "formats/container.h"

/* tokenizer.json and tokenizer_config.json, with chat templates; NULL where the file has no vocabulary, or one that tokenizer.json has
 * no form for, which
 * is a line of `notes`. Read back they give the ids of the file, or LM_UNSUPPORTED. Both are the caller's. */
lm_status lm_folder_tokenizer(const lm_meta *m, lm_text *notes, json_t **tokenizer, json_t **config, lm_error *e);

/* generation_config.json; and a README.md whose front matter says what general.* does, as text that may be empty. */
json_t *lm_generation_config(const lm_meta *m);
void    lm_folder_card(const lm_meta *m, lm_text *out);

#endif
