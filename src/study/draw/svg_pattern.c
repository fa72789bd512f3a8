/* svg_pattern.c - draw one cell per layer, coloured and lettered by its kind, above a legend. */
#include "study/draw/svg_parts.h"

#include <math.h>
#include <stdio.h>

#include "study/draw/svg.h"

enum { COLUMNS = 16, CELL = 26, LEFT = 40, TOP = 8, LINE = 22 };

static const char *const classes[LM_PATTERN_KINDS] = { "n scores", "n softmax", "n rope", "n finish", "n",
                                                     "group" };

void lm_svg_pattern(const uint32_t *kind_of, uint32_t n, const char *const *legend, uint32_t n_kinds,
                    const char *name, bool alone, lm_text *out)
{
    double wide = LEFT + CELL * COLUMNS, below = TOP + CELL * ceil((double)n / COLUMNS) + LINE;
    char   text[16];

    for (uint32_t k = 0; k < n_kinds; k++)
        wide = fmax(wide, LEFT + lm_svg_width(legend[k], LM_SVG_NAME, false));
    lm_svg_open(out, wide + 16, below + LINE * n_kinds, name, alone);
    lm_text_add_str(out, "<g class=\"node\">");
    for (uint32_t i = 0; i < n; i++) {
        double x = LEFT + CELL * (double)(i % COLUMNS), y = TOP + CELL * (double)(i / COLUMNS);
        snprintf(text, sizeof text, "%u", i);
        if (i % COLUMNS == 0)
            lm_svg_text(out, LEFT - 8, y + CELL / 2.0 + 4, LM_ANCHOR_END, "s num", text);
        lm_svg_rect(out, (lm_box){ x, y, CELL - 2, CELL - 2 }, 3, classes[kind_of[i]]);
        snprintf(text, sizeof text, "%c", (int)('A' + kind_of[i]));
        lm_svg_text(out, x + CELL / 2.0 - 1, y + CELL / 2.0 + 4, LM_ANCHOR_MIDDLE, "s", text);
    }
    for (uint32_t k = 0; k < n_kinds; k++)
        lm_svg_text(out, LEFT, below + LINE * (double)k, LM_ANCHOR_START, "s", legend[k]);
    lm_text_add_str(out, "</g>\n");
    lm_svg_close(out, alone);
}
