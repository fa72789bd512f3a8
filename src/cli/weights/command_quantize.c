/* lamina quantize - quantise a model's weights into a GGUF file. */
#include <stdio.h>
#include <string.h>

#include "cli/base/interrupt.h"
#include "cli/base/options.h"
#include "cli/base/output.h"
#include "cli/weights/quantize_budget.h"
#include "lamina/quantize.h"

typedef struct quantize_options {
    lm_quantize_options o;
    lm_flag_list keep;
    lm_budget_flags budget;
} quantize_options;

#define O(field) offsetof(quantize_options, field)

static const lm_flag quantize_flag_table[] = {
    { "--imatrix", NULL, LM_FLAG_TEXT, O(o.imatrix), "FILE",
      "importance matrix from llama-imatrix, as GGUF or .dat", 0, 0, NULL },
    { "--keep", "--tensor-type", LM_FLAG_LIST, O(keep), "REGEX=TYPE",
      "type of the tensors whose names match REGEX; may be repeated, the first match applies", 0, 0, NULL },
    { "--output-type", "--output-tensor-type", LM_FLAG_TEXT, O(o.output_type), "TYPE",
      "type of output.weight", 0, 0, NULL },
    { "--embedding-type", "--token-embedding-type", LM_FLAG_TEXT, O(o.embedding_type), "TYPE",
      "type of token_embd.weight", 0, 0, NULL },
    { "--pure", NULL, LM_FLAG_SWITCH, O(o.pure), NULL,
      "store every matrix in TYPE, without the mixture", 0, 0, NULL },
    { "--requantize", "--allow-requantize", LM_FLAG_SWITCH, O(o.requantize), NULL,
      "accept tensors that are already quantised", 0, 0, NULL },
    { "--clamp", NULL, LM_FLAG_SWITCH, O(o.clamp), NULL,
      "limit values that do not fit the type of their tensor (default: an error if you "
      "named the type, otherwise bf16 or f32)", 0, 0, NULL },
    { "--split-max-size", NULL, LM_FLAG_SIZE, O(o.part_bytes), "SIZE",
      "maximum size of the tensors in one part of OUT: 2G", 0, 0, NULL },
    { "--split-max-tensors", NULL, LM_FLAG_COUNT, O(o.part_tensors), "N",
      "maximum number of tensors in one part of OUT", 0, 65535, NULL },
    { "--dry-run", NULL, LM_FLAG_SWITCH, O(o.dry_run), NULL,
      "print types and sizes; write nothing", 0, 0, NULL },
    { "--threads", "-t", LM_FLAG_COUNT, O(o.threads), "N",
      "threads (default: physical cores)", 0, 1024, NULL },
    { "--force", "-f", LM_FLAG_SWITCH, O(o.overwrite), NULL, "replace OUT if it exists", 0, 0, NULL },
    { 0 },
};

static const lm_flag budget_flag_table[] = {
    { "--budget", NULL, LM_FLAG_DOUBLE, O(budget.budget), "BPW",
      "target bits per weight; the type of each tensor is chosen by its measured error on --text",
      0.5, 32, NULL },
    { "--size", NULL, LM_FLAG_SIZE, O(budget.size), "BYTES", "target file size instead: 2.0G", 0, 0, NULL },
    { "--text", "--calibration", LM_FLAG_TEXT, O(budget.text), "FILE",
      "text to measure on, similar to what the model is used for", 0, 0, NULL },
    { "--chunk", NULL, LM_FLAG_COUNT, O(budget.chunk), "N", "tokens per chunk (256)", 2, 65536, NULL },
    { "--chunks", NULL, LM_FLAG_COUNT, O(budget.chunks), "N",
      "chunks to process (2): half choose the types, half measure the result", 1, 65536, NULL },
    { "--minutes", NULL, LM_FLAG_DOUBLE, O(budget.minutes), "N",
      "time limit for measuring tensors, in minutes (no limit); the rest get the mean of their kind",
      0.001, 1e6, NULL },
    { "--state", NULL, LM_FLAG_TEXT, O(budget.state), "FILE",
      "file for intermediate results; an interrupted run continues from it", 0, 0, NULL },
    { "--curve", NULL, LM_FLAG_TEXT, O(budget.curve), "FILE",
      "write the gain of each step as JSON", 0, 0, NULL },
    { 0 },
};

static const lm_flag_group quantize_groups[] = {
    { "weights", quantize_flag_table, 0 },
    { "types by measurement", budget_flag_table, 0 },
    { 0 },
};

static json_t *tensors_of(const lm_quantize_result *r)
{
    json_t *list = json_array();

    for (size_t i = 0; i < r->n_tensors; i++) {
        const lm_quantized_tensor *t = &r->tensors[i];
        json_t *one = json_pack("{s:o, s:s, s:s, s:I, s:f, s:i}",
                                "name", lm_json_of(t->name, strlen(t->name)), "from", t->from, "to", t->to,
                                "bytes", (json_int_t)t->bytes, "rmse", t->rmse, "part", (int)t->part);
        json_array_append_new(list, one);
    }
    return list;
}

static uint32_t files_of(const lm_quantize_result *r)
{
    return r->n_tensors ? r->tensors[r->n_tensors - 1].part + 1 : 1;
}

static lm_status print_json(lm_cli *cli, const lm_quantize_result *r, bool dry, lm_error *e)
{
    json_t *notes = json_array(), *path = dry ? json_null() : lm_json_of(r->path, strlen(r->path));

    for (size_t i = 0; i < r->n_notes; i++)
        json_array_append_new(notes, lm_json_of(r->notes[i], strlen(r->notes[i])));
    return lm_out_json(cli, json_pack("{s:o, s:s, s:I, s:i, s:I, s:f, s:f, s:o, s:o}", "path", path,
                                      "type", r->type, "bytes", (json_int_t)r->bytes,
                                      "files", (int)files_of(r), "bytes_before", (json_int_t)r->was,
                                      "bpw", r->bits_per_weight, "seconds", r->seconds, "warnings", notes,
                                      "tensors", tensors_of(r)), e);
}

/* Warn about tensors that have another type because their rows do not fit the chosen one, about tensors that
 * keep the type in which they are stored, and about tensors that the importance matrix does not contain. */
static void warn(const lm_quantize_result *r)
{
    size_t   replaced = 0, unweighted = 0, packed = 0, left = 0;
    uint64_t bytes = 0;

    for (size_t i = 0; i < r->n_tensors; i++) {
        replaced += r->tensors[i].replaced;
        bytes += r->tensors[i].replaced ? r->tensors[i].bytes : 0;
        bool outside = strcmp(r->tensors[i].name, "token_embd.weight") == 0 ||
                       strcmp(r->tensors[i].name, "output.weight") == 0;
        /* llama-imatrix does not collect those two by default */
        unweighted += r->tensors[i].unweighted && !outside;
        packed += strcmp(r->tensors[i].from, r->tensors[i].to) != 0;
        left += strcmp(r->tensors[i].from, "mxfp4") == 0 && strcmp(r->tensors[i].to, "mxfp4") == 0;
    }
    if (replaced)
        lm_warn("%zu of %zu tensors have rows that do not fit the blocks of %s and take a type of smaller "
                "blocks (%.1f %% of the "
                "bytes)",
                replaced, r->n_tensors, r->type, 100.0 * (double)bytes / (double)r->bytes);
    if (left && strcmp(r->type, "mxfp4_moe") != 0)
        lm_warn("%zu tensor%s mxfp4, the type in which the model was trained; --requantize gives them the "
                "types of %s",
                left, left == 1 ? " keeps" : "s keep", r->type);
    if (unweighted)
        lm_warn("%zu of %zu quantised tensors %s not in the importance matrix", unweighted, packed,
                unweighted == 1 ? "is" : "are");
}

/* Print one line per pair of types, from and to. */
static lm_status print_table(const lm_quantize_result *r, lm_error *e)
{
    lm_text out = { 0 };
    char figure[LM_FORMATTED];

    lm_text_printf(&out, "%-10s %-10s %8s %12s\n", "from", "to", "tensors", "bytes");
    for (size_t i = 0; i < r->n_tensors; i++) {
        size_t n = 0, before = 0;
        uint64_t bytes = 0;
        for (size_t k = 0; k < r->n_tensors; k++) {
            if (strcmp(r->tensors[k].from, r->tensors[i].from) != 0 ||
                strcmp(r->tensors[k].to, r->tensors[i].to) != 0)
                continue;
            before += k < i;
            n++;
            bytes += r->tensors[k].bytes;
        }
        if (!before)
            lm_text_printf(&out, "%-10s %-10s %8zu %12s\n", r->tensors[i].from, r->tensors[i].to, n,
                           lm_format_bytes(figure, bytes));
    }
    return lm_out_free(&out, e);
}

static lm_status report(lm_cli *cli, const lm_quantize_result *r, bool dry, lm_error *e)
{
    char a[LM_FORMATTED], b[LM_FORMATTED], c[LM_FORMATTED], files[40] = "";
    uint32_t n = files_of(r);

    for (size_t i = 0; i < r->n_notes; i++)
        lm_warn("%s", r->notes[i]);
    warn(r);
    if (cli->json)
        return print_json(cli, r, dry, e);
    if (dry || cli->verbose)
        LM_TRY(print_table(r, e));
    if (n > 1)
        snprintf(files, sizeof files, " in %u files", n);
    lm_note("%s: %s, %s%s from %s, %.2f bits per weight, %zu tensor%s; %s", dry ? "dry run" : r->path,
            r->type, lm_format_bytes(a, r->bytes), files, lm_format_bytes(b, r->was), r->bits_per_weight,
            r->n_tensors, r->n_tensors == 1 ? "" : "s", lm_format_time(c, r->seconds));
    return LM_OK;
}

/* Combine the types given by --keep with those found by measurement. The given ones come first, since the
 * first match applies. */
static lm_status all_kept(lm_cli *cli, quantize_options *o, const lm_allotment *found, lm_error *e)
{
    const char **all = lm_store_new(&cli->store, o->keep.n + found->n_keep + 1, const char *);

    if (!all)
        return lm_fail_memory(e, "types", found->n_keep * sizeof *all);
    for (size_t i = 0; i < o->keep.n; i++)
        all[i] = o->keep.items[i];
    for (size_t i = 0; i < found->n_keep; i++)
        all[o->keep.n + i] = found->keep[i];
    o->o.keep = all;
    o->o.n_keep = o->keep.n + found->n_keep;
    return LM_OK;
}

static lm_status make(lm_cli *cli, quantize_options *o, const char *path, const char *out, const char *type,
                      lm_error *e)
{
    lm_quantize_result result = { 0 };
    lm_progress bar = lm_progress_start("quantising");

    o->o.measure = cli->json;
    o->o.progress = lm_interrupt_progress;
    o->o.progress_arg = &bar;
    lm_interrupt_watch(NULL);
    lm_status status = lm_quantize(path, out, type, &o->o, &result, e);
    lm_progress_end(&bar);
    LM_TRY(status);
    status = report(cli, &result, o->o.dry_run, e);
    lm_quantize_free(&result);
    return status;
}

static lm_status quantize(lm_cli *cli, void *options, lm_error *e)
{
    quantize_options *o = options;
    lm_model_flags model = { .model = cli->args[0] };
    bool measured = lm_budget_requested(&o->budget), two = cli->n_args == 2 && !measured;
    const char *out = two ? NULL : cli->args[1],
               *type = two                ? cli->args[1]
                       : cli->n_args == 3 ? cli->args[2]
                                          : "q4_k_m",
               *path;
    lm_allotment found = { 0 };

    if (two && !o->o.dry_run)
        return lm_fail(e, LM_USAGE, cli->command->name, LM_NO_OFFSET,
                       "requires IN, OUT and TYPE; OUT may be left out with --dry-run");
    if (!measured && (o->budget.text || o->budget.curve || o->budget.state))
        return lm_fail(e, LM_USAGE, cli->command->name, LM_NO_OFFSET,
                       "--text, --state and --curve require --budget or --size");
    LM_TRY(lm_find_weights(cli, &model, NULL, &path, e));
    if (measured)
        LM_TRY(lm_budget_search(cli, &o->budget, &o->o, path, &found, e));
    lm_status status = all_kept(cli, o, &found, e);
    if (status == LM_OK)
        status = make(cli, o, path, out, type, e);
    lm_allot_free(&found);
    return status;
}

const lm_command lm_command_quantize = {
    .name = "quantize",
    .usage = "IN OUT TYPE [--imatrix FILE] [--keep REGEX=TYPE] [--budget BPW --text FILE] [--dry-run]",
    .summary = "quantise a model's weights",
    .about = "  IN is a Hugging Face folder or a GGUF file (any part of a split one), preferably in f32, f16 "
             "or bf16. OUT is the GGUF\n"
             "  file to create. TYPE: q8_0, q6_k, q5_k_m, q4_k_m, q4_0, iq4_xs, iq3_m ... The type and bytes "
             "of each tensor are\n"
             "  those of llama-quantize; mxfp4 and iq1 to iq3 have a smaller error. Types below 3 bits "
             "require --imatrix.\n",
    .groups = quantize_groups,
    .min_args = 2,
    .max_args = 3,
    .options_size = sizeof(quantize_options),
    .run = quantize,
};
