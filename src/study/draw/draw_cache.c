/* draw_cache.c - draw the cache during the first steps of a sequence, token by token. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "study/draw/diagram.h"
#include "study/draw/svg_parts.h"
#include "study/facts/figure.h"
#include "base/columns.h"

enum { MAX_TOKENS = 12 };

static const char *const general[] = { "t1", "t2", "t3" };

/* Append a token as Mermaid allows it in a message: no line breaks, no semicolons, no '#'. */
static void put_safe(const char *piece, lm_text *out)
{
    for (; *piece; piece++)
        if (*piece == ';' || *piece == '#' || *piece == '<' || *piece == '>')
            lm_text_printf(out, "#%d;", *piece);
        else
            lm_text_add_char(out, (unsigned char)*piece < 0x20 ? ' ' : *piece);
}

static void sequence(lm_drawing *d, const char *const *pieces, size_t n, uint64_t bytes)
{
    char size[LM_FIG];

    lm_text_printf(d->out,
                   "sequenceDiagram\n  participant T as %s\n  participant M as %s\n  participant C as %s\n",
                   _("token"), _("layers"), _("cache"));
    for (size_t i = 0; i < n; i++) {
        lm_text safe = { 0 };
        put_safe(pieces[i], &safe);
        lm_text_add_str(d->out, "  T->>M: ");
        lm_text_printf(d->out, _("step %zu, \"%s\" at position %zu"), i + 1, safe.data ? safe.data : "", i);
        lm_text_add_str(d->out, "\n  M->>C: ");
        lm_text_printf(d->out, _("append k%zu, v%zu"), i + 1, i + 1);
        lm_text_add_str(d->out, "\n  C-->>M: ");
        lm_text_printf(d->out, _("keys and values 1 to %zu"), i + 1);
        lm_text_add_str(d->out, "\n  Note over C: ");
        lm_text_printf(d->out, P_(i + 1, "%zu entry, %s", "%zu entries, %s"), i + 1,
                       lm_fig_bytes(size, bytes * (i + 1)));
        lm_text_add_char(d->out, '\n');
        lm_text_free(&safe);
    }
    if (d->o->words)
        lm_text_printf(d->out, "  Note over T: %s\n", _("words instead of tokens: no tokenizer is available"));
    lm_text_printf(d->out, "  M-->>T: %s\n", _("logits of the next token"));
}

static void grid(lm_drawing *d, const char *const *pieces, size_t n, uint64_t bytes)
{
    char     size[LM_FIG];
    unsigned widest = lm_text_columns(_("token"));

    for (size_t i = 0; i < n; i++)
        widest = lm_text_columns(pieces[i]) > widest ? lm_text_columns(pieces[i]) : widest;
    lm_put(d->out, _("step"), 6);
    lm_put(d->out, _("token"), widest + 2);
    lm_text_printf(d->out, "%s\n", _("cache after it"));
    for (size_t i = 0; i < n; i++) {
        lm_text_printf(d->out, "%4zu  ", i + 1);
        lm_put(d->out, pieces[i], widest + 2);
        for (size_t k = 0; k <= i; k++)
            lm_text_printf(d->out, "[k%zu v%zu] ", k + 1, k + 1);
        lm_text_printf(d->out, " %s\n", lm_fig_bytes(size, bytes * (i + 1)));
    }
    if (d->o->words)
        lm_text_printf(d->out, "%s\n",
                       _("No tokenizer is available, so the text is split at spaces. Real tokens are "
                         "often parts of words."));
    lm_text_printf(d->out, "%s\n",
                   _("Each step computes one row and reads the cache; earlier tokens are not recomputed."));
}

void lm_draw_cache(lm_drawing *d)
{
    const char *const *pieces = d->o->n_pieces ? d->o->pieces : general;
    size_t             n      = d->o->n_pieces ? d->o->n_pieces : 3;
    uint64_t           bytes  = lm_facts_count(d->f, "kv.bytes_per_token");

    n = n > MAX_TOKENS ? MAX_TOKENS : n;
    if (d->svg)
        lm_svg_cache(pieces, n, bytes, d->name, d->alone, d->out);
    else
        (d->mermaid ? sequence : grid)(d, pieces, n, bytes);
}
