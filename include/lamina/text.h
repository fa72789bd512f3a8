/* text.h - tokenizers, streaming detokenisation and chat templates. */
#ifndef LAMINA_TEXT_H
#define LAMINA_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lamina/buffer.h"
#include "lamina/error.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t lm_token;

/* A growing array that the caller owns; all zero is empty. Functions append to it, as to an lm_text (lamina/buffer.h). */
typedef struct lm_tokens { lm_token *ids; size_t n, capacity; } lm_tokens;
void lm_tokens_free(lm_tokens *t);
lm_status lm_tokens_add(lm_tokens *t, lm_token id, lm_error *e);       /* LM_NO_MEMORY leaves it as it is */
lm_status lm_tokens_append(lm_tokens *t, const lm_token *ids, size_t n, lm_error *e);

/* ---- tokenizer: immutable, safe to share between threads ---- */
typedef struct lm_tokenizer lm_tokenizer;

typedef struct lm_tokenizer_options {
    const char *pre;             /* pre-tokenizer to use where a GGUF names an unknown one; NULL: that is an error */
    uint64_t    reserved[4];         /* zero */
} lm_tokenizer_options;

lm_tokenizer_options lm_tokenizer_defaults(void);

/* `path`: a .gguf file, a Hugging Face folder, or a tokenizer.json. */
lm_status lm_tokenizer_open(const char *path, const lm_tokenizer_options *o, lm_tokenizer **out, lm_error *e);
void      lm_tokenizer_free(lm_tokenizer *t);

enum {
    LM_ADD_SPECIAL      = 1,     /* what the model's own tokenizer adds around a text (BOS …) */
    LM_NO_PARSE_SPECIAL = 2,     /* control tokens spelled in the text are text */
    LM_SKIP_SPECIAL     = 4,     /* detokenising: leave special tokens out */
};

/* Text to ids, appended to `out`. Bytes that are not UTF-8 become U+FFFD. O(n log n). */
lm_status lm_tokenize(const lm_tokenizer *t, const char *text, size_t size, unsigned flags, lm_tokens *out, lm_error *e);

/* Ids to text, appended to `out`, exactly as the model's decoder joins them; valid UTF-8. An id outside the vocabulary is
 * LM_USAGE. */
lm_status lm_detokenize(const lm_tokenizer *t, const lm_token *ids, size_t n, unsigned flags, lm_text *out, lm_error *e);

/* What one token adds in the middle of a text, as bytes that need not be whole characters; of a control token how it is spelled. Appended
 * to `out`. */
lm_status lm_token_bytes(const lm_tokenizer *t, lm_token id, lm_text *out, lm_error *e);

uint32_t    lm_tokenizer_size(const lm_tokenizer *t);                              /* ids are below this */
/* How the token is spelled in the vocabulary ("Ġthe", "<|im_end|>"); NULL outside it. Valid as long as the tokenizer. */
const char *lm_tokenizer_piece(const lm_tokenizer *t, lm_token id, size_t *size);

lm_token    lm_tokenizer_find(const lm_tokenizer *t, const char *piece);           /* -1: no such token */
bool        lm_tokenizer_is_special(const lm_tokenizer *t, lm_token id);
lm_token    lm_tokenizer_bos(const lm_tokenizer *t);                               /* -1: none */
lm_token    lm_tokenizer_eos(const lm_tokenizer *t);
/* Ends a generation: eos, end of turn, end of message … as far as the tokenizer's own files tell. */
bool        lm_tokenizer_is_end(const lm_tokenizer *t, lm_token id);
/* Tokens of models that fill in what is missing in the middle of a text (arXiv 2207.14255), of files of a repository (arXiv 2409.12186). */
typedef enum lm_middle_token {
    LM_MIDDLE_PREFIX,                /* what is before follows */
    LM_MIDDLE_SUFFIX,                /* what is behind follows */
    LM_MIDDLE_MIDDLE,                /* what is missing follows */
    LM_MIDDLE_REPOSITORY,            /* name of the repository */
    LM_MIDDLE_FILE,                  /* name of a file, and its text */
} lm_middle_token;

/* As the model's metadata names it, else by its well-known spellings. -1: the vocabulary has none. */
lm_token    lm_tokenizer_middle(const lm_tokenizer *t, lm_middle_token which);
/* One line for people: "byte-level BPE, 49152 tokens, 48900 merges, pre smollm". */
const char *lm_tokenizer_summary(const lm_tokenizer *t);

/* What was unusual while opening; one line each, NULL past the end. */
const char *lm_tokenizer_warning(const lm_tokenizer *t, size_t i);

/* ---- streaming: never half a character ---- */
typedef struct lm_stream lm_stream;
/* `continues`: the text follows a prompt, so a leading space stays. */
lm_status lm_stream_new(const lm_tokenizer *t, unsigned flags, bool continues, lm_stream **out, lm_error *e);
/* Append to `out` the characters that are whole now. All together they are what lm_detokenize gives, but for byte tokens
 * that spell no UTF-8: there it makes the whole run of them U+FFFD, a stream only the bad bytes. LM_USAGE: an id outside the
 * vocabulary, of which the stream knows nothing; after LM_NO_MEMORY it has lost what it held. */
lm_status lm_stream_push(lm_stream *s, lm_token id, lm_text *out, lm_error *e);
lm_status lm_stream_end(lm_stream *s, lm_text *out, lm_error *e);                  /* the rest, U+FFFD for a broken tail */
void      lm_stream_free(lm_stream *s);

/* ---- chat templates ---- */
typedef struct lm_template lm_template;

/* Compile. Errors carry `line N, column M`. `name` is for messages. */
lm_status lm_template_new(const char *source, size_t size, const char *name, lm_template **out, lm_error *e);
void      lm_template_free(lm_template *t);

/* Which bytes of a rendering came from outside (messages, tools, documents, every variable whose name does not end in
 * _token or _tokens) rather than from the template's own text: sorted spans, followed through concatenation, filters and
 * methods. A message's "role" that is plainly a word is not content: templates build control tokens of it. */
typedef struct lm_span { size_t from, to; } lm_span;
typedef struct lm_rendering { lm_text text; lm_span *content; size_t n_content; } lm_rendering;
void lm_rendering_free(lm_rendering *r);

/* Render with a JSON object of variables (messages, tools, add_generation_prompt, bos_token …, "now": an ISO date that
 * strftime_now uses instead of the clock). The environment is that of transformers' apply_chat_template; tools and documents
 * are null and add_generation_prompt false where they are not given. Thread-safe. LM_FAILED: what the template raises, and
 * what Python would; LM_LIMIT: more than 1 000 000 steps, 4 MiB of text, 64 calls inside each other …; LM_UNSUPPORTED: parts
 * of jinja2 that no chat template needs (loading other templates, random text); LM_USAGE: the variables are no JSON object.
 * Errors carry the line and column that was being executed. */
lm_status lm_template_render(const lm_template *t, const char *context_json, size_t size, lm_rendering *out, lm_error *e);

/* Tokens of a rendering: the template's own text with special tokens recognised, message data without (unless
 * `parse_content`). */
lm_status lm_tokenize_rendering(const lm_tokenizer *t, const lm_rendering *r, bool parse_content, lm_tokens *out, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif
