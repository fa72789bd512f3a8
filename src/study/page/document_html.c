/* document_html.c - write a report as one self-contained page: contents, sections, folds. */
#include <string.h>

#include "study/page/html.h"
#include "base/language.h"
#include "lamina/version.h"

/* ---- head ---- */

/* Set the dark or light theme before anything is displayed. */
static const char early[] =
    "try{document.documentElement.dataset.theme=localStorage.getItem('lamina-theme')||''}catch(e){}";

static void put_head(lm_html *h)
{
    lm_text_printf(h->out, "<!doctype html>\n<html lang=\"%s\">\n<head>\n<meta charset=\"utf-8\">\n",
                   lm_language_tag(h->d->language));
    lm_text_add_str(h->out, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                           "<meta name=\"color-scheme\" content=\"light dark\">\n"
                           "<meta name=\"generator\" content=\"lamina " LAMINA_VERSION "\">\n");
    lm_html_element(h, "title", NULL, h->d->root.title);
    lm_text_printf(h->out, "<style>\n%s%s</style>\n<script>%s</script>\n</head>\n", lm_html_figure_css,
                   lm_html_report_css, early);
}

/* ---- contents ---- */

static bool listed(const lm_block *b)
{
    return b->kind == LM_BLOCK_SECTION && b->level >= 1 && b->level <= 2;
}

static void put_contents_of(lm_html *h, const lm_block *parent)
{
    bool any = false;

    for (const lm_block *b = parent->first; b; b = b->next) {
        if (!listed(b))
            continue;
        lm_text_add_str(h->out, any ? "" : "<ol>\n");
        any = true;
        lm_text_add_str(h->out, "<li><a href=\"#");
        lm_markup_text(h->out, b->id);
        lm_text_add_str(h->out, "\"><span class=\"no\">");
        lm_markup_text(h->out, b->number);
        lm_text_add_str(h->out, "</span> ");
        lm_markup_text(h->out, b->title);
        lm_text_add_str(h->out, "</a>");
        put_contents_of(h, b);
        lm_text_add_str(h->out, "</li>\n");
    }
    lm_text_add_str(h->out, any ? "</ol>\n" : "");
}

static void put_contents(lm_html *h)
{
    lm_text_add_str(h->out, "<nav class=\"contents\"");
    lm_html_attribute(h, "aria-label", _("Contents"));
    lm_text_add_str(h->out, "><details open>");
    lm_html_element(h, "summary", NULL, _("Contents"));
    put_contents_of(h, &h->d->root);
    lm_text_add_str(h->out, "</details></nav>\n");
}

static void put_button(lm_html *h, const char *id, const char *text, const char *other)
{
    lm_text_printf(h->out, "<button type=\"button\" id=\"%s\"", id);
    if (other)
        lm_html_attribute(h, "data-other", other);
    lm_text_add_char(h->out, '>');
    lm_markup_text(h->out, text);
    lm_text_add_str(h->out, "</button>\n");
}

static void put_header(lm_html *h)
{
    lm_text_add_str(h->out, "<a class=\"skip-link\" href=\"#content\">");
    lm_markup_text(h->out, _("To the report"));
    lm_text_add_str(h->out, "</a>\n<header class=\"top\">\n<div>");
    lm_html_element(h, "h1", NULL, h->d->root.title);
    if (h->d->subtitle)
        lm_html_linked(h, "p", "subtitle", h->d->subtitle);
    lm_text_add_str(h->out, "</div>\n<div class=\"tools\">\n");
    put_button(h, "open-all", _("Open all"), _("Close all"));
    lm_text_add_str(h->out, "<label>");
    lm_markup_text(h->out, _("Theme"));
    lm_text_add_str(h->out, " <select id=\"theme\"><option value=\"\">");
    lm_markup_text(h->out, _("system"));
    lm_text_add_str(h->out, "</option><option value=\"light\">");
    lm_markup_text(h->out, _("light"));
    lm_text_add_str(h->out, "</option><option value=\"dark\">");
    lm_markup_text(h->out, _("dark"));
    lm_text_add_str(h->out, "</option></select></label>\n</div>\n</header>\n");
}

/* ---- blocks ---- */

static void put_formula(lm_html *h, const lm_doc_formula *f)
{
    if (f->name)
        lm_html_element(h, "p", "formula-name", f->name);
    lm_html_formula(h, f->unicode, f->latex, true);
}

static void put_list(lm_html *h, const lm_doc_item *items)
{
    lm_text_add_str(h->out, "<ul>\n");
    for (const lm_doc_item *x = items; x; x = x->next)
        lm_html_linked(h, "li", x->mark == '+' ? "gain" : x->mark == '!' ? "cost" : NULL, x->text);
    lm_text_add_str(h->out, "</ul>\n");
}

static void put_leaf(lm_html *h, const lm_block *b)
{
    switch (b->kind) {
    case LM_BLOCK_TEXT:
        lm_html_linked(h, "p", NULL, b->text);
        break;
    case LM_BLOCK_NOTE:
        lm_html_element(h, "p", "note", b->text);
        break;
    case LM_BLOCK_WARNING:
        lm_html_element(h, "p", "warning", b->text);
        break;
    case LM_BLOCK_LIST:
        put_list(h, b->items);
        break;
    case LM_BLOCK_TABLE:
        lm_html_table(h, b);
        break;
    case LM_BLOCK_FORMULA:
        put_formula(h, &b->formula);
        break;
    case LM_BLOCK_DERIVATION:
        lm_html_derivation(h, b->derivation);
        break;
    case LM_BLOCK_FIGURE:
        lm_html_figure(h, b);
        break;
    case LM_BLOCK_VERBATIM:
        lm_text_add_str(h->out, "<div class=\"scroll\" tabindex=\"0\">");
        lm_html_element(h, "pre", NULL, b->text);
        lm_text_add_str(h->out, "</div>\n");
        break;
    case LM_BLOCK_SLIDERS:
        lm_html_sliders(h, b);
        break;
    default:
        break;
    }
}

static void put_heading(lm_html *h, const lm_block *b)
{
    unsigned level = b->level + 1 > 6 ? 6 : b->level + 1;

    lm_text_printf(h->out, "<h%u><a class=\"no\" href=\"#", level);
    lm_markup_text(h->out, b->id);
    lm_text_add_str(h->out, "\">");
    lm_markup_text(h->out, b->number);
    lm_text_add_str(h->out, "</a> ");
    lm_markup_text(h->out, b->title);
    lm_text_printf(h->out, "</h%u>\n", level);
}

/* Write a section or fold with its id, or another block. */
static void put_block(lm_html *h, const lm_block *b);

static void put_inner(lm_html *h, const lm_block *b)
{
    for (const lm_block *x = b->first; x && h->status == LM_OK; x = x->next)
        put_block(h, x);
}

static void open_tag(lm_html *h, const char *tag, const lm_block *b)
{
    lm_text_printf(h->out, "<%s", tag);
    if (b->id)
        lm_html_attribute(h, "id", b->id);
    lm_text_add_str(h->out, ">\n");
}

/* The id of a closed section is within the part that is opened: browsers open what contains the target of a
 * link. */
static void put_section(lm_html *h, const lm_block *b)
{
    if (b->closed) {
        lm_text_add_str(h->out, "<details class=\"chapter\"><summary>");
        put_heading(h, b);
        lm_text_add_str(h->out, "</summary>\n");
    }
    open_tag(h, "section", b);
    if (!b->closed)
        put_heading(h, b);
    put_inner(h, b);
    lm_text_printf(h->out, "</section>\n%s", b->closed ? "</details>\n" : "");
}

static void put_block(lm_html *h, const lm_block *b)
{
    if (b->kind == LM_BLOCK_SECTION) {
        put_section(h, b);
    } else if (b->kind == LM_BLOCK_FOLD) {
        open_tag(h, "details", b);
        lm_html_element(h, "summary", NULL, b->title);
        put_inner(h, b);
        lm_text_add_str(h->out, "</details>\n");
    } else {
        put_leaf(h, b);
    }
}

static void put_main(lm_html *h)
{
    lm_text_add_str(h->out, "<main id=\"content\">\n");
    put_inner(h, &h->d->root);
    lm_text_add_str(h->out, "</main>\n");
}

lm_status lm_document_html(lm_document *d, lm_text *out, lm_error *e)
{
    lm_html h = { .d = d, .out = out, .e = e };

    put_head(&h);
    lm_text_add_str(out, "<body>\n");
    put_header(&h);
    lm_text_add_str(out, d->brief ? "<div class=\"page brief\">\n" : "<div class=\"page\">\n");
    if (!d->brief)
        put_contents(&h);
    put_main(&h);
    lm_text_add_str(out, "</div>\n<footer>");
    lm_markup_text(
        out, _("Every number is counted from the program that runs, or derived from such counts by a "
               "formula shown here."));
    lm_text_printf(out, " lamina " LAMINA_VERSION "</footer>\n<script>\n%s</script>\n</body>\n</html>\n",
                   lm_html_report_js);
    return h.status;
}
