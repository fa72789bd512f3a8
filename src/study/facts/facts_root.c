/* facts_root.c - the top-level groups of facts, and the lifetime of the tree. */
#include "study/facts/fact.h"
#include "study/facts/ledger.h"
#include "base/alloc.h"
#include "base/error.h"

static lm_status fill_root(lm_facts *f, lm_error *e)
{
    static const struct {
        const char *name;
        lm_fill    *fill;
    } groups[] = {
        { "model", lm_fill_model },           { "config", lm_fill_config },       { "architecture", lm_fill_architecture },
        { "attention", lm_fill_attention },   { "mlp", lm_fill_mlp },             { "parameters", lm_fill_parameters },
        { "weights", lm_fill_weights },       { "kv", lm_fill_kv },               { "states", lm_fill_states },         { "flops", lm_fill_flops },
        { "pass", lm_fill_pass },             { "memory", lm_fill_memory },       { "rope", lm_fill_rope },
        { "tuning", lm_fill_tuning },         { "speed", lm_fill_speed },         { "formulas", lm_fill_formulas },
        { "flow", lm_fill_flow },             { "what_if", lm_fill_what_if },     { "estimate", lm_fill_estimate },
    };

    f->root.kind       = LM_FACT_GROUP;
    f->root.impl.owner = f;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        lm_add_group(&f->root, groups[i].name, groups[i].fill, 0);
    lm_hide_fact(lm_add_group(&f->root, "catalogue", lm_fill_catalogue, 0));
    lm_hide_fact(lm_add_list(&f->root, "layers", lm_fill_layers, 0));
    lm_add_list(&f->root, "modules", lm_fill_modules, 0)->impl.key = "layers";   /* scripts use this name */
    lm_add_list(&f->root, "warnings", lm_fill_warnings, 0);
    return f->failed ? lm_fail_memory(e, "facts", 0) : LM_OK;
}

lm_status lm_facts_of(const lm_subject *s, lm_facts **out, lm_error *e)
{
    lm_facts *f = lm_alloc_zero(1, sizeof *f);

    if (!f)
        return lm_fail_memory(e, "facts", sizeof *f);
    f->s             = *s;
    f->s.release     = NULL;     /* until this succeeds, the caller owns the subject */
    lm_status status = lm_ledger_new(s->program, &f->ledger, e);
    if (status == LM_OK)
        status = fill_root(f, e);
    if (status != LM_OK) {
        lm_facts_free(f);
        return status;
    }
    f->s.release = s->release;
    *out         = f;
    return LM_OK;
}

void lm_facts_free(lm_facts *f)
{
    if (!f)
        return;
    if (f->s.release)
        f->s.release(f->s.arg);
    lm_ledger_free(f->ledger);
    lm_arena_free(&f->arena);
    lm_free(f);
}

const lm_fact *lm_facts_root(lm_facts *f)
{
    return f ? &f->root : NULL;
}
