/* audit_marks.c - insert the verdicts of `lamina audit` into the text of a document, as Markdown or HTML. */
#include "cli/study/audit_marks.h"

#include <stdlib.h>
#include <string.h>

static const char page_head[] =
    "<!DOCTYPE html>\n<meta charset=\"utf-8\">\n<title>lamina audit</title>\n<style>\n"
    "pre { white-space: pre-wrap; font-family: inherit; max-width: 60em; margin: 2em auto; "
    "line-height: 1.5 }\n"
    ".confirmed { color: #1a7f37 }\n.rounded { color: #9a6700 }\n"
    ".wrong { color: #cf222e; text-decoration: line-through }\n"
    "ins { color: #cf222e; text-decoration: none; font-weight: bold }\n</style>\n<pre>";

static void add_passage(lm_text *out, const char *s, size_t n, bool html)
{
    for (size_t i = 0; i < n; i++) {
        const char *as = !html         ? NULL
                         : s[i] == '<' ? "&lt;"
                         : s[i] == '>' ? "&gt;"
                         : s[i] == '&' ? "&amp;"
                                       : NULL;
        if (as)
            lm_text_add_str(out, as);
        else
            lm_text_add(out, s + i, 1);
    }
}

static void add_verdict(lm_text *out, const lm_claim_mark *m, bool html)
{
    static const char *const signs[] = { " ✓", " ≈", " ✗", "" };

    if (m->verdict != LM_CLAIM_WRONG) {
        lm_text_add_str(out, signs[m->verdict]);
        return;
    }
    lm_text_add_str(out, html ? " <ins>→ " : " ✗ → ");
    add_passage(out, m->truth, strlen(m->truth), html);
    lm_text_add_str(out, html ? "</ins>" : "");
}

static void add_marked(lm_text *out, const char *text, const lm_claim_mark *m, bool html)
{
    static const char *const classes[] = { "confirmed", "rounded", "wrong", "" };

    if (html)
        lm_text_printf(out, "<span class=\"%s\">", classes[m->verdict]);
    add_passage(out, text + m->at, m->size, html);
    if (html)
        lm_text_add_str(out, "</span>");
    add_verdict(out, m, html);
}

static int by_place(const void *x, const void *y)
{
    const lm_claim_mark *a = x, *b = y;

    return a->at != b->at ? (a->at > b->at) - (a->at < b->at)
                          : (a->verdict < b->verdict) - (a->verdict > b->verdict);
}

/* Replace a mark that encloses others by an empty mark at the end of its value. */
static void unnest(lm_claim_mark *marks, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++)
        if (marks[i + 1].at < marks[i].at + marks[i].size && marks[i + 1].size < marks[i].size)
            marks[i] = (lm_claim_mark){ .at = marks[i].at + marks[i].size,
                                        .verdict = marks[i].verdict,
                                        .truth = marks[i].truth };
    qsort(marks, n, sizeof *marks, by_place);
}

void lm_mark_document(lm_text *out, const char *text, size_t size, lm_claim_mark *marks, size_t n, bool html)
{
    size_t at = 0;

    qsort(marks, n, sizeof *marks, by_place);
    unnest(marks, n);
    if (html)
        lm_text_add_str(out, page_head);
    for (size_t i = 0; i < n; i++) {
        bool again = i && !marks[i].size && !marks[i - 1].size && marks[i].at == at && at > 0;
        if (marks[i].at < at || again)       /* inside the previous mark, or a duplicate */
            continue;
        add_passage(out, text + at, marks[i].at - at, html);
        add_marked(out, text, &marks[i], html);
        at = marks[i].at + marks[i].size;
    }
    add_passage(out, text + at, size - at, html);
    if (html)
        lm_text_add_str(out, "</pre>\n");
}
