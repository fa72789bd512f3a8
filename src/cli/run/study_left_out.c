/* study_left_out.c - replaces inspect_facts.c and presets_fit.c in builds without facts about models. */
#include "cli/run/inspect.h"
#include "cli/run/presets_fit.h"

lm_status lm_inspect_facts(lm_cli *cli, const lm_inspect_options *o, const lm_model *m,
                           const lm_engine_options *engine, lm_error *e)
{
    (void)cli, (void)o, (void)m, (void)engine;
    return lm_fail(e, LM_USAGE, "inspect", LM_NO_OFFSET,
                   "this build leaves views out; there are --tensors, --metadata, --program and --plan");
}

lm_status lm_presets_fit(lm_cli *cli, const lm_presets_options *o, json_t *rows, lm_error *e)
{
    (void)cli, (void)o, (void)rows;
    return lm_fail(e, LM_USAGE, "--fits", LM_NO_OFFSET, "this build leaves facts about models out");
}
