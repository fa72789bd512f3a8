/* inspect_left_out.c - replaces inspect_facts.c in builds without facts about models. */
#include "cli/run/inspect.h"

lm_status lm_inspect_facts(lm_cli *cli, const lm_inspect_options *o, const lm_model *m,
                           const lm_engine_options *engine, lm_error *e)
{
    (void)cli, (void)o, (void)m, (void)engine;
    return lm_fail(e, LM_USAGE, "inspect", LM_NO_OFFSET,
                   "this build leaves views out; there are --tensors, --metadata, --program and --plan");
}
