/* chapter_positions.c - how positions are encoded, and how far tokens see. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "study/facts/figure.h"
#include "study/facts/ledger.h"
#include "study/report/chapters.h"
#include "base/number.h"

/* ---- rotary frequencies (O-33) ---- */

void lm_part_frequencies(lm_document *d)
{
    lm_facts *f = d->facts;
    char      a[32], w[32];

    if (!lm_facts_count(f, "rope.n_tables")) {
        lm_doc_textf(d, _("No rotary embedding; positions: %s."), lm_facts_text(f, "architecture.position"));
        return;
    }
    bool scaled = lm_facts_count(f, "rope.theta_scaled") > 0;
    lm_doc_textf(d, _("θᵢ = %s^(−2i/%" PRIu64 "), scaling: %s."),
                 lm_number_text(a, lm_facts_number(f, "rope.base")), lm_facts_count(f, "rope.dim"),
                 lm_facts_text(f, "rope.scaling"));
    lm_doc_table *t = lm_doc_table_of(d, "frequencies", NULL, "rrrrl", "i", "θ",
                                      scaled ? _("as it runs") : "", _("turns once in"), "");
    for (uint64_t k = 0; k < lm_facts_count(f, "rope.pairs"); k++) {
        double x = lm_facts_number(f, "rope.theta[%" PRIu64 "]", k);
        double y = scaled ? lm_facts_number(f, "rope.theta_scaled[%" PRIu64 "]", k) : x;
        lm_print(w, sizeof w, "%.4g", 6.283185307179586 / y);
        lm_next_row(t);
        lm_cell_count(t, LM_EXACT, LM_UNIT_NONE, k);
        lm_cell_fact(t, LM_PLAIN, "rope.theta[%" PRIu64 "]", k);
        if (scaled)
            lm_cell_fact(t, LM_PLAIN, "rope.theta_scaled[%" PRIu64 "]", k);
        else
            lm_cell_empty(t);
        if (y > 0)
            lm_cell_number(t, 6.283185307179586 / y, LM_UNIT_TOKENS, w);
        else
            lm_cell_empty(t);
        lm_cell_bar(t, y, 0);
    }
    if (!scaled)
        lm_doc_note(d, _("The scaling factors are in a file that is missing."));
}

/* ---- reach ---- */

static void write_reach(lm_document *d)
{
    lm_facts *f = d->facts;
    char      a[LM_FIG], b[LM_FIG];
    uint64_t  some, full;

    if (!lm_facts_has(f, "attention.full_layers"))
        return;
    some = lm_facts_count(f, "attention.windowed_layers");
    full = lm_facts_count(f, "attention.full_layers");
    if (!some && !full)
        return;
    lm_doc_open(d, "reach", NULL, _("How far attention reaches"));
    if (!some)
        lm_doc_text(d, lm_facts_count(f, "states.layers")
                           ? _("Every layer with attention attends to every earlier token.")
                           : _("Every layer attends to every earlier token."));
    else if (full)
        lm_doc_textf(d,
                     _("%" PRIu64 " layers have a window; %" PRIu64
                       " attend to every earlier token, so tokens outside the windows still affect the output."),
                     some, full);
    if (lm_facts_has(f, "attention.window") && lm_facts_has(f, "attention.reach"))
        lm_doc_textf(
            d,
            lm_facts_count(f, "attention.reach") >= lm_facts_count(f, "architecture.context")
                ? _("Each layer sees the last %s tokens; through all layers the reach is more than the "
                    "context: %s tokens.")
                : _("Each layer sees the last %s tokens; through all layers the reach is at most %s tokens."),
            lm_fig_count(a, lm_facts_count(f, "attention.window")),
            lm_fig_count(b, lm_facts_count(f, "attention.reach")));
    if (some)
        lm_doc_diagram(d, "window", NULL, NULL, NULL);
    lm_doc_close(d);
}

void lm_chapter_positions(lm_document *d)
{
    lm_facts *f = d->facts;

    lm_doc_open(d, "positions", NULL, _("Positions and reach"));
    if (lm_facts_count(f, "rope.n_tables")) {
        lm_doc_open(d, "rope", "O-33", _("Rotary position embedding"));
        lm_doc_topic(d, "rope", LM_TOPIC_WHAT | LM_TOPIC_DIAGRAM, "O-33");
        lm_doc_diagram(d, "spectrum", "O-33", _("Frequencies of the pairs"), NULL);
        lm_doc_topic(d, "rope", LM_TOPIC_LETTERS | LM_TOPIC_ARITHMETIC, NULL);
        lm_doc_fold(d, "rope-frequencies", _("Every frequency"));
        lm_part_frequencies(d);
        lm_doc_close(d);
        lm_doc_topic(d, "rope", LM_TOPIC_JUDGEMENT, NULL);
        lm_doc_close(d);
    } else {
        lm_doc_textf(d, _("Positions: %s."), lm_facts_text(f, "architecture.position"));
    }
    write_reach(d);
    lm_doc_close(d);
}
