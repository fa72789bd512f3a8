/* grammar.h - texts that a model may write: grammars, and the tokens that fit them.
 *
 *   lm_grammar_json_schema(text, size, NULL, &g, &e);           or _gbnf, _regex, _choice, _json
 *   lm_vocabulary_new(tokenizer, n_vocab, NULL, 0, &v, &e);     once for a model
 *   lm_constraint_new(g, v, &c, &e);                            one for each text
 *   options.logits = lm_constraint_logits; options.logits_arg = c;       (lamina/sequence.h)
 *
 * A grammar is one automaton over bytes, made as far as texts come: a pushdown one where rules recurse. A token fits when its bytes do,
 * wherever they begin and end between the grammar's own parts. Control tokens fit only where a grammar names them, tokens that end a
 * text where the grammar may end.
 *
 * What cannot be kept exactly is refused when it is compiled, by name; nothing is ignored, and no text is ever let through that the
 * grammar does not hold. */
#ifndef LAMINA_GRAMMAR_H
#define LAMINA_GRAMMAR_H

#include "lamina/answer.h"
#include "lamina/text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Compiled; safe to share between threads. Objects below keep what they need of it: free it at any time. */
typedef struct lm_grammar lm_grammar;

/* Between the parts of a JSON text. Never before the first or after the last. */
typedef enum lm_whitespace {
    LM_WHITESPACE_NONE,              /* each value is written in its shortest form */
    LM_WHITESPACE_SPACED,            /* at most one space, after a colon or a comma */
    LM_WHITESPACE_BOUNDED,           /* a space, or one or two line feeds and at most 20 spaces or tabs */
} lm_whitespace;

/* A rule of a grammar that is a JSON Schema. */
typedef struct lm_grammar_schema {
    const char *name;                /* of the rule */
    const char *text;                /* of the schema */
    uint64_t    reserved[2];         /* zero */
} lm_grammar_schema;

#define LM_GRAMMAR_BYTES  (1 << 20)  /* of the text of a grammar, a schema or an expression */
#define LM_GRAMMAR_STATES 100000     /* of a compiled grammar */
#define LM_GRAMMAR_WORK   20000000     /* units of work for compiling a grammar: a second or two on a slow machine */

/* All zero: the defaults. */
typedef struct lm_grammar_options {
    const char *start;               /* GBNF: rule to start with; NULL: "root" */
    const lm_tokenizer *tokenizer;   /* GBNF: spells <tokens>; NULL: those by name are refused */
    lm_whitespace whitespace;
    bool     any_order;              /* JSON Schema: members of objects in any order; false: that of the schema */
    bool     open;                   /* JSON Schema: what a schema leaves open stays open: more members beside those that `properties`
                                        lists, values of other types where keywords speak of one type and `type` is missing. false:
                                        they are not meant, unless the schema says so */
    bool     strict;                 /* JSON Schema: also what OpenAI's strict mode demands of a schema */
    uint32_t most_states;            /* of a compiled grammar; 0: LM_GRAMMAR_STATES */
    uint32_t most_work;              /* for compiling: nodes made, looked at and compared; 0: LM_GRAMMAR_WORK. Counted, not clocked: the
                                        same grammar always compiles, or never */
    const lm_grammar_schema *schemas;    /* GBNF: rules that the text names and does not define; an error's `where` begins with the name */
    size_t      n_schemas;
    uint64_t reserved[6];            /* zero */
} lm_grammar_options;

lm_grammar_options lm_grammar_defaults(void);

/* Compile; `o` NULL: the defaults. LM_USAGE: the text is wrong (`offset` tells where; of a schema `where` is the JSON pointer), or no
 * text fits. LM_UNSUPPORTED: sound, but not to be kept exactly; the message names the keyword or construct. LM_LIMIT: more than the
 * states or the work given, or nested deeper than 64.
 *
 * gbnf: llama.cpp's, with repetitions up to 2000, "." and items of tokens: <[7]>, <think>, and !<think> for any other.
 * regex: Perl's and ECMAScript's common part, matching the whole text; docs/constraints.md lists it.
 * choice: one of `n` texts.
 * json: any JSON object.
 * json_schema: draft 2020-12, or draft-07 where `$schema` says so; docs/constraints.md lists the keywords. */
lm_status lm_grammar_gbnf(const char *text, size_t size, const lm_grammar_options *o, lm_grammar **out, lm_error *e);
lm_status lm_grammar_regex(const char *text, size_t size, const lm_grammar_options *o, lm_grammar **out, lm_error *e);
lm_status lm_grammar_choice(const char *const *texts, size_t n, const lm_grammar_options *o, lm_grammar **out, lm_error *e);
lm_status lm_grammar_json(const lm_grammar_options *o, lm_grammar **out, lm_error *e);
lm_status lm_grammar_json_schema(const char *text, size_t size, const lm_grammar_options *o, lm_grammar **out, lm_error *e);
void      lm_grammar_free(lm_grammar *g);

/* Free text up to a trigger, then the grammar. */
typedef struct lm_trigger {
    const char *word;                /* wherever it stands, however it is cut into tokens; NULL: `token` */
    lm_token    token;               /* a control token */
    bool        before;              /* the grammar begins after the trigger; false: with it, so it has to fit */
    bool        control;             /* `token` is the trigger and `word` its text, which the grammar begins with */
} lm_trigger;

/* A new grammar of both, `g` stays. `required`: the text may not end before a trigger. LM_USAGE: a word that is empty or too long
 * (256 bytes) or does not fit the grammar's beginning; no trigger. */
lm_status lm_grammar_after(const lm_grammar *g, const lm_trigger *triggers, size_t n, bool required, lm_grammar **out, lm_error *e);

/* All zero: the defaults. */
typedef struct lm_grammar_calls_options {
    const lm_tokenizer *tokenizer;   /* spells marks that are control tokens; NULL: all are text */
    bool     required;               /* the text is a call, after reasoning if there is any. false: free text, but what begins like a call
                                        is one */
    bool     in_reasoning;           /* the prompt has begun it */
    bool     single;                 /* one call, no more */
    lm_whitespace whitespace;        /* of arguments that are JSON */
    uint64_t reserved[4];            /* zero */
} lm_grammar_calls_options;

/* Calls of these tools as models of the style write them, with arguments that fit. *out NULL with LM_OK: not required, and nothing tells
 * a call from text as it begins: any text. LM_UNSUPPORTED: the style has no family, or one whose calls a grammar cannot hold; else as
 * above for the schemas. */
lm_status lm_grammar_calls(const lm_answer_style *style, const lm_answer_tool *tools, size_t n, const lm_grammar_calls_options *o,
                           lm_grammar **out, lm_error *e);

/* Does the whole text fit? `*fits` bytes of it are how the grammar's texts can begin (all of them, also when more must follow). */
lm_status lm_grammar_matches(const lm_grammar *g, const char *text, size_t size, bool *whole, size_t *fits, lm_error *e);

/* ---- the tokens of a model ---- */

typedef struct lm_vocabulary lm_vocabulary;

/* `n_vocab`: logits of the model; 0: the tokenizer's own. `ends`: tokens that end a text beside those that the tokenizer knows.
 * LM_USAGE where there is none at all. The tokenizer is not needed afterwards. Thread-safe once made. */
lm_status lm_vocabulary_new(const lm_tokenizer *t, uint32_t n_vocab, const lm_token *ends, size_t n_ends, lm_vocabulary **out, lm_error *e);
void      lm_vocabulary_free(lm_vocabulary *v);
uint32_t  lm_vocabulary_size(const lm_vocabulary *v);

/* ---- one text ---- */

/* Where a text is in a grammar. Those of one grammar and one vocabulary share what they have worked out; each is used by one thread at
 * a time. */
typedef struct lm_constraint lm_constraint;

lm_status lm_constraint_new(const lm_grammar *g, const lm_vocabulary *v, lm_constraint **out, lm_error *e);
lm_status lm_constraint_clone(const lm_constraint *c, lm_constraint **out, lm_error *e);
void      lm_constraint_free(lm_constraint *c);
void      lm_constraint_reset(lm_constraint *c);         /* back to the beginning */

/* Which tokens may come: bit `id % 64` of bits[id / 64], (size + 63) / 64 words. LM_LIMIT: too much to work out, which ambiguous
 * grammars can ask for; LM_FAILED: none may (after the end). */
lm_status lm_constraint_mask(lm_constraint *c, uint64_t *bits, lm_error *e);

/* The token has come. LM_FAILED when it does not fit; the constraint is as before. */
lm_status lm_constraint_accept(lm_constraint *c, lm_token id, lm_error *e);

/* Take the last `n` tokens back. LM_USAGE: more than 255, or than were accepted. */
lm_status lm_constraint_rollback(lm_constraint *c, size_t n, lm_error *e);

bool lm_constraint_complete(const lm_constraint *c);     /* the text may end here */
bool lm_constraint_ended(const lm_constraint *c);        /* a token that ends a text has come */

/* lm_sequence_options.logits with the constraint as `logits_arg`: tokens that do not fit get -INFINITY. What `ids` hold at the first
 * call after lm_constraint_new, _clone or _reset is the prompt; later ones are accepted. Guesses change nothing. */
lm_status lm_constraint_logits(void *constraint, float *logits, uint32_t n_vocab, const lm_token *ids, size_t n, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif
