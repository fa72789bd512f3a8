/* study/audit.h - find the statements about models in a document, and check them.
 *
 * Read is what has one meaning: tables of Markdown or aligned text (a model per row, column or heading),
 * lines "name: value", phrases of known words such as "36 layers", keys of JSON and YAML, modules that
 * PyTorch prints, tables of torchinfo, and lists of statements (tab separated, with the columns model,
 * quantity and claim). A statement is about the model that its row, column, line or heading names. One that
 * may mean something else can be confirmed, but is never called wrong. */
#ifndef LAMINA_AUDIT_H
#define LAMINA_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lamina/error.h"
#include "lamina/study/facts.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lm_audit_document lm_audit_document;

/* A statement. Its pointers are valid as long as the document. */
typedef struct lm_audit_statement {
    size_t      line;                /* from 1 */
    size_t      at, size;            /* bytes of the value in the text */
    const char *model;               /* a model given to lm_audit_read, or a preset; in a list of statements,
                                        any name */
    const char *quantity;            /* alternative names for lm_facts_judge, divided by "|" */
    const char *claim;               /* the value, without markup */
    bool        unsure;              /* may mean something else: may be confirmed, is never called wrong */
    bool        listed;              /* of a list of statements, whose quantity is the one that is meant */
    bool        key;                 /* the quantity is a key of JSON or YAML that the model's configuration
                                        may have */
    uint64_t    reserved[3];         /* zero */
} lm_audit_statement;

/* A row or line with a number that contains no statement that can be checked. */
typedef struct lm_audit_unread {
    size_t      line;
    const char *text;
    uint64_t    reserved[3];         /* zero */
} lm_audit_unread;

/* Read a document, which is copied. `models`: names of the models it is about; n = 0: the presets that it
 * names. LM_USAGE: it contains a NUL byte, or a list lacks a column. Free with lm_audit_free. Threads may
 * share the document. */
lm_status lm_audit_read(const char *text, size_t size, const char *const *models, size_t n,
                        lm_audit_document **out, lm_error *e);
void      lm_audit_free(lm_audit_document *d);

/* Statements, and lines not understood, in the order of the text; NULL past the end. */
const lm_audit_statement *lm_audit_statement_at(const lm_audit_document *d, size_t i);
const lm_audit_unread    *lm_audit_unread_at(const lm_audit_document *d, size_t i);

/* Check a statement against the facts of its model. Errors: those of lm_facts_judge. */
lm_status lm_audit_judge(const lm_audit_statement *s, lm_facts *f, lm_judgement *out, lm_error *e);

#ifdef __cplusplus
}
#endif
#endif
