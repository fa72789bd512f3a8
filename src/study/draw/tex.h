/* tex.h - text and drawings for LaTeX. The preamble needs amsmath, amssymb, graphicx, tikz with its library svg.path, and
 * lm_tex_colours. */
#ifndef LM_ANALYSIS_TEX_H
#define LM_ANALYSIS_TEX_H

#include "base/str.h"

/* Append plain text, valid in text and in math mode: TeX's special characters are escaped, and symbols missing from TeX fonts become
 * math. Other letters are unchanged. */
void lm_tex_text(lm_text *out, const char *text);
void lm_tex_text_n(lm_text *out, const char *text, size_t n);

/* Append math that is already LaTeX: only symbols beyond ASCII are replaced. */
void lm_tex_math(lm_text *out, const char *latex);

/* Append a drawing written by lm_svg_open to lm_svg_close as TikZ, at most `width` by `height` points. False: it cannot be parsed. */
bool lm_tex_drawing(const char *svg, double width, double height, lm_text *out);

/* Append definitions of the colours that drawings use: those of figure.css for paper. */
void lm_tex_colours(lm_text *out);

#endif
