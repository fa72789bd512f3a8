/* audit.h - what a document says about models, found in Markdown, HTML and plain text.
 *
 * Tables (a model per row or column, parts and their parameters, types and sizes, quantity and value), lists, sentences ("8 KV heads")
 * and arithmetic. A statement is about the model that its row, column, sentence or heading names. Where the text may mean something else
 * it is never called wrong. */
#ifndef LAMINA_AUDIT_H
#define LAMINA_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lamina/error.h"
#include "lamina/facts.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lm_reading lm_reading;

/* Something said. What it points to lives as long as the document. */
typedef struct lm_said {
    size_t      line;                /* from 1 */
    size_t      at, size;            /* the bytes of the text that hold the value */
    const char *model;               /* one of those given, or a preset; "": of arithmetic */
    const char *quantity;            /* names for lm_facts_judge, any of which will do, divided by "|"; "": not of a model */
    const char *claim;               /* the value, without what decorates it */
    lm_judgement judged;             /* where quantity is "": what the arithmetic says */
    bool        unsure;              /* it may mean something else: it can be confirmed, and is never called wrong */
    uint64_t    reserved[3];         /* zero */
} lm_said;

/* A row or line with a number that says nothing that can be checked. */
typedef struct lm_unread {
    size_t      line;
    const char *text;
    uint64_t    reserved[3];         /* zero */
} lm_unread;

/* `models`: the names of those that the text is about; none: those presets that it names. The text is copied. LM_USAGE: it has a NUL.
 * Threads may share the document. */
lm_status lm_reading_read(const char *text, size_t size, const char *const *models, size_t n, lm_reading **out, lm_error *e);
void      lm_reading_free(lm_reading *d);

/* In the order of the text; NULL past the end. */
const lm_said   *lm_reading_said(const lm_reading *d, size_t i);
const lm_unread *lm_reading_unread(const lm_reading *d, size_t i);

/* Of what was said, by the facts of its model; NULL facts where its quantity is "". Errors as of lm_facts_judge. */
lm_status lm_said_judge(const lm_said *s, lm_facts *f, lm_judgement *out, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif
