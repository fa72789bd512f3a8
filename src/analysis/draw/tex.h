/* tex.h - text and drawings for LaTeX. What they need of a preamble: amsmath, amssymb, graphicx, tikz with its library svg.path, and
 * lm_tex_colours. */
#ifndef LM_ANALYSIS_TEX_H
#define LM_ANALYSIS_TEX_H

#include "base/str.h"

/* Text that stays text: what means something to TeX is escaped, signs that fonts of TeX lack become mathematics; in text and in
 * mathematics alike. Other letters stay as they are. */
void lm_tex_text(lm_text *out, const char *text);
void lm_tex_text_n(lm_text *out, const char *text, size_t n);

/* Mathematics that is LaTeX already: only signs beyond ASCII are replaced. */
void lm_tex_math(lm_text *out, const char *latex);

/* A drawing that lm_svg_open to lm_svg_close have written, as TikZ, at most `width` by `height` points. False: it cannot be read. */
bool lm_tex_drawing(const char *svg, double width, double height, lm_text *out);

/* Definitions of the colours that drawings use: those of figure.css on paper. */
void lm_tex_colours(lm_text *out);

#endif
