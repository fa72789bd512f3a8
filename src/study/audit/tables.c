/* tables.c - a cell is described by its row and its column together. Tables are Markdown's, or text aligned
 * with tabs or spaces. */
#include <ctype.h>
#include <string.h>

#include "study/audit/audit_document.h"

/* Return the end of the cell at p: a bar, a tab, or two spaces; and where the next one begins. */
static const char *end_of_cell(const char *p, const char *end, bool by_gaps, const char **next)
{
    const char *stop = p;

    while (stop < end &&
           (by_gaps ? *stop != '\t' && !(*stop == ' ' && stop + 1 < end && stop[1] == ' ') : *stop != '|'))
        stop++;
    *next = stop + 1;
    while (by_gaps && *next < end && isspace((unsigned char)**next))
        ++*next;
    return stop < end ? stop : end;
}

void lm_split_row(lm_extent row, bool by_gaps, lm_cells *out)
{
    row = lm_trim(row);
    if (!by_gaps && row.n && *row.s == '|')
        row.s++, row.n--;
    if (!by_gaps && row.n && row.s[row.n - 1] == '|')
        row.n--;
    *out = (lm_cells){ .n = 0 };
    for (const char *p = row.s, *end = row.s + row.n, *next; p <= end && out->n < LM_MAX_CELLS; p = next) {
        const char *stop = end_of_cell(p, end, by_gaps, &next);
        out->cell[out->n++] = lm_trim((lm_extent){ p, (size_t)(stop - p) });
    }
}

/* Return whether a note or an asterisk stands in the cell: it may take back what the cell says. */
static bool has_note(lm_extent cell)
{
    size_t stars = 0;

    for (size_t i = 0; i < cell.n; i++)
        stars += cell.s[i] == '*';
    return stars % 2;
}

bool lm_read_head(const lm_audit_document *d, lm_extent line, bool by_gaps, lm_table_head *out)
{
    bool found = false, numbers = false;

    *out = (lm_table_head){ .by_gaps = by_gaps };
    lm_split_row(line, by_gaps, &out->cells);
    for (size_t i = 0; i < out->cells.n; i++) {
        lm_label *l = &out->column[i];
        *l = lm_label_of(d, out->cells.cell[i]);
        found |= l->quantity || l->part || l->model != LM_NO_MODEL;
        numbers |= i && out->cells.cell[i].n && isdigit((unsigned char)*out->cells.cell[i].s);
        out->models |= i && l->model != LM_NO_MODEL;
        out->counts |= l->counts;
        out->doubt |= l->doubt || has_note(out->cells.cell[i]);
    }
    return out->cells.n > 1 && (!by_gaps || (found && !numbers));
}

/* ---- labels of a row ---- */

/* Read a label that is a number under "Context": a number of tokens. */
static bool is_tokens(const lm_audit_document *d, const lm_table_head *head, lm_extent cell, lm_label *out)
{
    const lm_label *h = &head->column[0];
    lm_lexeme       x[3];
    size_t          n = lm_scan(d, cell, x, 3);

    bool number = n && x[0].kind == LM_LEX_NUMBER && x[0].number.unit == LM_NUMERAL_PLAIN;
    bool alone  = n == 1 || (n == 2 && x[1].kind == LM_LEX_TOKENS);
    if (!number || !alone || h->unclear ||
        !(lm_label_is(h, "architecture.context") || lm_label_is(h, "@tokens")))
        return false;
    *out = (lm_label){ .model = LM_NO_MODEL, .thousands = x[0].number.power == 1 };
    out->tokens = out->thousands ? x[0].number.binary : x[0].number.value;
    return true;
}

/* Return whether the first cell is a value too, because its column is a quantity: "| Layers | Heads |". */
static bool is_value(const lm_table_head *head, lm_extent cell)
{
    const lm_label *h = &head->column[0];

    cell = lm_strip_markup(cell);
    return h->quantity && !h->unclear && *h->quantity != '@' && cell.n && isdigit((unsigned char)*cell.s);
}

/* Return the label of a row: its first cell, unless that is a value, and the cells under "Model". */
static lm_label label_of_row(const lm_audit_document *d, const lm_table_head *head, const lm_cells *row,
                             bool *value)
{
    lm_label l = { .model = LM_NO_MODEL };

    *value = false;
    if (!is_tokens(d, head, row->cell[0], &l) && !(*value = is_value(head, row->cell[0])))
        l = lm_label_of(d, row->cell[0]);
    for (size_t i = 1; i < row->n && i < head->cells.n; i++) {
        if (!lm_label_is(&head->column[i], "@model"))
            continue;
        lm_label own = lm_label_of(d, row->cell[i]);
        if (own.model == LM_NO_MODEL)
            own.model = LM_OTHER_MODEL;
        lm_label_inherit(&l, &own);
    }
    return l;
}

/* Return whether a word of the row says that it is about something else. */
static bool has_doubt(const lm_audit_document *d, const lm_cells *row)
{
    for (size_t i = 0; i < row->n; i++)
        if (has_note(row->cell[i]) || lm_label_of(d, row->cell[i]).doubt)
            return true;
    return false;
}

/* ---- cells ---- */

/* Return whether the cell is two numbers: "2,048 × 512", "[512, 2048]". */
static bool is_shape(lm_extent cell)
{
    bool   product = memmem(cell.s, cell.n, "×", strlen("×")) || memchr(cell.s, 'x', cell.n);
    size_t numbers = 0;

    for (size_t i = 0; i < cell.n; i++) {
        bool digit = isdigit((unsigned char)cell.s[i]), after = i && strchr("0123456789,", cell.s[i - 1]);
        numbers += digit && !after;
        if (!digit && !(cell.s[i] & 0x80) && !strchr(" ,[]()x", cell.s[i]))
            return false;
    }
    return numbers == 2 && (product || *cell.s == '[' || *cell.s == '(');
}

/* Read the shape beside a projection. */
static bool read_shape(lm_audit_document *d, lm_extent cell, const lm_label *a)
{
    const char *proj = a->part ? strstr(a->part, "_proj.parameters") : NULL, *name = proj;

    cell = lm_strip_markup(cell);
    if (!proj || a->quantity || a->unclear || a->model < 0 || !is_shape(cell))
        return false;
    while (name > a->part && name[-1] != '.')
        name--;
    const char *quantity = lm_arena_printf(&d->arena, "%.*s.shape", (int)(proj + 5 - name), name);
    lm_add_value(d, cell, a->model, quantity, a->assumed);
    return true;
}

/* Return whether a column and a row can describe a cell together. */
static bool fits(const lm_table_head *head, const lm_label *column, const lm_label *row)
{
    bool parts = column->part && row->part && column->part != row->part;
    bool model = column->model != LM_NO_MODEL && row->model != LM_NO_MODEL && column->model != row->model;

    return !parts && !model && !(head->models && column->model == LM_NO_MODEL) &&
           !lm_label_is(column, "@model");
}

/* Read the i-th cell of a row with the label `l`. */
static bool read_cell(lm_audit_document *d, const lm_table_head *head, lm_extent cell, size_t i,
                      const lm_label *l)
{
    const lm_label *corner = &head->column[0];
    lm_label        a = i < head->cells.n ? head->column[i] : (lm_label){ .model = LM_NO_MODEL };

    if (!cell.n || !fits(head, &a, l))
        return false;
    lm_label_inherit(&a, l);
    if (!a.quantity && !corner->unclear &&
        (lm_label_is(corner, "@cache") || lm_label_is(corner, "@size") || lm_label_is(corner, "@flops")))
        lm_label_inherit(&a, corner);
    if (a.model == LM_NO_MODEL && head->rows)
        a.model = LM_OTHER_MODEL;
    lm_assume_model(d, &a);
    a.counts |= head->counts;
    return a.model >= 0 && (read_shape(d, cell, &a) || lm_read_value(d, cell, &a));
}

/* Rows without names may be of variants, of which one is the model: only a single row of values is
 * certain. */
static void doubt_variants(lm_audit_document *d, lm_table_head *head)
{
    if (head->n_rows++ == 0) {
        head->first = d->n_statements;
        return;
    }
    for (size_t i = head->first; i < d->n_statements; i++)
        d->statements[i].unsure = true;
    d->doubtful = true;
}

void lm_read_row(lm_audit_document *d, lm_table_head *head, lm_extent line)
{
    bool     found = false, doubt = d->doubtful, value, left[LM_MAX_CELLS] = { false };
    lm_cells row;

    lm_split_row(line, head->by_gaps, &row);
    if (!row.n)
        return;
    lm_label l = label_of_row(d, head, &row, &value);
    head->rows |= l.model != LM_NO_MODEL;
    d->doubtful |= head->doubt || has_doubt(d, &row);
    if (value)
        doubt_variants(d, head);
    for (size_t i = !value; i < row.n && !l.unclear; i++) {
        bool one = read_cell(d, head, row.cell[i], i, &l);
        left[i]  = !one && i < head->cells.n && lm_has_digit(row.cell[i]);
        found |= one;
    }
    d->doubtful = doubt;
    for (size_t i = 0; found && i < row.n; i++)
        if (left[i])
            lm_add_unread(d, head->cells.cell[i]);
    if (!found && row.n == 2)
        found = lm_read_setting(d, d->scope, lm_strip_markup(row.cell[0]), lm_strip_markup(row.cell[1]),
                                false);
    if (!found)
        lm_add_unread(d, line);
}
