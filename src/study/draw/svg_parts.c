/* svg_parts.c - drawings that are not graphs: which heads share keys, how a cache grows. */
#include "study/draw/svg_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "study/draw/svg.h"
#include "study/facts/figure.h"
#include "base/language.h"

/* ---- heads ---- */

enum { ROW_WIDTH = 700, ROW_LEFT = 8, ROW_HEIGHT = 124 };

static void put_square(lm_text *out, lm_box b, const char *tint, uint64_t number, bool numbered)
{
    char text[32];

    lm_svg_rect(out, b, fmin(3, b.w / 4), tint);
    snprintf(text, sizeof text, "%" PRIu64, number);
    if (numbered)
        lm_svg_text(out, b.x + b.w / 2, b.y + b.h / 2 + 4, LM_ANCHOR_MIDDLE, "s num", text);
}

/* Connect the query heads of a group to what they share: with lines, or with one surface if there are too
 * many lines. */
static void put_reading(lm_text *out, double x, double w, double top, lm_box low, uint64_t n, double cell,
                        double size)
{
    if (n > 8) {
        lm_text_printf(out, "<path class=\"funnel\" d=\"M%.1f %.1fH%.1fL%.1f %.1fH%.1fZ\"/>", x, top, x + w,
                       low.x + low.w, low.y, low.x);
        return;
    }
    for (uint64_t i = 0; i < n; i++)
        lm_svg_line(out, (lm_point){ x + (double)i * cell + size / 2, top },
                    (lm_point){ low.x + low.w / 2, low.y }, "edge");
}

/* Draw one kind of sharing: squares for the query heads in groups, and below each group the keys and values
 * that it reads. */
static void put_heads(const lm_sharing *s, double y, lm_text *out)
{
    uint64_t per = s->heads / s->groups;
    double   gap = s->groups > 1 ? fmin(8, 160.0 / (double)s->groups) : 0;
    double cell = fmin(26, (ROW_WIDTH - gap * (double)(s->groups - 1)) / (double)s->heads),
           group = (double)per * cell;
    double   size = fmax(1.5, cell - fmin(3, cell / 4)), top = y + 30;
    bool     numbered = size > 20;

    lm_text_add_str(out, "<g class=\"node\">");
    lm_svg_text(out, ROW_LEFT, y + 16, LM_ANCHOR_START, "b", s->title);
    for (uint64_t g = 0; g < s->groups; g++) {
        double x = ROW_LEFT + (double)g * (group + gap), w = group - (cell - size),
               wide = fmax(size, fmin(w, 30));
        const char *tint = g % 2 ? "n scores" : "n gate";
        lm_box      low = { x + w / 2 - wide / 2, top + 50, wide, fmin(20, size) };
        put_reading(out, x, w, top + size, low, per, cell, size);
        for (uint64_t i = 0; i < per; i++)
            put_square(out, (lm_box){ x + (double)i * cell, top, size, size }, tint, g * per + i + 1,
                       numbered);
        put_square(out, low, tint, g + 1, wide > 20 && size > 14);
    }
    lm_text_add_str(out, "</g>\n");
}

void lm_svg_heads(const lm_sharing *kinds, size_t n, const char *name, bool alone, lm_text *out)
{
    double wide = ROW_WIDTH + 2 * ROW_LEFT;

    for (size_t i = 0; i < n; i++)
        wide = fmax(wide, lm_svg_width(kinds[i].title, LM_SVG_NAME, true) + 2 * ROW_LEFT);
    lm_svg_open(out, wide, ROW_HEIGHT * (double)n + 26, name, alone);
    for (size_t i = 0; i < n; i++)
        put_heads(&kinds[i], ROW_HEIGHT * (double)i, out);
    lm_svg_text(out, ROW_LEFT, ROW_HEIGHT * (double)n + 14, LM_ANCHOR_START, "s",
                _("Top: query heads. Bottom: the key/value heads they read, which are cached."));
    lm_svg_close(out, alone);
}

/* ---- the cache over tokens ---- */

enum { STEP = 34, ENTRY = 50 };

static double widest(const char *const *texts, size_t n, double size)
{
    double wide = 0;

    for (size_t i = 0; i < n; i++)
        wide = fmax(wide, lm_svg_width(texts[i], size, true));
    return wide;
}

static void put_entry(lm_text *out, double x, double y, size_t k, bool fresh)
{
    char text[24];

    for (int half = 0; half < 2; half++) {
        lm_svg_rect(out, (lm_box){ x + half * (ENTRY / 2 - 2), y, ENTRY / 2 - 2, 20 }, 3,
                    fresh ? "n scores" : "n sum");
        snprintf(text, sizeof text, "%c%zu", half ? 'v' : 'k', k + 1);
        lm_svg_text(out, x + half * (ENTRY / 2 - 2) + ENTRY / 4 - 1, y + 14, LM_ANCHOR_MIDDLE, "s num", text);
    }
}

void lm_svg_cache(const char *const *pieces, size_t n, uint64_t bytes, const char *name, bool alone,
                  lm_text *out)
{
    const char *const heads[] = { _("step"), _("token"), _("cache after it"), _("bytes") };
    double left = lm_svg_width(heads[0], LM_SVG_SMALL, true) + 24;
    double token = fmax(widest(pieces, n, LM_SVG_NAME), widest(heads + 1, 1, LM_SVG_SMALL)) + 24;
    double at = left + token,
           end = at + fmax((double)n * ENTRY, lm_svg_width(heads[2], LM_SVG_SMALL, true) + 16),
           wide = end + 110;
    char   text[LM_FIG];

    lm_svg_open(out, wide, 32 + STEP * (double)n, name, alone);
    lm_svg_text(out, 2, 16, LM_ANCHOR_START, "s title", heads[0]);
    lm_svg_text(out, left, 16, LM_ANCHOR_START, "s title", heads[1]);
    lm_svg_text(out, at, 16, LM_ANCHOR_START, "s title", heads[2]);
    lm_svg_text(out, wide - 4, 16, LM_ANCHOR_END, "s title", heads[3]);
    for (size_t i = 0; i < n; i++) {
        double y = 28 + STEP * (double)i;
        lm_svg_line(out, (lm_point){ 2, y - 4 }, (lm_point){ wide - 2, y - 4 }, "hair");
        snprintf(text, sizeof text, "%zu", i + 1);
        lm_svg_text(out, 2, y + 17, LM_ANCHOR_START, "s num", text);
        lm_svg_text(out, left, y + 17, LM_ANCHOR_START, "b", pieces[i]);
        for (size_t k = 0; k <= i; k++)
            put_entry(out, at + (double)k * ENTRY, y + 3, k, k == i);
        lm_svg_text(out, wide - 4, y + 17, LM_ANCHOR_END, "s num", lm_fig_bytes(text, bytes * (i + 1)));
        lm_text_add_char(out, '\n');
    }
    lm_svg_close(out, alone);
}
