/* found.c - keep what readers find: the statements of a document, and the lines without one. The document
 * owns both lists, and its arena their texts. */
#include <string.h>

#include "base/alloc.h"
#include "study/audit/audit_document.h"

static void *grow(lm_audit_document *d, void *list, size_t n, size_t *room, size_t size)
{
    if (n < *room)
        return list;
    void *grown = lm_realloc(list, 2 * (*room + 16) * size);
    if (!grown) {
        d->failed = true;
        return NULL;
    }
    *room = 2 * (*room + 16);
    return grown;
}

void lm_add_statement(lm_audit_document *d, lm_extent value, int model, const char *quantity,
                      const char *claim, bool unsure)
{
    size_t              line = d->line;
    lm_audit_statement *list;

    d->failed |= !quantity || !claim;
    if (d->failed || model < 0 ||
        !(list = grow(d, d->statements, d->n_statements, &d->room_statements, sizeof *list)))
        return;
    for (const char *p = d->from; p < value.s; p++)
        line += *p == '\n';
    d->statements = list;
    list[d->n_statements++] = (lm_audit_statement){
        .line = line, .at = (size_t)(value.s - d->text), .size = value.n, .model = d->names[model].name,
        .quantity = quantity, .claim = claim, .unsure = unsure || d->doubtful,
    };
}

void lm_add_value(lm_audit_document *d, lm_extent value, int model, const char *quantity, bool unsure)
{
    lm_add_statement(d, value, model, quantity, lm_arena_strndup(&d->arena, value.s, value.n), unsure);
}

void lm_add_unread(lm_audit_document *d, lm_extent line)
{
    lm_audit_unread *list = grow(d, d->unread, d->n_unread, &d->room_unread, sizeof *list);

    if (!list)
        return;
    line      = lm_trim(line);
    d->unread = list;
    list[d->n_unread] = (lm_audit_unread){ .line = d->line,
                                           .text = lm_arena_strndup(&d->arena, line.s, line.n) };
    d->failed |= !list[d->n_unread++].text;
}

const lm_audit_statement *lm_audit_statement_at(const lm_audit_document *d, size_t i)
{
    return d && i < d->n_statements ? &d->statements[i] : NULL;
}

const lm_audit_unread *lm_audit_unread_at(const lm_audit_document *d, size_t i)
{
    return d && i < d->n_unread ? &d->unread[i] : NULL;
}
