/* pretokenize.h - split text into words, in stages.
 *
 * A tokenizer is a short list of stages; each splits or rewrites the pieces of the previous stage
 * independently, so that anchors and look-arounds see only their piece. The stages named in tokenizer.json
 * are composed of these. */
#ifndef LM_TEXT_PRETOKENIZE_H
#define LM_TEXT_PRETOKENIZE_H

#include "text/regex.h"

enum { LM_MAX_STAGES = 32 };

typedef enum lm_stage_kind {
    LM_STAGE_SPLIT,         /* at the matches of a pattern */
    LM_STAGE_CLASS,         /* at characters of a class, each a separate match */
    LM_STAGE_METASPACE,     /* ' ' becomes `text`, which is also prepended */
    LM_STAGE_PREFIX,        /* a space before pieces that do not start with one */
    LM_STAGE_SPELL,         /* bytes to the byte alphabet */
} lm_stage_kind;

/* What happens to matches; the gaps between them are never dropped. */
typedef enum lm_behavior {
    LM_REMOVED,
    LM_ISOLATED,
    LM_MERGED_WITH_PREVIOUS,
    LM_MERGED_WITH_NEXT,
    LM_CONTIGUOUS
} lm_behavior;

typedef enum lm_prepend { LM_PREPEND_ALWAYS, LM_PREPEND_FIRST, LM_PREPEND_NEVER } lm_prepend;

typedef struct lm_pre_stage {
    lm_stage_kind kind;
    lm_behavior   behavior;             /* SPLIT, CLASS */
    bool          invert;               /* SPLIT: matches are gaps and gaps matches */
    lm_regex     *regex;                /* SPLIT; owned */
    bool        (*in_class)(uint32_t);  /* CLASS */
    lm_prepend    prepend;              /* METASPACE */
    char          text[8];              /* METASPACE: one character */
} lm_pre_stage;

typedef struct lm_pretokenizer {
    lm_pre_stage stages[LM_MAX_STAGES];
    unsigned n;
    bool     bytes;         /* words are raw bytes: the last stage was the byte alphabet, which the BPE model
                               applies instead */
} lm_pretokenizer;

#define LM_PATTERN_GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* LM_UNSUPPORTED: more than LM_MAX_STAGES. Takes ownership of stage->regex in every case. */
lm_status lm_pretokenizer_add(lm_pretokenizer *p, const lm_pre_stage *stage, const char *where, lm_error *e);
/* Split at the matches of a pattern. */
lm_status lm_pretokenizer_add_split(lm_pretokenizer *p, const char *pattern, lm_behavior b, const char *where,
                                    lm_error *e);
lm_status lm_pretokenizer_add_class(lm_pretokenizer *p, bool (*in_class)(uint32_t), lm_behavior b,
                                    const char *where, lm_error *e);
/* Call this after the last stage: it turns a final SPELL into `bytes`. */
void      lm_pretokenizer_finish(lm_pretokenizer *p);
void      lm_pretokenizer_free(lm_pretokenizer *p);

/* Working memory of one thread. All zero: empty. */
typedef struct lm_pretokenizer_work {
    lm_text text[LM_MAX_STAGES], shadow[LM_MAX_STAGES + 1];
} lm_pretokenizer_work;
void lm_pretokenizer_work_free(lm_pretokenizer_work *w);

/* Call `word` for each word of `text` (valid UTF-8). `head`: the number of bytes at its start that come from
 * the input's first character; a piece that contains any of them is "first" for METASPACE. */
typedef lm_status (*lm_word_fn)(void *arg, lm_view word, lm_error *e);
lm_status lm_pretokenize(const lm_pretokenizer *p, lm_pretokenizer_work *w, lm_regex_work *r, lm_view text,
                         size_t head, lm_word_fn word, void *arg, lm_error *e);

#endif
