/* samplingkeys.h - the sampling settings that a model's files carry: the general.sampling.* keys of GGUF,
 * which llama.cpp and ollama read, and the members of generation_config.json. */
#ifndef LM_FORMATS_SAMPLINGKEYS_H
#define LM_FORMATS_SAMPLINGKEYS_H

#include "formats/meta.h"

typedef enum lm_sampling_key_id {
    LM_SAMPLING_TEMP, LM_SAMPLING_TOP_K, LM_SAMPLING_TOP_P, LM_SAMPLING_MIN_P, LM_SAMPLING_REPEAT,
    LM_SAMPLING_LAST_N, LM_SAMPLING_XTC_PROBABILITY, LM_SAMPLING_XTC_THRESHOLD, LM_SAMPLING_MIROSTAT,
    LM_SAMPLING_TAU, LM_SAMPLING_ETA, LM_SAMPLING_KEYS
} lm_sampling_key_id;

typedef struct lm_sampling_key {
    const char *key, *member;        /* in GGUF; in generation_config.json: transformers' name, else
                                        llama.cpp's */
    bool        whole;               /* an i32 in GGUF; else an f32 */
    double      min, max;
} lm_sampling_key;

extern const lm_sampling_key lm_sampling_keys[LM_SAMPLING_KEYS];

/* The order of samplers, which llama.cpp reads too and lamina does not. */
#define LM_SAMPLING_SEQUENCE "general.sampling.sequence"

/* Read a setting from the keys of a GGUF file (`gguf`) or from a generation_config.json. false: it is absent,
 * or it is not such a number, which *e describes with LM_BAD_MODEL. */
bool lm_sampling_key_read(const lm_meta *m, bool gguf, lm_sampling_key_id id, double *out, lm_error *e);

#endif
