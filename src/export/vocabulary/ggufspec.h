/* ggufspec.h - the vocabulary of a GGUF file's keys, as lists. */
#ifndef LM_EXPORT_GGUFSPEC_H
#define LM_EXPORT_GGUFSPEC_H

#include "formats/container.h"
#include "text/vocab_spec.h"

/* Read the vocabulary. Lists are in the arena; texts point into the file. `spec->model` NULL: the file has no
 * vocabulary. LM_BAD_MODEL: lists with wrong types or lengths. */
lm_status lm_gguf_vocabulary(const lm_meta *m, lm_arena *arena, lm_vocab_spec *spec, lm_error *e);

#endif
