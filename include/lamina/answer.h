/* answer.h - parses the output of a chat model into reasoning, content and tool calls.
 *
 *   lm_answer_style_of(lm_model_chat_template(model, NULL), &style);         once per model
 *   options.tools = tools; options.n_tools = n;
 *   options.in_reasoning = lm_answer_in_reasoning(&style, prompt, size);     the rendered prompt
 *   lm_answer_new(&style, &options, &a, &e);                                 one per output
 *   lm_answer_feed(a, text, size, event, arg, &e); ... lm_answer_end(a, event, arg, &e);
 *   lm_answer_free(a); ... lm_answer_style_free(&style);
 *
 * Each model family has its own markers for tool calls; the chat template determines which. Parsing never
 * fails: output that is not a call of a supplied tool is content. The concatenated events do not depend on
 * how the output was divided among calls of lm_answer_feed. */
#ifndef LAMINA_ANSWER_H
#define LAMINA_ANSWER_H

#include "lamina/buffer.h"
#include "lamina/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The output format of a model. Texts are constants. */
typedef struct lm_answer_style {
    const void *family;              /* a descriptor; NULL: the format of tool calls is unknown */
    const char *reasoning, *reasoning_end;      /* markers; NULL: none */
    void       *learned;             /* the descriptor, if lm_answer_style_free frees it */
    const char *unread;              /* why tool calls are not parsed; NULL: they are */
    uint64_t    reserved[2];         /* zero */
} lm_answer_style;

/* Detect the style from the source of a chat template (NULL: none): a supported family that parses the call
 * which the template renders, otherwise the markers of that rendering ("general"). Free the style with
 * lm_answer_style_free; whatever uses it must end before. */
void lm_answer_style_of(const char *chat_template, lm_answer_style *out);
void lm_answer_style_free(lm_answer_style *s);

/* "hermes", "mistral" …, "general"; NULL if the format of tool calls is unknown. */
const char *lm_answer_style_name(const lm_answer_style *s);

/* The i-th supported family; NULL past the last. */
const char *lm_answer_family_name(size_t i);

/* The i-th marker of the family around calls, content and reasoning; NULL past the last. If a marker is a
 * control token, the output must contain it (lm_sequence_options.special). */
const char *lm_answer_mark(const lm_answer_style *s, size_t i);

/* Whether a prompt ends inside reasoning. */
bool lm_answer_in_reasoning(const lm_answer_style *s, const char *prompt, size_t size);

typedef struct lm_answer_tool {
    const char *name;
    const char *parameters;          /* JSON Schema of its arguments, an object; NULL: any object */
    uint64_t    reserved[2];         /* zero */
} lm_answer_tool;

/* All zero: reasoning and content only. Pointers must outlive the lm_answer. */
typedef struct lm_answer_options {
    const lm_answer_tool *tools;     /* [n_tools]; none: tool calls are not parsed */
    size_t      n_tools;
    const char *const *ends;         /* NULL-ended: texts of end tokens, which are removed. May be NULL */
    uint64_t    ids;                 /* seed of call ids, for models that do not write ids */
    bool        in_reasoning;        /* the prompt ends inside reasoning */
    bool        keep_reasoning;      /* return reasoning as content, with its markers */
    bool        eager;               /* report arguments as they arrive, for output that a grammar constrains.
                                        false: when the call is complete, so that an incomplete call becomes
                                        content */
    uint64_t    reserved[4];         /* zero */
} lm_answer_options;

typedef enum lm_answer_kind {
    LM_ANSWER_REASONING,             /* more reasoning */
    LM_ANSWER_CONTENT,               /* more content */
    LM_ANSWER_CALL,                  /* a call begins: `text` is the tool's name, `id` the call's */
    LM_ANSWER_ARGUMENTS,             /* more of the arguments, a JSON object */
    LM_ANSWER_CALL_END,
} lm_answer_kind;

typedef struct lm_answer_event {
    lm_answer_kind kind;
    uint32_t       call;             /* index of the call, from 0 */
    const char    *text;             /* [size], valid during the call */
    size_t         size;
    const char    *id;
    bool           incomplete;       /* CALL_END: the output ended within the arguments */
    uint64_t       reserved[1];      /* zero */
} lm_answer_event;

/* Used by one thread at a time; `event` is called in it. The only error of feed and end is LM_NO_MEMORY. */
typedef struct lm_answer lm_answer;

lm_status lm_answer_new(const lm_answer_style *s, const lm_answer_options *o, lm_answer **out, lm_error *e);
lm_status lm_answer_feed(lm_answer *a, const char *text, size_t size,
                         void (*event)(void *arg, const lm_answer_event *event), void *arg, lm_error *e);
lm_status lm_answer_end(lm_answer *a, void (*event)(void *arg, const lm_answer_event *event), void *arg,
                        lm_error *e); /* end of output */
/* Like lm_answer_end, for an output that a limit has cut: an unfinished call is reported with the arguments
 * that were generated (`incomplete`), and no part of a marker becomes text. */
lm_status lm_answer_cut(lm_answer *a, void (*event)(void *arg, const lm_answer_event *event), void *arg,
                        lm_error *e);
void      lm_answer_free(lm_answer *a);

#ifdef __cplusplus
}
#endif
#endif
