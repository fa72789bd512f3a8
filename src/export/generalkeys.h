/* generalkeys.h - what a GGUF file says of where its model comes from. */
#ifndef LM_EXPORT_GENERALKEYS_H
#define LM_EXPORT_GENERALKEYS_H

#include "formats/gguf.h"
#include "program/program.h"

/* general.* but the architecture and the type of file: name, size, licence, authors, languages, tags, the models and data that it was
 * made from, sampling,
 * from README.md, config.json and generation_config.json of a folder, as llama.cpp's converter reads them. `name` NULL: the folder's. */
lm_status lm_add_general_keys(lm_gguf_writer *w, lm_container *folder, const char *name, uint64_t parameters, uint32_t n_experts,
                              const lm_program *p,
                              lm_text *notes, lm_error *e);

#endif
