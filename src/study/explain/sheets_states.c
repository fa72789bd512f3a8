/* sheets_states.c - how fast layers with a state forget, layer by layer. */
#include <inttypes.h>

#include "base/number.h"
#include "study/explain/cards.h"

static const char *tokens(lm_facts *f, uint64_t i, const char *member)
{
    char text[48];

    lm_print(text, sizeof text, "%.3g", lm_facts_number(f, "states.half_life[%" PRIu64 "].%s", i,
                                                        member));
    return lm_sheet_text(f, "%s", text);
}

/* Half-lives of heads, or of the numbers that a scan or RG-LRU carries, if there are weights: with an input
 * of zero, ln 2 / (exp(A) softplus(bias)), or ln 2 / (8 sigmoid(bias) softplus(A)). */
lm_status lm_sheet_half_life(lm_facts *f, const lm_explain_options *o, lm_sheet *out, lm_error *e)
{
    lm_traits t;

    (void)o, (void)e;
    lm_find_traits(f->ledger, &t);
    out->title      = t.scan || t.gated ? N_("Half-lives of the state's numbers in tokens, from the weights")
                             : N_("Half-lives of the heads in tokens, from the weights");
    out->note       = t.gated ? N_("The token's own part of the gate is left out; a larger gate makes a half-life shorter, "
                                   "a smaller one longer.")
                              : N_("The token's own part of the step size is left out; it makes a step longer or shorter.");
    out->columns[0] = N_("layer");
    out->columns[1] = N_("shortest");
    out->columns[2] = N_("median");
    out->columns[3] = N_("longest");
    out->align      = "rrrr";
    for (uint64_t i = 0; lm_facts_has(f, "states.half_life[%" PRIu64 "].layer", i); i++) {
        lm_sheet_row *row = lm_sheet_next(out, f);
        row->cells[0] = lm_sheet_text(f, "%" PRIu64,
                                      lm_facts_count(f, "states.half_life[%" PRIu64 "].layer", i));
        row->cells[1] = tokens(f, i, "shortest");
        row->cells[2] = tokens(f, i, "median");
        row->cells[3] = tokens(f, i, "longest");
    }
    return LM_OK;
}
