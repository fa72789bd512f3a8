/* lamina eval - measure a model: perplexity, divergence from another model, questions, a needle in a long
 * text, speed. */
#include <string.h>

#include "base/nearest.h"
#include "cli/base/interrupt.h"
#include "cli/base/prompt.h"
#include "cli/measure/eval.h"

#define O(field) offsetof(lm_eval_flags, field)

static const char *const rule_words[] = { "halves", "sliding", NULL };
static const char *const form_words[] = { "any", "plain", "hellaswag", "winogrande", "arc", "mmlu", NULL };

static const lm_flag eval_flag_table[] = {
    { "--file", "-f", LM_FLAG_TEXT, O(file), "FILE",
      "text, or questions as JSON lines; -: standard input", 0, 0, NULL },
    { "--state", NULL, LM_FLAG_TEXT, O(state), "FILE",
      "file for intermediate results; an interrupted run continues from it", 0, 0, NULL },
    { "--csv", NULL, LM_FLAG_OUTPUT, O(csv), "FILE", "write individual results as CSV", 0, 0, NULL },
    { "--markdown", NULL, LM_FLAG_OUTPUT, O(markdown), "FILE",
      "write a table for a model card as Markdown", 0, 0, NULL },
    { "--force", NULL, LM_FLAG_SWITCH, O(force), NULL, "replace files that exist", 0, 0, NULL },
    { "--no-add-special", NULL, LM_FLAG_SWITCH, O(bare), NULL,
      "do not add the tokenizer's special tokens (BOS ...)", 0, 0, NULL },
    { "--parse-special", NULL, LM_FLAG_SWITCH, O(parse_special), NULL,
      "treat special tokens in the text as special", 0, 0, NULL },
    { 0 },
};

static const lm_flag text_flag_table[] = {
    { "--base", "--kl-divergence-base", LM_FLAG_TEXT, O(base), "MODEL|FILE",
      "kl: model to compare with, or a file of its logits", 0, 0, NULL },
    { "--save-logits", "--save-all-logits", LM_FLAG_OUTPUT, O(save_logits), "FILE",
      "perplexity: write the logits for --base, as llama-perplexity does", 0, 0, NULL },
    { "--rule", NULL, LM_FLAG_WORD, O(rule), "halves|sliding",
      "tokens to score: the second half of each chunk, as llama-perplexity (default), or every token in a "
      "sliding window",
      0, 0, rule_words },
    { "--stride", "--ppl-stride", LM_FLAG_COUNT, O(stride), "N",
      "sliding: step from one window to the next, in tokens (half the context)", 1, UINT32_MAX, NULL },
    { "--chunks", NULL, LM_FLAG_COUNT, O(chunks), "N",
      "number of chunks to process (all); --context sets the tokens per chunk (512)", 1, UINT32_MAX, NULL },
    { 0 },
};

static const lm_flag choices_flag_table[] = {
    { "--task", NULL, LM_FLAG_WORD, O(form), "FORM",
      "form of the questions: plain, hellaswag, winogrande, arc, mmlu; any: detected from their fields (any)",
      0, 0, form_words },
    { "--shots", NULL, LM_FLAG_COUNT, O(shots), "N",
      "number of solved examples before each question (0)", 0, 100, NULL },
    { "--shots-file", NULL, LM_FLAG_TEXT, O(shots_file), "FILE",
      "file with the solved examples; its first N are used, of the question's subject if it has one",
      0, 0, NULL },
    { "--limit", NULL, LM_FLAG_COUNT, O(limit), "N", "number of questions (all)", 1, UINT32_MAX, NULL },
    { "--details", NULL, LM_FLAG_SWITCH, O(details), NULL,
      "with --json, the log-probability of each choice", 0, 0, NULL },
    { 0 },
};

static const lm_flag needle_flag_table[] = {
    { "--lengths", NULL, LM_FLAG_TEXT, O(lengths), "N,N",
      "needle: lengths of the texts, in tokens (512,1024,2048)", 0, 0, NULL },
    { "--depths", NULL, LM_FLAG_TEXT, O(depths), "P,P",
      "needle: positions of the number, in percent (0,25,50,75,100)", 0, 0, NULL },
    { "--samples", NULL, LM_FLAG_COUNT, O(samples), "N",
      "needle: texts per length and position (4)", 1, 10000, NULL },
    { "--predict", "-n --n-predict", LM_FLAG_COUNT, O(predict), "N",
      "tokens to generate: needle (32), speed (64)", 1, 65536, NULL },
    { "--seed", "-s", LM_FLAG_U64, O(seed), "N", "needle: seed of the hidden numbers (1)", 0, 0, NULL },
    { 0 },
};

static const lm_flag_group eval_groups[] = {
    { "evaluation", eval_flag_table, 0 },
    { "perplexity and divergence", text_flag_table, 0 },
    { "questions", choices_flag_table, 0 },
    { "needle and speed", needle_flag_table, 0 },
    { "model", lm_model_flag_table, O(model) },
    { "engine", lm_run_flag_table, O(run) },
    { "adapters", lm_lora_flag_table, O(lora) },
    { "KV cache", lm_cache_flag_table, O(run.cache) },
    { 0 },
};

static void eval_defaults(void *options)
{
    lm_eval_flags *o = options;

    o->seed = 1;
    lm_run_defaults(&o->run);
}

/* ---- the command ---- */

static lm_status save_table(const char *path, const lm_text *t, lm_error *e)
{
    if (!path)
        return LM_OK;
    if (t->failed)
        return lm_fail_memory(e, "a table", t->size);
    return lm_text_save(t, path, e);
}

static lm_status deliver(lm_evaluation *v, lm_error *e)
{
    lm_status status = save_table(v->o->csv, &v->csv, e);

    if (status == LM_OK)
        status = save_table(v->o->markdown, &v->markdown, e);
    LM_TRY(status);
    if (!v->cli->json)
        return lm_out_buf(&v->page, e);
    json_t *document = v->document;
    v->document      = NULL;
    return lm_out_json(v->cli, document, e);
}

static void introduce(lm_evaluation *v)
{
    lm_model_info info;

    lm_model_describe(v->model, &info);
    json_object_set_new(v->document, "kind", json_string(v->kind));
    json_object_set_new(v->document, "model", lm_json_of(info.name, strlen(info.name)));
    lm_text_printf(&v->page, "%-17s %s\n", "model", info.name);
    lm_text_printf(&v->markdown, "| %s of %s | |\n|---|---|\n", v->kind, info.name);
    if (v->text_hash[0]) {
        const char *name = lm_input_name(v->o->file);
        json_object_set_new(v->document, "text",
                            json_pack("{s:o, s:s}", "name", lm_json_of(name, strlen(name)),
                                      "sha256", v->text_hash));
        lm_text_printf(&v->page, "%-17s %s (SHA-256 %.16s…)\n", "text", name, v->text_hash);
        lm_text_printf(&v->markdown, "| text | %s, SHA-256 `%.16s…` |\n", name, v->text_hash);
    }
    json_object_set_new(v->document, "compute", json_string(lm_compute_words[v->o->run.compute]));
}

typedef lm_status kind_run(lm_evaluation *v, lm_error *e);

static const struct kind { const char *name; kind_run *run; bool text; } kinds[] = {
    { "perplexity", lm_evaluate_text, true }, { "kl", lm_evaluate_text, true }, { "choices",
      lm_evaluate_questions, false },
    { "needle", lm_evaluate_needles, false }, { "speed", lm_evaluate_speed, true }, { 0 },
};

static lm_status evaluate(lm_evaluation *v, const struct kind *kind, lm_error *e)
{
    LM_TRY(lm_open_model(v->cli, &v->o->model, v->cli->n_args == 2 ? v->cli->args[0] : NULL, &v->model, e));
    LM_TRY(lm_loras_open(v->cli, &v->o->lora, v->model, &v->loras, e));
    if (kind->text && !(strcmp(kind->name, "kl") == 0 && !v->o->file))
        LM_TRY(lm_eval_read(v, e));
    v->document = json_object();
    introduce(v);
    LM_TRY(kind->run(v, e));
    return deliver(v, e);
}

static lm_status find_kind(const lm_cli *cli, const struct kind **out, lm_error *e)
{
    static const char *const words[] = { "perplexity", "kl", "choices", "needle", "speed", NULL };
    const char              *name    = cli->args[cli->n_args - 1], *near;

    for (const struct kind *k = kinds; k->name; k++)
        if (strcmp(k->name, name) == 0) {
            *out = k;
            return LM_OK;
        }
    lm_fail(e, LM_USAGE, "KIND", LM_NO_OFFSET,
            "unknown measurement \"%s\"; use perplexity, kl, choices, needle or speed", name);
    near = lm_nearest_word(name, words);
    return near ? lm_fail_hint(e, "did you mean %s?", near) : LM_USAGE;
}

static lm_status eval(lm_cli *cli, void *options, lm_error *e)
{
    const struct kind *kind = NULL;
    lm_evaluation      v = { .cli = cli, .o = options };
    lm_status          status;

    LM_TRY(find_kind(cli, &kind, e));
    v.kind = kind->name;
    status = evaluate(&v, kind, e);
    lm_interrupt_watch(NULL);
    lm_engine_free(v.engine);
    lm_engine_free(v.base_engine);
    lm_loras_close(&v.loras);
    lm_model_close(v.model);
    lm_model_close(v.base);
    lm_tokens_free(&v.ids);
    json_decref(v.document);
    lm_text_free(&v.page);
    lm_text_free(&v.csv);
    lm_text_free(&v.markdown);
    return status;
}

const lm_command lm_command_eval = {
    .name = "eval",
    .usage = "[MODEL] perplexity|kl|choices|needle|speed [-f FILE] [flags]",
    .summary = "measure the quality of a model",
    .about = "  perplexity   perplexity of a text, as llama-perplexity computes it; with --rule sliding, "
             "over every token\n"
             "  kl           divergence of the model's predictions from those of --base\n"
             "  choices      share of questions answered correctly, in the form of lm-eval\n"
             "  needle       how often a number hidden in a long text is found, by length and position\n"
             "  speed        tokens per second: prompt processing and generation\n"
             "  Results do not depend on the number of threads or on batching. Use --compute f32 for the "
             "arithmetic of\n"
             "  the reference.\n",
    .groups = eval_groups,
    .foreign = true,
    .min_args = 1,
    .max_args = 2,
    .options_size = sizeof(lm_eval_flags),
    .defaults = eval_defaults,
    .run = eval,
};
