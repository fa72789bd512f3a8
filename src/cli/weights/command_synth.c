/* lamina synth - create a model of a published configuration with random weights, for measurements. */
#include <string.h>
#include <sys/resource.h>

#include "cli/base/interrupt.h"
#include "cli/base/options.h"
#include "cli/base/output.h"
#include "lamina/synth.h"

typedef struct synth_options {
    lm_synth_options o;
    uint32_t shard_mb;
} synth_options;

#define O(field) offsetof(synth_options, field)

static const lm_flag synth_flag_table[] = {
    { "--type", NULL, LM_FLAG_TEXT, O(o.type), "TYPE",
      "GGUF: f16 (default), bf16, f32, q8_0, q6_k, q5_k_m, q4_k_m, q4_0 ... (mixtures as in llama.cpp); "
      "folder: bf16 (default), f16, f32",
      0, 0, NULL },
    { "--pure", NULL, LM_FLAG_SWITCH, O(o.pure), NULL,
      "store every matrix in this type, without mixtures", 0, 0, NULL },
    { "--layers", NULL, LM_FLAG_COUNT, O(o.layers), "N",
      "number of decoder layers (default: the model's)", 1, 1024, NULL },
    { "--seed", "-s", LM_FLAG_U64, O(o.seed), "N",
      "random seed; the same seed gives the same weights in every type and format (0)", 0, 0, NULL },
    { "--tokenizer", NULL, LM_FLAG_TEXT, O(o.tokenizer), "FILE",
      "vocabulary to copy: .gguf to .gguf, folder or tokenizer.json to folder (default: a generated one)",
      0, 0, NULL },
    { "--shard-size", NULL, LM_FLAG_COUNT, O(shard_mb), "MB",
      "maximum size of one weight file of a folder, in megabytes (5000)", 1, 1e6, NULL },
    { "--threads", "-t", LM_FLAG_COUNT, O(o.threads), "N",
      "threads (default: physical cores)", 0, 1024, NULL },
    { "--force", "-f", LM_FLAG_SWITCH, O(o.overwrite), NULL, "replace OUT if it exists", 0, 0, NULL },
    { 0 },
};

static const lm_flag_group synth_groups[] = {
    { "model to create", synth_flag_table, 0 },
    { 0 },
};

/* Return the peak memory of the process in bytes; 0: unknown. */
static uint64_t peak(void)
{
    struct rusage u;

    return getrusage(RUSAGE_SELF, &u) == 0 ? (uint64_t)u.ru_maxrss * 1024 : 0;
}

static lm_status report(lm_cli *cli, const char *out, const lm_synth_result *r, lm_error *e)
{
    char a[LM_FORMATTED], b[LM_FORMATTED], c[LM_FORMATTED], d[LM_FORMATTED];

    if (cli->json)
        return lm_out_json(cli, json_pack("{s:o, s:s, s:I, s:i, s:i, s:i, s:I, s:f, s:I}",
                                          "path", lm_json_of(out, strlen(out)), "type", r->type,
                                          "parameters", (json_int_t)r->parameters, "layers", (int)r->layers,
                                          "tensors", (int)r->tensors, "files", (int)r->files,
                                          "bytes", (json_int_t)r->bytes, "seconds", r->seconds,
                                          "peak_memory", (json_int_t)peak()), e);
    lm_note("%s: %s, %s parameters in %u layer%s, %s in %u tensor%s; %s, %s of memory at most", out, r->type,
            lm_format_count(a, r->parameters), r->layers, r->layers == 1 ? "" : "s",
            lm_format_bytes(b, r->bytes), r->tensors, r->tensors == 1 ? "" : "s",
            lm_format_time(c, r->seconds), lm_format_bytes(d, peak()));
    return LM_OK;
}

/* Reject names that end like another kind of weight file, since they would become folders. */
static lm_status check_name(const char *out, lm_error *e)
{
    static const char *const files[] = { "bin",  "safetensors", "json", "pt",  "pth",
                                         "ggml", "onnx",        "zip",  "tar", NULL };
    const char *dot = strrchr(out, '.');

    for (size_t i = 0; dot && files[i]; i++)
        if (strcmp(dot + 1, files[i]) == 0)
            return lm_fail(e, LM_USAGE, out, LM_NO_OFFSET,
                           "OUT is a file that ends in .gguf, or a folder; no .%s is written", files[i]);
    return LM_OK;
}

static lm_status synth(lm_cli *cli, void *options, lm_error *e)
{
    synth_options *o = options;
    lm_model_flags model = { .model = cli->args[0] };
    lm_progress bar = lm_progress_start("writing");
    lm_synth_result result;
    const char *path;
    lm_status status;

    if (!*cli->args[1])
        return lm_fail(e, LM_USAGE, "OUT", LM_NO_OFFSET, "the file name is empty");
    LM_TRY(check_name(cli->args[1], e));
    LM_TRY(lm_find_model(cli, &model, NULL, &path, e));
    o->o.shard_bytes = (uint64_t)o->shard_mb * 1000000;
    o->o.progress = lm_interrupt_progress;
    o->o.progress_arg = &bar;
    lm_interrupt_watch(NULL);
    status = lm_synth(path, cli->args[1], &o->o, &result, e);
    lm_progress_end(&bar);
    LM_TRY(status);
    return report(cli, cli->args[1], &result, e);
}

const lm_command lm_command_synth = {
    .name = "synth",
    .usage = "PRESET|config.json OUT [--type T] [--layers N] [--seed S]",
    .summary = "create a model of a known shape with random weights",
    .about = "  OUT is a file name ending in .gguf, or the Hugging Face folder to create. The weights are "
             "random: use the model\n"
             "  to measure. K and IQ4 block scales are chosen by a quick rule, not optimised as a real "
             "quantiser would.\n",
    .groups = synth_groups,
    .min_args = 2,
    .max_args = 2,
    .options_size = sizeof(synth_options),
    .run = synth,
};
