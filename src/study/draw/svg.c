/* svg.c - the elements of a drawing. */
#include "study/draw/svg.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

#include "base/language.h"

/* ---- text ---- */

/* Advance widths of DejaVu Sans in hundredths of the font size, starting with the space. */
static const unsigned char regular[95] = {
    32, 41, 46, 84, 64, 96, 78, 28, 40,  40, 50, 84, 32, 37, 32, 34, 64, 64, 64, 64, 64, 64, 64, 64,
    64, 64, 34, 34, 84, 84, 84, 54, 100, 69, 69, 70, 78, 64, 58, 78, 76, 30, 30, 66, 56, 87, 75, 79,
    61, 79, 70, 64, 62, 74, 69, 99, 69,  62, 69, 40, 34, 40, 84, 50, 50, 62, 64, 55, 64, 62, 36, 64,
    64, 28, 28, 58, 28, 98, 64, 62, 64,  64, 42, 53, 40, 64, 60, 82, 60, 60, 53, 64, 34, 64, 84,
};

static double advance(utf8proc_int32_t c)
{
    if (c >= 0x20 && c < 0x7F)
        return regular[c - 0x20] / 100.0;
    if (c >= 0x1000 && c < 0x10A0)           /* Burmese: wide letters, marks with their own width */
        return utf8proc_category(c) == UTF8PROC_CATEGORY_MN ? 0.3 : 1.0;
    switch (utf8proc_charwidth(c)) {
    case 0:
        return 0;
    case 2:
        return 1.02;
    default:
        return c == 0x2026 ? 1.0 : 0.86;
    }
}

double lm_svg_width(const char *utf8, double size, bool bold)
{
    const utf8proc_uint8_t *p   = (const utf8proc_uint8_t *)utf8;
    double                  sum = 0;
    utf8proc_int32_t        c;

    while (*p) {
        utf8proc_ssize_t n = utf8proc_iterate(p, -1, &c);
        sum += n > 0 ? advance(c) : 1;
        p += n > 0 ? n : 1;
    }
    return sum * size * (bold ? 1.15 : 1.0);
}

static bool is_text(utf8proc_int32_t c)
{
    bool control = (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7F && c < 0xA0);
    bool nobody  = (c & 0xFFFE) == 0xFFFE || (c >= 0xFDD0 && c <= 0xFDEF);

    return !control && !nobody;
}

void lm_markup_text_n(lm_text *out, const char *text, size_t n)
{
    const utf8proc_uint8_t *p = (const utf8proc_uint8_t *)text, *end = p + n;
    utf8proc_int32_t        c;

    while (p < end) {
        utf8proc_ssize_t length = utf8proc_iterate(p, end - p, &c);
        if (length <= 0 || !is_text(c))
            lm_text_add_str(out, "\xEF\xBF\xBD");
        else if (c == '&')
            lm_text_add_str(out, "&amp;");
        else if (c == '<')
            lm_text_add_str(out, "&lt;");
        else if (c == '>')
            lm_text_add_str(out, "&gt;");
        else if (c == '"')
            lm_text_add_str(out, "&quot;");
        else if (c == '\'')
            lm_text_add_str(out, "&#39;");
        else
            lm_text_add(out, p, (size_t)length);
        p += length > 0 ? length : 1;
    }
}

void lm_markup_text(lm_text *out, const char *text)
{
    lm_markup_text_n(out, text, lm_view_of(text).size);
}

void lm_svg_number(lm_text *out, double x)
{
    double tenths = round(x * 10);

    if (!isfinite(tenths))
        tenths = 0;
    lm_text_printf(out, fmod(tenths, 10) == 0 ? "%.0f" : "%.1f", tenths / 10 + 0.0);
}

/* ---- shapes ---- */

static void attribute(lm_text *out, const char *name, double x)
{
    lm_text_printf(out, " %s=\"", name);
    lm_svg_number(out, x);
    lm_text_add_char(out, '"');
}

enum { MARGIN = 20, HEADING = 52 };          /* of a standalone drawing: the margin around it, the space above
                                                it including the margin */

/* Write the model's name, and below it what is shown. */
static void put_heading(lm_text *out, const char *name)
{
    size_t n = strcspn(name, "\n");

    lm_text_printf(out, "<text class=\"b\" x=\"%d\" y=\"25\">", MARGIN);
    lm_markup_text_n(out, name, n);
    lm_text_printf(out, "</text><text class=\"s\" x=\"%d\" y=\"42\">", MARGIN);
    lm_markup_text(out, name + n + (name[n] == '\n'));
    lm_text_printf(out, "</text><g transform=\"translate(%d %d)\">", MARGIN, HEADING);
}

void lm_svg_open(lm_text *out, double w, double h, const char *name, bool alone)
{
    size_t lead = strcspn(name, "\n");

    if (alone) {
        w = fmax(w, fmax(lm_svg_width(name, LM_SVG_NAME, true) - lm_svg_width(name + lead, LM_SVG_NAME, true),
                         lm_svg_width(name + lead + (name[lead] == '\n'), LM_SVG_SMALL, false))) + 2 * MARGIN;
        h += HEADING + MARGIN;
    }
    lm_text_add_str(out, "<svg class=\"lm\"");
    if (alone)
        lm_text_add_str(out, " xmlns=\"http://www.w3.org/2000/svg\"");
    attribute(out, "width", ceil(w));
    attribute(out, "height", ceil(h));
    lm_text_printf(out, " viewBox=\"0 0 %.0f %.0f\" role=\"img\"><title>", ceil(w), ceil(h));
    lm_markup_text_n(out, name, lead);
    if (name[lead]) {
        lm_text_add_str(out, ": ");
        lm_markup_text(out, name + lead + 1);
    }
    lm_text_add_str(out, "</title>");
    if (alone) {
        lm_text_add_str(out, "<desc>");
        lm_markup_text(out, _("Drawn by lamina from the program that runs."));
        lm_text_printf(out,
                       "</desc><style>%s</style><rect class=\"paper\" width=\"100%%\" height=\"100%%\"/>",
                       lm_svg_alone_css);
        put_heading(out, name);
    }
    lm_text_add_char(out, '\n');
}

void lm_svg_close(lm_text *out, bool alone)
{
    lm_text_add_str(out, alone ? "</g></svg>\n" : "</svg>\n");
}

void lm_svg_text(lm_text *out, double x, double y, lm_anchor anchor, const char *classes, const char *text)
{
    static const char *const anchors[] = { "", " m", " e" };

    lm_text_printf(out, "<text class=\"%s%s\"", classes, anchors[anchor]);
    attribute(out, "x", x);
    attribute(out, "y", y);
    lm_text_add_char(out, '>');
    lm_markup_text(out, text);
    lm_text_add_str(out, "</text>");
}

void lm_svg_rect(lm_text *out, lm_box b, double radius, const char *classes)
{
    lm_text_printf(out, "<rect class=\"%s\"", classes);
    attribute(out, "x", b.x);
    attribute(out, "y", b.y);
    attribute(out, "width", b.w);
    attribute(out, "height", b.h);
    if (radius > 0)
        attribute(out, "rx", radius);
    lm_text_add_str(out, "/>");
}

void lm_svg_line(lm_text *out, lm_point a, lm_point b, const char *classes)
{
    lm_text_printf(out, "<line class=\"%s\"", classes);
    attribute(out, "x1", a.x);
    attribute(out, "y1", a.y);
    attribute(out, "x2", b.x);
    attribute(out, "y2", b.y);
    lm_text_add_str(out, "/>");
}
