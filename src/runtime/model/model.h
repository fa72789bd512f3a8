/* model.h - the internals of a model: description, program, and where each weight is in the file. */
#ifndef LM_RUNTIME_MODEL_H
#define LM_RUNTIME_MODEL_H

#include "arch/config.h"
#include "formats/samplingkeys.h"
#include "lamina/model.h"
#include "lamina/preset.h"

#define LM_MAX_END_IDS 64
#define LM_TEMPLATES   3

struct lm_model {
    lm_container    *container;          /* NULL for a bare config.json */
    lm_meta         *config_json;        /* of a bare config.json */
    const lm_preset *preset;             /* the preset whose config.json it is; NULL: a file's */
    const lm_family *family;
    lm_config        config;
    lm_program      *program;
    const lm_tensor_info **tensors;      /* [n_weights]; NULL if there are no weights to inspect */
    lm_dtype        *types;              /* [n_weights]: how each is stored */
    const lm_tensor_info ***each;        /* [n_weights]: for experts that are stored one by one, the tensor of
                                            each; else NULL */
    bool            *transposed;         /* [n_weights]: stored as [in, out] (LM_HEADS: per head) */
    const lm_tensor_info **exponents;    /* [n_weights]: for interleaved 4-bit weights, whose codes are in
                                            `tensors` */
    bool            *interleaved;    /* [n_weights]: stored among others (lm_interleaved); `transposed`: its
                                        rows must be gathered */
    bool            *jointly;            /* [n_weights]: LM_HEADS in a tensor with others (lm_joint) */
    lm_tokenizer    *tokenizer;          /* NULL: none */
    char            *name, *source, *storage;
    char            *overrides;           /* overrides of the file, requested when it was opened:
                                             lm_model_overrides */
    lm_view          config_text;        /* the config.json of a folder */
    lm_text           warnings;           /* each ends with a NUL once the model is open */
    lm_token         end_ids[LM_MAX_END_IDS];
    size_t           n_end_ids;
    double           sampling[LM_SAMPLING_KEYS];         /* settings of the files; `sampled`: bit i: there */
    uint32_t         sampled;
    uint64_t         weight_bytes;       /* of the tensors used */
    lm_program      *undivided;          /* the whole program, if this is the part of one rank (divide.h);
                                            else NULL */
    lm_program      *between;            /* the program of a part of all layers, whose strings `program` uses;
                                            or NULL */
    const struct lm_rank_exchange *exchange; /* to the other ranks; NULL: an undivided model, or one that is
                                                only inspected */
    struct {
        const char *name, *source;       /* source NULL: no such template */
    } templates[LM_TEMPLATES];           /* the default, whose name is NULL, and the known named ones */
    lm_arena         arena;
};

/* Return whether the rotary frequencies depend on the length of the forward pass, so that a prompt in pieces
 * differs by definition from the prompt at once. *why: a phrase. */
bool lm_model_length_dependent(const lm_model *m, const char **why);

/* Return "gguf", "safetensors", "config" or "preset". */
const char *lm_model_container_name(const lm_model *m);
/* Return the type that the configuration names for the weights (torch_dtype, dtype), else f16. */
lm_dtype    lm_model_published_type(const lm_model *m);

/* Find the name and the source of an opened model; NULL if memory runs out. */
void lm_model_find_name(lm_model *m, const char *path);

/* Read the sampling settings of the files; one that makes no sense becomes a warning. */
lm_status lm_model_read_sampling(lm_model *m, lm_error *e);

/* Append the settings on one line: "temperature 0.2, top_p 0.9"; nothing if there are none. */
void lm_model_sampling_text(const lm_model *m, lm_text *out);

/* Look for chat templates in the container. A container without any is not an error; a file that cannot be
 * read is one. */
lm_status lm_model_find_templates(lm_model *m, lm_error *e);

/* Find the tensor of every weight, check its shape, and report missing and unused tensors. */
lm_status lm_model_bind(lm_model *m, bool allow_unused, lm_error *e);

#endif
