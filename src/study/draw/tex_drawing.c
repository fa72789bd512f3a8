/* tex_drawing.c - convert a drawing of svg.c to TikZ: the same shapes at the same positions, styled by the classes of figure.css. */
#include <math.h>
#include <string.h>

#include "study/draw/tex.h"
#include "base/number.h"

/* ---- styles of classes ---- */

/* In the order of figure.css: later ones override earlier ones. NULL: unchanged; "": none. */
static const struct { const char *name, *fill, *stroke; double width, size; bool bold, dashed; double opacity; } classes[] = {
    { "b", NULL, NULL, 0, 13, true, false, 0 },              { "s", "soft", NULL, 0, 11, false, false, 0 },
    { "title", NULL, NULL, 0, 0, true, false, 0 },           { "group", "group", "hair", 1, 0, false, false, 0 },
    { "n", "fill", "line", 1, 0, false, false, 0 },          { "open", "", NULL, 0, 0, false, false, 0 },
    { "rope", "rope!12", "rope", 1, 0, false, false, 0 },    { "scores", "scores!10", "scores", 1, 0, false, false, 0 },
    { "softmax", "softmax!10", "softmax", 1, 0, false, false, 0 }, { "gate", "gate!10", "gate", 1, 0, false, false, 0 },
    { "sum", "sum!8", "sum", 1, 0, false, false, 0 },        { "end", "end!10", "end", 1, 0, false, false, 0 },
    { "sign", NULL, "ink", 1.5, 0, false, false, 0 },        { "edge", "", "line", 1.25, 0, false, false, 0 },
    { "skip", NULL, "scores", 1.75, 0, false, false, 0 },    { "dashed", NULL, NULL, 0, 0, false, true, 0 },
    { "head", "line", NULL, 0, 0, false, false, 0 },         { "strong", "ink", NULL, 0, 0, true, false, 0 },
    { "hair", NULL, "hair", 1, 0, false, false, 0 },         { "axis", NULL, "line", 1, 0, false, false, 0 },
    { "curve", "", NULL, 2, 0, false, false, 0 },            { "area", NULL, "", 0, 0, false, false, 0.75 },
    { "mark", "ink", "fill", 1.5, 0, false, false, 0 },      { "funnel", "hair", NULL, 0, 0, false, false, 0.6 },
    { "event", "scores", "scores", 1, 0, false, false, 0 },
};

static const char *const series[] = { "scores", "series2", "gate", "series4", "end", "series6" };      /* c1 to c6 */

void lm_tex_colours(lm_text *out)
{
    static const struct { const char *name, *rgb; } colours[] = {
        { "ink", "1C2024" },    { "soft", "5B6470" }, { "line", "8B949E" },    { "hair", "D8DEE4" },    { "fill", "FFFFFF" },
        { "group", "F6F8FA" },  { "rope", "B7791F" }, { "scores", "2563EB" },  { "softmax", "6D4FD0" }, { "gate", "15803D" },
        { "sum", "4B5563" },    { "end", "B0366F" },  { "series2", "C2680C" }, { "series4", "8B3FC7" }, { "series6", "0F7C86" },
    };

    for (size_t i = 0; i < sizeof colours / sizeof *colours; i++)
        lm_text_printf(out, "\\definecolor{lm-%s}{HTML}{%s}\n", colours[i].name, colours[i].rgb);
}

typedef struct style {
    const char *fill, *stroke;               /* colour names; "": none */
    double      width, size, opacity;
    bool        bold, dashed;
    char        anchor;                      /* of text: 'm', 'e', 's' */
} style;

/* ---- parsing the output of svg.c ---- */

typedef struct element { const char *name, *end; size_t n; } element;        /* "<NAME …>": `end` points to its '>' */

static bool next_element(const char **at, element *out)
{
    const char *open = strchr(*at, '<'), *end = open ? strchr(open, '>') : NULL;

    if (!end)
        return false;
    *out = (element){ open + 1, end, strcspn(open + 1, " />") };
    *at  = end + 1;
    return true;
}

static bool is(const element *x, const char *name)
{
    return strlen(name) == x->n && memcmp(x->name, name, x->n) == 0;
}

static lm_view attribute(const element *x, const char *name)
{
    size_t n = strlen(name);

    for (const char *p = x->name + x->n; p + n + 2 < x->end; p++)
        if (*p == ' ' && memcmp(p + 1, name, n) == 0 && p[n + 1] == '=' && p[n + 2] == '"') {
            const char *close = memchr(p + n + 3, '"', (size_t)(x->end - (p + n + 3)));
            return close ? (lm_view){ p + n + 3, (size_t)(close - (p + n + 3)) } : (lm_view){ 0 };
        }
    return (lm_view){ 0 };
}

static double number(const element *x, const char *name)
{
    lm_view v = attribute(x, name);
    char    text[32];

    if (!v.data || v.size >= sizeof text)
        return 0;
    memcpy(text, v.data, v.size);
    text[v.size] = '\0';
    return lm_read_double(text, NULL);
}

static bool has_class(lm_view list, const char *name)
{
    size_t n = strlen(name);

    for (size_t i = 0; i + n <= list.size; i++)
        if (memcmp(list.data + i, name, n) == 0 && (i == 0 || list.data[i - 1] == ' ') && (i + n == list.size || list.data[i + n] == ' '))
            return true;
    return false;
}

static style style_of(const element *x, bool after_skip)
{
    lm_view list = attribute(x, "class");
    bool    text = is(x, "text"), area = has_class(list, "area") || has_class(list, "dot");
    style   s    = { .fill = is(x, "line") ? "" : "ink", .stroke = "", .width = 1, .size = 12, .opacity = 1, .anchor = 's' };

    for (size_t i = 0; list.data && i < sizeof classes / sizeof *classes; i++) {
        if (!has_class(list, classes[i].name))
            continue;
        s.fill    = classes[i].fill ? classes[i].fill : s.fill;
        s.stroke  = classes[i].stroke ? classes[i].stroke : s.stroke;
        s.width   = classes[i].width > 0 ? classes[i].width : s.width;
        s.size    = classes[i].size > 0 ? classes[i].size : s.size;
        s.opacity = classes[i].opacity > 0 ? classes[i].opacity : s.opacity;
        s.bold |= classes[i].bold;
        s.dashed |= classes[i].dashed;
    }
    for (size_t i = 0; list.data && i < sizeof series / sizeof *series; i++)
        if (has_class(list, (const char[]){ 'c', (char)('1' + (int)i), '\0' }))
            *(area ? &s.fill : &s.stroke) = series[i];
    if (has_class(list, "head") && after_skip)
        s.fill = "scores";
    if (text)
        s.anchor = has_class(list, "m") ? 'm' : has_class(list, "e") ? 'e' : 's';
    return s;
}

/* ---- writing ---- */

static void put_options(const style *s, double radius, lm_text *out)
{
    lm_text_add_str(out, "[");
    if (*s->fill)
        lm_text_printf(out, "fill=lm-%s,", s->fill);
    if (*s->stroke)
        lm_text_printf(out, "draw=lm-%s,line width=%.2fpt,", s->stroke, s->width);
    if (s->dashed)
        lm_text_add_str(out, "dash pattern=on 5pt off 4pt,");
    if (s->opacity < 1)
        lm_text_printf(out, "fill opacity=%.2f,", s->opacity);
    if (radius > 0)
        lm_text_printf(out, "rounded corners=%.1fpt,", radius);
    lm_text_add_str(out, "]");
}

/* Append text with entities such as &lt; replaced by their characters. */
static void put_text(const char *text, size_t n, lm_text *out)
{
    static const char *const names[][2] = { { "&amp;", "&" }, { "&lt;", "<" }, { "&gt;", ">" }, { "&quot;", "\"" }, { "&#39;", "'" } };
    lm_text plain = { 0 };

    for (size_t i = 0; i < n;) {
        size_t k = 0;
        while (k < 5 && (strlen(names[k][0]) > n - i || memcmp(text + i, names[k][0], strlen(names[k][0])) != 0))
            k++;
        lm_text_add(&plain, k < 5 ? names[k][1] : text + i, 1);
        i += k < 5 ? strlen(names[k][0]) : 1;
    }
    lm_tex_text_n(out, plain.data ? plain.data : "", plain.size);
    out->failed |= plain.failed;
    lm_text_free(&plain);
}

static void put_label(const element *x, const style *s, const char *text, size_t n, lm_text *out)
{
    lm_view rotated = attribute(x, "transform");
    double  px = number(x, "x"), py = number(x, "y");

    if (rotated.size > strlen("translate(")) {           /* translate(X Y) rotate(-90): vertical text */
        char   at[64];
        size_t size = rotated.size - strlen("translate(");
        size        = size < sizeof at ? size : sizeof at - 1;
        memcpy(at, rotated.data + strlen("translate("), size);
        at[size]    = '\0';
        char *close = strchr(at, ')'), *gap = strchr(at, ' ');
        if (close && gap && gap < close) {
            *gap = *close = '\0';
            px = lm_read_double(at, NULL);
            py = lm_read_double(gap + 1, NULL);
        }
    }
    lm_text_printf(out, "\\node[anchor=base%s,inner sep=0,text=lm-%s,%s", s->anchor == 'm' ? "" : s->anchor == 'e' ? " east" : " west",
                   *s->fill ? s->fill : "ink", rotated.data ? "rotate=90," : "");
    lm_text_printf(out, "font=\\sffamily%s\\fontsize{%.0f}{%.0f}\\selectfont] at (%.1fpt,%.1fpt) {", s->bold ? "\\bfseries" : "", s->size,
                   s->size, px, py);
    put_text(text, n, out);
    lm_text_add_str(out, "};\n");
}

static void put_path(const element *x, lm_text *out)
{
    lm_view d = attribute(x, "d");

    lm_text_add_str(out, " svg {");
    for (size_t i = 0; i < d.size; i++) {    /* a blank before each command, which TeX parses more easily */
        bool command = (d.data[i] >= 'A' && d.data[i] <= 'Z') || (d.data[i] >= 'a' && d.data[i] <= 'z');
        lm_text_add_str(out, command ? " " : "");
        lm_text_add_char(out, d.data[i] == ',' ? ' ' : d.data[i]);
        lm_text_add_str(out, command ? " " : "");
    }
    lm_text_add_str(out, "};\n");
}

static void put_shape(const element *x, const style *s, lm_text *out)
{
    double left = number(x, "x"), top = number(x, "y");

    if (!*s->fill && !*s->stroke)
        return;
    lm_text_add_str(out, "\\path");
    put_options(s, is(x, "rect") ? number(x, "rx") : 0, out);
    if (is(x, "rect"))
        lm_text_printf(out, " (%.2fpt,%.2fpt) rectangle (%.2fpt,%.2fpt);\n", left, top, left + number(x, "width"),
                       top + number(x, "height"));
    else if (is(x, "line"))
        lm_text_printf(out, " (%.2fpt,%.2fpt) -- (%.2fpt,%.2fpt);\n", number(x, "x1"), number(x, "y1"), number(x, "x2"), number(x, "y2"));
    else if (is(x, "circle"))
        lm_text_printf(out, " (%.2fpt,%.2fpt) circle[radius=%.2fpt];\n", number(x, "cx"), number(x, "cy"), number(x, "r"));
    else
        put_path(x, out);
}

bool lm_tex_drawing(const char *svg, double width, double height, lm_text *out)
{
    const char *at   = svg;
    bool        skip = false;
    element     x;

    if (!next_element(&at, &x) || !is(&x, "svg"))
        return false;
    double w = number(&x, "width"), h = number(&x, "height");
    if (!(w > 0) || !(h > 0))
        return false;
    double scale = fmin(0.8, fmin(width / w, height / h));
    lm_text_printf(out, "\\scalebox{%.4f}{\\begin{tikzpicture}[yscale=-1]\n", scale);
    lm_text_printf(out, "\\useasboundingbox (0pt,0pt) rectangle (%.0fpt,%.0fpt);\n", w, h);
    while (next_element(&at, &x)) {
        style s = style_of(&x, skip);
        if (is(&x, "text"))
            put_label(&x, &s, at, strcspn(at, "<"), out);
        else if (is(&x, "rect") || is(&x, "line") || is(&x, "circle") || is(&x, "path"))
            put_shape(&x, &s, out);
        lm_view list = attribute(&x, "class");
        skip         = list.data && has_class(list, "skip");
    }
    lm_text_add_str(out, "\\end{tikzpicture}}");
    return true;
}
