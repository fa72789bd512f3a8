/* sheet_merges.c - a text tokenized by the model's own tokenizer, merge by merge. */
#include <string.h>

#include "study/explain/cards.h"
#include "base/utf8.h"
#include "text/watched.h"

enum { MAX_MERGES = 40 };

typedef struct merging {
    lm_facts           *f;
    const lm_tokenizer *t;
    lm_sheet           *out;
    size_t              n;           /* number of merges, which may exceed the number shown */
} merging;

/* Return a token as spelled in the vocabulary; invalid UTF-8 is repaired. */
static const char *spelled(const merging *m, lm_token id)
{
    size_t      n     = 0;
    const char *piece = id < 0 ? NULL : lm_tokenizer_piece(m->t, id, &n);

    return piece ? lm_facts_strndup(m->f, piece, n) : "?";
}

static void merged(void *arg, lm_token left, lm_token right, lm_token id, uint32_t rank)
{
    merging *m = arg;

    if (m->n++ >= MAX_MERGES)
        return;
    lm_sheet_row *r = lm_sheet_next(m->out, m->f);
    r->cells[0]     = lm_sheet_text(m->f, "%zu", m->n);
    r->cells[1]     = lm_sheet_text(m->f, "%s + %s", spelled(m, left), spelled(m, right));
    r->cells[2]     = spelled(m, id);
    r->cells[3]     = lm_sheet_text(m->f, "%u", rank);
}

static const char *summary_of(const merging *m, const char *text, const lm_tokens *ids)
{
    lm_text list = { 0 };

    for (size_t i = 0; i < ids->n && i < MAX_MERGES; i++)
        lm_text_printf(&list, "%s%s (%d)", i ? ", " : "", spelled(m, ids->ids[i]), ids->ids[i]);
    if (ids->n > MAX_MERGES)
        lm_text_add_str(&list, ", …");
    const char *note = lm_sheet_text(m->f,
                                     P_(ids->n, "%zu bytes became %zu token: %s.",
                                        "%zu bytes became %zu tokens: %s."),
                                     strlen(text), ids->n, list.data ? list.data : "");
    if (m->n > MAX_MERGES)
        note = lm_sheet_text(m->f, _("%s The first %d of %zu merges are shown."), note, MAX_MERGES, m->n);
    m->f->failed |= list.failed;
    lm_text_free(&list);
    return note;
}

lm_status lm_sheet_merges(lm_facts *f, const lm_explain_options *o, lm_sheet *out, lm_error *e)
{
    const char *text = o->text ? o->text : "unbelievably";
    lm_tokens   ids  = { 0 };
    merging     m    = { f, f->s.words, out, 0 };

    if (!m.t)
        return LM_OK;
    *out = (lm_sheet){ .title = lm_sheet_text(f, _("“%s”, merge by merge"),
                                              lm_facts_strndup(f, text, strlen(text))),
                       .columns = { _("step"), _("pair"), _("becomes"), _("rank") },
                       .align = "rllr" };
    lm_status status = lm_tokenize_watched(m.t, (lm_view){ text, strlen(text) }, merged, &m, &ids, e);
    if (status == LM_OK) {
        out->note = summary_of(&m, text, &ids);
        if (!out->n_rows)
            lm_sheet_next(out, f)->cells[1] = _("nothing was merged: each word is a token of the vocabulary");
    }
    lm_tokens_free(&ids);
    return status;
}
