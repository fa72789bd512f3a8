/* Nothing that a program computes is missing where it is told as a chain or as formulas: every preset's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "analysis/fact.h"
#include "analysis/ledger.h"
#include "analysis/traits.h"
#include "opened.h"

typedef void check(const char *name, lm_facts *f);

/* Presets of families without a program here are left out. */
static void of_every_preset(check *look)
{
    lm_model_options o = { .weights_optional = true };
    char             path[96];
    size_t           seen = 0;

    for (size_t i = 0; lm_preset_at(i); i++) {
        lm_model *m = NULL;
        lm_facts *f = NULL;
        lm_error  e;
        snprintf(path, sizeof path, LM_PRESET_PREFIX "%s", lm_preset_at(i)->name);
        lm_status status = lm_model_open(path, &o, &m, &e);
        if (status == LM_UNSUPPORTED)
            continue;
        assert_int_equal(status, LM_OK);
        assert_int_equal(lm_facts_new(m, NULL, &f, &e), LM_OK);
        look(lm_preset_at(i)->name, f);
        assert_int_equal(lm_facts_check(f, &e), LM_OK);
        lm_facts_free(f);
        lm_model_close(m);
        seen++;
    }
    assert_true(seen > 100);
}

static size_t times(const char *text, const char *word)
{
    size_t n = 0;

    for (const char *at = strstr(text, word); at; at = strstr(at + strlen(word), word))
        n++;
    return n;
}

/* ---- the chain ---- */

/* Sums, activations and multipliers that stand in a layer itself; norms are modules of it. */
static void chain_is_whole(const char *name, lm_facts *f)
{
    const lm_program *p     = f->s.program;
    const lm_module  *layer = &p->modules[f->ledger->layer[0]];
    const char       *chain = lm_facts_text(f, "flow.layer");
    size_t            sums = 0, scales = 0, norms = 0;

    for (uint32_t i = layer->first_op; i < layer->end_op; i++) {
        const lm_node *n     = &p->nodes[i];
        uint32_t       block = f->ledger->block[i];
        bool           alone = block == LM_NONE || p->modules[block].end_op == p->modules[block].first_op + 1;
        sums += lm_is_residual(f->ledger, i);
        scales += alone && n->code == LM_OP_SCALE;
        norms += alone && (n->code == LM_OP_RMS_NORM || n->code == LM_OP_LAYER_NORM);
        if (alone && n->code == LM_OP_ACT && !strstr(chain, n->glu.act == LM_ACT_GELU_TANH ? "GELU" : lm_act_name(n->glu.act)))
            fail_msg("%s: %s lacks its activation", name, chain);
    }
    if (sums != 2 || times(chain, "+") != sums || times(chain, "× ") != scales || times(chain, "Norm") != norms)
        fail_msg("%s: %s: not %zu sums, %zu multipliers, %zu norms", name, chain, sums, scales, norms);
    assert_int_equal(lm_facts_count(f, "flow.residual_sums_per_layer"), 2);
    assert_int_equal(lm_facts_count(f, "flow.residual_sums"), 2 * (uint64_t)p->n_layers);
}

static void chains_are_whole(void **state)
{
    (void)state;
    of_every_preset(chain_is_whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
