/* document.c - build a report: blocks, ids, numbers. */
#include "study/page/document.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

#include "base/alloc.h"
#include "base/error.h"

/* ---- lifetime ---- */

void lm_document_init(lm_document *d, lm_facts *const *models, size_t n_models)
{
    *d = (lm_document){ .prefix = "", .models = models, .n_models = n_models, .layer = -1, .lines = true };
    d->root    = (lm_block){ .kind = LM_BLOCK_SECTION, .number = "" };
    d->at      = &d->root;
    d->facts   = n_models == 1 ? models[0] : NULL;
    d->nothing = (lm_block){ .kind = LM_BLOCK_TEXT, .text = "" };
}

void lm_document_free(lm_document *d)
{
    lm_arena_free(&d->arena);
    *d = (lm_document){ .prefix = "" };
}

lm_status lm_document_check(const lm_document *d, lm_error *e)
{
    if (d->status != LM_OK && e)
        *e = d->error;
    return d->failed ? lm_fail_memory(e, "a report", d->arena.used) : d->status;
}

/* ---- text ---- */

/* Newlines and tabs are allowed: functions that write a single line replace them. */
static bool is_ignored(utf8proc_int32_t c)
{
    if (c < 0x20)
        return c == '\n' || c == '\t';
    return !(c >= 0x7f && c < 0xa0) && !(c >= 0x202a && c <= 0x202e) && !(c >= 0x2066 && c <= 0x2069) &&
           c != 0x2028 && c != 0x2029 && c != 0x200e && c != 0x200f && c != 0xfeff;
}

static const char *keep_bytes(lm_document *d, const char *text, size_t n)
{
    const utf8proc_uint8_t *p = (const utf8proc_uint8_t *)text;
    lm_text                  b = { 0 };
    utf8proc_int32_t        c;

    for (size_t i = 0, step; i < n; i += step) {
        utf8proc_ssize_t k = utf8proc_iterate(p + i, (utf8proc_ssize_t)(n - i), &c);
        step               = k < 1 ? 1 : (size_t)k;
        if (k < 1 || !is_ignored(c))
            lm_text_add_str(&b, "\xEF\xBF\xBD");
        else
            lm_text_add(&b, text + i, step);
    }
    const char *copy = b.failed ? NULL : lm_arena_strndup(&d->arena, b.data ? b.data : "", b.size);
    d->failed |= !copy;
    lm_text_free(&b);
    return copy ? copy : "";
}

const char *lm_doc_strdup(lm_document *d, const char *text)
{
    return keep_bytes(d, text, strlen(text));
}

static const char *keep_list(lm_document *d, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
static const char *keep_list(lm_document *d, const char *format, va_list args)
{
    lm_text b = { 0 };

    lm_text_vprintf(&b, format, args);
    d->failed |= b.failed;
    const char *copy = lm_doc_strdup(d, b.data ? b.data : "");
    lm_text_free(&b);
    return copy;
}

const char *lm_doc_printf(lm_document *d, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    const char *text = keep_list(d, format, args);
    va_end(args);
    return text;
}

const char *lm_doc_slug(lm_document *d, const char *words)
{
    char   out[96];
    size_t n = 0;

    for (; *words && n + 1 < sizeof out; words++) {
        char c = *words >= 'A' && *words <= 'Z' ? (char)(*words - 'A' + 'a') : *words;
        if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
            out[n++] = c;
        else if (n && out[n - 1] != '-')
            out[n++] = '-';
    }
    while (n && out[n - 1] == '-')
        n--;
    out[n] = '\0';
    return lm_doc_strdup(d, n ? out : "x");
}

const char *lm_doc_anchor(lm_document *d, const char *id)
{
    return lm_doc_printf(d, "%s%s", d->prefix, id);
}

/* ---- blocks ---- */

static lm_block *add_block(lm_document *d, lm_block_kind kind)
{
    lm_block *b = lm_arena_new(&d->arena, 1, lm_block);

    if (!b) {
        d->failed  = true;
        d->nothing = (lm_block){ .kind = LM_BLOCK_TEXT, .parent = d->at, .text = "" };
        return &d->nothing;
    }
    *b = (lm_block){ .kind = kind, .parent = d->at, .facts = d->facts };
    if (d->at->last)
        d->at->last->next = b;
    else
        d->at->first = b;
    d->at->last = b;
    return b;
}

static bool is_taken(lm_document *d, const char *id, const lm_block *but)
{
    for (lm_block *b = lm_document_next(NULL, d); b; b = lm_document_next(b, d))
        if (b != but && b->id && strcmp(b->id, id) == 0)
            return true;
    return false;
}

/* Set the id: with the model's prefix, and with a number if it is taken. */
static void name_block(lm_document *d, lm_block *b, const char *id)
{
    const char *whole = lm_doc_anchor(d, id);

    for (unsigned k = 2; is_taken(d, whole, b) && k < 10000; k++)
        whole = lm_doc_printf(d, "%s%s-%u", d->prefix, id, k);
    b->id = whole;
}

lm_block *lm_doc_block(lm_document *d, lm_block_kind kind, const char *id)
{
    lm_block *b = add_block(d, kind);

    if (id && b != &d->nothing)
        name_block(d, b, id);
    return b;
}

/* After a failed allocation blocks are not opened, so their closes must do nothing: `nothing.level` counts
 * these blocks. */
static lm_block *open_block(lm_document *d, lm_block_kind kind, const char *id, const char *output,
                            const char *title)
{
    lm_block *b = add_block(d, kind);

    if (b == &d->nothing) {
        d->nothing.level++;
        return b;
    }
    name_block(d, b, id);
    b->title  = lm_doc_strdup(d, title);
    b->output = output;
    b->number = "";
    b->level  = kind == LM_BLOCK_SECTION ? d->at->level + 1 : d->at->level;
    d->at     = b;
    return b;
}

lm_block *lm_doc_open(lm_document *d, const char *id, const char *output, const char *title)
{
    return open_block(d, LM_BLOCK_SECTION, id, output, title);
}

lm_block *lm_doc_fold(lm_document *d, const char *id, const char *title)
{
    return open_block(d, LM_BLOCK_FOLD, id, NULL, title);
}

void lm_doc_close(lm_document *d)
{
    if (d->nothing.level)
        d->nothing.level--;
    else if (d->at->parent)
        d->at = d->at->parent;
}

void lm_doc_drop_empty(lm_document *d)
{
    lm_block *b = d->at, *before = NULL;

    lm_doc_close(d);
    if (b == d->at || b->first)
        return;
    for (lm_block *k = d->at->first; k && k != b; k = k->next)
        before = k;
    if (before)
        before->next = NULL;
    else
        d->at->first = NULL;
    d->at->last = before;
}

void lm_doc_text(lm_document *d, const char *text)
{
    add_block(d, LM_BLOCK_TEXT)->text = lm_doc_strdup(d, text);
}

void lm_doc_note(lm_document *d, const char *text)
{
    add_block(d, LM_BLOCK_NOTE)->text = lm_doc_strdup(d, text);
}

void lm_doc_textf(lm_document *d, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add_block(d, LM_BLOCK_TEXT)->text = keep_list(d, format, args);
    va_end(args);
}

void lm_doc_notef(lm_document *d, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add_block(d, LM_BLOCK_NOTE)->text = keep_list(d, format, args);
    va_end(args);
}

void lm_doc_warning(lm_document *d, const char *text)
{
    add_block(d, LM_BLOCK_WARNING)->text = lm_doc_strdup(d, text);
}

void lm_doc_verbatim(lm_document *d, const char *text, size_t n)
{
    add_block(d, LM_BLOCK_VERBATIM)->text = keep_bytes(d, text, n);
}

void lm_doc_item_of(lm_document *d, char mark, const char *text)
{
    lm_block *b = d->at->last && d->at->last->kind == LM_BLOCK_LIST ? d->at->last
                                                                    : add_block(d, LM_BLOCK_LIST);
    lm_doc_item *item = lm_arena_new(&d->arena, 1, lm_doc_item), **end = &b->items;

    if (!item || b == &d->nothing) {
        d->failed = true;
        return;
    }
    *item = (lm_doc_item){ .text = lm_doc_strdup(d, text), .mark = mark };
    while (*end)
        end = &(*end)->next;
    *end = item;
}

void lm_doc_itemf(lm_document *d, char mark, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    lm_doc_item_of(d, mark, keep_list(d, format, args));
    va_end(args);
}

void lm_doc_formula_of(lm_document *d, const char *name, const char *unicode, const char *latex)
{
    lm_block *b = add_block(d, LM_BLOCK_FORMULA);

    if (b != &d->nothing)
        b->formula = (lm_doc_formula){ name ? lm_doc_strdup(d, name) : NULL, lm_doc_strdup(d, unicode),
                                       latex ? lm_doc_strdup(d, latex) : NULL };
}

void lm_doc_derive(lm_document *d, lm_derivation *x)
{
    lm_block *b = add_block(d, LM_BLOCK_DERIVATION);

    if (b != &d->nothing)
        b->derivation = x;
}

/* ---- figures ---- */

lm_block *lm_doc_figure_of(lm_document *d, const char *diagram, const char *output, const char *caption,
                           const char *text, const char *mermaid)
{
    lm_block *b = add_block(d, LM_BLOCK_FIGURE);

    if (b == &d->nothing)
        return b;
    name_block(d, b, lm_doc_printf(d, "figure-%s", diagram));
    b->title  = caption ? lm_doc_strdup(d, caption) : NULL;
    b->output = output;
    b->figure = (lm_doc_figure){ .diagram = diagram, .text = lm_doc_strdup(d, text ? text : "") };
    if (mermaid)
        b->figure.mermaid = lm_doc_strdup(d, mermaid);
    return b;
}

void lm_doc_diagram(lm_document *d, const char *name, const char *output, const char *caption,
                    const lm_explain_options *o)
{
    lm_explain_options options = o ? *o : (lm_explain_options){ .columns = 0 };
    lm_text            text = { 0 }, mermaid = { 0 };
    const lm_graph    *graph = NULL;

    options.lines = d->lines;
    if (lm_diagram_forms(d->facts, name, &options, &text, &mermaid, &graph, NULL) != LM_OK)
        return;
    lm_block *b = lm_doc_figure_of(d, name, output, caption, text.data, mermaid.data);
    if (b != &d->nothing) {
        b->figure.graph    = graph;
        b->figure.layer    = options.layer;
        b->figure.pieces   = options.pieces;
        b->figure.n_pieces = options.n_pieces;
    }
    lm_text_free(&text);
    lm_text_free(&mermaid);
}

/* ---- traversal ---- */

lm_block *lm_document_next(lm_block *b, lm_document *d)
{
    if (!b)
        return d->root.first;
    if (b->first)
        return b->first;
    while (b && !b->next)
        b = b->parent;
    return b ? b->next : NULL;
}

static void number_sections(lm_document *d, lm_block *within)
{
    unsigned n = 0;

    for (lm_block *b = within->first; b; b = b->next) {
        if (b->kind != LM_BLOCK_SECTION)
            continue;
        n++;
        b->number = lm_doc_printf(d, "%s%s%u", within->number, *within->number ? "." : "", n);
        number_sections(d, b);
    }
}

void lm_document_number(lm_document *d)
{
    number_sections(d, &d->root);
}

bool lm_doc_in_contents(const lm_block *b)
{
    return b->kind == LM_BLOCK_SECTION && b->level >= 1 && b->level <= 2;
}
