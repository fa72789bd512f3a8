/* preset.h - published models by name: their configurations, without weights.
 *
 * A preset is the config.json that the model was published with, read by the same code as any other.
 * lm_model_locate finds presets by name, lm_model_open opens them where no weights are needed. */
#ifndef LAMINA_PRESET_H
#define LAMINA_PRESET_H

#include <stddef.h>

#include "lamina/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What lm_model_locate puts before the name of a preset, and lm_model_open expects there. */
#define LM_PRESET_PREFIX "preset:"

typedef struct lm_preset {
    const char        *name;             /* "llama-3.2-3b" */
    const char        *title;            /* "Llama 3.2 3B" */
    const char *const *aliases;          /* further names, NULL-ended */
    const char        *source;           /* where the numbers are published */
    const char        *config;           /* config.json: the members that describe the model */
} lm_preset;

/* NULL past the end. */
const lm_preset *lm_preset_at(size_t i);

/* By name, as people write it: "Llama 3.2 3B", "meta-llama/Llama-3.2-3B", "llama3.2-3b". Fewer words will do
 * where they leave one preset. LM_USAGE lists those that an ambiguous name could mean; LM_NOT_FOUND hints at
 * the nearest. */
lm_status lm_preset_find(const char *name, const lm_preset **out, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif
