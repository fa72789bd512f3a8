/* model.h - a model inside the library: description, program, and where each weight lies on disk. */
#ifndef LM_RUNTIME_MODEL_H
#define LM_RUNTIME_MODEL_H

#include "arch/config.h"
#include "lamina/model.h"
#include "lamina/preset.h"

#define LM_MAX_END_IDS 64
#define LM_TEMPLATES   3

struct lm_model {
    lm_container    *container;          /* NULL for a bare config.json */
    lm_meta         *config_json;        /* of a bare config.json */
    const lm_preset *preset;             /* whose config.json that is; NULL: a file's */
    const lm_family *family;
    lm_config        config;
    lm_program      *program;
    const lm_tensor_info **tensors;      /* [n_weights]; NULL where there are no weights to look at */
    lm_dtype        *types;              /* [n_weights]: how each is stored */
    const lm_tensor_info ***each;        /* [n_weights]: of experts that are stored one by one, the tensor of each; else NULL */
    bool            *transposed;         /* [n_weights]: stored [in, out] (LM_HEADS: each head's) */
    const lm_tensor_info **exponents;    /* [n_weights]: of interleaved weights in four bits, whose codes are in `tensors` */
    bool            *interleaved;    /* [n_weights]: among others, as lm_interleaved says; `transposed`: its rows have to be gathered */
    bool            *jointly;            /* [n_weights]: LM_HEADS in a tensor with others, as lm_joint says */
    lm_tokenizer    *tokenizer;          /* NULL: none */
    char            *name, *source, *storage;
    char            *departures;         /* from the file, asked for when it was opened: lm_model_departures */
    lm_view          config_text;        /* of a folder: its config.json */
    lm_text           warnings;           /* each ends with a NUL once the model is open */
    lm_token         end_ids[LM_MAX_END_IDS];
    size_t           n_end_ids;
    uint64_t         weight_bytes;       /* of the tensors used */
    lm_program      *undivided;          /* of a model of which this is one rank's part (divide.h); else NULL */
    lm_program      *between;            /* whose texts the program has: that of a part of all layers; NULL */
    const struct lm_exchange *exchange;  /* to the other ranks; NULL: a model by itself, or one that is only looked at */
    struct {
        const char *name, *source;       /* NULL, NULL: there is none */
    } templates[LM_TEMPLATES];           /* the default, whose name is NULL, and the named ones that are known */
    lm_arena         arena;
};

/* True when the rotary frequencies depend on how long the forward is, so that a prompt in pieces differs from the prompt
 * at once by definition. *why: a phrase. */
bool lm_model_length_dependent(const lm_model *m, const char **why);

/* "gguf" "safetensors" "config" "preset" */
const char *lm_model_container_name(const lm_model *m);
/* The type that the configuration names for the weights (torch_dtype, dtype), else f16. */
lm_dtype    lm_model_published_type(const lm_model *m);

/* Look for chat templates in the container. That there are none is no error; a file that cannot be read is one. */
lm_status lm_model_find_templates(lm_model *m, lm_error *e);

/* Find the tensor of every weight, check its shape, name what is missing and what nobody uses. */
lm_status lm_model_bind(lm_model *m, bool allow_unused, lm_error *e);

#endif
