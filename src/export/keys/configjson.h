/* configjson.h - create the config.json of a model that a GGUF file describes. */
#ifndef LM_EXPORT_CONFIGJSON_H
#define LM_EXPORT_CONFIGJSON_H

#include <jansson.h>

#include "arch/config.h"

/* A model as described by its folder. */
typedef struct lm_folder_model {
    json_t     *json;                /* config.json */
    lm_meta    *meta;                /* the same, parsed */
    lm_config  *config;
    lm_program *program;             /* its weights have checkpoint names */
} lm_folder_model;

/* Create config.json. Its members come from the pairs of key names with which the family reads its numbers,
 * and from members common to all families. Members that GGUF does not contain are found by trial: the result
 * is read back and must produce the program of the file. `stored`: the GGUF file with its tensors.
 * LM_UNSUPPORTED: config.json cannot represent this model. */
lm_status lm_folder_model_new(const lm_container *stored, const lm_family *f, const lm_config *c,
                              const lm_program *p, lm_folder_model *out, lm_text *notes, lm_error *e);
void      lm_folder_model_free(lm_folder_model *m);

#endif
