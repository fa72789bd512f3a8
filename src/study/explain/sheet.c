/* sheet.c - tables of explanations: their rows and their output. */
#include <stdarg.h>
#include <string.h>

#include "study/explain/explain.h"
#include "study/page/prose.h"
#include "base/columns.h"

lm_sheet_row *lm_sheet_next(lm_sheet *s, lm_facts *f)
{
    static lm_sheet_row nowhere;

    if (s->n_rows == s->capacity) {
        size_t        capacity = s->capacity ? 2 * s->capacity : 16;
        lm_sheet_row *rows     = lm_arena_new(&f->arena, capacity, lm_sheet_row);
        if (!rows) {
            f->failed = true;
            return s->n_rows ? &s->rows[s->n_rows - 1] : &nowhere;
        }
        if (s->n_rows)
            memcpy(rows, s->rows, s->n_rows * sizeof *rows);
        s->rows     = rows;
        s->capacity = capacity;
    }
    s->rows[s->n_rows] = (lm_sheet_row){ 0 };
    return &s->rows[s->n_rows++];
}

const char *lm_sheet_text(lm_facts *f, const char *format, ...)
{
    va_list args;
    lm_text text = { 0 };

    va_start(args, format);
    lm_text_vprintf(&text, format, args);
    va_end(args);
    const char *copy = text.failed ? NULL : lm_arena_strdup(&f->arena, text.data ? text.data : "");
    f->failed |= !copy;
    lm_text_free(&text);
    return copy ? copy : "";
}

static const char *cell(const lm_sheet_row *r, size_t k)
{
    return r->cells[k] ? r->cells[k] : "";
}

/* ---- terminal: a last column of text may be wrapped ---- */

/* Write a table that is too wide for the terminal: the first cell of each row on a separate line, the rest
 * below it. */
static void put_stacked(const lm_sheet *s, unsigned indent, unsigned columns, lm_text *out)
{
    size_t n = strlen(s->align);

    for (size_t i = 0; i < s->n_rows; i++) {
        const lm_sheet_row *r = &s->rows[i];
        lm_text             rest = { 0 };
        lm_text_printf(out, "%*s%s ", (int)indent, "", r->mine ? ">" : " ");
        lm_put_prose(out, cell(r, 0), indent + 2, indent + 4, columns);
        for (size_t k = 1; k < n; k++)
            if (*cell(r, k) && (k == 1 || strcmp(cell(r, k), cell(r, k - 1)) != 0))
                lm_text_printf(&rest, "%s%s", rest.size ? "   =   " : "", cell(r, k));
        lm_text_printf(out, "%*s", (int)indent + 6, "");
        lm_put_prose(out, rest.data ? rest.data : "", indent + 6, indent + 6, columns);
        out->failed |= rest.failed;
        lm_text_free(&rest);
    }
}

static void put_aligned(const lm_sheet *s, const unsigned *widths, unsigned indent, unsigned columns,
                        lm_text *out)
{
    size_t n = strlen(s->align);

    for (size_t i = 0; i <= s->n_rows; i++) {
        const lm_sheet_row *r  = i ? &s->rows[i - 1] : NULL;
        unsigned            at = indent + 2;
        lm_text_printf(out, "%*s%s ", (int)indent, "", r && r->mine ? ">" : " ");
        for (size_t k = 0; k < n; k++) {
            const char *text = r ? cell(r, k) : s->columns[k];
            if (s->align[k] == 'r')
                lm_put_right(out, text, widths[k]);
            else if (k + 1 < n)
                lm_put(out, text, widths[k]);
            else
                lm_put_prose(out, text, at, at, columns);
            if (k + 1 < n)
                lm_text_add_str(out, "  ");
            at += widths[k] + 2;
        }
        if (!n || s->align[n - 1] == 'r')
            lm_text_add_char(out, '\n');
    }
}

void lm_sheet_put_text(const lm_sheet *s, unsigned indent, unsigned columns, lm_text *out)
{
    unsigned widths[LM_SHEET_COLUMNS] = { 0 }, whole = indent + 2;

    if (!s->n_rows)
        return;
    size_t n = strlen(s->align);
    for (size_t k = 0; k < n; k++) {
        widths[k] = lm_text_columns(s->columns[k]);
        for (size_t i = 0; i < s->n_rows; i++)
            widths[k] = lm_text_columns(cell(&s->rows[i], k)) > widths[k]
                            ? lm_text_columns(cell(&s->rows[i], k))
                            : widths[k];
        /* text in the last column may be wrapped */
        whole += k + 1 < n || s->align[k] == 'r' ? widths[k] + 2 : 24;
    }
    lm_text_printf(out, "\n%*s%s\n", (int)indent, "", s->title);
    if (whole > columns + 2)
        put_stacked(s, indent, columns, out);
    else
        put_aligned(s, widths, indent, columns, out);
    if (s->note) {
        lm_text_printf(out, "%*s", (int)indent + 2, "");
        lm_put_prose(out, s->note, indent + 2, indent + 2, columns);
    }
}

/* ---- Markdown ---- */

/* Escape a cell: a bar would end it, a star would begin emphasis. */
static void put_cell(const char *text, lm_text *out)
{
    for (; *text; text++) {
        if (strchr("|*_<`\\", *text))
            lm_text_add_char(out, '\\');
        lm_text_add_char(out, *text);
    }
}

void lm_sheet_put_markdown(const lm_sheet *s, lm_text *out)
{
    if (!s->n_rows)
        return;
    size_t n = strlen(s->align);
    lm_text_printf(out, "\n## %s\n\n|", s->title);
    for (size_t k = 0; k < n; k++)
        lm_text_printf(out, " %s |", s->columns[k]);
    lm_text_add_str(out, "\n|");
    for (size_t k = 0; k < n; k++)
        lm_text_add_str(out, s->align[k] == 'r' ? "---:|" : "---|");
    lm_text_add_char(out, '\n');
    for (size_t i = 0; i < s->n_rows; i++) {
        lm_text_add_str(out, "|");
        for (size_t k = 0; k < n; k++) {
            lm_text_add_str(out, s->rows[i].mine && *cell(&s->rows[i], k) ? " **" : " ");
            put_cell(cell(&s->rows[i], k), out);
            lm_text_add_str(out, s->rows[i].mine && *cell(&s->rows[i], k) ? "** |" : " |");
        }
        lm_text_add_char(out, '\n');
    }
    if (s->note)
        lm_text_printf(out, "\n%s\n", s->note);
}
