/* nested.h - language models of vision-language models as transformers saves them: config.json describes the language model in
 * `text_config`, its tensors begin with `language_model.`, `model.language_model.` or `model.text_model.`. */
#ifndef LM_FORMATS_NESTED_H
#define LM_FORMATS_NESTED_H

#include "formats/meta.h"

/* A model whose language model computes the same alone; NULL as type ends the table, which is in src/arch/nested_kinds.c. */
typedef struct lm_nested_kind {
    const char *type, *text_type;        /* model_type of the whole, and of its language model where text_config does not say */
    bool        flat;                    /* published without text_config, whose members are on top */
} lm_nested_kind;
extern const lm_nested_kind lm_nested_kinds[];

/* What transformers' class has where text_config is silent, and a config.json by itself is not; 0: the family's reader knows. */
typedef struct lm_nested_class {
    const char *type, *family;           /* family: the model_type that has the same layers */
    uint32_t    vocab, hidden, intermediate, layers, heads, kv_heads, context;
    double      theta, eps;
} lm_nested_class;
extern const lm_nested_class lm_nested_classes[];

/* Of an lm_alloc'ed config.json, *text with *size bytes: where it is of such a model, it is replaced by the config.json of its language
 * model, with the sizes of transformers' class for what `text_config` leaves out. Any other text stays as it is, a broken one too.
 *   has_head  whether the weights have lm_head.weight; -1: nobody knows
 *   note      NULL, or where one line without its end is appended that says what is read and which members are ignored
 * LM_UNSUPPORTED: the model is of no kind whose language model is known to work alone. */
lm_status lm_nested_config(char **text, size_t *size, const char *file, int has_head, lm_text *note, lm_error *e);

/* The name that a tensor has in the language model alone: a part of `name`, or in `buffer`; NULL: it belongs to another part.
 *   prefixed  whether any name of the checkpoint begins with one of the prefixes; without them the language model has plain names */
const char *lm_nested_name(const char *name, bool prefixed, char *buffer, size_t size);
bool        lm_nested_prefix(const char *name);

#endif
