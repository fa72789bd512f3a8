/* tokenizer_files.h - make a tokenizer from the files of a Hugging Face folder.
 *
 * tokenizer.json is authoritative if it exists; the other files only name tokens and define what the model's
 * class adds around a text. Without it, vocab.json and merges.txt (GPT-2's own folder: encoder.json and
 * vocab.bpe) make a byte-level BPE. */
#ifndef LM_TEXT_TOKENIZER_FILES_H
#define LM_TEXT_TOKENIZER_FILES_H

#include "text/tokenizer.h"

enum { LM_MAX_TOKENIZER_JSON = 1 << 28 };

/* Contents; data NULL: no such file. */
typedef struct lm_tokenizer_files {
    const char *folder;         /* for messages */
    lm_view     tokenizer;      /* tokenizer.json */
    lm_view     config;         /* tokenizer_config.json */
    lm_view     special_map;    /* special_tokens_map.json */
    lm_view     generation;     /* generation_config.json: more ids that end a generation */
    lm_view     model;          /* config.json: the same, and the number of rows of the model */
    lm_view     vocab, merges;  /* vocab.json and merges.txt, or encoder.json and vocab.bpe */
    lm_view     added;          /* added_tokens.json */
} lm_tokenizer_files;

/* LM_UNSUPPORTED names an unsupported kind of model, normalizer, pre-tokenizer, post-processor or decoder;
 * LM_BAD_MODEL names what is broken. *out is NULL if no file contains a vocabulary. */
lm_status lm_tokenizer_from_files(const lm_tokenizer_files *f, const lm_tokenizer_options *o,
                                  lm_tokenizer **out, lm_error *e);

#endif
