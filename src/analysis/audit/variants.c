/* variants.c - tables with a column for each kind of attention, methods of positions, and columns that compare two others. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "analysis/audit/cells.h"
#include "analysis/facts/claim.h"

/* ---- a column for MHA, GQA, MQA ---- */

typedef struct variant { const char *label, *own, *mha, *mqa, *saved; } variant;

static const variant variants[] = {
    { "q proj", "what_if.widths.query", "what_if.widths.query", "what_if.widths.query", "" },
    { "k proj", "what_if.widths.key", "what_if.widths.key_mha", "what_if.widths.key_mqa", "what_if.kv_projections_saved" },
    { "v proj", "what_if.widths.value", "what_if.widths.value_mha", "what_if.widths.value_mqa", "what_if.kv_projections_saved" },
    { "o proj", "what_if.widths.output", "what_if.widths.output", "what_if.widths.output", "" },
    { "kv params", "what_if.kv_projections", "what_if.kv_projections_mha", "", "what_if.kv_projections_saved" },
    { "kv params total", "what_if.kv_projections", "what_if.kv_projections_mha", "", "what_if.kv_projections_saved" },
    { "per layer", "kv.at[%N].first_layer", "kv.at[%N].mha_first_layer", "", "kv.mha.saved" },
    { "total", "kv.at[%N].bytes", "kv.at[%N].mha", "", "kv.mha.saved" },
    { "kv cache", "kv.at[%N].bytes", "kv.at[%N].mha", "", "kv.mha.saved" },
    { "memory reduction", "kv.mha.saved", "", "", "kv.mha.saved" },
    { "cache reduction", "kv.mha.saved", "", "", "kv.mha.saved" },
};

static const char *kind_of(lm_extent head)
{
    static const struct { const char *words[2], *kind; } kinds[] = {
        { { "MHA", "multi-head" }, "mha" }, { { "MQA", "multi-query" }, "mqa" }, { { "GQA", "grouped" }, "gqa" },
    };

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (lm_span_has(head, kinds[i].words[0]) || lm_span_has(head, kinds[i].words[1]))
            return kinds[i].kind;
    return lm_span_has(head, "saving") || lm_span_has(head, "saved") || lm_span_has(head, "reduction") ? "saved" : NULL;
}

static bool has_variants(const lm_cells *heads)
{
    size_t n = 0;

    for (size_t i = 1; i < heads->n; i++) {
        const char *kind = kind_of(heads->cell[i]);
        n += kind && strcmp(kind, "saved") != 0;
    }
    return n > 1;
}

/* "2,048 × 512": the number behind the sign. */
static lm_extent width_in(lm_extent cell)
{
    const char *end = cell.s + cell.n, *at = memmem(cell.s, cell.n, "×", strlen("×"));

    if (!at || memchr(cell.s, '=', cell.n))
        return cell;
    return lm_trim((lm_extent){ at + strlen("×"), (size_t)(end - at) - strlen("×") });
}

bool lm_read_variants(lm_reading *d, const lm_cells *heads, const lm_cells *row, const char *label)
{
    const variant *v = NULL;
    bool           found = false;

    if (!has_variants(heads))
        return false;
    for (size_t i = 0; i < sizeof variants / sizeof *variants && !v; i++)
        v = strcmp(variants[i].label, label) == 0 ? &variants[i] : NULL;
    for (size_t i = 1; v && i < row->n && i < heads->n; i++) {
        const char *kind = kind_of(heads->cell[i]);
        const char *path = !kind                      ? ""
                           : strcmp(kind, "mha") == 0 ? v->mha
                           : strcmp(kind, "mqa") == 0 ? v->mqa
                           : strcmp(kind, "gqa") == 0 ? v->own
                                                      : v->saved;
        lm_extent   cell = strncmp(path, "what_if.widths", 14) == 0 ? width_in(row->cell[i]) : row->cell[i];
        const char *text = lm_plain(d, cell);
        path = *path ? lm_path_with_context(d, path, false) : NULL;
        if (!path || !isdigit((unsigned char)*text) || strchr(text, '='))
            continue;
        lm_say(d, cell, d->scope, path, text);
        found = true;
    }
    return found;
}

/* "| GQA | 32 | 8 | Q: 4096×4096, K/V: 4096×1024 |". */
bool lm_read_variant_shapes(lm_reading *d, const lm_cells *row, const char *label)
{
    const char *path = strcmp(label, "mha") == 0 ? "what_if.widths.key_mha" : strcmp(label, "mqa") == 0 ? "what_if.widths.key_mqa"
                       : strcmp(label, "gqa") == 0 ? "what_if.widths.key" : NULL;
    bool        found = false;

    for (size_t i = 1; path && i < row->n; i++) {
        const char *at = memmem(row->cell[i].s, row->cell[i].n, "K/V:", 4);
        lm_extent   rest = at ? lm_trim((lm_extent){ at + 4, (size_t)(row->cell[i].s + row->cell[i].n - at - 4) }) : (lm_extent){ "", 0 };
        lm_extent   width = rest.n ? width_in(rest) : rest;
        if (width.n && width.s != rest.s) {
            lm_say(d, width, d->scope, path, lm_plain(d, width));
            found = true;
        }
    }
    return found;
}

/* ---- methods of positions ---- */

typedef struct method { const char *word; bool relative; const char *applied[2], *position; } method;

static const method methods[] = {
    { "learned", false, { "embed", "input" }, "Learned" }, { "sinusoidal", false, { "embed", "input" }, "Sinusoidal" },
    { "alibi", true, { "attn", "score" }, "ALiBi" },       { "yarn", true, { "Q, K", "queries" }, "RoPE+YaRN" },
    { "rope", true, { "Q, K", "queries" }, "RoPE" },
};

bool lm_read_positions(lm_reading *d, const lm_cells *heads, const lm_cells *row)
{
    const method *m = NULL;
    bool          found = false;

    for (size_t i = 0; i < sizeof methods / sizeof *methods && !m; i++)
        m = lm_span_has(row->cell[0], methods[i].word) ? &methods[i] : NULL;
    for (size_t i = 1; m && i < row->n && i < heads->n; i++) {
        const char *text = lm_plain(d, row->cell[i]);
        bool        yes = lm_yes_mark(text), no = lm_no_mark(text);
        if (lm_span_has(heads->cell[i], "relative") && (yes || no)) {
            lm_say_known(d, row->cell[i], yes == m->relative ? LM_CLAIM_CONFIRMED : LM_CLAIM_WRONG, m->relative ? "yes" : "no", "");
            found = true;
        } else if (lm_span_has(heads->cell[i], "applied to") &&
                   (lm_span_has(row->cell[i], m->applied[0]) || lm_span_has(row->cell[i], m->applied[1]))) {
            lm_say_topic(d, row->cell[i], "where positions enter");
            found = true;
        } else if (lm_span_has(heads->cell[i], "model")) {
            bool many;
            int  model = lm_mentioned(d, row->cell[i], &many);
            if (model >= 0 && (!many || !strchr(m->position, '+'))) {
                lm_say(d, row->cell[i], model, "architecture.position", m->position);
                found = true;
            }
        }
    }
    return found;
}

/* ---- what one column is less than another ---- */

bool lm_read_reduction(lm_reading *d, const lm_cells *heads, const lm_cells *row)
{
    lm_claimed c, side[2];
    size_t     n = 0;

    for (size_t i = 1; i < row->n && i < heads->n; i++) {
        const char *text = lm_plain(d, row->cell[i]);
        bool        column = lm_span_has(heads->cell[i], "reduction") || lm_span_has(heads->cell[i], "difference") ||
            lm_span_has(heads->cell[i], "smaller");
        if (!column) {
            n += n < 2 && lm_read_claim(text, false, &side[n]);
            continue;
        }
        if (n != 2 || side[1].value == 0 || !lm_read_claim(text, false, &c) || c.unit != LM_CLAIM_PERCENT)
            return false;
        double truth = 100 * fabs(1 - side[0].value / side[1].value), half = c.whole ? 0.5 : c.half;
        bool   same = fabs(truth - c.value) < 1e-9, right = same || fabs(truth - c.value) <= half * (1 + 1e-9);
        lm_say_judged(d, row->cell[i], same ? LM_CLAIM_CONFIRMED : right ? LM_CLAIM_ROUNDED : LM_CLAIM_WRONG, truth, right
            ? "" : "the arithmetic of the row");
        return true;
    }
    return false;
}
