/* printed_table.c - read the tables that torchinfo prints: a module per row with shapes, parameters and multiplications, and totals. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "study/audit/reading.h"
#include "base/numeral.h"

enum { FORWARD_TOKENS = 4 };         /* of the pass whose multiplications are facts */

/* Take the next cell of a row: columns are separated by two spaces or more. */
static lm_extent next_cell(lm_extent *rest)
{
    const char *gap;

    *rest = lm_trim(*rest);
    gap   = memmem(rest->s, rest->n, "  ", 2);
    size_t    n    = gap ? (size_t)(gap - rest->s) : rest->n;
    lm_extent cell = { rest->s, n };
    *rest = (lm_extent){ rest->s + n, rest->n - n };
    return cell;
}

/* Return what a column contains: 'o' output shapes, 'p' parameters, 'm' multiplications, '-' others. */
static char kind_of_column(lm_extent head)
{
    return lm_text_begins(head, "Output Shape") ? 'o' : lm_text_begins(head, "Param #") ? 'p'
           : lm_text_begins(head, "Mult-Adds") ? 'm' : '-';
}

/* Keep what the columns of a head contain. */
static bool read_head(lm_printed *t, lm_extent line)
{
    lm_extent cell = next_cell(&line);

    if (!lm_text_begins(cell, "Layer (type"))
        return false;
    *t = (lm_printed){ .tokens = 0 };
    while (t->n_columns < LM_PRINTED_COLUMNS && (cell = next_cell(&line)).n)
        t->columns[t->n_columns++] = kind_of_column(cell);
    return true;
}

/* Count the levels of the drawn branches before a module, and move to its class; 0: the line is no row. */
static size_t depth_of(lm_extent *line)
{
    size_t columns = 0;

    while (line->n > 3) {
        bool branch = lm_text_begins(*line, "├─") || lm_text_begins(*line, "└─"), bar = lm_text_begins(*line, "│");
        if (!branch && !bar && *line->s != ' ')
            return 0;
        size_t n = branch ? 6 : bar ? 3 : 1;
        *line = (lm_extent){ line->s + n, line->n - n };
        if (branch)
            return columns / 5 + 1;
        columns++;
    }
    return 0;
}

/* Return the path of the module at `depth`: "layers[3].self_attn", "model.embed_tokens"; NULL: a name is missing. */
static const char *path_of(lm_audit_document *d, const lm_printed *t, size_t depth)
{
    const char *path = "";

    for (size_t i = 1; i <= depth && path; i++) {
        lm_extent name = t->names[i];
        if (!name.n)
            return NULL;
        path = isdigit((unsigned char)*name.s) ? lm_arena_printf(&d->arena, "layers[%.*s]", (int)name.n, name.s)
                                               : lm_arena_printf(&d->arena, "%s%s%.*s", path, *path ? "." : "", (int)name.n, name.s);
    }
    return path;
}

static void add(lm_audit_document *d, const lm_printed *t, lm_extent value, const char *claim, const char *quantity)
{
    lm_add_statement(d, value, t->model, quantity, claim, t->unsure);
}

/* Return whether the row is the module that rotates queries and keys: its output is as wide as what is rotated. */
static bool is_rotary(const char *path)
{
    const char *dot = strrchr(path, '.');

    return dot && strcmp(dot, ".rotary_emb") == 0;
}

/* "[1, 4, 3072]": keep the number of tokens, and state the width. */
static void read_shape(lm_audit_document *d, lm_printed *t, lm_extent cell, const char *path)
{
    const char *comma = cell.n ? memrchr(cell.s, ',', cell.n) : NULL, *first = cell.n ? memchr(cell.s, ',', cell.n) : NULL;

    if (!comma || comma == first || cell.s[cell.n - 1] != ']')
        return;
    t->tokens = strtoul(cell.s + 1, NULL, 10) * strtoul(first + 1, NULL, 10);
    lm_extent width = lm_trim((lm_extent){ comma + 1, (size_t)(cell.s + cell.n - 2 - comma) });
    const char *quantity = is_rotary(path) ? "rope.dim" : lm_arena_printf(&d->arena, "%s.out", path);
    add(d, t, width, lm_arena_strndup(&d->arena, width.s, width.n), quantity);
}

static void read_count(lm_audit_document *d, const lm_printed *t, char column, lm_extent cell, const char *path)
{
    const char *claim = lm_arena_strndup(&d->arena, cell.s, strcspn(cell.s, " (") < cell.n ? strcspn(cell.s, " (") : cell.n);
    bool        norm  = memmem(path, strlen(path), "norm", 4) || memmem(path, strlen(path), ".ln_", 4);

    if (column == 'p' && is_rotary(path) && cell.n == 2 && memcmp(cell.s, "--", 2) == 0)
        add(d, t, cell, "zero", "rope.parameters");
    if (!isdigit((unsigned char)*cell.s))
        return;
    if (column == 'p')
        add(d, t, cell, claim, lm_arena_printf(&d->arena, "%s.parameters|%s.weight.parameters", path, path));
    else if (t->tokens == FORWARD_TOKENS && !norm)
        add(d, t, cell, claim, lm_arena_printf(&d->arena, "%s.pass_mult_adds", path));
}

/* Keep the number of the layer that the row is, and state that of the last one at the first row behind it. */
static void count_layers(lm_audit_document *d, lm_printed *t, size_t depth)
{
    lm_extent name = t->names[depth];

    if (t->n_layers > 1 && depth < t->layer_depth) {
        lm_add_value(d, t->layer, t->model, "architecture.last_layer", true);
        t->n_layers = 0;
    }
    if (!name.n || !isdigit((unsigned char)*name.s))
        return;
    size_t number  = strtoul(name.s, NULL, 10);
    t->n_layers    = number == t->n_layers ? number + 1 : 0;
    t->layer       = name;
    t->layer_depth = depth;
}

static bool read_module(lm_audit_document *d, lm_printed *t, lm_extent line)
{
    size_t depth = t->n_columns ? depth_of(&line) : 0;

    if (!depth || depth >= LM_PRINTED_DEPTH)
        return false;
    lm_extent   cell = next_cell(&line);
    const char *open = memrchr(cell.s, '(', cell.n), *close = open ? memchr(open, ')', (size_t)(cell.s + cell.n - open)) : NULL;
    t->names[depth] = close ? (lm_extent){ open + 1, (size_t)(close - open - 1) } : (lm_extent){ cell.s, 0 };
    const char *path = path_of(d, t, depth);
    count_layers(d, t, depth);
    for (size_t i = 0; path && i < t->n_columns && (cell = next_cell(&line)).n; i++)
        if (t->columns[i] == 'o')
            read_shape(d, t, cell, path);
        else if (t->columns[i] != '-')
            read_count(d, t, t->columns[i], cell, path);
    return true;
}

/* ---- totals ---- */

/* "Total mult-adds (Units.GIGABYTES): 3.61" */
static void read_mult_adds(lm_audit_document *d, const lm_printed *t, lm_extent unit, lm_extent value)
{
    const char *point = memchr(unit.s, '.', unit.n);
    char        prefix = unit.n ? point ? point[1] : *unit.s : ' ';

    if (t->tokens == FORWARD_TOKENS)
        add(d, t, value, lm_arena_printf(&d->arena, "%.*s %c", (int)value.n, value.s, prefix), "pass.mult_adds");
    if (memmem(unit.s, unit.n, "BYTES", 5))
        lm_add_judged(d, unit, "mult-adds", N_("a unit of bytes on a count of operations"));
}

static double number_of(lm_extent s)
{
    lm_numeral x;

    return lm_read_numeral(s.s, false, &x, NULL) ? x.value : 0;
}

/* A line below the table. `pass`: it depends on the tokens of the pass; `halves`: the fact is that of parameters of two bytes. */
typedef struct total { const char *label, *unit, *quantity; bool pass, halves; } total;

static const total totals[] = {
    { "Input size", "MB", "pass.input_bytes", true, false },
    { "Forward/backward pass size", "MB", "pass.torchinfo.forward_backward_bytes|pass.output_bytes", true, false },
    { "Params size", "MB", "pass.parameter_bytes|weights.as.f16.bytes|weights.as.f32.bytes", false, false },
    { "Estimated Total Size", "MB", "pass.torchinfo.total_bytes_tied_once", true, true },
    { "Non-trainable params", "", "parameters.non_trainable", false, false },
};

/* "Params size (MB): 7213.50", "Non-trainable params: 0" */
static bool read_total(lm_audit_document *d, lm_printed *t, lm_extent line)
{
    const char *colon = memchr(line.s, ':', line.n);

    if (!colon || !t->n_columns)
        return false;
    lm_extent   value = lm_trim((lm_extent){ colon + 1, (size_t)(line.s + line.n - colon - 1) });
    const char *open = memchr(line.s, '(', (size_t)(colon - line.s)), *close = open ? memchr(open, ')', (size_t)(colon - open)) : NULL;
    if (lm_text_begins(line, "Total params"))
        t->parameters = number_of(value);
    if (lm_text_begins(line, "Params size"))
        t->halves = fabs(number_of(value) * 1e6 - 2 * t->parameters) < 0.01 * t->parameters;
    if (!isdigit((unsigned char)*value.s))
        return false;
    if (lm_text_begins(line, "Total mult-adds") && close)
        read_mult_adds(d, t, (lm_extent){ open + 1, (size_t)(close - open - 1) }, value);
    for (size_t i = 0; i < sizeof totals / sizeof *totals; i++) {
        const total *x = &totals[i];
        if (lm_text_begins(line, x->label) && (!x->pass || t->tokens == FORWARD_TOKENS) && (!x->halves || t->halves))
            add(d, t, value, lm_arena_printf(&d->arena, "%.*s %s", (int)value.n, value.s, x->unit), x->quantity);
    }
    return false;                    /* the line may be read otherwise, too */
}

bool lm_audit_printed_table(lm_audit_document *d, lm_extent line, int model, bool unsure)
{
    lm_printed *t = &d->printed;

    if (model < 0)
        return false;
    if (read_head(t, line))
        return true;
    t->model  = model;
    t->unsure = unsure;
    return read_module(d, t, line) || read_total(d, t, line);
}
