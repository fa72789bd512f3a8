/* draw_mask.c - draw which keys each query sees, for a short sequence: all up to itself or the last few, and
 * sinks. */
#include <inttypes.h>
#include <stdio.h>

#include "study/draw/draw.h"
#include "study/draw/svg_parts.h"
#include "base/columns.h"

enum { SHOWN = 8, NARROW = 3 };          /* tokens; a window small enough that some are not visible */

static void put_key(lm_drawing *d, const lm_mask *m)
{
    lm_text_printf(d->out, "%s\n", m->title);
    lm_put_right(d->out, _("query"), 8);
    if (m->sink) {
        lm_text_add_str(d->out, "  ");
        lm_put(d->out, _("sink"), 6);
    }
    lm_text_add_char(d->out, ' ');
    for (unsigned k = 0; k < m->n; k++)
        lm_text_printf(d->out, " %u", k);
    lm_text_add_char(d->out, '\n');
}

static void mask_text(lm_drawing *d, const lm_mask *m)
{
    const char *seen = d->o->lines ? "■" : "#", *hidden = d->o->lines ? "·" : ".";

    put_key(d, m);
    for (unsigned i = 0; i < m->n; i++) {
        lm_text_printf(d->out, "%8u", i);
        if (m->sink) {
            lm_text_add_str(d->out, "  ");
            lm_put(d->out, seen, 6);
        }
        lm_text_add_char(d->out, ' ');
        for (unsigned k = 0; k < m->n; k++)
            lm_text_printf(d->out, " %s", lm_mask_sees(m, i, k) ? seen : hidden);
        lm_text_add_char(d->out, '\n');
    }
}

/* Append a block diagram of cells, with a separate line per title. */
static void mask_mermaid(lm_drawing *d, const lm_mask *masks, size_t n)
{
    unsigned columns = masks[0].n + 1 + masks[0].sink;

    lm_text_printf(d->out, "block-beta\n  columns %u\n", columns);
    for (size_t g = 0; g < n; g++) {
        const lm_mask *m = &masks[g];
        lm_text_printf(d->out, "  t%zu[\"%s\"]:%u\n  h%zu[\"%s\"]", g, m->title, columns, g, _("query"));
        if (m->sink)
            lm_text_printf(d->out, " s%zu[\"%s\"]", g, _("sink"));
        for (unsigned k = 0; k < m->n; k++)
            lm_text_printf(d->out, " k%zu_%u[\"%u\"]", g, k, k);
        lm_text_add_char(d->out, '\n');
        for (unsigned i = 0; i < m->n; i++) {
            lm_text_printf(d->out, "  q%zu_%u[\"%u\"]", g, i, i);
            if (m->sink)
                lm_text_printf(d->out, " z%zu_%u[\"■\"]", g, i);
            for (unsigned k = 0; k < m->n; k++)
                lm_text_printf(d->out, lm_mask_sees(m, i, k) ? " c%zu_%u_%u[\"■\"]" : " c%zu_%u_%u[\" \"]", g,
                               i, k);
            lm_text_add_char(d->out, '\n');
        }
    }
}

void lm_draw_mask(lm_drawing *d)
{
    lm_traits t;
    lm_mask   masks[2];
    size_t    n = 0;

    lm_find_traits(d->f->ledger, &t);
    if (!t.attention) {
        d->missing = "the model has no attention";
        return;
    }
    bool sink = t.attention->attention.spec.sinks;
    if (t.n_windows < t.n_attentions)
        masks[n++] = (lm_mask){ t.indexer     ? _("every layer: the keys among which it chooses")
                                : t.n_windows ? _("layers that see every earlier key")
                                              : _("every layer: all earlier keys"),
                                SHOWN, 0, sink, false };
    if (t.n_windows) {
        const char *title = t.chunked ? lm_arena_printf(&d->f->arena,
                                                        _("layers with chunks of %s keys, drawn for chunks of %d"),
                                                        lm_grouped(d->f, t.window),
                                                        t.window > SHOWN ? NARROW : (int)t.window)
                            : t.window > SHOWN
                                ? lm_arena_printf(
                                      &d->f->arena,
                                      _("layers with a window of %s keys, drawn for a window of %d"),
                                      lm_grouped(d->f, t.window), NARROW)
                                : lm_arena_printf(&d->f->arena,
                                                  P_(t.window, "layers with a window of %s key",
                                                     "layers with a window of %s keys"),
                                                  lm_grouped(d->f, t.window));
        d->f->failed |= !title;
        masks[n++] = (lm_mask){ title ? title : "", SHOWN, t.window > SHOWN ? NARROW : t.window, sink,
                                t.chunked };
    }
    if (d->svg) {
        lm_svg_mask(masks, n, d->name, d->alone, d->out);
        return;
    }
    if (d->mermaid) {
        mask_mermaid(d, masks, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        mask_text(d, &masks[i]);
}
