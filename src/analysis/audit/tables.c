/* tables.c - rows: a model in each row or in each column, parts and what they have, a quantity and its value. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "analysis/audit/cells.h"
#include "base/number.h"

static void split_row(lm_extent row, lm_cells *out)
{
    const char *p, *end;

    row  = lm_trim(row);
    *out = (lm_cells){ 0 };
    p      = row.s + (row.n && *row.s == '|');
    end    = row.s + row.n;
    while (p < end && out->n < LM_MOST_CELLS) {
        const char *bar = p;
        while (bar < end && (*bar != '|' || (bar > row.s && bar[-1] == '\\')))
            bar++;
        out->cell[out->n++] = lm_trim((lm_extent){ p, (size_t)(bar - p) });
        p = bar + 1;
    }
}

/* "—", "-", "N/A", "varies": nothing is said. */
static bool says_nothing(const char *s)
{
    return !*s || strcmp(s, "-") == 0 || strcmp(s, "—") == 0 || strcmp(s, "–") == 0 || strcmp(s, "--") == 0 || strcasecmp(s, "n/a") == 0 ||
           strcasecmp(s, "varies") == 0 || strcasecmp(s, "baseline") == 0;
}

/* "RoPE+YaRN", "GQA + SW", "SwiGLU + MoE": the kind is what stands first. */
static char *kind_of(lm_reading *d, char *claim)
{
    char *plus = strchr(claim, '+');

    if (!plus || plus == claim || !isalpha((unsigned char)*claim))
        return claim;
    claim = lm_arena_strndup(&d->arena, claim, (size_t)(plus - claim));
    if (!claim)
        return "";
    for (size_t n = strlen(claim); n && claim[n - 1] == ' ';)
        claim[--n] = '\0';
    return claim;
}

static bool say_cell(lm_reading *d, lm_extent cell, int model, const char *path, bool windowed)
{
    char       *claim = lm_plain(d, cell);
    const char *slash, *bar;

    path = lm_path_with_context(d, path, windowed);
    if (!path || says_nothing(claim))
        return path != NULL;
    if (lm_yes_mark(claim))
        claim = "yes";
    else if (lm_no_mark(claim))
        claim = "no";
    bar = strstr(path, " / ");                           /* "q/kv heads": 32/8 */
    if (bar) {
        slash = memchr(cell.s, '/', cell.n);
        if (!slash)
            return false;
        lm_extent first = lm_trim((lm_extent){ cell.s, (size_t)(slash - cell.s) }),
            second = lm_trim((lm_extent){ slash + 1, (size_t)(cell.s + cell.n - slash - 1) });
        say_cell(d, first, model, lm_arena_strndup(&d->arena, path, (size_t)(bar - path)), false);
        say_cell(d, second, model, bar + 3, false);
        return true;
    }
    if (strchr(claim, '=') || strstr(claim, "×"))
        if (lm_read_chain(d, cell, model))
            return true;
    bool plain = strcasecmp(claim, "standard") == 0 || strcasecmp(claim, "plain") == 0 || strcasecmp(claim, "vanilla") == 0;
    if (plain && strncmp(path, "architecture.mlp", 16) == 0)
        lm_say(d, cell, model, "mlp.gated", "no");
    else
        lm_say(d, cell, model, path, kind_of(d, claim));
    const char *open = memchr(cell.s, '(', cell.n);      /* "236B (21B active)" */
    if (open && lm_span_has(cell, "active)"))
        lm_read_counts(d, (lm_extent){ open, (size_t)(cell.s + cell.n - open) }, model);
    for (size_t i = 0; i < 4 && (strstr(path, "kv") || strstr(path, "key_value")); i++) {               /* "8 (GQA)" */
        static const char *const types[] = { "(GQA)", "(MHA)", "(MQA)", "(MLA)" };
        const char *at = memmem(cell.s, cell.n, types[i], 5);
        if (at)
            lm_say(d, (lm_extent){ at + 1, 3 }, model, "attention.type", lm_arena_strndup(&d->arena, at + 1, 3));
    }
    return true;
}

/* ---- parts and what they have ---- */

typedef enum role { NO_ROLE, PER_LAYER, TOTAL, SHARE, MULT_ADDS, INTO, OUT_OF } role;

static role role_of(lm_extent head)
{
    if (lm_span_has(head, "percent") || lm_span_has(head, "share") || lm_span_has(head, "%") || lm_span_has(head, "占比"))
        return SHARE;
    if (head.n < 13 && (lm_span_has(head, "in_f") || (head.n < 7 && strncasecmp(head.s, "in", 2) == 0)))
        return INTO;
    if (head.n < 13 && (lm_span_has(head, "out_f") || (head.n < 7 && strncasecmp(head.s, "out", 3) == 0)))
        return OUT_OF;
    if (lm_span_has(head, "mult-add") || lm_span_has(head, "macs"))
        return MULT_ADDS;
    if (lm_span_has(head, "layer") || lm_span_has(head, "層") || lm_span_has(head, "层"))
        return PER_LAYER;
    if (lm_span_has(head, "total") || lm_span_has(head, "param") || lm_span_has(head, "總") || lm_span_has(head, "总") ||
        lm_span_has(head, "參數") ||
        lm_span_has(head, "参数"))
        return TOTAL;
    return NO_ROLE;
}

/* "layers[0].self_attn.q_proj.in_features" of a matrix; "": the part is none. */
static const char *side_of(lm_reading *d, const lm_component *c, bool in)
{
    const char *path = *c->per_layer ? c->per_layer : c->total, *dot = strrchr(path, '.');

    if (!dot || strcmp(dot, ".parameters") != 0 || !(strstr(path, "_proj.") || strncmp(path, "lm_head.", 8) == 0))
        return "";
    const char *side = lm_arena_printf(&d->arena, "%.*s.%s", (int)(dot - path), path, in ? "in_features" : "out_features");
    d->failed |= !side;
    return side ? side : "";
}

static bool read_component(lm_reading *d, const lm_cells *heads, const lm_cells *row, const char *label)
{
    const lm_component *c = lm_component_of(label);
    bool                found = false, one = lm_span_has(d->caption, "layer") || lm_span_has(d->caption, "block");      /* of one layer */

    for (size_t i = 1; c && i < row->n && i < heads->n; i++) {
        role        r    = role_of(heads->cell[i]);
        const char *path = r == PER_LAYER || (r == TOTAL && one && *c->per_layer) ? c->per_layer : r == TOTAL ? c->total : r == SHARE
            ? c->share
                           : r == MULT_ADDS ? c->mult_adds : r == INTO || r == OUT_OF ? side_of(d, c, r == INTO) : "";
        char       *text = lm_plain(d, row->cell[i]);
        if (!*path || says_nothing(text))
            continue;
        lm_say(d, row->cell[i], d->scope, path, text);
        found = true;
    }
    return found;
}

/* Shares that are said to be all and are not. */
static bool add_shares(lm_reading *d, const lm_cells *heads, const lm_cells *row, const char *label)
{
    for (size_t i = 1; i < row->n && i < heads->n; i++) {
        char  *text = lm_plain(d, row->cell[i]), *end;
        double x = lm_read_double(text, &end);
        if (role_of(heads->cell[i]) != SHARE || end == text || *end != '%')
            continue;
        if (strncmp(label, "total", 5) != 0) {
            d->shares += x;
        } else if (fabs(x - 100) < 0.5 && d->shares > 50) {
            bool off = fabs(d->shares - x) > 1;
            lm_say_judged(d, row->cell[i], off ? LM_CLAIM_WRONG : LM_CLAIM_CONFIRMED, off ? d->shares : x, off
                          ? "what the column adds up to" : "");
            return true;
        }
    }
    return false;
}

static bool has_component_columns(const lm_cells *heads)
{
    bool part = heads->n > 1 && (role_of(heads->cell[1]) != NO_ROLE);

    for (size_t i = 2; i < heads->n; i++)
        part &= role_of(heads->cell[i]) != NO_ROLE;
    return part;
}

/* ---- rows ---- */

/* "Cache per token" by kind of attention: elements in a layer. */
static const char *path_of_method(const lm_cells *heads, const char *label)
{
    bool cache = false;

    for (size_t i = 1; i < heads->n; i++)
        cache |= lm_span_has(heads->cell[i], "cache per token");
    if (!cache)
        return NULL;
    return strcmp(label, "mha") == 0 ? "kv.mha.elements_unrotated_per_layer"
           : strcmp(label, "gqa") == 0 || strcmp(label, "mla") == 0 ? "kv.elements_per_layer[0]" : NULL;
}

/* A model in each of several columns. */
static bool read_across(lm_reading *d, const lm_cells *heads, const lm_cells *row, const char *path)
{
    bool found = false;

    for (size_t i = 1; i < row->n && i < heads->n; i++) {
        int m = lm_mentioned(d, heads->cell[i], NULL);
        if (m != LM_NO_MODEL)
            found |= say_cell(d, row->cell[i], m, path, false);
    }
    return found;
}

static size_t models_across(lm_reading *d, const lm_cells *heads)
{
    size_t n = 0;

    for (size_t i = 1; i < heads->n; i++)
        n += lm_mentioned(d, heads->cell[i], NULL) != LM_NO_MODEL;
    return n;
}

/* A method of positions in each row and a column of how it goes beyond the trained length. */
static bool read_stretch(lm_reading *d, const lm_cells *heads, const lm_cells *row)
{
    for (size_t i = 1; i < row->n && i < heads->n; i++) {
        bool good = lm_span_has(row->cell[i], "good") || lm_span_has(row->cell[i], "excellent") || lm_span_has(row->cell[i], "yes");
        if (good && lm_span_has(heads->cell[i], "extrapolation") &&
            lm_says_plain_rope_stretches(row->cell[0], (lm_extent){ "", 0 }, row->cell[i])) {
            lm_say_known(d, row->cell[i], LM_CLAIM_WRONG, "poor: beyond the trained length its frequencies must be scaled",
                         "says too much");
            return true;
        }
    }
    return false;
}

/* A kind in the first column, and in another one the models that have it. */
static bool read_users(lm_reading *d, const lm_cells *heads, const lm_cells *row)
{
    const char *path = lm_phrase_path(lm_label(d, heads->cell[0]));
    bool        found = false;

    for (size_t i = 1; path && i < row->n && i < heads->n; i++) {
        const char *label = lm_label(d, heads->cell[i]);
        if (strcmp(label, "used by") != 0 && strcmp(label, "models") != 0 && strcmp(label, "examples") != 0)
            continue;
        for (const char *p = row->cell[i].s, *end = p + row->cell[i].n, *stop; p < end; p = stop + 1) {
            stop  = memchr(p, ',', (size_t)(end - p));
            stop  = stop ? stop : end;
            int m = lm_mentioned(d, (lm_extent){ p, (size_t)(stop - p) }, NULL);
            if (m >= 0)
                lm_say(d, (lm_extent){ p, (size_t)(stop - p) }, m, path, lm_label(d, row->cell[0]));
            found |= m >= 0;
        }
    }
    return found;
}

/* A quantity in each column, about the model that the row names. */
static bool read_down(lm_reading *d, const lm_cells *heads, const lm_cells *row, int model)
{
    bool found = false, windowed = lm_span_has(row->cell[0], "SWA") || lm_span_has(row->cell[0], "window");

    for (size_t i = 1; i < row->n && i < heads->n; i++) {
        const char *path = lm_phrase_path(lm_label(d, heads->cell[i]));
        if (path)
            found |= say_cell(d, row->cell[i], model, path, windowed);
    }
    return found;
}

/* Without the bars around it. */
static lm_extent inside(lm_extent row)
{
    row = lm_trim(row);
    if (row.n && *row.s == '|')
        row = (lm_extent){ row.s + 1, row.n - 1 };
    if (row.n && row.s[row.n - 1] == '|')
        row.n--;
    return lm_trim(row);
}

void lm_read_row(lm_reading *d, lm_extent head, lm_extent line)
{
    lm_cells heads, row;

    split_row(head, &heads);
    split_row(line, &row);
    if (row.n < 2)
        return;
    const char *label = lm_label(d, row.cell[0]), *path = lm_phrase_path(label);
    int         model = lm_mentioned(d, row.cell[0], NULL);
    bool        found = false;

    if (!path)
        path = path_of_method(&heads, label);
    found = lm_read_myths(d, line) | add_shares(d, &heads, &row, label) | read_stretch(d, &heads, &row);
    found |= lm_read_lore(d, inside(line), d->scope) | lm_read_positions(d, &heads, &row) | lm_read_variant_shapes(d, &row, label);
    if (lm_read_variants(d, &heads, &row, label))
        found = true;
    else if (models_across(d, &heads))
        found |= path && (read_across(d, &heads, &row, path) | lm_read_reduction(d, &heads, &row));
    else if (has_component_columns(&heads) && lm_component_of(label))
        found |= read_component(d, &heads, &row, label);
    else if (read_users(d, &heads, &row))
        found = true;
    else if (model != LM_NO_MODEL && read_down(d, &heads, &row, model))
        found = true;
    else if (path && !found)
        found = say_cell(d, row.cell[1], d->scope, path, false);
    else if (strpbrk(label, "_.") && !strchr(label, ' '))                /* a key or a path that this table does not have */
        found = say_cell(d, row.cell[1], d->scope, lm_plain(d, row.cell[0]), false);
    for (size_t i = 1; !found && i < row.n; i++)
        found = lm_read_chain(d, row.cell[i], d->scope);
    d->chain.begun = false;
    if (!found)
        lm_leave_unread(d, line);
}

/* ---- tables of modules in columns of spaces, as torchinfo prints them ---- */

static void split_columns(lm_extent line, lm_cells *out)
{
    const char *p = line.s, *end = line.s + line.n;

    *out = (lm_cells){ 0 };
    while (p < end && out->n < LM_MOST_CELLS) {
        const char *stop = p;
        while (stop < end && !(*stop == ' ' && stop + 1 < end && stop[1] == ' '))
            stop++;
        lm_extent cell = lm_trim((lm_extent){ p, (size_t)(stop - p) });
        bool    drawn = cell.n && ((unsigned char)*cell.s == 0xE2 && !memchr(cell.s, '(', cell.n));
        if (cell.n && !drawn)
            out->cell[out->n++] = cell;
        p = stop + 2;
    }
}

/* The width of what a module makes: "[1, 4, 128256]". */
static bool read_output(lm_reading *d, lm_extent head, lm_extent cell, const lm_component *c)
{
    const char *p = cell.s + cell.n, *path = strncmp(c->total, "lm_head", 7) == 0 ? "architecture.vocabulary"
                    : strncmp(c->total, "model.rotary", 12) == 0 ? "rope.dim" : "architecture.hidden";

    if (!lm_span_has(head, "output shape") || cell.n < 5 || p[-1] != ']')
        return false;
    for (p--; p > cell.s && isdigit((unsigned char)p[-1]); p--)
        ;
    lm_extent last = { p, (size_t)(cell.s + cell.n - 1 - p) };
    lm_say(d, last, d->scope, path, lm_plain(d, last));
    return true;
}

/* Positions that are computed have no parameters: "--". */
static bool read_rotary(lm_reading *d, const lm_cells *heads, const lm_cells *row)
{
    for (size_t i = 1; i < row->n; i++)
        if (role_of(heads->cell[i]) == TOTAL && says_nothing(lm_plain(d, row->cell[i])))
            lm_say(d, row->cell[i], d->scope, "model.rotary_emb.parameters", "0");
    return true;
}

bool lm_read_module_row(lm_reading *d, lm_extent head, lm_extent line)
{
    lm_cells               heads, row;
    const char         *open = memchr(line.s, '(', line.n), *close = open ? memchr(open, ')', (size_t)(line.s + line.n - open)) : NULL;
    const lm_component *c;
    bool                found = false;

    if (!open || !close)
        return false;
    split_columns(head, &heads);
    split_columns(line, &row);
    c = lm_component_of(lm_label(d, (lm_extent){ open + 1, (size_t)(close - open - 1) }));
    if (c && row.n == heads.n && strncmp(c->total, "model.rotary", 12) == 0)
        found = read_rotary(d, &heads, &row);
    for (size_t i = 1; c && i < row.n && row.n == heads.n; i++) {
        found |= read_output(d, heads.cell[i], row.cell[i], c);
        role        r    = role_of(heads.cell[i]);
        const char *path = r == TOTAL ? (*c->per_layer ? c->per_layer : c->total) : r == MULT_ADDS ? c->mult_adds : "";
        if (*path && isdigit((unsigned char)*row.cell[i].s)) {
            lm_say(d, row.cell[i], d->scope, path, lm_plain(d, row.cell[i]));
            found = true;
        }
    }
    return found;
}
