/* configwords.h - members of config.json that GGUF says in other words, or not at all. */
#ifndef LM_EXPORT_CONFIGWORDS_H
#define LM_EXPORT_CONFIGWORDS_H

#include <jansson.h>

#include "arch/config.h"

/* What may be tried where GGUF is silent: JSON texts, the likeliest first. */
enum { LM_CONFIG_VALUES = 8 };
typedef struct lm_config_word { const char *key, *values[LM_CONFIG_VALUES]; } lm_config_word;
extern const lm_config_word lm_config_words[];       /* ends with a NULL key */

/* Members that follow from the configuration: windows, rotary scaling, activation, latents, experts. Only what the family understands,
 * and what is not
 * there yet. LM_UNSUPPORTED: a rotary scaling whose parameters the file does not give away. */
lm_status lm_add_config_words(json_t *json, const lm_container *stored, const lm_family *f, const lm_config *c, const lm_program *p,
                              lm_error *e);

/* A number as config.json would have it: the shortest decimal that is the same float32. */
json_t *lm_json_float(double v);

#endif
