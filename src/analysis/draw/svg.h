/* svg.h - drawings as SVG: text that is measured before it is placed, shapes, paths.
 *
 * Colours and fonts are classes (figure.css), so that one drawing serves light, dark and paper; a drawing that stands alone
 * carries the sheet with it. Lengths are CSS pixels. */
#ifndef LM_ANALYSIS_SVG_H
#define LM_ANALYSIS_SVG_H

#include <stdbool.h>

#include "base/str.h"

typedef struct lm_point { double x, y; } lm_point;
typedef struct lm_box { double x, y, w, h; } lm_box;         /* x, y: the upper left corner */

/* What the widest of the usual fonts (DejaVu Sans) would need, in any script: text never outgrows what was planned for it. */
double lm_svg_width(const char *utf8, double size, bool bold);

typedef enum lm_anchor { LM_ANCHOR_START, LM_ANCHOR_MIDDLE, LM_ANCHOR_END } lm_anchor;

enum { LM_SVG_TEXT = 13, LM_SVG_NAME = 14, LM_SVG_SMALL = 12 };      /* sizes that figure.css has classes for: t, b, s */

/* `<svg …><title>…`: `name` is read aloud in place of the drawing. `alone`: a file of its own, with its style sheet, a margin and a
 * heading: the lines of `name`, the model and what is shown of it. */
void lm_svg_open(lm_text *out, double w, double h, const char *name, bool alone);
void lm_svg_close(lm_text *out, bool alone);

/* Text of a class; `y` is its baseline. Escaped. */
void lm_svg_text(lm_text *out, double x, double y, lm_anchor anchor, const char *classes, const char *text);
void lm_svg_rect(lm_text *out, lm_box b, double radius, const char *classes);
void lm_svg_line(lm_text *out, lm_point a, lm_point b, const char *classes);

/* A number as short as it may be: "12.5", "3". */
void lm_svg_number(lm_text *out, double x);

/* Text for HTML and SVG: & < > " ' become entities, control characters and what is not UTF-8 become U+FFFD. */
void lm_markup_text(lm_text *out, const char *text);
void lm_markup_text_n(lm_text *out, const char *text, size_t n);

/* The style sheet of drawings, made from src/analysis/draw/figure.css when lamina is built: for a page, and for a drawing that stands
 * alone, where plain colours come before variables, which few renderers but browsers know. */
extern const char lm_html_figure_css[], lm_svg_alone_css[];

#endif
