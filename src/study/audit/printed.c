/* printed.c - read models as PyTorch prints them, a module per line, and as torchinfo does, in a table with
 * totals below it. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "study/audit/audit_document.h"

enum { FORWARD_TOKENS = 4 };         /* of the pass whose multiplications are facts */

/* ---- modules of PyTorch ---- */

/* Return the value of "name=" among the arguments; n is 0: none. */
static lm_extent argument(lm_extent args, const char *name)
{
    const char *at = memmem(args.s, args.n, name, strlen(name)), *end = args.s + args.n, *p;

    if (!at || (at > args.s && (isalnum((unsigned char)at[-1]) || at[-1] == '_')))
        return (lm_extent){ args.s, 0 };
    for (p = at += strlen(name); p < end && (isalnum((unsigned char)*p) || strchr(".-+", *p));)
        p++;
    return (lm_extent){ at, (size_t)(p - at) };
}

/* "(0-27): 28 x DecoderLayer(": the number of layers and the last one. False: another line. */
static bool add_layers(lm_audit_document *d, lm_extent name, lm_extent kind)
{
    const char *times = memmem(kind.s, kind.n, " x ", 3);

    if (!times || !lm_extent_begins(name, "0-") ||
        !(lm_extent_ends(kind, "Layer") || lm_extent_ends(kind, "Block")))
        return false;
    lm_add_value(d, (lm_extent){ name.s + 2, name.n - 2 }, d->scope, "architecture.last_layer", false);
    lm_add_value(d, (lm_extent){ kind.s, (size_t)(times - kind.s) }, d->scope, "architecture.layers", false);
    return true;
}

static bool add_linear(lm_audit_document *d, lm_extent name, lm_extent args)
{
    lm_extent in = argument(args, "in_features="), out = argument(args, "out_features=");
    lm_extent bias = argument(args, "bias=");
    bool      head = lm_extent_is(name, "lm_head");      /* has more rows if tokens were added */

    if (!in.n || !out.n || !(lm_extent_ends(name, "_proj") || head))
        return false;
    lm_add_statement(d, out, d->scope, lm_arena_printf(&d->arena, "%.*s.shape", (int)name.n, name.s),
                     lm_arena_printf(&d->arena, "%.*s->%.*s", (int)in.n, in.s, (int)out.n, out.s), head);
    if (bias.n)
        lm_add_value(d, bias, d->scope, lm_arena_printf(&d->arena, "%.*s.bias", (int)name.n, name.s), head);
    return true;
}

/* "(act_fn): SiLU()", "(norm): LlamaRMSNorm((2048,), eps=1e-06)". */
static bool add_function(lm_audit_document *d, lm_extent name, lm_extent kind, lm_extent args)
{
    lm_extent eps = argument(args, "eps=");

    if (lm_extent_is(name, "act_fn") || lm_extent_is(name, "act")) {
        kind.n -= lm_extent_ends(kind, "Activation") ? strlen("Activation") : 0;
        lm_add_value(d, kind, d->scope, "mlp.activation", false);
        return true;
    }
    if (!eps.n || !lm_extent_ends(kind, "Norm"))
        return false;
    lm_add_value(d, eps, d->scope, "architecture.norm_eps", false);
    return true;
}

bool lm_read_module(lm_audit_document *d, lm_extent line)
{
    const char *close = line.n > 4 && *line.s == '(' ? memchr(line.s, ')', line.n) : NULL;
    const char *open  = close ? memchr(close, '(', (size_t)(line.s + line.n - close)) : NULL;

    if (!open || close[1] != ':' || close[2] != ' ' || d->scope < 0)
        return false;
    const char *last = memrchr(open, ')', (size_t)(line.s + line.n - open));
    lm_extent   name = { line.s + 1, (size_t)(close - line.s - 1) };
    lm_extent   kind = lm_trim((lm_extent){ close + 2, (size_t)(open - close - 2) });
    lm_extent   args = { open + 1, last ? (size_t)(last - open - 1) : 0 };
    return add_layers(d, name, kind) ||
           (lm_extent_is(kind, "Linear") ? add_linear(d, name, args) : add_function(d, name, kind, args));
}

/* ---- tables of torchinfo ---- */

/* Take the next cell of a row: columns are separated by two spaces or more. */
static lm_extent next_cell(lm_extent *rest)
{
    *rest = lm_trim(*rest);
    const char *gap  = memmem(rest->s, rest->n, "  ", 2);
    size_t      n    = gap ? (size_t)(gap - rest->s) : rest->n;
    lm_extent   cell = { rest->s, n };
    *rest = (lm_extent){ rest->s + n, rest->n - n };
    return cell;
}

/* Keep what the columns of the head contain: 'o' output shapes, 'p' parameters, 'm' multiplications, '-'
 * others. */
static bool read_head(lm_printed *t, lm_extent line)
{
    lm_extent cell = next_cell(&line);

    if (!lm_extent_begins(cell, "Layer (type"))
        return false;
    *t = (lm_printed){ .tokens = 0 };
    while (t->n_columns < LM_PRINTED_COLUMNS && (cell = next_cell(&line)).n)
        t->columns[t->n_columns++] = lm_extent_begins(cell, "Output Shape") ? 'o'
                                     : lm_extent_begins(cell, "Param #") ? 'p'
                                     : lm_extent_begins(cell, "Mult-Adds") ? 'm' : '-';
    return true;
}

/* Count the levels of the drawn branches before a module, and move to its class; 0: the line is no row. */
static size_t depth_of(lm_extent *line)
{
    for (size_t columns = 0; line->n > 3; columns++) {
        bool branch = lm_extent_begins(*line, "├─") ||
                      lm_extent_begins(*line, "└─"), bar = lm_extent_begins(*line, "│");
        if (!branch && !bar && *line->s != ' ')
            return 0;
        size_t n = branch ? strlen("├─") : bar ? strlen("│") : 1;
        *line = (lm_extent){ line->s + n, line->n - n };
        if (branch)
            return columns / 5 + 1;
    }
    return 0;
}

/* Return the path of the module at `depth`: "layers[3].self_attn", "model.embed_tokens"; NULL: a name is
 * missing. */
static const char *path_of(lm_audit_document *d, const lm_printed *t, size_t depth)
{
    const char *path = "";

    for (size_t i = 1; i <= depth && path; i++) {
        lm_extent name = t->names[i];
        path = !name.n ? NULL
               : isdigit((unsigned char)*name.s)
                   ? lm_arena_printf(&d->arena, "layers[%.*s]", (int)name.n, name.s)
               : lm_arena_printf(&d->arena, "%s%s%.*s", path, *path ? "." : "", (int)name.n, name.s);
    }
    return path;
}

/* "[1, 4, 3072]": keep the number of tokens, and state the width. */
static void read_output(lm_audit_document *d, lm_printed *t, lm_extent cell, const char *path)
{
    const char *last = memrchr(cell.s, ',', cell.n), *first = memchr(cell.s, ',', cell.n);
    const char *dot  = strrchr(path, '.');

    if (!last || last == first || cell.s[cell.n - 1] != ']')
        return;
    t->tokens = strtoul(cell.s + 1, NULL, 10) * strtoul(first + 1, NULL, 10);
    lm_extent width = lm_trim((lm_extent){ last + 1, (size_t)(cell.s + cell.n - 2 - last) });
    /* its output is as wide as what is rotated */
    bool      rotary = dot && strcmp(dot, ".rotary_emb") == 0;
    lm_add_value(d, width, d->scope, rotary ? "rope.dim" : lm_arena_printf(&d->arena, "%s.out", path), false);
}

static void read_count(lm_audit_document *d, const lm_printed *t, char column, lm_extent cell,
                       const char *path)
{
    bool norm = strstr(path, "norm") || strstr(path, ".ln_");

    cell.n = strcspn(cell.s, " (") < cell.n ? strcspn(cell.s, " (") : cell.n;
    if (!isdigit((unsigned char)*cell.s))
        return;
    if (column == 'p')
        lm_add_value(d, cell, d->scope,
                     lm_arena_printf(&d->arena, "%s.parameters|%s.weight.parameters", path, path), false);
    else if (t->tokens == FORWARD_TOKENS && !norm)
        lm_add_value(d, cell, d->scope, lm_arena_printf(&d->arena, "%s.pass_mult_adds", path), false);
}

static bool read_module_row(lm_audit_document *d, lm_printed *t, lm_extent line)
{
    size_t depth = depth_of(&line);

    if (!depth || depth >= LM_PRINTED_DEPTH)
        return false;
    lm_extent   cell = next_cell(&line);
    const char *open = memrchr(cell.s, '(', cell.n), *close = open
                       ? memchr(open, ')', (size_t)(cell.s + cell.n - open)) : NULL;
    t->names[depth]  = close ? (lm_extent){ open + 1, (size_t)(close - open - 1) } : (lm_extent){ cell.s, 0 };
    const char *path = path_of(d, t, depth);
    for (size_t i = 0; path && i < t->n_columns && (cell = next_cell(&line)).n; i++)
        if (t->columns[i] == 'o')
            read_output(d, t, cell, path);
        else if (t->columns[i] != '-')
            read_count(d, t, t->columns[i], cell, path);
    return true;
}

/* Read a line below the table: "Params size (MB): 7213.50". `pass`: the total depends on the tokens of the
 * pass. */
static bool read_total(lm_audit_document *d, const lm_printed *t, lm_extent line)
{
    static const struct { const char *label, *unit, *quantity; bool pass; } totals[] = {
        { "Total params:", "", "parameters.total", false },
        { "Non-trainable params:", "", "parameters.non_trainable", false },
        { "Total mult-adds (", "", "pass.mult_adds", true },
        { "Input size (MB):", " MB", "pass.input_bytes", true },
        { "Forward/backward pass size (MB):", " MB",
          "pass.torchinfo.forward_backward_bytes|pass.output_bytes", true },
        { "Params size (MB):", " MB", "pass.parameter_bytes|weights.as.f16.bytes|weights.as.f32.bytes",
          false },
    };
    const char *colon = memchr(line.s, ':', line.n);

    /* A total of operations has its unit in parentheses: "Units.GIGABYTES", or "G". */
    for (size_t i = 0; colon && i < sizeof totals / sizeof *totals; i++) {
        lm_extent value = lm_trim((lm_extent){ colon + 1, (size_t)(line.s + line.n - colon - 1) });
        if (!lm_extent_begins(line, totals[i].label) || !value.n || !isdigit((unsigned char)*value.s))
            continue;
        const char *unit = strstr(totals[i].label, "adds (") ? line.s + strlen(totals[i].label) : NULL;
        unit += unit && lm_extent_begins((lm_extent){ unit, (size_t)(colon - unit) }, "Units.")
            ? strlen("Units.") : 0;
        if (unit && !memchr("KMGT", *unit, 4))
            return false;
        if (!totals[i].pass || t->tokens == FORWARD_TOKENS)
            lm_add_statement(d, value, d->scope, totals[i].quantity,
                             lm_arena_printf(&d->arena, "%.*s%s%.*s", (int)value.n, value.s, unit ? " "
                                             : totals[i].unit, !!unit,
                                             unit ? unit : ""), false);
        return true;
    }
    return false;
}

bool lm_read_printed_table(lm_audit_document *d, lm_printed *t, lm_extent line)
{
    if (d->scope < 0)
        return false;
    return read_head(t, line) || (t->n_columns && read_module_row(d, t, line)) ||
           ((t->n_columns || t->modules) && read_total(d, t, line));
}
