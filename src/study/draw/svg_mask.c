/* svg_mask.c - draw masks as squares: filled if a query sees a key. */
#include "study/draw/svg_parts.h"

#include <math.h>
#include <stdio.h>

#include "study/draw/svg.h"
#include "base/language.h"

enum { CELL = 24, LEFT = 64, TOP = 48, GAP = 28 };

bool lm_mask_sees(const lm_mask *m, unsigned query, unsigned key)
{
    if (m->window && m->chunked)
        return key <= query && key / m->window == query / m->window;
    return key <= query && (!m->window || query - key < m->window);
}

static double width_of(const lm_mask *m)
{
    return fmax(LEFT + CELL * (double)(m->n + 2 * m->sink), lm_svg_width(m->title, LM_SVG_NAME, true)) + 16;
}

static void put_mask(const lm_mask *m, double left, lm_text *out)
{
    double x0 = left + LEFT + (m->sink ? 1.5 * CELL : 0);
    char   text[16];

    lm_text_add_str(out, "<g class=\"node\">");
    lm_svg_text(out, left, 16, LM_ANCHOR_START, "b", m->title);
    lm_svg_text(out, left, TOP - 8, LM_ANCHOR_START, "s", _("query"));
    if (m->sink)
        lm_svg_text(out, left + LEFT + CELL / 2.0, TOP - 8, LM_ANCHOR_MIDDLE, "s", _("sink"));
    for (unsigned i = 0; i < m->n; i++) {
        double y = TOP + CELL * (double)i;
        snprintf(text, sizeof text, "%u", i);
        lm_svg_text(out, left + LEFT - 10, y + CELL / 2.0 + 4, LM_ANCHOR_END, "s num", text);
        lm_svg_text(out, x0 + CELL * (double)i + CELL / 2.0, TOP - 8, LM_ANCHOR_MIDDLE, "s num", text);
        if (m->sink)
            lm_svg_rect(out, (lm_box){ left + LEFT, y, CELL - 2, CELL - 2 }, 3, "n softmax");
        for (unsigned k = 0; k < m->n; k++)
            lm_svg_rect(out, (lm_box){ x0 + CELL * (double)k, y, CELL - 2, CELL - 2 }, 3,
                        lm_mask_sees(m, i, k) ? "n scores mark-seen" : "group");
    }
    lm_text_add_str(out, "</g>\n");
}

void lm_svg_mask(const lm_mask *masks, size_t n, const char *name, bool alone, lm_text *out)
{
    double wide = 0, high = 0, left = 8;

    for (size_t i = 0; i < n; i++) {
        wide += width_of(&masks[i]) + (i ? GAP : 0);
        high  = fmax(high, TOP + CELL * (double)masks[i].n + 8);
    }
    lm_svg_open(out, wide + 16, high, name, alone);
    for (size_t i = 0; i < n; i++) {
        put_mask(&masks[i], left, out);
        left += width_of(&masks[i]) + GAP;
    }
    lm_svg_close(out, alone);
}
