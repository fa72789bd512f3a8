/* audit.h - find the statements about models in a document (Markdown, HTML, plain text), and check them.
 *
 * Reads tables (a model per row or column, parts and their parameters, types and sizes, quantity and value), lists, sentences
 * ("8 KV heads") and arithmetic. A statement is about the model that its row, column, sentence or heading names. An ambiguous statement
 * may be confirmed, but is never called wrong. */
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

typedef struct lm_audit_document lm_audit_document;

/* A statement. Its pointers are valid as long as the document. */
typedef struct lm_audit_statement {
    size_t      line;                /* from 1 */
    size_t      at, size;            /* bytes of the value in the text */
    const char *model;               /* a model given to lm_audit_read, or a preset; "": arithmetic */
    const char *quantity;            /* alternative names for lm_facts_judge, separated by "|"; "": none */
    const char *claim;               /* the value, without markup */
    lm_judgement judged;             /* if quantity is "": the result of the arithmetic */
    bool        unsure;              /* ambiguous: may be confirmed, is never called wrong */
    bool        likely;              /* if unsure: a match is hardly chance, even of a number of one digit */
    bool        candidate;           /* about one of several models that the text may mean: omit it unless it is confirmed */
    bool        precise;             /* zeros at its end are digits, not rounding */
    uint64_t    reserved[3];         /* zero */
} lm_audit_statement;

/* A row or line that contains a number but no statement that can be checked. */
typedef struct lm_audit_unread {
    size_t      line;
    const char *text;
    uint64_t    reserved[3];         /* zero */
} lm_audit_unread;

/* Read a document, which is copied. `models`: names of the models it is about; n = 0: the presets that it names. LM_USAGE: it contains a
 * NUL byte. Free with lm_audit_free. Threads may share the document. */
lm_status lm_audit_read(const char *text, size_t size, const char *const *models, size_t n, lm_audit_document **out, lm_error *e);
void      lm_audit_free(lm_audit_document *d);

/* Statements, and lines not understood, in the order of the text; NULL past the end. */
const lm_audit_statement *lm_audit_statement_at(const lm_audit_document *d, size_t i);
const lm_audit_unread    *lm_audit_unread_at(const lm_audit_document *d, size_t i);

/* Check a statement against the facts of its model; `f` is NULL if the quantity is "". Errors: those of lm_facts_judge. */
lm_status lm_audit_judge(const lm_audit_statement *s, lm_facts *f, lm_judgement *out, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif
