/* configwords.h - members of config.json that GGUF expresses differently, or not at all. */
#ifndef LM_EXPORT_CONFIGWORDS_H
#define LM_EXPORT_CONFIGWORDS_H

#include <jansson.h>

#include "arch/config.h"

/* Values to try for members that GGUF does not contain: JSON texts, the most likely first. */
enum { LM_CONFIG_VALUES = 8 };
typedef struct lm_config_word { const char *key, *values[LM_CONFIG_VALUES]; } lm_config_word;
extern const lm_config_word lm_config_words[];       /* terminated by a NULL key */

/* Add members derived from the configuration: windows, rotary scaling, activation, latents, experts. Only
 * members that the family reads and that are not set yet are added. LM_UNSUPPORTED: a rotary scaling whose
 * parameters cannot be recovered from the file. */
lm_status lm_add_config_words(json_t *json, const lm_container *stored, const lm_family *f,
                              const lm_config *c, const lm_program *p, lm_error *e);

#endif
