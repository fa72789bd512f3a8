/* nested.h - the language models of vision-language models as transformers saves them: config.json describes
 * the language model in `text_config`, and its tensors begin with `language_model.`, `model.language_model.`
 * or `model.text_model.`. */
#ifndef LM_FORMATS_NESTED_H
#define LM_FORMATS_NESTED_H

#include "formats/meta.h"

/* A model whose language model computes the same alone. The table, in src/arch/nested_kinds.c, ends with a
 * type of NULL. */
typedef struct lm_nested_kind {
    const char *type, *text_type;        /* model_type of the whole model, and of its language model if
                                            text_config has none */
    bool        flat;                    /* also published without text_config, with its members at the top
                                            level */
} lm_nested_kind;
extern const lm_nested_kind lm_nested_kinds[];

/* The defaults of transformers' class for what text_config leaves out and a separate
 * config.json contains; 0: the family's reader has one. */
typedef struct lm_nested_class {
    const char *type, *family;           /* family: the model_type with the same layers */
    uint32_t    vocab, hidden, intermediate, layers, heads, kv_heads, context;
    double      theta, eps;
} lm_nested_class;
extern const lm_nested_class lm_nested_classes[];

/* Replace the config.json of such a model, *text with *size bytes from lm_alloc, by the config.json of its
 * language model, with the sizes of transformers' class for what `text_config` leaves out; a config.json that
 * is only such a `text_config` becomes one too, without a note. Any other text is unchanged, even if it is
 * broken.
 *   has_head  whether the weights have lm_head.weight; -1: unknown
 *   note      NULL, or where one line without its end is appended that says what is read and which members
 *             are ignored
 * LM_UNSUPPORTED: the language model of this kind of model is not known to work alone. */
lm_status lm_nested_config(char **text, size_t *size, const char *file, int has_head, lm_text *note,
                           lm_error *e);

/* Return the name that a tensor has in the language model alone: a part of `name`, or in `buffer`; NULL: it
 * belongs to another part.
 *   prefixed  whether any name of the checkpoint begins with one of the prefixes; without them the language
 *             model has plain names */
const char *lm_nested_name(const char *name, bool prefixed, char *buffer, size_t size);
bool        lm_nested_prefix(const char *name);

#endif
