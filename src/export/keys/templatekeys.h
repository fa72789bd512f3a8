/* templatekeys.h - write a folder's chat templates as GGUF keys. */
#ifndef LM_EXPORT_TEMPLATEKEYS_H
#define LM_EXPORT_TEMPLATEKEYS_H

#include <jansson.h>

#include "formats/gguf.h"

/* Add tokenizer.chat_template, tokenizer.chat_template.NAME and the list of names from the first existing
 * source: `config` (tokenizer_config.json; may be NULL), chat_template.jinja, chat_template.json. */
lm_status lm_add_template_keys(lm_gguf_writer *w, lm_container *c, const json_t *config, lm_text *notes,
                               lm_error *e);

#endif
