/* diff_html.c - the comparison of two models as a self-contained HTML page. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/diffing.h"
#include "cli/plot.h"

static const char head[] =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<style>\n"
    "body { font: 15px/1.45 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #1c2430; background: #fff }\n"
    "h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2rem }\n"
    "table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100% }\n"
    "th, td { text-align: left; padding: .2rem .5rem; border-bottom: 1px solid #d9dee5 } th { font-weight: 600 }\n"
    ".n { text-align: right } code { font-size: .92em } .bar { background: #2563a8; height: .7rem; display: block }\n"
    ".scroll { overflow-x: auto } svg { max-width: 100%; height: auto }\n"
    "@media (prefers-color-scheme: dark) { body { color: #e3e8ef; background: #14181d } th, td { border-color: #36404c } .bar { background: "
    "#6aa5e0 } svg { background: #fff } }\n"
    "</style>\n";

static void add_html(lm_text *out, const char *s)
{
    for (; *s; s++) {
        const char *as = *s == '<' ? "&lt;" : *s == '>' ? "&gt;" : *s == '&' ? "&amp;" : *s == '"' ? "&quot;" : NULL;
        if (as)
            lm_text_add_str(out, as);
        else
            lm_text_add_char(out, *s);
    }
}

static void add_models(const lm_diffing *d, lm_text *out)
{
    char a[LM_FIGURE], b[LM_FIGURE];
    const char *rows[][3] = {
        { "model", d->a.name, d->b.name }, { "file", d->a.source, d->b.source }, { "type", d->a.storage, d->b.storage },
        { "tensors", lm_figure_bytes(a, d->r->a_bytes), lm_figure_bytes(b, d->r->b_bytes) },
    };

    lm_text_add_str(out, "<table>\n<tr><th></th><th>A</th><th>B</th></tr>\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lm_text_printf(out, "<tr><th>%s</th><td>", rows[i][0]);
        add_html(out, rows[i][1]);
        lm_text_add_str(out, "</td><td>");
        add_html(out, rows[i][2]);
        lm_text_add_str(out, "</td></tr>\n");
    }
    lm_text_add_str(out, "</table>\n");
}

/* Plot the SNR of the tensors that differ by layer, one series per kind. */
static void add_plot(const lm_diffing *d, lm_text *out)
{
    lm_plot      plot = { .title = "Signal to noise by layer", .x = "layer", .y = "SNR, dB" };
    lm_diff_kind kinds[LM_DIFF_KINDS];
    char         kind_names[LM_DIFF_KINDS][96];
    size_t       n = lm_diff_kinds(d->r, kinds, kind_names), drawn = 0;

    for (size_t k = 0; k < n && drawn < LM_CHART_SERIES; k++) {
        if (kinds[k].n < 2 || isinf(kinds[k].worst_db))
            continue;
        lm_plot_series *s = lm_plot_add(&plot, kind_names[k]);
        double          layer = 0;
        drawn++;
        for (size_t i = 0; i < d->r->n_tensors; i++) {
            const lm_diff_tensor *t  = &d->r->tensors[i];
            const char           *in = strstr(t->name, kind_names[k]);
            size_t                l  = strlen(kind_names[k]);
            if (in && in > t->name && in[-1] == '.' && (!in[l] || strcmp(in + l, ".weight") == 0) && isfinite(t->snr_db))
                lm_plot_point_add(&plot, s, (lm_plot_point){ .x = layer++, .y = t->snr_db, .low = t->snr_db, .high = t->snr_db });
        }
    }
    if (drawn) {
        lm_plot_svg(&plot, out);
        lm_text_add_char(out, '\n');
    }
    lm_plot_free(&plot);
}

static void add_bins(const lm_diff_tensor *t, lm_text *out)
{
    uint64_t most = 1;
    size_t   first, last;

    lm_diff_bins(t, &first, &last);
    for (size_t i = first; i < last; i++)
        most = t->bins[i] > most ? t->bins[i] : most;
    if (first == last)
        return;
    first = last - first > 24 ? last - 24 : first;
    lm_text_printf(out, "<svg width=\"%zu\" height=\"18\" role=\"img\"><title>errors from 2^%d to 2^%d</title>", 4 * (last - first),
                   (int)first - 48, (int)last - 48);
    for (size_t i = first; i < last; i++) {
        double high = 18.0 * (double)t->bins[i] / (double)most;
        lm_text_printf(out, "<rect x=\"%zu\" y=\"%.1f\" width=\"3\" height=\"%.1f\" fill=\"#2563a8\"/>", 4 * (i - first), 18 - high, high);
    }
    lm_text_add_str(out, "</svg>");
}

static void add_tensors(const lm_diffing *d, lm_text *out)
{
    char snr[LM_FIGURE];

    lm_text_add_str(out, "<h2>Tensors</h2>\n");
    add_plot(d, out);
    lm_text_add_str(out, "<div class=\"scroll\"><table>\n<tr><th>tensor</th><th>A</th><th>B</th><th class=\"n\">SNR, dB</th>"
                         "<th class=\"n\">1 − cosine</th><th class=\"n\">largest error</th><th>at</th><th>errors by size</th></tr>\n");
    for (size_t i = 0; i < d->r->n_tensors; i++) {
        const lm_diff_tensor *t = &d->r->tensors[i];
        lm_text_add_str(out, "<tr><td><code>");
        add_html(out, t->name);
        lm_text_printf(out, "</code></td><td>%s</td><td>%s</td><td class=\"n\">%s</td><td class=\"n\">%.3e</td>", t->a, t->b,
                       lm_diff_db(snr, t->snr_db), 1 - t->cosine);
        lm_text_printf(out, "<td class=\"n\">%.3e</td><td>", t->max_abs);
        if (t->max_abs > 0)
            lm_text_printf(out, "%" PRIu64 ", %" PRIu64 ", %" PRIu64, t->matrix, t->row, t->column);
        lm_text_add_str(out, "</td><td>");
        add_bins(t, out);
        lm_text_add_str(out, "</td></tr>\n");
    }
    lm_text_add_str(out, "</table></div>\n");
}

static void add_layers(const lm_diffing *d, lm_text *out)
{
    double most = 0;

    for (size_t i = 0; i < d->r->n_layers; i++)
        most = d->r->layers[i].relative > most ? d->r->layers[i].relative : most;
    lm_text_add_str(out, "<h2>Residual stream</h2>\n<table>\n<tr><th>after</th><th class=\"n\">error</th><th class=\"n\">its own</th><th "
                         "style=\"width:40%\"></th></tr>\n");
    for (size_t i = 0; i < d->r->n_layers; i++) {
        const lm_diff_layer *l = &d->r->layers[i];
        lm_text_add_str(out, "<tr><td><code>");
        add_html(out, l->path);
        lm_text_printf(out, "</code></td><td class=\"n\">%.3f %%</td><td class=\"n\">%.3f %%</td><td><span class=\"bar\" "
                            "style=\"width:%.1f%%\"></span></td></tr>\n", 100 * l->relative, 100 * l->added,
                       most > 0 ? 100 * l->relative / most : 0);
    }
    lm_text_add_str(out, "</table>\n");
}

static void add_text_part(const lm_diffing *d, lm_text *out)
{
    const lm_diff_result *r    = d->r;
    lm_text               line = { 0 };

    if (!r->tokens)
        return;
    lm_text_printf(out, "<h2>On a text</h2>\n<p>%" PRIu64 " tokens of ", r->tokens);
    add_html(out, d->text ? d->text : "a text");
    lm_text_printf(out, ": mean KL %.6f nats, largest %.4f; same top token %.2f %%; ", r->mean_kl, r->max_kl, 100 * r->same_top);
    lm_diff_flip_text(r, &line);
    add_html(out, line.data ? line.data : "");
    lm_text_add_str(out, ".</p>\n");
    lm_text_free(&line);
    if (r->n_advice)
        lm_text_add_str(out, "<h2>What more bytes would win</h2>\n<ul>\n");
    for (size_t i = 0; i < r->n_advice; i++) {
        line = (lm_text){ 0 };
        lm_diff_advice_text(&r->advice[i], &line);
        lm_text_add_str(out, "<li>");
        add_html(out, line.data ? line.data : "");
        for (size_t k = 0; r->advice[i].n > 1 && k < r->advice[i].n; k++) {
            lm_text_add_str(out, k ? ", <code>" : ": <code>");
            add_html(out, r->advice[i].tensors[k]);
            lm_text_add_str(out, "</code>");
        }
        lm_text_add_str(out, "</li>\n");
        lm_text_free(&line);
    }
    if (r->n_advice)
        lm_text_add_str(out, "</ul>\n");
    add_layers(d, out);
}

void lm_diff_html(const lm_diffing *d, lm_text *out)
{
    lm_text_add_str(out, head);
    lm_text_add_str(out, "<title>");
    add_html(out, d->b.name);
    lm_text_add_str(out, " compared with ");
    add_html(out, d->a.name);
    lm_text_add_str(out, "</title>\n</head>\n<body>\n<h1>");
    add_html(out, d->b.name);
    lm_text_add_str(out, " compared with ");
    add_html(out, d->a.name);
    lm_text_add_str(out, "</h1>\n");
    add_models(d, out);
    add_text_part(d, out);
    add_tensors(d, out);
    lm_text_add_str(out, "</body>\n</html>\n");
}
