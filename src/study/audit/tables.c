/* tables.c - a cell is described by its row and its column together: a model per row or column, parts and their counts, types and sizes. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "study/audit/reading.h"

void lm_split_row(lm_extent row, lm_cells *out)
{
    row = lm_trim(row);
    if (row.n && *row.s == '|')
        row.s++, row.n--;
    if (row.n && row.s[row.n - 1] == '|')
        row.n--;
    out->n = 0;
    for (const char *p = row.s, *end = row.s + row.n; p <= end && out->n < LM_MOST_CELLS;) {
        const char *stop = p < end ? memchr(p, '|', (size_t)(end - p)) : NULL;
        stop = stop ? stop : end;
        out->cell[out->n++] = lm_trim((lm_extent){ p, (size_t)(stop - p) });
        p = stop + 1;
    }
}

/* Read a label that is a number ("8,192") under a column head that names what it counts ("Context", "Sequence length"). */
static bool read_tokens(const lm_audit_document *d, lm_extent head, lm_extent label, lm_about *a)
{
    lm_item  items[2];
    lm_about h = lm_label_of(d, head);
    size_t   n = lm_scan(d, label, items, 2);

    if (n != 1 || items[0].role != LM_NUMBER || items[0].last.n || items[0].number.unit != LM_NUMERAL_PLAIN ||
        !lm_counts_context(h.quantity) || h.unsure)
        return false;
    a->thousands = items[0].number.power == 1;
    a->tokens    = a->thousands ? items[0].number.binary : items[0].number.value;
    return true;
}

/* If a table names no quantity, use that of its heading, and the number of cached tokens from there. */
static void inherit(const lm_audit_document *d, lm_about *a)
{
    bool cache = lm_vocable_is(d->heading.quantity, "@cache");
    bool all   = lm_vocable_is(a->quantity, "@total") && (a->forms & LM_FORM_ALL);       /* "Total (16 layers)" */

    if (cache && (lm_vocable_is(a->quantity, "@size") || lm_vocable_is(a->quantity, "@memory") || !a->quantity || all) && !a->part) {
        a->unsure |= a->tokens == 0 && !(a->forms & LM_FORM_TOKEN);
        a->quantity = d->heading.quantity;
    }
    if (lm_vocable_is(a->quantity, "@cache") && a->tokens == 0 && !(a->forms & LM_FORM_TOKEN)) {
        a->tokens    = d->heading.tokens;
        a->thousands = d->heading.thousands;
        if (!a->tokens)
            a->forms |= d->heading.forms & LM_FORM_TOKEN;
    }
    if (lm_vocable_is(a->quantity, "@cache") && !a->type)
        a->type = d->heading.type;
}

static bool has_doubt(const lm_audit_document *d, const lm_item *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (x[i].role == LM_DOUBT)
            return true;
    return d->failed;
}

/* Interpret the text after a cell's number: it makes the cell unsure, or names the quantity. */
static void add_rest(const lm_audit_document *d, const lm_item *x, size_t n, lm_extent rest, lm_about *a)
{
    lm_about own = { .model = LM_NO_MODEL };

    if (rest.n && *rest.s == '(' && n > 3 && x[n - 3].role == LM_LINK && x[n - 2].role == LM_NUMBER)
        return;                      /* "64 MB (window=4096)" */
    lm_read_label(d, rest, &own);
    own.unsure &= !rest.n || *rest.s != '(' || has_doubt(d, x, n);       /* "8 (shared by 3 each)" is 8 */
    bool other = own.quantity && a->quantity && own.quantity->role == LM_QUANTITY && !lm_vocable_is(a->quantity, own.quantity->value);
    other &= !lm_vocable_is(own.quantity, "@params");
    a->unsure |= own.unsure || own.model != LM_NO_MODEL || own.tokens > 0 || (own.forms & ~a->forms) || other;
    a->quantity = a->quantity || a->part ? a->quantity : own.quantity;
    a->type     = a->type ? a->type : own.type;
}

/* ---- columns that are added up ---- */

/* Return the share that a part has of all parameters; NULL: it may be part of another part. */
static const char *share_of(const lm_about *a)
{
    const char *share = a->part ? strstr(a->part->value, ";parameters.shares.") : NULL;

    return share ? share + 1 : NULL;
}

/* Add a cell to the sum of its column. */
static void add_to_column(lm_audit_document *d, size_t i, const lm_item *x, const lm_about *a)
{
    lm_column  *c = &d->columns[i];
    const char *share = share_of(a);

    if (x->role != LM_NUMBER || !a->part)
        return;
    for (size_t k = 0; k < c->n; k++)
        c->nested |= k < LM_MOST_PARTS && share && c->shares[k] && strcmp(c->shares[k], share) == 0;
    c->nested |= !share || c->n >= LM_MOST_PARTS;
    if (c->n < LM_MOST_PARTS)
        c->shares[c->n] = share;
    c->n++;
    c->precise = x->number.power == c->power ? c->precise : 0;
    c->power   = x->number.power;
    c->precise += x->number.power && !x->number.zeros && !memchr(x->at.s, '.', x->at.n);
    c->sum += x->number.value;
    c->slack += x->number.half;
    size_t n = d->n_statements, at = (size_t)(x->at.s - d->text);
    if (strncmp(a->part->value, ";lm_head", 8) == 0 && n && d->statements[n - 1].at == at) {
        c->head = x->number.value;
        c->of_head = n;
    }
}

/* Compare a total with the sum of the cells above it. A total that counts the head separately says that its matrix is one of its own;
 * shares of different parts are not more than all. */
static void judge_total(lm_audit_document *d, size_t i, const lm_item *x)
{
    lm_column *c = &d->columns[i];
    double     slack = c->slack + x->number.half, total = x->number.value;
    bool       percent = x->number.unit == LM_NUMERAL_PERCENT;

    if (percent && c->n > 2 && !c->nested && c->sum > total + slack + 1)
        lm_add_judged(d, x->at, lm_arena_printf(&d->arena, "%.4g%%", c->sum), N_("the parts add up to more"));
    if (!percent && c->of_head && fabs(total - c->sum) <= slack && fabs(total - (c->sum - c->head)) > slack)
        d->statements[c->of_head - 1].quantity = "lm_head.parameters";
}

static void add_up(lm_audit_document *d, size_t i, lm_extent label, lm_extent cell, const lm_about *a)
{
    lm_item first;
    bool    total = lm_scan(d, label, &first, 1) && lm_vocable_is(first.word, "@total");
    lm_item items[4];
    size_t  n = lm_scan(d, cell, items, 4), k = 0;

    while (k < n && items[k].role == LM_LEAD)
        k++;
    if (k < n && items[k].role == LM_NUMBER && total)
        judge_total(d, i, &items[k]);
    else if (k < n && (k == 0 || *items[0].at.s != '<'))
        add_to_column(d, i, &items[k], a);
}

/* ---- columns of differences ---- */

/* Read a cell that is a number or a product of numbers, with what its rounding leaves open, in percent. */
static bool amount_of(const lm_audit_document *d, lm_extent cell, double *value, double *open)
{
    lm_item x[12];
    size_t  n = lm_scan(d, cell, x, 12);

    *value = 1;
    *open  = 0;
    for (size_t i = 0; i < n; i++) {
        bool number = i % 2 == 0 && x[i].role == LM_NUMBER && !x[i].last.n && x[i].number.unit != LM_NUMERAL_PERCENT;
        number &= x[i].number.value > 0;
        if (!number && !(i % 2 && x[i].role == LM_TIMES))
            return false;
        *value *= number ? x[i].number.value : 1;
        *open += number ? 100 * x[i].number.half / x[i].number.value : 0;
    }
    return n % 2 == 1;
}

/* Return whether the columns before i, of which there are two, are models or kinds, not quantities. */
static bool compares(const lm_audit_document *d, const lm_cells *head, size_t i)
{
    lm_about a = lm_label_of(d, head->cell[i - 2]), b = lm_label_of(d, head->cell[i - 1]);

    return i == 3 && head->n > 3 && a.model >= 0 && b.model >= 0 && !a.quantity && !b.quantity;
}

/* "| 32 | 28 | 12.5% |" below "Reduction": judge the share by which the two amounts before it differ. */
static bool read_saved(lm_audit_document *d, const lm_cells *head, const lm_cells *row, size_t i)
{
    lm_item said;
    double  a, b, open_a, open_b;

    bool percent = i > 2 && lm_scan(d, row->cell[i], &said, 1) == 1 && said.role == LM_NUMBER && !said.last.n &&
                   said.number.unit == LM_NUMERAL_PERCENT;
    if (!percent || !amount_of(d, row->cell[i - 2], &a, &open_a) || !amount_of(d, row->cell[i - 1], &b, &open_b))
        return false;
    double more = fmax(a, b), less = fmin(a, b), saved = 100 * (1 - less / more);
    double half = (said.number.whole ? 0.5 : said.number.half) + open_a + open_b + 1e-9;
    bool   right = fabs(said.number.value - saved) <= half || fabs(said.number.value - 100 * (more / less - 1)) <= half;
    lm_claim verdict = !right ? LM_CLAIM_WRONG : fabs(said.number.value - saved) < 1e-9 ? LM_CLAIM_CONFIRMED : LM_CLAIM_ROUNDED;
    if (right || compares(d, head, i))
        lm_add_checked(d, said.at, verdict, saved, N_("the arithmetic of the line"));
    return right || compares(d, head, i);
}

/* ---- rows of kinds ---- */

/* "| Post-Norm | … | GPT-2 |" below "Used by": what the row is about is said of each model of the cell. */
static bool read_users(lm_audit_document *d, lm_extent label, lm_extent head, lm_extent cell)
{
    lm_item models[24], items[16];
    size_t  n = lm_scan(d, cell, models, 24), m = lm_scan(d, label, items, 16);
    bool    found = false, aside = d->aside;

    if (n == 24 || m == 16 || !lm_vocable_is(lm_label_of(d, head).quantity, "@model"))
        return false;
    d->aside = d->aside && !d->versus;
    for (size_t i = 0; i < n; i++) {
        size_t before = d->n_statements;
        if (models[i].role != LM_MODEL || models[i].model < 0 || !lm_audit_kinds(d, items, m, models[i].model, !lm_only_kinds(items, m)))
            continue;
        for (found = true; before < d->n_statements; before++) {         /* shown at the model, where they differ */
            d->statements[before].at   = (size_t)(models[i].at.s - d->text);
            d->statements[before].size = models[i].at.n;
        }
    }
    d->aside = aside;
    return found;
}

/* Read what follows a number in parentheses: "8 (GQA)", "236B (21B active)". */
static bool read_remark(lm_audit_document *d, const lm_item *x, size_t n, int model)
{
    bool cached = false, remark = n > 3 && *x[1].at.s == '(' && x[2].role == LM_NUMBER && *x[n - 1].at.s == ')' && model >= 0;
    bool kinds  = lm_audit_kinds(d, x, n, model, true);

    return (remark && lm_read_clause(d, x + 2, n - 3, model, true, &cached)) || kinds;
}

/* "128 / —" below "Heads / KV heads": there is no second number. Let the cell be about the first quantity alone. */
static void take_first(lm_audit_document *d, const lm_item *x, size_t n, lm_about *a, lm_vocable *one)
{
    bool        dash = n > 2 && x[1].role == LM_SLASH && (*x[2].at.s == '-' || strncmp(x[2].at.s, "—", 3) == 0);
    const char *path = a->quantity ? a->quantity->value : "", *two = strstr(path, " / ");

    if (!dash || !two)
        return;
    *one = (lm_vocable){ "", LM_QUANTITY, lm_arena_strndup(&d->arena, path, (size_t)(two - path)) };
    if (one->value)
        a->quantity = one;
}

/* Read a cell: its first number, its first two separated by a slash, or its words. */
static bool read_cell(lm_audit_document *d, lm_extent cell, lm_about *a)
{
    size_t n = lm_scan(d, cell, d->items, 24), i = 0;

    if (n < 24 && lm_audit_sums(d, d->items, n))
        return true;
    while (i < n && (d->items[i].role == LM_LEAD || d->items[i].role == LM_NEUTRAL))
        i++;
    if (n == 24 || i == n || d->items[i].role != LM_NUMBER)
        return lm_audit_words(d, cell, a);
    const lm_item *x = &d->items[i];
    const lm_item *second = i + 2 < n && x[1].role == LM_SLASH && x[2].role == LM_NUMBER ? &x[2] : NULL;
    lm_vocable     one;
    take_first(d, x, n - i, a, &one);
    const char    *rest = second ? second->at.s + second->at.n : x->at.s + x->at.n, *end = cell.s + cell.n;
    while (rest < end && strchr(" *`$", *rest))
        rest++;
    add_rest(d, x, n - i, (lm_extent){ rest, rest < end ? (size_t)(end - rest) : 0 }, a);
    bool found = lm_audit_number(d, x, second, a);
    return read_remark(d, x, n - i, a->model) || found;
}

static bool any_model(const lm_audit_document *d, const lm_cells *head)
{
    for (size_t i = 1; i < head->n; i++)
        if (lm_label_of(d, head->cell[i]).model != LM_NO_MODEL)
            return true;
    return false;
}

/* Return whether a column contains letters for the quantities of the next one: "$L$ | layers | 16". */
static bool has_letters(lm_extent head)
{
    static const char *const names[] = { "symbol", "letter", "notation", NULL };

    return lm_word_among(head, names);
}

static bool says_nothing(const lm_about *a)
{
    return a->model == LM_NO_MODEL && !a->quantity && !a->part && !a->type && !a->forms && a->tokens == 0;
}

/* What the rows are about, if the first head names it ("FLOPs for each token"), holds of the cells. A row that names nothing known may
 * be about anything. */
static void add_corner(const lm_audit_document *d, const lm_cells *head, size_t first, lm_extent label, lm_about *a)
{
    const lm_vocable *v = head->n > first ? lm_label_of(d, head->cell[first]).quantity : NULL;
    lm_about          own = lm_label_of(d, label);

    if (!a->quantity && v && (lm_vocable_is(v, "@flops") || lm_vocable_is(v, "@cache") || lm_vocable_is(v, "@size")))
        a->quantity = v;
    a->unsure |= label.n && says_nothing(&own) && (lm_vocable_is(a->quantity, "@params") || lm_vocable_is(a->quantity, "@total"));
}

/* Report cells that were not understood in a row of which others were, by the heads of their columns. */
static void add_unread_cells(lm_audit_document *d, const lm_cells *head, const bool *left)
{
    for (size_t i = 0; i < head->n; i++)
        if (left[i])
            lm_add_unread(d, head->cell[i]);
}

/* Read a cell that is described by its row and its column. */
static bool read_described(lm_audit_document *d, const lm_cells *head, const lm_cells *row, size_t first, size_t i, lm_about *a)
{
    a->table = true;
    add_corner(d, head, first, row->cell[first], a);
    inherit(d, a);
    size_t before = d->n_statements;
    bool   found  = lm_audit_shape_cell(d, row->cell[i], a) ||
                    lm_audit_method(d, head, row->cell[first], row->cell[i], a->model) || read_cell(d, row->cell[i], a);
    if (d->n_statements > before && d->columns[i].precise > 1)
        d->statements[before].precise = isdigit((unsigned char)*d->statements[before].claim) != 0;
    add_up(d, i, row->cell[first], row->cell[i], a);
    return found;
}

/* "[H, head_dim]": read the shape of what the first cell names. */
static bool read_shape(lm_audit_document *d, lm_extent name, lm_extent cell)
{
    while (cell.n && (*cell.s == '`' || *cell.s == '$'))
        cell.s++, cell.n--;
    const char *close = cell.n && *cell.s == '[' ? memchr(cell.s, ']', cell.n) : NULL;

    return close && lm_audit_shape(d, name, (lm_extent){ cell.s + 1, (size_t)(close - cell.s - 1) });
}

/* Read a cell that is not only described by its row and column: models that use something, a difference between two cells, a shape. */
static bool read_related(lm_audit_document *d, const lm_cells *head, const lm_cells *row, size_t first, size_t i, const lm_about *a)
{
    return (i < head->n && read_users(d, row->cell[first], head->cell[i], row->cell[i])) || read_shape(d, row->cell[0], row->cell[i]) ||
           lm_audit_property_cell(d, head, row, first, i) || lm_audit_cached(d, head, row, first, i) ||
           lm_audit_widths(d, row->cell[first], row->cell[i], a->model == LM_NO_MODEL ? d->scope : a->model) ||
           (lm_vocable_is(a->quantity, "@saved") && read_saved(d, head, row, i));
}

void lm_read_row(lm_audit_document *d, const lm_cells *head, const lm_cells *row, lm_extent line)
{
    bool     found = false, columns = any_model(d, head), digits = false, left[LM_MOST_CELLS] = { false };
    lm_about label = { .model = LM_NO_MODEL };
    size_t   first  = head->n > 2 && has_letters(head->cell[0]);
    bool     models = head->n && head->cell[first].n && lm_vocable_is(lm_label_of(d, head->cell[first]).quantity, "@model");

    if (row->n <= first)
        return;
    found = lm_audit_tex_line(d, line, row->cell[first]);
    if (!read_tokens(d, head->n ? head->cell[first] : (lm_extent){ "", 0 }, row->cell[first], &label))
        lm_read_label(d, row->cell[first], &label);
    for (size_t i = first + 1; i < row->n; i++) {
        lm_about a = label;
        bool     own;
        digits |= lm_has_digit(row->cell[i]);
        if (i < head->n)
            lm_read_label(d, head->cell[i], &a);
        own = a.model != LM_NO_MODEL;
        if (read_related(d, head, row, first, i, &a)) {
            found = true;
            continue;
        }
        if ((columns && !own) || (models && label.model == LM_NO_MODEL) || !row->cell[i].n || lm_vocable_is(a.quantity, "@model"))
            continue;
        a.model = own ? a.model : d->scope;
        left[i] = !read_described(d, head, row, first, i, &a);
        found |= !left[i];
        left[i] &= lm_has_digit(row->cell[i]);
    }
    if (found)
        add_unread_cells(d, head, left);
    else if (digits || row->n > 1)
        lm_add_unread(d, line);
}
