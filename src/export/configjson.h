/* configjson.h - the config.json of a model that a GGUF file describes. */
#ifndef LM_EXPORT_CONFIGJSON_H
#define LM_EXPORT_CONFIGJSON_H

#include <jansson.h>

#include "arch/config.h"

/* A model as its folder would describe it. */
typedef struct lm_folder_model {
    json_t     *json;                /* config.json */
    lm_meta    *meta;                /* the same */
    lm_config  *config;
    lm_program *program;             /* its weights under the names that checkpoints have */
} lm_folder_model;

/* Members come from the pairs of names under which the family reads its numbers, from what all families have, and, for what GGUF does
 * not say in so
 * many words, from trial: what is written is read back and must give the program of the file. `stored`: of the GGUF file, with its tensors.
 * LM_UNSUPPORTED: config.json has no form for this model. */
lm_status lm_folder_model_new(const lm_container *stored, const lm_family *f, const lm_config *c, const lm_program *p, lm_folder_model *out,
                              lm_text *notes, lm_error *e);
void      lm_folder_model_free(lm_folder_model *m);

#endif
