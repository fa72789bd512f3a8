/* lamina merge - add adapters to a model's weights and write the result to a new file. */
#include <string.h>

#include "cli/base/interrupt.h"
#include "cli/base/options.h"
#include "cli/base/output.h"
#include "cli/run/adapting.h"
#include "lamina/merge.h"

#define O(field) offsetof(lm_merge_options, field)

static const lm_flag merge_flag_table[] = {
    { "--type", NULL, LM_FLAG_TEXT, O(type), "TYPE",
      "type of the tensors that change: f32, f16 or bf16 (default: as they are stored)", 0, 0, NULL },
    { "--lossy", NULL, LM_FLAG_SWITCH, O(lossy), NULL,
      "allow rounding to a quantised type, even if it loses most of the adapter", 0, 0, NULL },
    { "--clamp", NULL, LM_FLAG_SWITCH, O(clamp), NULL,
      "limit values that do not fit the type of their tensor (default: an error if you "
      "named the type, otherwise bf16 or f32)", 0, 0, NULL },
    { "--dry-run", NULL, LM_FLAG_SWITCH, O(dry_run), NULL,
      "measure how much of the adapter would remain; write nothing", 0, 0, NULL },
    { "--threads", "-t", LM_FLAG_COUNT, O(threads), "N", "threads (default: physical cores)", 0, 1024, NULL },
    { "--force", "-f", LM_FLAG_SWITCH, O(overwrite), NULL, "replace OUT if it exists", 0, 0, NULL },
    { 0 },
};

static const lm_flag_group merge_groups[] = {
    { "merging", merge_flag_table, 0 },
    { 0 },
};

static json_t *tensors_of(const lm_merge_result *r)
{
    json_t *list = json_array();

    for (size_t i = 0; i < r->n_tensors; i++) {
        const lm_merged_tensor *t = &r->tensors[i];
        json_array_append_new(list, json_pack("{s:o, s:s, s:s, s:I, s:f, s:f, s:f}",
                                              "name", lm_json_of(t->name, strlen(t->name)), "from", t->from,
                                              "to", t->to, "bytes", (json_int_t)t->bytes, "change", t->change,
                                              "kept", t->kept, "noise", t->noise));
    }
    return list;
}

static json_t *adapters_of(const lm_loras *l)
{
    json_t *list = json_array();

    for (size_t i = 0; i < l->n; i++) {
        lm_adapter_info info;
        lm_adapter_describe(l->adapters[i], &info);
        json_array_append_new(list,
                              json_pack("{s:o, s:f}", "path", lm_json_of(info.source, strlen(info.source)),
                                        "scale", (double)l->scales[i]));
    }
    return list;
}

static lm_status report(lm_cli *cli, const char *out, const lm_loras *l, const lm_merge_result *r, bool dry,
                        lm_error *e)
{
    char    bytes[LM_FORMATTED], time[LM_FORMATTED];
    json_t *notes = json_array();

    for (size_t i = 0; i < r->n_notes; i++) {
        lm_warn("%s", r->notes[i]);
        json_array_append_new(notes, lm_json_of(r->notes[i], strlen(r->notes[i])));
    }
    if (cli->json) {
        json_t *path = dry ? json_null() : lm_json_of(out, strlen(out));
        return lm_out_json(cli, json_pack("{s:o, s:o, s:I, s:f, s:f, s:f, s:f, s:o, s:o}", "path", path,
                                          "adapters", adapters_of(l), "bytes", (json_int_t)r->bytes,
                                          "seconds", r->seconds, "change", r->change, "kept", r->kept,
                                          "noise", r->noise, "warnings", notes, "tensors", tensors_of(r)), e);
    }
    json_decref(notes);
    if (cli->verbose)
        for (size_t i = 0; i < r->n_tensors; i++)
            lm_note("%-48s %s to %s, update %.3g %%, kept %.4g %%, noise %.3g %%", r->tensors[i].name,
                    r->tensors[i].from, r->tensors[i].to, 100 * r->tensors[i].change,
                    100 * r->tensors[i].kept, 100 * r->tensors[i].noise);
    lm_note("%s: %s, %zu tensor%s changed by %.3g %% of their size; %.4g %% of that is in the file, with "
            "%.3g %% of noise; %s",
            dry ? "dry run" : out, lm_format_bytes(bytes, r->bytes), r->n_tensors,
            r->n_tensors == 1 ? "" : "s", 100 * r->change, 100 * r->kept, 100 * r->noise,
            lm_format_time(time, r->seconds));
    return LM_OK;
}

static lm_status merge_open(lm_cli *cli, lm_merge_options *o, const lm_model *m, const char *out, lm_error *e)
{
    bool dry = o->dry_run;
    lm_lora_flags named = { .files = { .items = cli->args + 1,
                                       .n = cli->n_args - 1 - (out != NULL) } };
    lm_loras list;
    lm_merge_result result = { 0 };

    LM_TRY(lm_loras_open(cli, &named, m, &list, e));
    lm_progress bar = lm_progress_start("merging");
    o->scales = list.scales;
    o->progress = lm_interrupt_progress;
    o->progress_arg = &bar;
    lm_interrupt_watch(NULL);
    lm_status status = lm_merge(m, (const lm_adapter *const *)list.adapters, out, o, &result, e);
    lm_progress_end(&bar);
    if (status == LM_OK)
        status = report(cli, out, &list, &result, dry, e);
    lm_merge_free(&result);
    lm_loras_close(&list);
    return status;
}

static lm_status merge(lm_cli *cli, void *options, lm_error *e)
{
    lm_merge_options *o = options;
    lm_model_flags model = { .model = cli->args[0] };
    lm_model_options how = {
        .mla = "naive"
    };          /* only in this form can projections of latents have adapters */
    bool with_out = !o->dry_run;
    const char *path, *out = with_out ? cli->args[cli->n_args - 1] : NULL;
    lm_model *m;

    if (cli->n_args < 2 + (size_t)with_out)
        return lm_fail(e, LM_USAGE, cli->command->name, LM_NO_OFFSET,
                       "requires MODEL, ADAPTER and OUT; with --dry-run no OUT");
    LM_TRY(lm_find_weights(cli, &model, NULL, &path, e));
    LM_TRY(lm_model_open(path, &how, &m, e));
    lm_status status = merge_open(cli, o, m, out, e);
    lm_model_close(m);
    return status;
}

const lm_command lm_command_merge = {
    .name = "merge",
    .usage = "MODEL ADAPTER[:SCALE] ... OUT [--type TYPE] [--lossy]",
    .summary = "merge adapters into a model's weights",
    .about = "  MODEL is a GGUF file, and OUT one to create; or both are Hugging Face folders. ADAPTER: as "
             "in --lora of lamina\n"
             "  run. Quantised weights need --lossy or --type: 4-bit blocks preserve a few per cent of a "
             "typical adapter.\n",
    .groups = merge_groups,
    .min_args = 2,
    .max_args = 64,
    .options_size = sizeof(lm_merge_options),
    .run = merge,
};
