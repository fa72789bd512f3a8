/* lamina train - fine-tune a model: train an adapter on weights of any type, or every weight. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/base/flags.h"
#include "cli/base/interrupt.h"
#include "cli/base/options.h"
#include "cli/base/output.h"
#include "lamina/train.h"

typedef struct train_options {
    lm_model_flags   model;
    lm_run_flags     run;
    lm_train_options o;
    const char      *folder;
    lm_flag_list     targets;
    bool             lora;
    int              schedule, train_on, split;
} train_options;

#define O(field) offsetof(train_options, field)

static const char *const schedule_words[] = { "cosine", "linear", "constant", NULL };
static const char *const train_on_words[] = { "assistant", "all", NULL };

static const char *const split_words[] = { "rows", "blank-lines", NULL };

static const lm_flag what_flags[] = {
    { "--output", "-o --output-dir", LM_FLAG_OUTPUT, O(folder), "DIR",
      "folder to write the adapter, the log and the state to", 0, 0, NULL },
    { "--lora", NULL, LM_FLAG_SWITCH, O(lora), NULL,
      "train an adapter (LoRA) on weights of any type (default)", 0, 0, NULL },
    { "--full", NULL, LM_FLAG_SWITCH, O(o.full), NULL, "train every weight of a model folder", 0, 0, NULL },
    { "--rank", "-r --lora-rank", LM_FLAG_COUNT, O(o.rank), "N", "rank of the adapter (16)", 1, 1024, NULL },
    { "--alpha", "--lora-alpha", LM_FLAG_DOUBLE, O(o.alpha), "X",
      "scale of the adapter's output, times the rank (twice the rank)", 0, 1e9, NULL },
    { "--rslora", NULL, LM_FLAG_SWITCH, O(o.rslora), NULL,
      "divide alpha by the root of the rank", 0, 0, NULL },
    { "--dropout", "--lora-dropout", LM_FLAG_DOUBLE, O(o.dropout), "P",
      "share of an adapter's inputs to drop while training (0)", 0, 1, NULL },
    { "--target", "--targets", LM_FLAG_LIST, O(targets), "REGEX",
      "modules to adapt: q_proj, \"layers\\.[0-3]\\..*\", all, attention, mlp; separated by commas, or repeated (all)",
      0, 0, NULL },
    { "--init-from", NULL, LM_FLAG_TEXT, O(o.init_from), "PATH",
      "adapter to start from, with the same modules, rank and scale", 0, 0, NULL },
    { 0 },
};

static const lm_flag how_flags[] = {
    { "--lr", "--learning-rate", LM_FLAG_DOUBLE, O(o.rate), "X",
      "learning rate (2e-4; with --full 2e-5)", 0, 1e9, NULL },
    { "--lr-min", NULL, LM_FLAG_DOUBLE, O(o.rate_end), "X",
      "learning rate at the end of the schedule (a tenth of --lr)", 0, 1e9, NULL },
    { "--schedule", NULL, LM_FLAG_WORD, O(schedule), "NAME",
      "cosine, linear or constant rate after the warm-up (cosine)", 0, 0, schedule_words },
    { "--warmup", NULL, LM_FLAG_DOUBLE, O(o.warmup), "N",
      "warm-up steps; below 1: share of all steps (0.03)", 0, 1e9, NULL },
    { "--epochs", NULL, LM_FLAG_COUNT, O(o.epochs), "N", "passes over the data (1)", 1, 1000000, NULL },
    { "--steps", "--iters", LM_FLAG_COUNT, O(o.steps), "N",
      "number of steps, instead of --epochs", 1, UINT32_MAX, NULL },
    { "--batch", NULL, LM_FLAG_COUNT, O(o.batch), "N",
      "rows of --context tokens per batch (1)", 1, 65536, NULL },
    { "--accumulate", NULL, LM_FLAG_COUNT, O(o.accumulate), "N", "batches per step (1)", 1, 1000000, NULL },
    { "--clip", NULL, LM_FLAG_DOUBLE, O(o.clip), "X",
      "maximum gradient norm; 0: no clipping (1)", 0, 1e9, NULL },
    { "--weight-decay", NULL, LM_FLAG_DOUBLE, O(o.weight_decay), "X",
      "weight decay of AdamW (0)", 0, 1e9, NULL },
    { "--seed", "-s", LM_FLAG_U64, O(o.seed), "N",
      "seed of the order of texts, the initial values and dropout (0)", 0, 0, NULL },
    { "--mem-limit", "--ram", LM_FLAG_SIZE, O(o.memory), "SIZE",
      "memory limit, kept by computing layers again: 3G (default: the available memory)", 0, 0, NULL },
    { 0 },
};

static const lm_flag data_flags[] = {
    { "--valid", "--val", LM_FLAG_TEXT, O(o.valid), "FILE",
      "texts to validate on, instead of a share of DATA", 0, 0, NULL },
    { "--valid-share", "--val-split", LM_FLAG_DOUBLE, O(o.valid_share), "P",
      "share of DATA to validate on (0.05)", 0, 0.9, NULL },
    { "--valid-every", NULL, LM_FLAG_COUNT, O(o.valid_every), "N",
      "validate every N steps (at the end)", 1, UINT32_MAX, NULL },
    { "--save-every", NULL, LM_FLAG_COUNT, O(o.save_every), "N",
      "save every N steps (at the end)", 1, UINT32_MAX, NULL },
    { "--train-on", NULL, LM_FLAG_WORD, O(train_on), "WHAT",
      "assistant: answers and completions; all: every token (assistant)", 0, 0, train_on_words },
    { "--split", NULL, LM_FLAG_WORD, O(split), "HOW",
      "texts of a .txt file: the file, cut into rows, or what blank lines separate (rows)",
      0, 0, split_words },
    { "--no-pack", NULL, LM_FLAG_SWITCH, O(o.no_packing), NULL,
      "put each text in a separate row", 0, 0, NULL },
    { "--cut", NULL, LM_FLAG_SWITCH, O(o.cut), NULL,
      "truncate texts longer than --context instead of skipping them", 0, 0, NULL },
    { "--skip-bad", NULL, LM_FLAG_SWITCH, O(o.skip_bad), NULL, "skip lines that cannot be read", 0, 0, NULL },
    { "--ids-file", NULL, LM_FLAG_TEXT, O(o.ids_file), "FILE",
      "safetensors file with input_ids and labels, instead of DATA", 0, 0, NULL },
    { "--gradients", NULL, LM_FLAG_OUTPUT, O(o.gradients), "FILE",
      "write the gradients of the first step and train nothing", 0, 0, NULL },
    { "--resume", NULL, LM_FLAG_SWITCH, O(o.resume), NULL, "continue the run in DIR", 0, 0, NULL },
    { "--dry-run", NULL, LM_FLAG_SWITCH, O(o.dry_run), NULL,
      "show the texts as used in training, the steps and the memory; train nothing",
      0, 0, NULL },
    { 0 },
};

static const lm_flag_group train_groups[] = {
    { "adapter", what_flags, 0 },  { "optimisation", how_flags, 0 }, { "data", data_flags, 0 }, { "model",
      lm_model_flag_table, O(model) },
    { "engine", lm_run_flag_table, O(run) }, { 0 },
};

static void train_defaults(void *options)
{
    train_options *o = options;

    o->o = lm_train_defaults();
    lm_run_defaults(&o->run);
}

/* ---- progress and results ---- */

typedef struct watching {
    lm_cli *cli;
    bool    terminal, dry;
    double  seconds;                     /* of all `seen` steps */
    uint32_t seen;
} watching;

static void on_note(void *arg, const char *line)
{
    const watching *w = arg;

    if (w->dry)
        lm_print_line("%s", line);
    else
        lm_note("%s", line);
}

/* Print step, loss, rate, speed and time left on one line, which is overwritten on a terminal. */
static bool on_step(void *arg, const lm_train_step *s)
{
    watching *w = arg;
    char      valid[40] = "", left[40] = "", formatted[LM_FORMATTED], line[240];

    w->seconds += s->seconds;
    w->seen++;
    if (isfinite(s->valid))
        snprintf(valid, sizeof valid, ", validation %.4f", s->valid);
    if (s->step < s->steps)
        snprintf(left, sizeof left, ", %s left",
                 lm_format_time(formatted, w->seconds / w->seen * (s->steps - s->step)));
    snprintf(line, sizeof line, "step %u of %u: loss %.4f (%.4f)%s, rate %.2e, norm %.3f, %s%s%s%s",
             s->step, s->steps, s->loss, s->smoothed, valid, s->rate, s->grad_norm,
             lm_format_rate(formatted, s->tokens, s->seconds), left,
             s->skipped ? ", not finite: skipped" : "", s->saved ? ", saved" : "");
    if (w->terminal && *valid == 0 && s->step < s->steps)
        fprintf(stderr, "\r\033[K%s", line);
    else if (w->terminal)
        fprintf(stderr, "\r\033[K%s\n", line);
    else
        lm_note("%s", line);
    return !lm_interrupted();
}

static lm_status print_json(lm_cli *cli, const train_options *o, const lm_train_result *r, lm_error *e)
{
    json_t *memory = json_pack("{s:I, s:I, s:I, s:I, s:I, s:o}", "weights", (json_int_t)r->memory_base,
                               "mapped", (json_int_t)r->memory_mapped, "trained", (json_int_t)r->memory_state,
                               "activations", (json_int_t)r->memory_activations, "planned",
                               (json_int_t)r->memory_total, "allocated",
                               r->memory_used ? json_integer((json_int_t)r->memory_used) : json_null());
    json_t *data = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "texts", (json_int_t)r->texts,
                             "validation_texts", (json_int_t)r->valid_texts,
                             "left_out", (json_int_t)r->left_out, "cut", (json_int_t)r->shortened,
                             "bad", (json_int_t)r->bad, "tokens", (json_int_t)r->tokens,
                             "trained_tokens", (json_int_t)r->trained);
    json_t *loss = json_pack("{s:o, s:o, s:o, s:o, s:o, s:I}", "first", lm_json_finite(r->loss_first),
                             "last", lm_json_finite(r->loss_last),
                             "validation_first", lm_json_finite(r->valid_first),
                             "validation_last", lm_json_finite(r->valid_last),
                             "validation_best", lm_json_finite(r->valid_best),
                             "best_step", (json_int_t)r->best_step);

    json_t *path = o->folder ? lm_json_of(o->folder, strlen(o->folder)) : json_null();
    json_t *document = json_pack("{s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:f}", "path", path,
                                 "kind", o->o.full ? "full" : "lora", "modules", (json_int_t)r->modules,
                                 "trained_parameters", (json_int_t)r->numbers, "rows", (json_int_t)r->rows,
                                 "steps", (json_int_t)r->steps, "steps_done", (json_int_t)r->done,
                                 "checkpointed_layers", (json_int_t)r->checkpointed, "memory", memory,
                                 "data", data, "loss", loss, "seconds", r->seconds);
    return lm_out_json(cli, document, e);
}

static void summary(const train_options *o, const lm_train_result *r)
{
    char time[LM_FORMATTED], memory[LM_FORMATTED];

    if (o->o.dry_run)
        return;
    if (o->o.gradients)
        lm_note("%s: gradients of %llu numbers, loss %.6f", o->o.gradients, (unsigned long long)r->numbers,
                r->loss_first);
    else if (!isfinite(r->loss_last))
        lm_note("%s: all %u steps are done; nothing was trained", o->folder, r->done);
    else
        lm_note("%s: %u steps, loss %.4f to %.4f%s; %s, %s", o->folder, r->done, r->loss_first, r->loss_last,
                isfinite(r->valid_best) ? ", the best validation in best" : "",
                lm_format_time(time, r->seconds), lm_format_bytes(memory, r->memory_total));
}

static lm_status check(const lm_cli *cli, train_options *o, lm_error *e)
{
    if (o->lora && o->o.full)
        return lm_fail(e, LM_USAGE, cli->command->name, LM_NO_OFFSET, "--lora and --full cannot be combined");
    if (cli->n_args < 2 && !o->o.ids_file)
        return lm_fail(e, LM_USAGE, cli->command->name, LM_NO_OFFSET,
                       "requires MODEL and DATA, or MODEL and --ids-file");
    if (!o->folder && !o->o.dry_run && !o->o.gradients)
        return lm_fail(e, LM_USAGE, cli->command->name, LM_NO_OFFSET,
                       "requires -o, the folder to write to, or --dry-run");
    return LM_OK;
}

static lm_status train(lm_cli *cli, void *options, lm_error *e)
{
    train_options  *o = options;
    lm_model       *m;
    lm_train_result result = { 0 };
    watching w = { .cli = cli,
                   .terminal = lm_err_is_terminal() && !cli->quiet && !cli->json,
                   .dry = o->o.dry_run };
    lm_status       status;

    LM_TRY(check(cli, o, e));
    LM_TRY(lm_flag_split(cli, "--target", &o->targets, e));
    o->model.o.adaptable = true;
    LM_TRY(lm_open_model(cli, &o->model, cli->args[0], &m, e));
    o->o.targets   = o->targets.items;
    o->o.n_targets = o->targets.n;
    o->o.schedule  = (lm_train_schedule)o->schedule;
    o->o.train_on  = (lm_train_on)o->train_on;
    o->o.split     = (lm_train_split)o->split;
    o->o.context   = o->run.context > 0 ? (uint32_t)o->run.context : 0;
    o->o.threads   = o->run.threads;
    o->o.compute   = (lm_compute)o->run.compute;
    o->o.cpu       = o->run.cpu;
    o->o.note      = on_note;
    o->o.step      = on_step;
    o->o.arg       = &w;
    lm_interrupt_watch(NULL);
    status = lm_train(m, cli->n_args > 1 ? cli->args[1] : NULL, o->folder, &o->o, &result, e);
    if (status == LM_OK && cli->json)
        status = print_json(cli, o, &result, e);
    else if (status == LM_OK)
        summary(o, &result);
    lm_model_close(m);
    return status;
}

const lm_command lm_command_train = {
    .name = "train",
    .usage = "MODEL DATA -o DIR [--lora | --full] [--rank N] [--epochs N | --steps N] [--resume] [--dry-run]",
    .summary = "fine-tune a model: adapters on any weights, or all of it",
    .about = "  DATA is a .txt file, one text, or JSON lines of messages, prompt and completion, or text, also\n"
             "  in the forms of Alpaca and ShareGPT. A quantised MODEL is not changed by the adapter (QLoRA).\n"
             "  DIR receives the adapter in the formats of PEFT and llama.cpp, log.jsonl, and the state for\n"
             "  --resume. A resumed run gives bit-identical results. Ctrl-C saves and stops.\n",
    .groups = train_groups,
    .min_args = 1,
    .max_args = 2,
    .options_size = sizeof(train_options),
    .defaults = train_defaults,
    .run = train,
};
