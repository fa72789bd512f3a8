/* answer.h - what a chat model's answer consists of: reasoning, text, and calls of tools.
 *
 *   lm_answer_style_of(lm_model_chat_template(model, NULL), &style);         once for a model
 *   options.tools = tools; options.n_tools = n;
 *   options.in_reasoning = lm_answer_in_reasoning(&style, prompt, size);     the prompt as the template rendered it
 *   lm_answer_new(&style, &options, &a, &e);                                 one for each text
 *   lm_answer_feed(a, text, size, told, arg, &e); ... lm_answer_end(a, told, arg, &e);
 *
 * Each family of models writes calls in marks of its own; which ones is told by its chat template. Reading never fails: text that is no
 * call of a tool that was given is content. Events do not depend on how the text was cut: put together they are the same. */
#ifndef LAMINA_ANSWER_H
#define LAMINA_ANSWER_H

#include "lamina/buffer.h"
#include "lamina/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How answers of a model look; what it points to is constant. */
typedef struct lm_answer_style {
    const void *family;              /* a descriptor; NULL: calls are not known */
    const char *reasoning, *reasoning_end;      /* marks; NULL: none */
    uint64_t    reserved[4];                 /* zero */
} lm_answer_style;

/* From the text of a chat template (NULL: none). */
void lm_answer_style_of(const char *chat_template, lm_answer_style *out);

/* "hermes", "mistral" …; NULL where calls are not known. */
const char *lm_answer_style_name(const lm_answer_style *s);

/* The i-th family that is known; NULL past the last. */
const char *lm_answer_family_name(size_t i);

/* The i-th mark that the family writes around calls, text and reasoning; NULL past the last. Where such a mark is a control token, the
 * text that is read must hold it (lm_sequence_options.special). */
const char *lm_answer_mark(const lm_answer_style *s, size_t i);

/* Does a prompt end within reasoning that it has begun? */
bool lm_answer_in_reasoning(const lm_answer_style *s, const char *prompt, size_t size);

typedef struct lm_answer_tool {
    const char *name;
    const char *parameters;          /* JSON Schema of its arguments, an object; NULL: any object */
    uint64_t    reserved[2];         /* zero */
} lm_answer_tool;

/* All zero: reasoning and text. What it points to must outlive the lm_answer. */
typedef struct lm_answer_options {
    const lm_answer_tool *tools;     /* [n_tools]; none: calls are not looked for */
    size_t      n_tools;
    const char *const *ends;         /* NULL-ended: texts of tokens that end an answer, left out of it. May be NULL */
    uint64_t    ids;                 /* what ids of calls are made from, where the model writes none */
    bool        in_reasoning;        /* the prompt has begun it */
    bool        keep_reasoning;      /* reasoning is content, its marks included */
    bool        eager;               /* arguments are told while they come: for texts that a grammar holds to the form. false: when the
                                        call is whole, so that one that breaks off is content */
    uint64_t    reserved[4];         /* zero */
} lm_answer_options;

typedef enum lm_answer_kind {
    LM_ANSWER_REASONING,             /* more of it */
    LM_ANSWER_CONTENT,               /* more of it */
    LM_ANSWER_CALL,                  /* a call begins: `text` is the tool's name, `id` the call's */
    LM_ANSWER_ARGUMENTS,             /* more of the JSON object that are its arguments */
    LM_ANSWER_CALL_END,
} lm_answer_kind;

typedef struct lm_answer_event {
    lm_answer_kind kind;
    uint32_t       call;             /* which, from 0 */
    const char    *text;             /* [size], valid during the call */
    size_t         size;
    const char    *id;
    uint64_t       reserved[2];      /* zero */
} lm_answer_event;

/* Used by one thread at a time. LM_NO_MEMORY is the only error of feed and end. */
typedef struct lm_answer lm_answer;

lm_status lm_answer_new(const lm_answer_style *s, const lm_answer_options *o, lm_answer **out, lm_error *e);
lm_status lm_answer_feed(lm_answer *a, const char *text, size_t size, void (*told)(void *arg, const lm_answer_event *event), void *arg,
                         lm_error *e);
lm_status lm_answer_end(lm_answer *a, void (*told)(void *arg, const lm_answer_event *event), void *arg, lm_error *e);    /* of the text */
void      lm_answer_free(lm_answer *a);

#ifdef __cplusplus
}
#endif
#endif
