/* document_html_sliders.c - write the panel of sliders: controls, places for the results, and the results as
 * data. */
#include <string.h>

#include "study/page/html.h"
#include "study/page/sliders.h"
#include "base/language.h"

static void put_slider(lm_html *h, const char *what, const char *title, uint32_t stops, uint32_t now)
{
    if (stops < 2)
        return;
    lm_text_printf(h->out, "<div class=\"slider\"><label for=\"p%u-%s\">", h->panels, what);
    lm_markup_text(h->out, title);
    lm_text_printf(h->out,
                   "</label><output for=\"p%u-%s\" data-of=\"%s\"></output><input type=\"range\" id=\"p%u-%s\" "
                   "data-is=\"%s\" min=\"0\" max=\"%u\" step=\"1\" value=\"%u\"></div>\n",
                   h->panels, what, what, h->panels, what, what, stops - 1, now);
}

/* Write a row of the results, which the script of the page fills in. */
static void put_result(lm_html *h, const char *what, const char *title, const char *classes)
{
    lm_text_printf(h->out, "<tr%s><th scope=\"row\">", classes);
    lm_markup_text(h->out, title);
    lm_text_printf(h->out,
                   "</th><td class=\"n\" data-out=\"%s\"></td><td class=\"n\" data-exact=\"%s\"></td></tr>\n",
                   what, what);
}

static void put_results(lm_html *h, const lm_sliders *s)
{
    lm_text_add_str(
        h->out,
        "<div class=\"results\"><div class=\"stack\" aria-hidden=\"true\"><span data-bar=\"weights\"></span>"
        "<span data-bar=\"cache\"></span><span data-bar=\"scratch\"></span></div>\n"
        "<div class=\"scroll\" tabindex=\"0\"><table aria-live=\"polite\"><tbody>\n");
    put_result(h, "weights", _("weights"), " class=\"weights\"");
    put_result(h, "cache", _("cache"), " class=\"cache\"");
    put_result(h, "scratch", _("scratch"), " class=\"scratch\"");
    put_result(h, "total", _("together"), " class=\"total\"");
    put_result(h, "per-token", _("cache of one more token"), "");
    put_result(h, "flops", _("operations of a token"), "");
    put_result(h, "prefill", _("operations of a prompt as long as the context"), "");
    if (s->rated) {
        put_result(h, "prompt", _("processing a prompt of 512 tokens, maximum"), "");
        put_result(h, "generation", _("generation, all sequences together, maximum"), "");
    }
    lm_text_add_str(h->out, "</tbody></table></div></div>\n");
}

void lm_html_sliders(lm_html *h, const lm_block *b)
{
    const lm_sliders *s = b->sliders;

    lm_text_printf(h->out, "<div class=\"panel\" data-panel=\"%u\">\n", h->panels);
    lm_text_add_str(h->out, "<div class=\"controls\">\n");
    put_slider(h, "context", _("context"), s->n_contexts, s->context);
    put_slider(h, "batch", _("sequences at once"), s->n_batches, s->batch);
    put_slider(h, "kv", _("type of the cache"), s->n_kv, s->kv_now);
    put_slider(h, "precision", _("weights as"), s->n_precisions, s->precision);
    lm_text_add_str(h->out, "</div>\n");
    put_results(h, s);
    lm_html_element(
        h, "p", "note",
        b->facts->s.device ? _("Sizes are those of the plan, exact to the byte; speeds are upper bounds from the "
                        "device's published peaks.")
        : s->rated  ? _("Sizes are those of the plan, exact to the byte; speeds are upper bounds from the "
                         "measured limits of this machine.")
                    : _("Sizes are those of the plan, exact to the byte. No speeds: this machine has not "
                         "been measured."));
    lm_text_add_str(h->out, "<script type=\"application/json\">");
    lm_sliders_json(s, h->out);
    lm_text_add_str(h->out, "</script>\n</div>\n");
    h->panels++;
}
