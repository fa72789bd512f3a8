/* lamina diff - compare two models: what quantisation or fine-tuning changed in the tensors, and its effect
 * on a text. */
#include <string.h>

#include "cli/base/interrupt.h"
#include "cli/base/options.h"
#include "cli/base/prompt.h"
#include "cli/measure/diffing.h"

typedef struct diff_options {
    lm_run_flags run;
    const char  *file, *markdown, *raise;
    uint32_t     chunks, candidates;
    bool         all, bare, parse_special;
} diff_options;

#define O(field) offsetof(diff_options, field)

static const lm_flag diff_flag_table[] = {
    { "--file", "-f", LM_FLAG_TEXT, O(file), "FILE",
      "text that both models read; -: standard input", 0, 0, NULL },
    { "--chunks", NULL, LM_FLAG_COUNT, O(chunks), "N",
      "number of chunks to process (4); --context sets the tokens per chunk (256)", 1, 65536, NULL },
    { "--raise", NULL, LM_FLAG_TEXT, O(raise), "TYPE|none",
      "larger type to try on tensors of B (q6_k)", 0, 0, NULL },
    { "--candidates", NULL, LM_FLAG_COUNT, O(candidates), "N",
      "number of tensors to try it on (24)", 1, 65536, NULL },
    { "--all", "-a", LM_FLAG_SWITCH, O(all), NULL, "list every tensor, not only the worst", 0, 0, NULL },
    { "--markdown", "--md", LM_FLAG_OUTPUT, O(markdown), "FILE", "write the page as Markdown", 0, 0, NULL },
    { "--no-add-special", NULL, LM_FLAG_SWITCH, O(bare), NULL,
      "do not add the tokenizer's special tokens (BOS ...)", 0, 0, NULL },
    { "--parse-special", NULL, LM_FLAG_SWITCH, O(parse_special), NULL,
      "treat special tokens in the text as special", 0, 0, NULL },
    { 0 },
};

static const lm_flag_group diff_groups[] = {
    { "comparison", diff_flag_table, 0 },
    { "engine", lm_run_flag_table, O(run) },
    { "KV cache", lm_cache_flag_table, O(run.cache) },
    { 0 },
};

static void diff_defaults(void *options)
{
    diff_options *o = options;

    lm_run_defaults(&o->run);
    /* compare the stored weights, without errors of fast arithmetic */
    o->run.compute = LM_COMPUTE_F32;
}

typedef struct diff_run {
    lm_cli        *cli;
    diff_options  *o;
    lm_model      *a, *b;
    lm_tokens      ids;
    lm_diff_result r;
    lm_progress    bar;
} diff_run;

static lm_status read_ids(diff_run *c, lm_error *e)
{
    const lm_tokenizer *t = lm_model_tokenizer(c->a) ? lm_model_tokenizer(c->a) : lm_model_tokenizer(c->b);
    unsigned flags = (c->o->bare ? 0u : LM_ADD_SPECIAL) | (c->o->parse_special ? 0u : LM_NO_PARSE_SPECIAL);

    if (!t)
        return lm_fail(e, LM_USAGE, "--file", LM_NO_OFFSET, "neither model has a tokenizer");
    return lm_read_tokens(c->o->file, t, flags, &c->ids, e);
}

static lm_status save(const lm_diffing *d, const char *path, lm_error *e)
{
    lm_text out = { 0 };

    if (!path)
        return LM_OK;
    lm_diff_markdown(d, &out);
    lm_status status = out.failed ? lm_fail_memory(e, "a page", out.size) : lm_text_save(&out, path, e);
    lm_text_free(&out);
    return status;
}

static lm_status show(diff_run *c, lm_error *e)
{
    lm_diffing d = {
        .cli = c->cli, .r = &c->r, .text = c->o->file ? lm_input_name(c->o->file) : NULL, .all = c->o->all
    };
    lm_text    out = { 0 };

    lm_model_describe(c->a, &d.a);
    lm_model_describe(c->b, &d.b);
    LM_TRY(save(&d, c->o->markdown, e));
    if (c->cli->json)
        return lm_out_json(c->cli, lm_diff_json(&d), e);
    lm_diff_page(&d, &out);
    return lm_out_free(&out, e);
}

static lm_status compare(diff_run *c, lm_error *e)
{
    lm_model_flags  none = { 0 };
    lm_diff_options o = { .chunks = c->o->chunks,
                          .candidates = c->o->candidates,
                          .raise = c->o->raise,
                          .progress = lm_interrupt_progress_of,
                          .progress_arg = &c->bar };

    if (o.raise && strcmp(o.raise, "none") == 0)
        o.raise = "";
    LM_TRY(lm_open_model(c->cli, &none, c->cli->args[0], &c->a, e));
    LM_TRY(lm_open_model(c->cli, &none, c->cli->args[1], &c->b, e));
    if (c->o->file)
        LM_TRY(read_ids(c, e));
    LM_TRY(lm_engine_flags(&c->o->run, c->a, 0, &o.engine, e));
    o.chunk = c->o->run.context > 0 ? (uint32_t)c->o->run.context : 0;
    o.ids   = c->o->file ? c->ids.ids ? c->ids.ids : (const lm_token[]){ 0 } : NULL;
    o.n     = c->ids.n;
    lm_interrupt_watch(NULL);
    c->bar           = lm_progress_start("tensors");
    lm_status status = lm_diff(c->a, c->b, &o, &c->r, e);
    lm_progress_end(&c->bar);
    LM_TRY(status);
    return show(c, e);
}

static lm_status diff(lm_cli *cli, void *options, lm_error *e)
{
    diff_run  c      = { .cli = cli, .o = options };
    lm_status status = compare(&c, e);

    lm_diff_free(&c.r);
    lm_tokens_free(&c.ids);
    lm_model_close(c.a);
    lm_model_close(c.b);
    return status;
}

const lm_command lm_command_diff = {
    .name = "diff",
    .usage = "A B [-f TEXT] [--markdown FILE] [flags]",
    .summary = "compare two models tensor by tensor, and on a text",
    .about = "  A is the reference for B: the model before it was quantised or trained. Their formats may "
             "differ: a folder and a\n"
             "  GGUF file, BF16 and Q4. With a text, also shows the error of the residual stream after each "
             "layer, the first layer\n"
             "  that changes a token, and the tensors of B that gain most from a larger type. To try them "
             "takes 4 bytes of memory\n"
             "  per weight.\n",
    .groups = diff_groups,
    .min_args = 2,
    .max_args = 2,
    .options_size = sizeof(diff_options),
    .defaults = diff_defaults,
    .run = diff,
};
