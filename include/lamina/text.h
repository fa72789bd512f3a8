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

/* A growing array that the caller owns; all zero is empty. Functions append to it, as to an lm_text
 * (lamina/buffer.h). */
typedef struct lm_tokens { lm_token *ids; size_t n, capacity; } lm_tokens;
void lm_tokens_free(lm_tokens *t);
lm_status lm_tokens_add(lm_tokens *t, lm_token id, lm_error *e);       /* LM_NO_MEMORY leaves it as it is */
lm_status lm_tokens_append(lm_tokens *t, const lm_token *ids, size_t n, lm_error *e);

/* ---- tokenizer: immutable, safe to share between threads ---- */
typedef struct lm_tokenizer lm_tokenizer;

typedef struct lm_tokenizer_options {
    const char *pre;             /* pre-tokenizer to use if a GGUF names an unknown one; NULL: an unknown one
                                    is an error */
    uint64_t    reserved[4];         /* zero */
} lm_tokenizer_options;

lm_tokenizer_options lm_tokenizer_defaults(void);

/* `path`: a .gguf file, a Hugging Face folder, or a tokenizer.json. */
lm_status lm_tokenizer_open(const char *path, const lm_tokenizer_options *o, lm_tokenizer **out, lm_error *e);
void      lm_tokenizer_free(lm_tokenizer *t);

enum {
    LM_ADD_SPECIAL      = 1,     /* add what the model's tokenizer adds around a text (BOS …) */
    LM_NO_PARSE_SPECIAL = 2,     /* treat control tokens spelled in the text as plain text */
    LM_SKIP_SPECIAL     = 4,     /* detokenising: omit special tokens */
};

/* Convert text to ids, appended to `out`. Invalid UTF-8 becomes U+FFFD. O(n log n). */
lm_status lm_tokenize(const lm_tokenizer *t, const char *text, size_t size, unsigned flags, lm_tokens *out,
                      lm_error *e);

/* Convert ids to text, appended to `out`, exactly as the model's decoder joins them; valid UTF-8. LM_USAGE:
 * an id outside the vocabulary. */
lm_status lm_detokenize(const lm_tokenizer *t, const lm_token *ids, size_t n, unsigned flags, lm_text *out,
                        lm_error *e);

/* Append the bytes of one token in the middle of a text, which may be a part of a character; for a control
 * token, its spelling. */
lm_status lm_token_bytes(const lm_tokenizer *t, lm_token id, lm_text *out, lm_error *e);

uint32_t    lm_tokenizer_size(const lm_tokenizer *t);                              /* ids are below this */
/* The token's spelling in the vocabulary ("Ġthe", "<|im_end|>"); NULL outside it. Valid as long as the
 * tokenizer. */
const char *lm_tokenizer_piece(const lm_tokenizer *t, lm_token id, size_t *size);

lm_token    lm_tokenizer_find(const lm_tokenizer *t, const char *piece);           /* -1: no such token */
bool        lm_tokenizer_is_special(const lm_tokenizer *t, lm_token id);
lm_token    lm_tokenizer_bos(const lm_tokenizer *t);                               /* -1: none */
lm_token    lm_tokenizer_eos(const lm_tokenizer *t);
/* Whether a token ends generation (eos, end of turn, end of message …) according to the tokenizer's files. */
bool        lm_tokenizer_is_end(const lm_tokenizer *t, lm_token id);
/* Fill-in-the-middle tokens (arXiv 2207.14255), and those for files of a repository (arXiv 2409.12186). */
typedef enum lm_middle_token {
    LM_MIDDLE_PREFIX,                /* the text before the gap follows */
    LM_MIDDLE_SUFFIX,                /* the text after the gap follows */
    LM_MIDDLE_MIDDLE,                /* the missing text follows */
    LM_MIDDLE_REPOSITORY,            /* name of the repository */
    LM_MIDDLE_FILE,                  /* name of a file, and its text */
} lm_middle_token;

/* The token named by the model's metadata, else found by its known spellings. -1: none. */
lm_token    lm_tokenizer_middle(const lm_tokenizer *t, lm_middle_token which);
/* A one-line summary: "byte-level BPE, 49152 tokens, 48900 merges, pre smollm". */
const char *lm_tokenizer_summary(const lm_tokenizer *t);

/* Warnings from opening the tokenizer; one line each, NULL past the end. */
const char *lm_tokenizer_warning(const lm_tokenizer *t, size_t i);

/* ---- streaming: whole characters only ---- */
typedef struct lm_stream lm_stream;
/* `continues`: the text follows a prompt, so a leading space is kept. */
lm_status lm_stream_new(const lm_tokenizer *t, unsigned flags, bool continues, lm_stream **out, lm_error *e);
/* Append to `out` the characters that are complete. Concatenated they equal the result of lm_detokenize,
 * except for byte tokens that are not valid UTF-8: lm_detokenize replaces the whole run of them with U+FFFD,
 * a stream only the invalid bytes. LM_USAGE: an id outside the vocabulary; the stream is unchanged. After
 * LM_NO_MEMORY pending bytes are lost. */
lm_status lm_stream_push(lm_stream *s, lm_token id, lm_text *out, lm_error *e);
/* the rest; U+FFFD for an incomplete character */
lm_status lm_stream_end(lm_stream *s, lm_text *out, lm_error *e);
void      lm_stream_free(lm_stream *s);

/* ---- chat templates ---- */
typedef struct lm_template lm_template;

/* Compile a template. Errors contain `line N, column M`. `name` is used in messages. */
lm_status lm_template_new(const char *source, size_t size, const char *name, lm_template **out, lm_error *e);
void      lm_template_free(lm_template *t);

/* A rendering, and which of its bytes are content: those that came from variables (messages, tools,
 * documents, every variable whose name does not end in _token or _tokens) and not from the template's own
 * text. `content`: sorted spans, tracked through concatenation, filters and methods. A message's "role" that
 * is a plain word is not content, because templates build control tokens from it. */
typedef struct lm_span { size_t from, to; } lm_span;
typedef struct lm_rendering { lm_text text; lm_span *content; size_t n_content; } lm_rendering;
void lm_rendering_free(lm_rendering *r);

/* Render with a JSON object of variables (messages, tools, add_generation_prompt, bos_token …, "now": an ISO
 * date that strftime_now uses instead of the clock). The environment is that of transformers'
 * apply_chat_template; tools and documents are null and add_generation_prompt false if they are not given.
 * Templates that know no `tool_calls` but a form of their own (GLM-4's "metadata" and "observation", Hammer's
 * list as content) get tool calls and results in that form.
 * Thread-safe. LM_FAILED: the template raised an exception, or Python would; LM_LIMIT: more than 1 000 000
 * steps, 4 MiB of text, 64 nested calls …; LM_UNSUPPORTED: parts of jinja2 that no chat template needs
 * (loading other templates, random text); LM_USAGE: the variables are not a JSON object. Errors contain the
 * line and column that was being executed. */
lm_status lm_template_render(const lm_template *t, const char *context_json, size_t size, lm_rendering *out,
                             lm_error *e);

/* Whether the template names this variable anywhere. */
bool lm_template_uses(const lm_template *t, const char *name);

/* Messages as clients write them, in the form that chat templates know, appended to `out` as a JSON array.
 * Roles are system, user, assistant and tool ("developer" becomes system, "function" tool); content is a
 * string, parts of text joined by newlines; the arguments of tool calls are objects; "reasoning" is also
 * "reasoning_content". Everything else is as given. LM_USAGE names the message: an unknown role, content that
 * is not text. Each part that was left out has a line in `warnings`, which may be NULL. */
lm_status lm_messages_read(const char *json, size_t size, lm_text *warnings, lm_text *out, lm_error *e);

/* LM_USAGE: a template left out a system or tool message of this list, which lm_messages_read made: no word
 * of it is in `rendered`. */
lm_status lm_messages_rendered(const char *json, size_t size, const lm_text *rendered, lm_error *e);

/* Tokenize a rendering. Special tokens are recognised in the template's own text, and in content only with
 * `parse_content`. */
lm_status lm_tokenize_rendering(const lm_tokenizer *t, const lm_rendering *r, bool parse_content,
                                lm_tokens *out, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif
