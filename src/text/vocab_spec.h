/* vocab_spec.h - a vocabulary from GGUF keys or from a folder's vocab.json and merges.txt, made into a
 * tokenizer.
 *
 * The caller need not check anything: lengths agree because there is one `n`, everything else is checked
 * here. */
#ifndef LM_TEXT_VOCAB_SPEC_H
#define LM_TEXT_VOCAB_SPEC_H

#include "text/tokenizer.h"

typedef struct lm_vocab_spec {
    const char    *model;            /* "gpt2": byte-level BPE by merges; "llama": SentencePiece BPE by
                                        scores; "gemma4": SentencePiece's pieces by merges */
    const char    *pre;              /* name of the pre-tokenizer (gpt2); NULL: "default", with a warning */
    uint32_t       n;
    const lm_view *tokens;           /* [n] */
    const float   *scores;           /* [n]; NULL: all zero */
    const int32_t *types;            /* [n] lm_piece_type; NULL: all normal */
    const lm_view *merges;           /* [n_merges] "left right", in order of rank */
    uint32_t       n_merges;
    int64_t        bos, eos, unknown;        /* -1: not given */
    const int64_t *ends;             /* [n_ends] more ids that end a generation; -1 is ignored */
    uint32_t       n_ends;
    unsigned       ends_listed;      /* kinds that these ids complete (ends.h) */
    int            add_bos, add_eos, add_space_prefix;   /* 0, 1; -1: the default of the model and the
                                                            pre-tokenizer */
    const char    *where;            /* prefix of names in errors: "tokenizer.ggml." */
} lm_vocab_spec;

/* Return the name of a kind for `model`: byte-level BPE, or SentencePiece. */
const char *lm_vocab_kind(bool bytes);

/* Set the end tokens, and whether they are all that end a turn, or a call of a tool. */
void lm_vocab_spec_ends(lm_vocab_spec *s, const int64_t *ends, uint32_t n, bool turn, bool call);

/* LM_BAD_MODEL names what is broken; LM_UNSUPPORTED an unknown model or pre-tokenizer. */
lm_status lm_tokenizer_from_spec(const lm_vocab_spec *spec, const lm_tokenizer_options *o, lm_tokenizer **out,
                                 lm_error *e);

/* Add the stages of a named pre-tokenizer, and return its traits. LM_UNSUPPORTED, with the name: it is
 * unknown. */
typedef struct lm_pre_traits { bool nfc, ignore_merges, add_bos; } lm_pre_traits;
lm_status lm_pre_by_name(const char *name, lm_pretokenizer *p, lm_pre_traits *traits, const char *where,
                         lm_error *e);
/* Return the i-th known name; NULL past the last. */
const char *lm_pre_name(size_t i);
/* Return the i-th pattern that splits text, in order; NULL past the last. lm_pre_digits returns whether
 * digits are split one by one: before the patterns (-1), after them (1), or not (0). */
const char *lm_pre_pattern(const char *name, size_t i);
int         lm_pre_digits(const char *name);
/* Return whether the pre-tokenizer is the single pattern that the byte alphabet comes with
 * (LM_PATTERN_GPT2). */
bool        lm_pre_is_plain(const char *name);

#endif
