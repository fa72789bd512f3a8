/* grammar.h - constrained generation: grammars, and masks of the tokens that they allow.
 *
 *   lm_grammar_json_schema(text, size, NULL, &g, &e);           or _gbnf, _regex, _choice, _json
 *   lm_vocabulary_new(tokenizer, n_vocab, NULL, 0, &v, &e);     once per model
 *   lm_constraint_new(g, v, &c, &e);                            one per sequence
 *   options.logits = lm_constraint_logits; options.logits_arg = c;       (lamina/sequence.h)
 *
 * A grammar is an automaton over bytes, built lazily; recursive rules make it a pushdown automaton. A token
 * is allowed if its bytes are, independently of how they are divided among the grammar's elements. Control
 * tokens are allowed only where a grammar names them, end tokens where the grammar may end.
 *
 * A constraint that cannot be enforced exactly is rejected at compile time, with the name of the construct.
 * Nothing is ignored, and no output is possible that the grammar does not accept. */
#ifndef LAMINA_GRAMMAR_H
#define LAMINA_GRAMMAR_H

#include "lamina/answer.h"
#include "lamina/text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A compiled grammar. Thread-safe. The objects below hold references: it may be freed at any time. */
typedef struct lm_grammar lm_grammar;

/* Whitespace between the parts of a JSON value; never before the first or after the last. */
typedef enum lm_whitespace {
    LM_WHITESPACE_NONE,              /* none: the most compact form */
    LM_WHITESPACE_SPACED,            /* at most one space after a colon or a comma */
    LM_WHITESPACE_BOUNDED,           /* one space, or one or two line feeds and at most 20 spaces or tabs */
} lm_whitespace;

/* A rule of a GBNF grammar that is defined by a JSON Schema. */
typedef struct lm_grammar_schema {
    const char *name;                /* of the rule */
    const char *text;                /* of the schema */
    uint64_t    reserved[2];         /* zero */
} lm_grammar_schema;

#define LM_GRAMMAR_BYTES  (1 << 20)  /* maximum size of a grammar, schema or regular expression */
#define LM_GRAMMAR_STATES 100000     /* maximum number of states of a compiled grammar */
#define LM_GRAMMAR_WORK   20000000   /* maximum work units of compiling: 1 or 2 seconds on a slow machine */

/* All zero: the defaults. */
typedef struct lm_grammar_options {
    const char *start;               /* GBNF: start rule; NULL: "root" */
    const lm_tokenizer *tokenizer;   /* GBNF: resolves <tokens>; NULL: tokens given by name are rejected */
    lm_whitespace whitespace;
    bool     any_order;              /* JSON Schema: members in any order; false: in the order of the
                                        schema */
    bool     open;                   /* JSON Schema: allow members that `properties` does not list, and values
                                        of other types if `type` is missing. false: only if the schema says
                                        so */
    bool     strict;                 /* JSON Schema: enforce the additional rules of OpenAI's strict mode */
    uint32_t max_states;             /* maximum states of the compiled grammar; 0: LM_GRAMMAR_STATES */
    uint32_t max_work;               /* maximum work of compiling: nodes made, visited and compared; 0:
                                        LM_GRAMMAR_WORK. It is counted, not timed: the result does not depend
                                        on the machine */
    const lm_grammar_schema *schemas;    /* GBNF: rules used but not defined by the grammar; `where` of an
                                            error begins with the name */
    size_t      n_schemas;
    uint64_t reserved[6];            /* zero */
} lm_grammar_options;

lm_grammar_options lm_grammar_defaults(void);

/* Compile; `o` NULL: the defaults. LM_USAGE: a syntax error (`offset` is its position; for a schema, `where`
 * is the JSON pointer), or a grammar that accepts nothing. LM_UNSUPPORTED: valid, but it cannot be enforced
 * exactly; the message names the keyword or construct. LM_LIMIT: more than the maximum states or work, or
 * nested deeper than 64.
 *
 * gbnf: llama.cpp's syntax, with repetitions up to 2000, "." and tokens: <[7]>, <think>, and !<think> for any
 * other token. regex: the common subset of Perl and ECMAScript, anchored at both ends;
 * docs/server/structured-output.md lists it. choice: one of `n` strings.
 * json: any JSON object.
 * json_schema: draft 2020-12, or draft-07 where `$schema` says so; docs/server/structured-output.md lists the
 * keywords. */
lm_status lm_grammar_gbnf(const char *text, size_t size, const lm_grammar_options *o, lm_grammar **out,
                          lm_error *e);
lm_status lm_grammar_regex(const char *text, size_t size, const lm_grammar_options *o, lm_grammar **out,
                           lm_error *e);
lm_status lm_grammar_choice(const char *const *texts, size_t n, const lm_grammar_options *o, lm_grammar **out,
                            lm_error *e);
lm_status lm_grammar_json(const lm_grammar_options *o, lm_grammar **out, lm_error *e);
lm_status lm_grammar_json_schema(const char *text, size_t size, const lm_grammar_options *o, lm_grammar **out,
                                 lm_error *e);
void      lm_grammar_free(lm_grammar *g);

/* Append a regular expression of the texts that `start` of a grammar in Lark's notation accepts.
 * LM_UNSUPPORTED: what no regular expression can express, or the function does not support: recursion, flags,
 * templates, %ignore; LM_USAGE: the grammar is malformed; LM_LIMIT: the expression is longer than 64 KiB. */
lm_status lm_grammar_lark_regex(const char *grammar, lm_text *out, lm_error *e);

/* A trigger of a lazy grammar: free text up to the trigger, then the grammar. */
typedef struct lm_trigger {
    const char *word;                /* anywhere in the text, however it is tokenized; NULL: `token` */
    lm_token    token;               /* a control token */
    bool        before;              /* the grammar starts after the trigger; false: with it, so the grammar
                                        must accept it */
    bool        control;             /* `token` is the trigger and `word` its text, with which the grammar
                                        begins */
} lm_trigger;

/* Create a lazy grammar; `g` is unchanged. `required`: the text must not end before a trigger. LM_USAGE: no
 * trigger, or a word that is empty, longer than 256 bytes or not accepted by the grammar. */
lm_status lm_grammar_after(const lm_grammar *g, const lm_trigger *triggers, size_t n, bool required,
                           lm_grammar **out, lm_error *e);

/* All zero: the defaults. */
typedef struct lm_grammar_calls_options {
    const lm_tokenizer *tokenizer;   /* resolves markers that are control tokens; NULL: all markers are
                                        text */
    bool     required;               /* the output must be a call, after optional reasoning. false: free text,
                                        but an output that begins like a call must be one */
    bool     in_reasoning;           /* the prompt ends inside reasoning */
    bool     single;                 /* exactly one call */
    bool     no_reasoning;           /* `required` without optional reasoning that the model begins itself */
    lm_whitespace whitespace;        /* of arguments that are JSON */
    uint64_t reserved[4];            /* zero */
} lm_grammar_calls_options;

/* Grammar of calls of these tools in the format of the style, with arguments that match their schemas. *out
 * is NULL with LM_OK if calls are not required and the format has no marker that begins a call: any output is
 * allowed. LM_UNSUPPORTED: the style has no family, or one whose calls no grammar can describe. Other errors:
 * as above, for the schemas. */
lm_status lm_grammar_calls(const lm_answer_style *style, const lm_answer_tool *tools, size_t n,
                           const lm_grammar_calls_options *o, lm_grammar **out, lm_error *e);

/* Match a complete text. `*whole`: the grammar accepts it. `*fits`: number of bytes that are a prefix of an
 * accepted text. */
lm_status lm_grammar_matches(const lm_grammar *g, const char *text, size_t size, bool *whole, size_t *fits,
                             lm_error *e);

/* ---- the tokens of a model ---- */

typedef struct lm_vocabulary lm_vocabulary;

/* `n_vocab`: number of logits of the model; 0: the tokenizer's size. `ends`: end tokens in addition to the
 * tokenizer's. LM_USAGE: there is no end token. The tokenizer may be freed afterwards. The vocabulary is
 * immutable and thread-safe. */
lm_status lm_vocabulary_new(const lm_tokenizer *t, uint32_t n_vocab, const lm_token *ends, size_t n_ends,
                            lm_vocabulary **out, lm_error *e);
void      lm_vocabulary_free(lm_vocabulary *v);
uint32_t  lm_vocabulary_size(const lm_vocabulary *v);

/* ---- the state of one sequence ---- */

/* The state of a sequence in a grammar. Constraints of one grammar and vocabulary share cached masks. Each is
 * used by one thread at a time. */
typedef struct lm_constraint lm_constraint;

lm_status lm_constraint_new(const lm_grammar *g, const lm_vocabulary *v, lm_constraint **out, lm_error *e);
lm_status lm_constraint_clone(const lm_constraint *c, lm_constraint **out, lm_error *e);
void      lm_constraint_free(lm_constraint *c);
void      lm_constraint_reset(lm_constraint *c);         /* return to the start of the grammar */

/* The allowed tokens: bit `id % 64` of bits[id / 64], (size + 63) / 64 words. LM_LIMIT: an ambiguous grammar
 * needs too much work; LM_FAILED: no token is allowed (after the end). */
lm_status lm_constraint_mask(lm_constraint *c, uint64_t *bits, lm_error *e);

/* Accept a token. LM_FAILED: it is not allowed; the constraint is unchanged. */
lm_status lm_constraint_accept(lm_constraint *c, lm_token id, lm_error *e);

/* Roll back the last `n` tokens. LM_USAGE: more than 255, or more than were accepted. */
lm_status lm_constraint_rollback(lm_constraint *c, size_t n, lm_error *e);

bool lm_constraint_complete(const lm_constraint *c);     /* the text may end here */
bool lm_constraint_ended(const lm_constraint *c);        /* an end token was accepted */

/* For lm_sequence_options.logits, with the constraint as `logits_arg`: logits of tokens that are not allowed
 * become -INFINITY. The `ids` of the first call after lm_constraint_new, _clone or _reset are the prompt;
 * later ones are accepted. Draft tokens leave the state unchanged. */
lm_status lm_constraint_logits(void *constraint, float *logits, uint32_t n_vocab, const lm_token *ids,
                               size_t n, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif
