/* document_markdown.c - write a report as GitHub renders it: details, Mermaid, LaTeX (github.github.com/gfm);
 * or as pandoc reads it: heading attributes, formulas between dollars, text diagrams.
 *
 * Headings contain explicit anchors, so that links do not depend on how GitHub generates ids. */
#include <string.h>

#include "study/page/document.h"

/* ---- escaping ---- */

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c & 0x80);
}

/* Escape characters that are special anywhere in a line. An underscore inside a word is not special. */
static void put_char(const char *text, size_t i, lm_text *out)
{
    char c = text[i];

    switch (c) {
    case '&':
        lm_text_add_str(out, "&amp;");
        return;
    case '<':
        lm_text_add_str(out, "&lt;");
        return;
    case '>':
        lm_text_add_str(out, "&gt;");
        return;
    case '$':
        lm_text_add_str(out, "<span>$</span>");       /* GitHub: a dollar that does not begin a formula */
        return;
    case '\n':
    case '\t':
        lm_text_add_char(out, ' ');
        return;
    case '_':
        if (i && is_word(text[i - 1]) && is_word(text[i + 1]))
            break;
        lm_text_add_str(out, "\\_");
        return;
    case '\\':
    case '`':
    case '*':
    case '[':
    case ']':
    case '|':
    case '~':
        lm_text_add_char(out, '\\');
        break;
    default:
        break;
    }
    lm_text_add_char(out, c);
}

static void put_inline(const char *text, lm_text *out)
{
    for (size_t i = 0; text[i]; i++)
        put_char(text, i, out);
}

/* Escape characters that are special at the beginning of a line: headings, items, rules. */
static void put_line(const char *text, lm_text *out)
{
    while (*text == ' ' || *text == '\n' || *text == '\t')
        text++;
    size_t digits = strspn(text, "0123456789");
    if (*text && strchr("#+-=", *text))
        lm_text_add_char(out, '\\');
    if (digits && (text[digits] == '.' || text[digits] == ')')) {
        lm_text_add(out, text, digits);
        lm_text_add_char(out, '\\');
        text += digits;
    }
    put_inline(text, out);
}

/* Escape text inside HTML: summaries. */
static void put_html(const char *text, lm_text *out)
{
    for (; *text; text++)
        switch (*text) {
        case '&':
            lm_text_add_str(out, "&amp;");
            break;
        case '<':
            lm_text_add_str(out, "&lt;");
            break;
        case '>':
            lm_text_add_str(out, "&gt;");
            break;
        case '"':
            lm_text_add_str(out, "&quot;");
            break;
        case '$':
            lm_text_add_str(out, "<span>$</span>");
            break;
        case '*':
        case '_':
        case '`':
        case '[':
        case '\\':
        case '~':
        case '|':
            lm_text_printf(out, "&#%d;", *text);      /* Markdown is also parsed inside HTML */
            break;
        case '\n':
            lm_text_add_char(out, ' ');
            break;
        default:
            lm_text_add_char(out, *text);
        }
}

static size_t longest_run(const char *text, char c)
{
    size_t max = 0, now = 0;

    for (; *text; text++) {
        now  = *text == c ? now + 1 : 0;
        max = now > max ? now : max;
    }
    return max;
}

static void put_times(char c, size_t n, lm_text *out)
{
    while (n-- > 0)
        lm_text_add_char(out, c);
}

/* Write a code span in a table: a bar must be escaped there too, which GitHub reverts. */
static void put_code(const char *text, lm_text *out)
{
    size_t fence = longest_run(text, '`') + 1;
    bool   room  = *text == '`' || (*text && text[strlen(text) - 1] == '`');

    put_times('`', fence, out);
    lm_text_add_str(out, room ? " " : "");
    for (; *text; text++) {
        if (*text == '|')
            lm_text_add_char(out, '\\');
        lm_text_add_char(out, *text == '\n' || *text == '\t' ? ' ' : *text);
    }
    lm_text_add_str(out, room ? " " : "");
    put_times('`', fence, out);
}

static void put_fenced(const char *language, const char *text, lm_text *out)
{
    size_t fence = longest_run(text, '`') + 1, n = strlen(text);

    fence = fence < 3 ? 3 : fence;
    put_times('`', fence, out);
    lm_text_printf(out, "%s\n%s%s", language, text, n && text[n - 1] == '\n' ? "" : "\n");
    put_times('`', fence, out);
    lm_text_add_char(out, '\n');
}

/* ---- tables ---- */

static bool is_bar(const lm_doc_table *t, uint32_t i)
{
    for (const lm_doc_row *r = t->first; r; r = r->next)
        if (r->cells[i].kind == LM_CELL_BAR)
            return true;
    return false;
}

static void put_cell(const lm_doc_row *r, uint32_t i, lm_text *out)
{
    const lm_doc_cell *c = &r->cells[i];
    bool               strong = r->strong && *c->text;

    lm_text_add_str(out, i ? " " : "| ");
    for (unsigned k = 0; i == 0 && k < r->depth; k++)
        lm_text_add_str(out, "&nbsp;&nbsp;");
    lm_text_add_str(out, strong ? "**" : "");
    switch (c->kind) {
    case LM_CELL_CODE:
        put_code(c->text, out);
        break;
    case LM_CELL_MATH:
        lm_text_printf(out, "$%s$", c->latex);
        break;
    default:
        put_inline(c->text, out);
        break;
    }
    lm_text_add_str(out, strong ? "** |" : " |");
}

static void put_table(const lm_doc_table *t, lm_text *out)
{
    bool bar[LM_DOC_COLUMNS] = { false };

    for (uint32_t i = 0; i < t->n_columns; i++)
        bar[i] = is_bar(t, i);
    for (uint32_t i = 0; i < t->n_columns; i++) {
        if (bar[i])
            continue;
        lm_text_add_str(out, i ? " " : "| ");
        put_inline(t->columns[i].title, out);
        lm_text_add_str(out, " |");
    }
    lm_text_add_str(out, "\n|");
    for (uint32_t i = 0; i < t->n_columns; i++)
        if (!bar[i])
            lm_text_add_str(out, t->columns[i].right ? "---:|" : "---|");
    lm_text_add_char(out, '\n');
    for (const lm_doc_row *r = t->first; r; r = r->next) {
        for (uint32_t i = 0; !r->gap && i < t->n_columns; i++)
            if (!bar[i])
                put_cell(r, i, out);
        lm_text_add_str(out, r->gap ? "" : "\n");
    }
}

/* ---- blocks ---- */

static void put_caption(const lm_block *b, lm_text *out)
{
    if (!b->title)
        return;
    lm_text_add_str(out, "**");
    put_inline(b->title, out);
    lm_text_add_str(out, "**\n\n");
}

static void put_derivation(lm_derivation *x, bool pandoc, lm_text *out)
{
    lm_glossary_markdown(x, out);
    for (size_t i = 0; i < x->n_steps; i++)
        (pandoc ? lm_formula_pandoc : lm_formula_latex)(x, &x->steps[i], out);
}

static void put_list(const lm_doc_item *x, lm_text *out)
{
    for (; x; x = x->next) {
        lm_text_add_str(out, x->mark == '+' ? "- **+** " : x->mark == '!' ? "- **−** " : "- ");
        put_line(x->text, out);
        lm_text_add_char(out, '\n');
    }
}

static void put_formula(const lm_doc_formula *x, bool pandoc, lm_text *out)
{
    if (x->name) {
        put_line(x->name, out);
        lm_text_add_str(out, ":\n\n");
    }
    if (x->latex && pandoc)
        lm_text_printf(out, "$$\n%s\n$$\n", x->latex);
    else
        put_fenced(x->latex ? "math" : "text", x->latex ? x->latex : x->unicode, out);
}

static void put_leaf(const lm_block *b, bool pandoc, lm_text *out)
{
    switch (b->kind) {
    case LM_BLOCK_NOTE:
    case LM_BLOCK_WARNING:
        lm_text_add_str(out, b->kind == LM_BLOCK_NOTE || pandoc ? "> " : "> [!WARNING]\n> ");
        put_line(b->text, out);
        lm_text_add_char(out, '\n');
        break;
    case LM_BLOCK_LIST:
        put_list(b->items, out);
        break;
    case LM_BLOCK_TABLE:
        put_caption(b, out);
        put_table(b->table, out);
        break;
    case LM_BLOCK_FORMULA:
        put_formula(&b->formula, pandoc, out);
        break;
    case LM_BLOCK_DERIVATION:
        put_derivation(b->derivation, pandoc, out);
        break;
    case LM_BLOCK_FIGURE:
        put_caption(b, out);
        if (b->figure.mermaid && !pandoc)
            put_fenced("mermaid", b->figure.mermaid, out);
        else
            put_fenced("text", b->figure.text, out);
        break;
    case LM_BLOCK_VERBATIM:
        put_fenced("text", b->text, out);
        break;
    default:
        put_line(b->text, out);
        lm_text_add_char(out, '\n');
        break;
    }
}

static void put_heading(const lm_block *b, bool pandoc, lm_text *out)
{
    if (!pandoc)
        lm_text_printf(out, "<a id=\"%s\"></a>\n\n", b->id);
    put_times('#', b->level + 1 < 6 ? b->level + 1 : 6, out);
    lm_text_printf(out, " %s ", b->number);
    put_inline(b->title, out);
    if (pandoc)
        lm_text_printf(out, " {#%s}", b->id);
    lm_text_add_char(out, '\n');
}

static void put_blocks(const lm_block *within, bool pandoc, lm_text *out);

/* Write a fold: collapsible on GitHub; pandoc has no equivalent. */
static void put_fold(const lm_block *b, bool pandoc, lm_text *out)
{
    if (!pandoc) {
        lm_text_printf(out, "<details id=\"%s\"><summary>", b->id);
        put_html(b->title, out);
        lm_text_add_str(out, "</summary>\n");
        put_blocks(b, pandoc, out);
        lm_text_add_str(out, "\n</details>\n");
        return;
    }
    lm_text_printf(out, "[]{#%s}**", b->id);
    put_inline(b->title, out);
    lm_text_add_str(out, "**\n");
    put_blocks(b, pandoc, out);
}

static void put_blocks(const lm_block *within, bool pandoc, lm_text *out)
{
    for (const lm_block *b = within->first; b; b = b->next) {
        lm_text_add_char(out, '\n');
        if (b->kind == LM_BLOCK_SECTION) {
            put_heading(b, pandoc, out);
            put_blocks(b, pandoc, out);
        } else if (b->kind == LM_BLOCK_FOLD) {
            put_fold(b, pandoc, out);
        } else {
            put_leaf(b, pandoc, out);
        }
    }
}

static void put_contents(lm_document *d, lm_text *out)
{
    lm_text_printf(out, "\n**%s**\n\n", _("Contents"));
    for (lm_block *b = lm_document_next(NULL, d); b; b = lm_document_next(b, d)) {
        if (!lm_doc_in_contents(b))
            continue;
        lm_text_printf(out, "%*s- [%s ", (int)(2 * (b->level - 1)), "", b->number);
        put_inline(b->title, out);
        lm_text_printf(out, "](#%s)\n", b->id);
    }
}

void lm_document_markdown(lm_document *d, bool pandoc, lm_text *out)
{
    lm_text_add_str(out, "# ");
    put_inline(d->root.title ? d->root.title : "", out);
    lm_text_add_char(out, '\n');
    if (d->subtitle) {
        lm_text_add_char(out, '\n');
        put_line(d->subtitle, out);
        lm_text_add_char(out, '\n');
    }
    if (!d->brief)
        put_contents(d, out);
    put_blocks(&d->root, pandoc, out);
}
