/* ggufkeys.h - what a GGUF file says about its model. */
#ifndef LM_EXPORT_GGUFKEYS_H
#define LM_EXPORT_GGUFKEYS_H

#include "arch/config.h"
#include "formats/gguf.h"

/* The architecture that GGUF files of the family name; NULL: there are none. */
const char *lm_gguf_arch_of(const lm_family *f);

/* The keys under that architecture, as llama.cpp's converter writes them, from the configuration that config.json gave.
 * LM_UNSUPPORTED for what the format has no key for. */
lm_status lm_add_gguf_keys(lm_gguf_writer *w, const lm_family *f, const lm_config *c, const lm_program *p, lm_error *e);

#endif
