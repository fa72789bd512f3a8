/* svg.h - drawings as SVG: text that is measured before it is placed, shapes, paths.
 *
 * Colours and fonts are classes (figure.css), so one drawing works in light and dark themes and on paper; a
 * standalone drawing contains the style sheet. Lengths are CSS pixels. */
#ifndef LM_ANALYSIS_SVG_H
#define LM_ANALYSIS_SVG_H

#include <stdbool.h>

#include "base/str.h"

typedef struct lm_point { double x, y; } lm_point;
typedef struct lm_box { double x, y, w, h; } lm_box;         /* x, y: the upper left corner */

/* Return the width in the widest of the usual fonts (DejaVu Sans), for any script: text never exceeds the
 * width planned for it. */
double lm_svg_width(const char *utf8, double size, bool bold);

typedef enum lm_anchor { LM_ANCHOR_START, LM_ANCHOR_MIDDLE, LM_ANCHOR_END } lm_anchor;

/* sizes with classes in figure.css: t, b, s */
enum { LM_SVG_TEXT = 13, LM_SVG_NAME = 14, LM_SVG_SMALL = 12 };

/* Begin a drawing: `<svg …><title>…`; `name` is read aloud instead of the drawing. `alone`: a standalone file
 * with style sheet, margin and a heading, the two lines of `name`: the model and what is shown. */
void lm_svg_open(lm_text *out, double w, double h, const char *name, bool alone);
void lm_svg_close(lm_text *out, bool alone);

/* Append text with these classes, escaped; `y` is its baseline. */
void lm_svg_text(lm_text *out, double x, double y, lm_anchor anchor, const char *classes, const char *text);
void lm_svg_rect(lm_text *out, lm_box b, double radius, const char *classes);
void lm_svg_line(lm_text *out, lm_point a, lm_point b, const char *classes);

/* Append a number in its shortest form: "12.5", "3". */
void lm_svg_number(lm_text *out, double x);

/* Append text for HTML and SVG: & < > " ' become entities; control characters and invalid UTF-8 become
 * U+FFFD. */
void lm_markup_text(lm_text *out, const char *text);
void lm_markup_text_n(lm_text *out, const char *text, size_t n);

/* The style sheet of drawings, generated from src/study/draw/figure.css when lamina is built: for a page, and
 * for a standalone drawing, in which plain colours precede variables because few renderers other than
 * browsers support them. */
extern const char lm_html_figure_css[], lm_svg_alone_css[];

#endif
