/* ggufkeys.h - the keys of a GGUF file that describe its model. */
#ifndef LM_EXPORT_GGUFKEYS_H
#define LM_EXPORT_GGUFKEYS_H

#include "arch/config.h"
#include "formats/gguf.h"

/* Return the GGUF architecture name of the family; NULL: it has no GGUF form. */
const char *lm_gguf_arch_of(const lm_family *f);

/* Add the keys of that architecture, as llama.cpp's converter writes them, from the configuration read from
 * config.json. LM_UNSUPPORTED: the format has no key for some part of it. */
lm_status lm_add_gguf_keys(lm_gguf_writer *w, const lm_family *f, const lm_config *c, const lm_program *p,
                           lm_error *e);

/* Set list [layers] to the layers that rotate; return whether others do not. */
bool lm_layers_that_rotate(const lm_program *p, bool *list);

/* Add the lists that hold one number of each layer (lm_weight.gguf_key); `read` gets the number of a
 * weight. */
typedef lm_status lm_number_reader(void *arg, uint32_t weight, float *out, lm_error *e);
lm_status lm_add_listed_numbers(lm_gguf_writer *w, const lm_program *p, lm_number_reader *read, void *arg,
                                lm_error *e);

#endif
