/* draw_cache.c - the cache over the first steps of a text, token by token. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analysis/diagram.h"
#include "analysis/page.h"

enum { MOST_TOKENS = 12 };

static const char *const general[] = { "t1", "t2", "t3" };

/* A token as Mermaid may hold it in a message: no line breaks, no semicolons, no '#'. */
static void put_safe(const char *piece, lm_buf *out)
{
    for (; *piece; piece++)
        if (*piece == ';' || *piece == '#' || *piece == '<' || *piece == '>')
            lm_buf_printf(out, "#%d;", *piece);
        else
            lm_buf_add_char(out, (unsigned char)*piece < 0x20 ? ' ' : *piece);
}

static void sequence(lm_drawing *d, const char *const *pieces, size_t n, uint64_t bytes)
{
    char size[LM_FIG];

    lm_buf_add_str(d->out, "sequenceDiagram\n  participant T as token\n  participant M as layers\n  participant C as cache\n");
    for (size_t i = 0; i < n; i++) {
        lm_buf_printf(d->out, "  T->>M: step %zu, \"", i + 1);
        put_safe(pieces[i], d->out);
        lm_buf_printf(d->out, "\" at position %zu\n  M->>C: append k%zu, v%zu\n  C-->>M: keys and values 1 to %zu\n", i, i + 1,
                      i + 1, i + 1);
        lm_buf_printf(d->out, "  Note over C: %zu entr%s, %s\n", i + 1, i ? "ies" : "y", lm_fig_bytes(size, bytes * (i + 1)));
    }
    lm_buf_add_str(d->out, "  M-->>T: logits of the next token\n");
}

static void grid(lm_drawing *d, const char *const *pieces, size_t n, uint64_t bytes)
{
    char     size[LM_FIG];
    unsigned widest = 5;

    for (size_t i = 0; i < n; i++)
        widest = lm_text_columns(pieces[i]) > widest ? lm_text_columns(pieces[i]) : widest;
    lm_buf_add_str(d->out, "step  ");
    lm_put(d->out, "token", widest + 2);
    lm_buf_add_str(d->out, "cache after it\n");
    for (size_t i = 0; i < n; i++) {
        lm_buf_printf(d->out, "%4zu  ", i + 1);
        lm_put(d->out, pieces[i], widest + 2);
        for (size_t k = 0; k <= i; k++)
            lm_buf_printf(d->out, "[k%zu v%zu] ", k + 1, k + 1);
        lm_buf_printf(d->out, " %s\n", lm_fig_bytes(size, bytes * (i + 1)));
    }
    lm_buf_add_str(d->out, "Each step computes one row and reads what is in the cache; nothing earlier is computed again.\n");
}

void lm_draw_cache(lm_drawing *d)
{
    const char *const *pieces = d->o->n_pieces ? d->o->pieces : general;
    size_t             n      = d->o->n_pieces ? d->o->n_pieces : 3;
    uint64_t           bytes  = lm_facts_count(d->f, "kv.bytes_per_token");

    n = n > MOST_TOKENS ? MOST_TOKENS : n;
    (d->mermaid ? sequence : grid)(d, pieces, n, bytes);
}
