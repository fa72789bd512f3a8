/* generalkeys.h - GGUF keys for the origin of a model. */
#ifndef LM_EXPORT_GENERALKEYS_H
#define LM_EXPORT_GENERALKEYS_H

#include "formats/gguf.h"
#include "program/program.h"

/* Add general.* except the architecture and the file type: name, size, licence, authors, languages, tags,
 * base models and datasets, sampling parameters. They come from README.md, config.json and
 * generation_config.json of a folder, in the same way as in llama.cpp's converter. `name` NULL: the name of
 * the folder. */
lm_status lm_add_general_keys(lm_gguf_writer *w, lm_container *folder, const char *name, uint64_t parameters,
                              uint32_t n_experts, const lm_program *p, lm_text *notes, lm_error *e);

#endif
