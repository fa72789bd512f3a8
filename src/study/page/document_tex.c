/* document_tex.c - write a report as a self-contained LaTeX document: pdflatex for English, xelatex for every language.
 *
 * Formulas are LaTeX math, tables use booktabs and longtable, figures are TikZ. */
#include <math.h>
#include <string.h>
#include <utf8proc.h>

#include "study/draw/tex.h"
#include "study/page/document.h"
#include "base/columns.h"

enum { WIDE = 470, TALL = 560 };             /* maximum size of tables and figures on a page, in points */

/* ---- preamble ---- */

static const char *const packages =
    "\\documentclass[11pt,a4paper]{article}\n"
    "\\usepackage{iftex}\n"
    "\\usepackage[margin=23mm]{geometry}\n"
    "\\usepackage{amsmath,amssymb}\n"
    "\\usepackage{textcomp,booktabs,longtable,array,graphicx,xcolor,tikz}\n"
    "\\usetikzlibrary{svg.path}\n";

/* Choose the XeTeX fonts of a language: the first one that is installed. */
static void put_fonts(lm_language language, lm_text *out)
{
    static const char *const fonts[LM_LANGUAGES][4] = {
        [LM_TRADITIONAL_CHINESE] = { "Noto Sans CJK TC", "Noto Serif CJK TC", "WenQuanYi Zen Hei", NULL },
        [LM_SIMPLIFIED_CHINESE]  = { "Noto Sans CJK SC", "Noto Serif CJK SC", "WenQuanYi Zen Hei", NULL },
        [LM_BURMESE]             = { "Padauk", "Noto Sans Myanmar", "Myanmar Text", NULL },
    };
    const char *const *names = fonts[language];

    if (!names[0]) {
        lm_text_add_str(out, "\\ifPDFTeX\n\\usepackage[T1]{fontenc}\n\\usepackage{lmodern}\n\\else\n\\usepackage{fontspec}\n\\fi\n");
        return;
    }
    lm_text_add_str(out, "\\RequireXeTeX\n\\usepackage{fontspec}\n");
    for (int i = 0; names[i]; i++)
        lm_text_printf(out, "\\IfFontExistsTF{%s}{\\def\\reportfont{%s}}{", names[i], names[i]);
    lm_text_add_str(out, "\\errmessage{none of the fonts that this report needs is installed}");
    for (int i = 0; names[i]; i++)
        lm_text_add_char(out, '}');
    lm_text_printf(out, "\n\\setmainfont{\\reportfont}\\setsansfont{\\reportfont}%s\n"
                        "\\XeTeXlinebreaklocale \"%s\"\\XeTeXlinebreakskip=0pt plus 1pt\n",
                   language == LM_BURMESE ? "" : "\\setmonofont{\\reportfont}", language == LM_BURMESE ? "my" : "zh");
}

/* Show letters for which pdfTeX has no font by their code points. */
static void put_letters(const lm_text *body, lm_text *out)
{
    enum { MAX = 512 };
    utf8proc_int32_t seen[MAX], c;
    size_t           n = 0;

    lm_text_add_str(out, "\\ifPDFTeX\n");
    for (size_t i = 0; i < body->size;) {
        utf8proc_ssize_t length = utf8proc_iterate((const utf8proc_uint8_t *)body->data + i, (utf8proc_ssize_t)(body->size - i), &c);
        size_t           k      = 0;
        i += length > 0 ? (size_t)length : 1;
        while (k < n && seen[k] != c)
            k++;
        if (length <= 1 || k < n || n == MAX || (c < 0x180 && c >= 0xC0))        /* T1 contains the Latin ones */
            continue;
        seen[n++] = c;
        lm_text_printf(out, "\\DeclareUnicodeCharacter{%04X}{\\fbox{\\tiny %04X}}\n", (unsigned)c, (unsigned)c);
    }
    lm_text_add_str(out, "\\fi\n");
}

static void put_preamble(const lm_document *d, const lm_text *body, lm_text *out)
{
    lm_text_add_str(out, packages);
    put_fonts(d->language, out);
    lm_tex_colours(out);
    lm_text_add_str(out, "\\usepackage[hidelinks]{hyperref}\n");
    if (d->language == LM_ENGLISH)
        put_letters(body, out);
    lm_text_add_str(out, "\\setcounter{secnumdepth}{5}\n\\setcounter{tocdepth}{2}\n\\allowdisplaybreaks\n\\setlength{\\parindent}{0pt}\n"
                         "\\setlength{\\parskip}{5pt plus 1pt}\n\\emergencystretch=3em\n\\setlength{\\tabcolsep}{4pt}\n"
                         "\\setlength{\\LTleft}{0pt}\\setlength{\\LTpre}{4pt}\\setlength{\\LTpost}{6pt}\n"
                         "\\AtBeginDocument{\\setlength{\\abovedisplayskip}{3pt}\\setlength{\\belowdisplayskip}{5pt}"
                         "\\setlength{\\abovedisplayshortskip}{2pt}\\setlength{\\belowdisplayshortskip}{5pt}}\n"
                         "\\makeatletter\\renewcommand*\\l@subsection{\\@dottedtocline{2}{1.5em}{2.8em}}\\makeatother\n\\title{");
    lm_tex_text(out, d->root.title ? d->root.title : "");
    lm_text_add_str(out, "}\n\\author{}\n\\date{}\n\\begin{document}\n\\maketitle\n");
    if (d->subtitle) {
        lm_text_add_str(out, "\\begin{center}\\small ");
        lm_tex_text(out, d->subtitle);
        lm_text_add_str(out, "\\end{center}\n");
    }
    if (d->brief)
        return;
    lm_text_add_str(out, "\\renewcommand{\\contentsname}{");
    lm_tex_text(out, _("Contents"));
    lm_text_add_str(out, "}\n\\tableofcontents\n\\clearpage\n");
}

/* ---- code ---- */

/* Write a path that may break after points, underscores, slashes and colons. */
static void put_code(const char *text, lm_text *out)
{
    lm_text_add_str(out, "\\texttt{");
    for (size_t i = 0; text[i];) {
        size_t n = 1;
        while (((unsigned char)text[i + n] & 0xC0) == 0x80)
            n++;
        lm_tex_text_n(out, text + i, n);
        if (text[i] == '.' || text[i] == '_' || text[i] == '/' || text[i] == ':')
            lm_text_add_str(out, "\\allowbreak ");
        i += n;
    }
    lm_text_add_char(out, '}');
}

/* Write lines unchanged, as large as the longest line allows. */
static void put_verbatim(const char *text, lm_text *out)
{
    unsigned widest = 1;
    lm_text  line   = { 0 };

    for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n') {
        lm_text_clear(&line);
        lm_text_add(&line, p, strcspn(p, "\n"));
        unsigned n = line.failed || !line.data ? 0 : lm_text_columns(line.data);
        widest     = n > widest ? n : widest;
    }
    double size = fmin(8, WIDE / (0.53 * widest));
    lm_text_printf(out, "{\\raggedright\\ttfamily\\fontsize{%.1f}{%.1f}\\selectfont\\setlength{\\parskip}{0pt}\n", size, 1.2 * size);
    for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n') {
        size_t n = strcspn(p, "\n"), i = strspn(p, " ");
        lm_text_add_str(out, "\\mbox{");
        for (size_t k = 0; k < i && k < n; k++)
            lm_text_add_char(out, '~');
        for (; i < n; i++) {
            size_t k = 1;
            while (i + k < n && ((unsigned char)p[i + k] & 0xC0) == 0x80)
                k++;
            if (p[i] == ' ')
                lm_text_add_char(out, '~');
            else
                lm_tex_text_n(out, p + i, k);
            i += k - 1;
        }
        lm_text_add_str(out, "}\\par\n");
    }
    lm_text_add_str(out, "}\n");
    out->failed |= line.failed;
    lm_text_free(&line);
}

/* ---- tables ---- */

typedef struct layout {
    bool        bar[LM_DOC_COLUMNS];         /* bars are omitted */
    double      paragraph[LM_DOC_COLUMNS];   /* points; 0: as wide as the cells */
    const char *size;
} layout;

static double cell_width(const lm_doc_table *t, const lm_doc_row *r, uint32_t i)
{
    const lm_doc_cell *c = &r->cells[i];
    double             n = lm_text_columns(c->text) + 2.0 * (i ? 0 : r->depth);

    (void)t;
    return c->kind == LM_CELL_CODE ? 1.15 * n : n;
}

/* Wrap every column that is wider than an equal share of the remaining space to that share. `room`: in letters. */
static void share_evenly(const lm_doc_table *t, const double *natural, double room, double letter, layout *l)
{
    double   share = 0;
    uint32_t wide  = 0;

    for (uint32_t i = 0; i < t->n_columns; i++)
        wide += !l->bar[i];
    for (bool again = true; again && wide;) {
        double   left  = room;
        uint32_t wider = 0;
        for (uint32_t i = 0; i < t->n_columns; i++)
            if (!l->bar[i] && natural[i] <= share)
                left -= natural[i];
        share = fmax(left / wide, share);
        for (uint32_t i = 0; i < t->n_columns; i++)
            wider += !l->bar[i] && natural[i] > share;
        again = wider < wide;
        wide  = wider;
    }
    for (uint32_t i = 0; i < t->n_columns; i++)
        if (!l->bar[i] && natural[i] > share)
            l->paragraph[i] = letter * share;
}

/* Use natural widths if they fit; otherwise the widest text columns share the remaining space, in a smaller size. */
static layout lay_out(const lm_doc_table *t)
{
    static const struct { const char *size; double letter; } sizes[] = {
        { "\\footnotesize", 4.6 }, { "\\scriptsize", 4.0 }, { "\\tiny", 3.1 },
    };
    layout   l = { .size = "\\footnotesize" };
    double   natural[LM_DOC_COLUMNS] = { 0 };
    uint32_t shown = 0;

    for (uint32_t i = 0; i < t->n_columns; i++) {
        natural[i] = lm_text_columns(t->columns[i].title);
        for (const lm_doc_row *r = t->first; r; r = r->next) {
            l.bar[i] |= r->cells[i].kind == LM_CELL_BAR;
            natural[i] = fmax(natural[i], r->gap ? 0 : cell_width(t, r, i));
        }
        shown += !l.bar[i];
    }
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        double room = (WIDE - 8.0 * shown) / sizes[s].letter, fixed = 0, long_ones = 0;
        l.size = sizes[s].size;
        for (uint32_t i = 0; i < t->n_columns; i++)
            if (!l.bar[i])
                *(natural[i] > 28 && !t->columns[i].right ? &long_ones : &fixed) += natural[i];
        if (fixed + long_ones <= room)
            return l;
        if (s + 1 < sizeof sizes / sizeof *sizes && room - fixed < fmin(0.4 * long_ones, 60) + 24)
            continue;
        if (room - fixed < fmin(0.4 * long_ones, 60)) {
            share_evenly(t, natural, room, sizes[s].letter, &l);
            return l;
        }
        double left = fmax(room - fixed, 0.35 * room);
        for (uint32_t i = 0; i < t->n_columns; i++)
            if (!l.bar[i] && natural[i] > 28 && !t->columns[i].right)
                l.paragraph[i] = sizes[s].letter * left * natural[i] / long_ones;
        return l;
    }
    return l;
}

static void put_cell(const lm_doc_row *r, uint32_t i, lm_text *out)
{
    const lm_doc_cell *c      = &r->cells[i];
    bool               strong = r->strong && *c->text;

    for (unsigned k = 0; i == 0 && k < r->depth; k++)
        lm_text_add_str(out, "\\hspace*{1em}");
    lm_text_add_str(out, strong ? "\\textbf{" : "");
    switch (c->kind) {
    case LM_CELL_CODE:
        put_code(c->text, out);
        break;
    case LM_CELL_MATH:
        lm_text_add_char(out, '$');
        lm_tex_math(out, c->latex);
        lm_text_add_char(out, '$');
        break;
    default:
        lm_tex_text(out, c->text);
        break;
    }
    lm_text_add_str(out, strong ? "}" : "");
}

static void put_row(const lm_doc_table *t, const layout *l, const lm_doc_row *r, lm_text *out)
{
    bool any = false;

    for (uint32_t i = 0; i < t->n_columns; i++) {
        if (l->bar[i])
            continue;
        lm_text_add_str(out, any ? " & " : "");
        if (r)
            put_cell(r, i, out);
        else
            lm_tex_text(out, t->columns[i].title);
        any = true;
    }
    lm_text_add_str(out, " \\\\\n");
}

static void put_table(const lm_doc_table *t, lm_text *out)
{
    layout l = lay_out(t);

    if (!t->first)
        return;
    lm_text_printf(out, "{%s\n\\begin{longtable}{@{}", l.size);
    for (uint32_t i = 0; i < t->n_columns; i++)
        if (!l.bar[i] && l.paragraph[i] > 0)
            lm_text_printf(out, ">{\\ragged%s\\arraybackslash}p{%.0fpt}", t->columns[i].right ? "left" : "right", l.paragraph[i]);
        else if (!l.bar[i])
            lm_text_add_char(out, t->columns[i].right ? 'r' : 'l');
    lm_text_add_str(out, "@{}}\n\\toprule\n");
    if (t->headed) {
        put_row(t, &l, NULL, out);
        lm_text_add_str(out, "\\midrule\n");
    }
    lm_text_add_str(out, "\\endhead\n\\bottomrule\n\\endlastfoot\n");
    for (const lm_doc_row *r = t->first; r; r = r->next)
        if (r->gap)
            lm_text_add_str(out, r->next ? "\\addlinespace\n" : "");
        else
            put_row(t, &l, r, out);
    lm_text_add_str(out, "\\end{longtable}}\n");
}

/* ---- derivations ---- */

static void put_glossary(const lm_derivation *x, lm_text *out)
{
    lm_text value = { 0 }, latex = { 0 };
    bool    any   = false;

    for (size_t i = 0; i < x->n_symbols; i++) {
        const lm_symbol *s = &x->symbols[i];
        if (!s->used || !s->meaning)
            continue;
        if (!any) {
            lm_text_add_str(out, "{\\footnotesize\n\\begin{longtable}{@{}lr>{\\raggedright\\arraybackslash}p{260pt}@{}}\n\\toprule\n");
            lm_tex_text(out, _("symbol"));
            lm_text_add_str(out, " & ");
            lm_tex_text(out, _("value"));
            lm_text_add_str(out, " & ");
            lm_tex_text(out, _("is"));
            lm_text_add_str(out, " \\\\\n\\midrule\n\\endhead\n\\bottomrule\n\\endlastfoot\n");
        }
        any = true;
        lm_text_clear(&value);
        lm_text_clear(&latex);
        lm_quantity_write(s->value, LM_UNICODE, &value);
        lm_symbol_write(s, LM_LATEX, &latex);
        lm_text_add_char(out, '$');
        lm_tex_math(out, latex.data ? latex.data : "");
        lm_text_add_str(out, "$ & ");
        lm_tex_text(out, value.data ? value.data : "");
        lm_text_add_str(out, " & ");
        lm_tex_text(out, s->meaning);
        lm_text_add_str(out, " \\\\\n");
    }
    lm_text_add_str(out, any ? "\\end{longtable}}\n" : "");
    out->failed |= value.failed || latex.failed;
    lm_text_free(&value);
    lm_text_free(&latex);
}

typedef struct forms { const lm_formula *s; lm_text *out; bool first; } forms;

static void put_form(void *arg, const char *text, bool last)
{
    forms  *f    = arg;
    lm_text name = { 0 };

    if (f->first)
        lm_symbol_write(f->s->symbol, LM_LATEX, &name);
    lm_tex_math(f->out, name.data ? name.data : "");
    lm_text_add_str(f->out, " &= ");
    lm_tex_math(f->out, text);
    lm_text_add_str(f->out, last ? "\n" : " \\\\\n");
    f->out->failed |= name.failed;
    lm_text_free(&name);
    f->first = false;
}

static void put_step(lm_derivation *x, const lm_formula *s, lm_text *out)
{
    lm_text verdict = { 0 };
    forms   f       = { s, out, true };

    if (s->heading) {
        lm_text_add_str(out, "\\medskip\\textbf{");
        lm_tex_text(out, s->title);
        lm_text_add_str(out, "}\\par\n");
        return;
    }
    lm_formula_verdict(s, &verdict);
    lm_tex_text(out, s->title ? s->title : "");
    if (verdict.size) {
        lm_text_add_str(out, "\\hfill{\\footnotesize ");
        lm_tex_text(out, verdict.data + strspn(verdict.data, " "));
        lm_text_add_str(out, "}");
    }
    lm_text_add_str(out, s->title || verdict.size ? "\\nopagebreak\n{\\small\n\\begin{align*}\n" : "{\\small\n\\begin{align*}\n");
    lm_formula_forms(x, s, LM_LATEX, put_form, &f);
    lm_text_add_str(out, "\\end{align*}}\n");
    out->failed |= verdict.failed;
    lm_text_free(&verdict);
}

/* ---- blocks ---- */

/* Write the caption; false: there is none. */
static bool put_caption(const lm_block *b, const char *end, lm_text *out)
{
    const char *output = lm_doc_caption_output(b);

    if (!b->title && !output)
        return false;
    if (b->id)
        lm_text_printf(out, "\\hypertarget{%s}{}", b->id);
    lm_text_add_str(out, "\\textbf{");
    lm_tex_text(out, b->title ? b->title : "");
    lm_text_add_str(out, b->title && output ? " \\ensuremath{\\cdot} " : "");
    lm_tex_text(out, output ? output : "");
    lm_text_printf(out, "}%s\n", end);
    return true;
}

static void put_figure(const lm_block *b, lm_text *out)
{
    lm_text svg = { 0 };

    bool drawn = lm_doc_draw(b, &svg) && svg.data;
    if (drawn)
        lm_text_add_str(out, "\\begin{center}\n");
    put_caption(b, drawn ? "\\\\*[4pt]" : "\\nopagebreak\\par", out);
    if (drawn && !lm_tex_drawing(svg.data, WIDE, TALL, out))
        out->failed = true;
    if (drawn)
        lm_text_add_str(out, "\n\\end{center}\n");
    else
        put_verbatim(b->figure.text, out);
    if (drawn && b->figure.graph && b->figure.graph->caption) {
        lm_text_add_str(out, "{\\small ");
        lm_tex_text(out, b->figure.graph->caption);
        lm_text_add_str(out, "}\\par\n");
    }
    out->failed |= svg.failed;
    lm_text_free(&svg);
}

static void put_formula(const lm_doc_formula *x, lm_text *out)
{
    if (x->name) {
        lm_tex_text(out, x->name);
        lm_text_add_str(out, ":\\nopagebreak\n");
    }
    if (!x->latex) {
        put_verbatim(x->unicode, out);
        return;
    }
    lm_text_add_str(out, "{\\small\\[\n");
    lm_tex_math(out, x->latex);
    lm_text_add_str(out, "\n\\]}\n");
}

static void put_list(const lm_doc_item *x, lm_text *out)
{
    lm_text_add_str(out, "\\begin{itemize}\\setlength{\\itemsep}{0pt}\n");
    for (; x; x = x->next) {
        lm_text_add_str(out, x->mark == '+' ? "\\item[$+$] " : x->mark == '!' ? "\\item[$-$] " : "\\item{} ");
        lm_tex_text(out, x->text);
        lm_text_add_char(out, '\n');
    }
    lm_text_add_str(out, "\\end{itemize}\n");
}

static void put_leaf(const lm_block *b, lm_text *out)
{
    switch (b->kind) {
    case LM_BLOCK_NOTE:
    case LM_BLOCK_WARNING:
        lm_text_add_str(out, b->kind == LM_BLOCK_NOTE ? "{\\small\\itshape " : "{\\bfseries ");
        lm_tex_text(out, b->text);
        lm_text_add_str(out, "}\\par\n");
        break;
    case LM_BLOCK_LIST:
        put_list(b->items, out);
        break;
    case LM_BLOCK_TABLE:
        put_caption(b, "\\nopagebreak\\par", out);
        put_table(b->table, out);
        break;
    case LM_BLOCK_FORMULA:
        put_formula(&b->formula, out);
        break;
    case LM_BLOCK_DERIVATION:
        put_glossary(b->derivation, out);
        for (size_t i = 0; i < b->derivation->n_steps; i++)
            put_step(b->derivation, &b->derivation->steps[i], out);
        break;
    case LM_BLOCK_FIGURE:
        put_figure(b, out);
        break;
    case LM_BLOCK_VERBATIM:
        put_verbatim(b->text, out);
        break;
    default:
        lm_tex_text(out, b->text);
        lm_text_add_str(out, "\\par\n");
        break;
    }
}

static void put_heading(const lm_block *b, lm_text *out)
{
    static const char *const levels[] = { "section", "subsection", "subsubsection", "paragraph", "subparagraph" };
    uint32_t                 level    = b->level < 1 ? 1 : b->level > 5 ? 5 : b->level;

    if (b->id)
        lm_text_printf(out, "\\hypertarget{%s}{}%%\n", b->id);
    lm_text_printf(out, "\\%s{", levels[level - 1]);
    lm_tex_text(out, b->title ? b->title : "");
    lm_text_printf(out, "}%s\n", level > 3 ? "~\\par" : "");
}

static void put_blocks(const lm_block *within, lm_text *out)
{
    for (const lm_block *b = within->first; b; b = b->next) {
        lm_text_add_char(out, '\n');
        if (b->kind == LM_BLOCK_SECTION) {
            put_heading(b, out);
            put_blocks(b, out);
        } else if (b->kind == LM_BLOCK_FOLD) {
            lm_text_printf(out, "\\hypertarget{%s}{}\\textbf{", b->id ? b->id : "");
            lm_tex_text(out, b->title ? b->title : "");
            lm_text_add_str(out, "}\\nopagebreak\\par\n");
            if (!b->same_as)
                put_blocks(b, out);
            else if (b->first && b->first->kind == LM_BLOCK_TEXT)
                put_leaf(b->first, out);
        } else {
            put_leaf(b, out);
        }
    }
}

void lm_document_tex(lm_document *d, lm_text *out)
{
    lm_text body = { 0 };

    put_blocks(&d->root, &body);
    if (!body.failed && body.data) {
        put_preamble(d, &body, out);
        lm_text_add(out, body.data, body.size);
        lm_text_add_str(out, "\\end{document}\n");
    }
    out->failed |= body.failed;
    lm_text_free(&body);
}
