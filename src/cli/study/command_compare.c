/* lamina compare - compare models side by side. */

#include "cli/base/options.h"
#include "cli/base/output.h"
#include "lamina/study.h"

enum { MAX_MODELS = 16 };

typedef struct compare_options {
    lm_model_flags model;
    lm_run_flags   run;
    lm_flag_list   names;                /* titles of the models, in their order */
    const char    *view;
    bool           markdown, history;
} compare_options;

#define O(field) offsetof(compare_options, field)

static const lm_flag compare_flag_table[] = {
    { "--view", NULL, LM_FLAG_TEXT, O(view), "VIEW",
      "all, specification, summary, embedding, attention, position, mlp, norm, parameters, kv, flops, "
      "memory, stored, reading, timeline, "
      "trends, history", 0, 0, NULL },
    { "--md", NULL, LM_FLAG_SWITCH, O(markdown), NULL, "write Markdown with Mermaid diagrams", 0, 0, NULL },
    { "--history", NULL, LM_FLAG_SWITCH, O(history), NULL,
      "show milestone models with their timeline and trends; takes no MODEL", 0, 0, NULL },
    { "--name", NULL, LM_FLAG_LIST, O(names), "NAME",
      "title of the model; repeat for each MODEL, in their order", 0, 0, NULL },
    { "--context", "-c --ctx-size", LM_FLAG_INT, O(run.context), "N",
      "context length in tokens; 0: each model's (default)", 0, INT32_MAX, NULL },
    { 0 },
};

static const lm_flag_group compare_groups[] = {
    { "output", compare_flag_table, 0 },
    { "KV cache", lm_cache_flag_table, O(run.cache) },
    { 0 },
};

static void compare_defaults(void *options)
{
    compare_options *o = options;

    lm_run_defaults(&o->run);
    o->run.context = 0;
}

/* The open models and their facts, which point into them. */
typedef struct opened {
    lm_model *model[MAX_MODELS];
    lm_facts *facts[MAX_MODELS];
    size_t    n;
} opened;

static lm_status open_one(lm_cli *cli, compare_options *o, const char *name, opened *x, lm_error *e)
{
    lm_facts_options options = { .name = x->n < o->names.n ? o->names.items[x->n] : NULL };

    if (x->n == MAX_MODELS)
        return lm_fail(e, LM_USAGE, name, LM_NO_OFFSET, "more than %d models", MAX_MODELS);
    o->model.o.weights_optional = o->model.o.tokenizer_optional = true;
    LM_TRY(lm_open_model(cli, &o->model, name, &x->model[x->n], e));
    lm_status status = lm_engine_flags(&o->run, x->model[x->n], 0, &options.engine, e);
    options.engine.cpu = "ref";                  /* sizes must not depend on this machine */
    options.engine.threads = 1;
    if (status == LM_OK)
        status = lm_facts_new(x->model[x->n], &options, &x->facts[x->n], e);
    x->n++;
    return status;
}

static lm_status open_all(lm_cli *cli, compare_options *o, opened *x, lm_error *e)
{
    if (o->history && cli->n_args)
        return lm_fail(e, LM_USAGE, cli->args[0], LM_NO_OFFSET, "--history takes no MODEL");
    LM_TRY(lm_check_names(&o->names, cli->n_args, e));
    for (size_t i = 0; i < cli->n_args; i++)
        LM_TRY(open_one(cli, o, cli->args[i], x, e));
    for (size_t i = 0; o->history && lm_compare_milestone(i); i++)
        LM_TRY(open_one(cli, o, lm_compare_milestone(i), x, e));
    if (!x->n)
        return lm_fail(e, LM_USAGE, "compare", LM_NO_OFFSET, "requires models");
    return LM_OK;
}

static lm_status show(lm_cli *cli, const compare_options *o, const opened *x, const char *view, lm_error *e)
{
    lm_compare_options options = {
        .form = cli->json     ? LM_COMPARE_JSON
                : o->markdown ? LM_COMPARE_MARKDOWN
                              : LM_COMPARE_PAGE,
        .view = view,
        .language = cli->language,
        .more = "--view all|specification|summary|attention|kv|timeline …   --md   --json   lamina compare "
                "--history",
    };
    lm_text text = { 0 };

    LM_TRY(lm_compare(x->facts, x->n, &options, &text, e));
    cli->answered |= cli->json;
    lm_status status = lm_out_text(text.data, text.size, e);
    lm_text_free(&text);
    return status;
}

static lm_status compare(lm_cli *cli, void *options, lm_error *e)
{
    compare_options *o = options;
    opened x = { 0 };
    lm_status status = open_all(cli, o, &x, e);

    if (status == LM_OK)
        status = show(cli, o, &x, o->view ? o->view : o->history ? "history" : NULL, e);
    for (size_t i = 0; i < x.n; i++) {
        lm_facts_free(x.facts[i]);
        lm_model_close(x.model[i]);
    }
    return status;
}

const lm_command lm_command_compare = {
    .name = "compare",
    .usage = "MODEL MODEL ... [--view VIEW] [--md] | --history",
    .summary = "compare models side by side",
    .about = "  MODEL may be a preset, a config.json, a folder without weights, or a GGUF file.\n"
             "  Changes are relative to the first model. The sentences under \"reading\" are qualitative, derived by rules.\n",
    .groups = compare_groups,
    .max_args = MAX_MODELS,
    .options_size = sizeof(compare_options),
    .defaults = compare_defaults,
    .run = compare,
};
