/* options.c - the flags that commands share, and what they do: find and open a model, start an engine.
 *
 * The tables come first. lm_open_model and lm_start_engine are the two functions that every command which
 * runs a model calls, in this order; the caller owns what they return. Long work runs between
 * lm_interrupt_record and lm_interrupt_release. */
#include "cli/base/options.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/os/thread.h"
#include "cli/base/from_hub.h"
#include "cli/base/interrupt.h"
#include "cli/base/output.h"
#include "lamina/machine.h"

enum { CONTEXT_AUTO = -2, LEAST_CONTEXT = 256 };         /* -2: the first word of an LM_FLAG_INT (flags.c) */

#define M(field) offsetof(lm_model_flags, field)
#define R(field) offsetof(lm_run_flags, field)

const lm_flag lm_model_flag_table[] = {
    { "--model", "-m", LM_FLAG_TEXT, M(model), "MODEL",
      "a .gguf file, a Hugging Face folder, or a name from the cache", 0, 0, NULL },
    { "--hf-repo", "-hf -hfr", LM_FLAG_TEXT, M(model), "ORG/NAME[:TYPE]",
      "model by its name on the hub; downloaded first if the cache lacks it", 0, 0, NULL },
    { "--no-mmap", NULL, LM_FLAG_SWITCH, M(o.no_mmap), NULL,
      "read the files into memory instead of mapping them", 0, 0, NULL },
    { "--allow-unused", NULL, LM_FLAG_SWITCH, M(o.allow_unused), NULL,
      "report unused tensors as a warning instead of an error", 0, 0, NULL },
    { "--pre", NULL, LM_FLAG_TEXT, M(o.pre), "NAME",
      "pre-tokenizer to use when a GGUF file names an unknown one", 0, 0, NULL },
    { "--rope-scaling", NULL, LM_FLAG_TEXT, M(o.rope_scaling), "TYPE",
      "RoPE scaling method: none, linear or yarn (default: the model's)", 0, 0, NULL },
    { "--rope-scale", NULL, LM_FLAG_DOUBLE, M(rope_scale), "N",
      "RoPE context scaling factor", 1e-6, 1e6, NULL },
    { "--rope-freq-base", NULL, LM_FLAG_DOUBLE, M(o.rope_freq_base), "X",
      "RoPE base frequency (default: the model's)", 1e-3, 1e12, NULL },
    { "--rope-freq-scale", NULL, LM_FLAG_DOUBLE, M(o.rope_freq_scale), "X",
      "RoPE frequency scale: 1 / context scaling factor", 1e-6, 1e6, NULL },
    { "--sliding-window", NULL, LM_FLAG_INT, M(window), "N",
      "sliding-window size in tokens; -1: no window (default: the model's)", -1, INT32_MAX, NULL },
    { "--mla", NULL, LM_FLAG_TEXT, M(o.mla), "FORM",
      "form of latent attention (MLA): absorbed (default) or naive", 0, 0, NULL },
    { "--yarn-orig-ctx", NULL, LM_FLAG_COUNT, M(o.yarn_orig_ctx), "N",
      "YaRN: context length before scaling (default: the model's)", 0, 0, NULL },
    { 0 },
};

const char *const lm_kv_words[] = {
    [LM_KV_F16] = "f16",   [LM_KV_F32] = "f32",   [LM_KV_BF16] = "bf16", [LM_KV_Q8_0] = "q8_0",
    [LM_KV_Q4_0] = "q4_0", [LM_KV_Q4_1] = "q4_1", [LM_KV_Q5_0] = "q5_0", [LM_KV_Q5_1] = "q5_1", NULL,
};
const char *const lm_compute_words[] = {
    [LM_COMPUTE_AUTO] = "auto", [LM_COMPUTE_F32] = "f32", [LM_COMPUTE_FINE] = "fine", NULL,
};

#define K(field) offsetof(lm_cache_flags, field)
#define KV_WORDS "f16|f32|bf16|q8_0|q4_0|q4_1|q5_0|q5_1"

const lm_flag lm_cache_flag_table[] = {
    { "--cache-type-k", "-ctk", LM_FLAG_WORD, K(keys), KV_WORDS,
      "data type of the cached keys (f16; verify and embed: f32)", 0, 0, lm_kv_words },
    { "--cache-type-v", "-ctv", LM_FLAG_WORD, K(values), KV_WORDS,
      "data type of the cached values (f16; verify and embed: f32)", 0, 0, lm_kv_words },
    { "--kv-type", NULL, LM_FLAG_WORD, K(both), KV_WORDS,
      "data type of the KV cache, keys and values", 0, 0, lm_kv_words },
    { 0 },
};

static const char *const context_words[] = { "auto", NULL };

const lm_flag lm_run_flag_table[] = {
    { "--ctx-size", "-c --context", LM_FLAG_INT, R(context), "N|auto",
      "context size in tokens; 0: the model's full context; auto: the largest that fits in memory (default: "
      "as large as needed, at "
      "least 8192 if the model supports it)",
      0, INT32_MAX, context_words },
    { "--batch-size", "-b", LM_FLAG_COUNT, R(batch), "N",
      "logical batch size in tokens (2048)", 1, 1 << 20, NULL },
    { "--ubatch-size", "-ub", LM_FLAG_COUNT, R(ubatch), "N",
      "physical batch size in tokens; the smaller of -b and -ub applies (512)", 1, 1 << 20, NULL },
    { "--threads", "-t", LM_FLAG_COUNT, R(threads), "N",
      "threads used to generate (default: physical cores)", 0, 1024, NULL },
    { "--threads-batch", "-tb", LM_FLAG_COUNT, R(threads_batch), "N",
      "threads used to process prompts (default: same as --threads)", 0, 1024, NULL },
    { "--no-repack", "-nr", LM_FLAG_SWITCH, R(no_repack), NULL,
      "run from the mapped file without repacking, for models larger than memory; slower, same output",
      0, 0, NULL },
    { "--compute", NULL, LM_FLAG_WORD, R(compute), "auto|fine|f32",
      "auto: fastest path for the weight type; fine: fast paths with 15-bit activations; "
      "f32: float32 arithmetic, like the reference",
      0, 0, lm_compute_words },
    { "--cpu", NULL, LM_FLAG_TEXT, R(cpu), "LEVEL",
      "highest instruction set to use: ref, avx2, avx512 ... (default: the best available)", 0, 0, NULL },
    { 0 },
};

/* ---- models ---- */

/* Print a note about which preset was found, if it was given by another name than its own. */
static void name_preset(const char *given, const char *path)
{
    const char *name = path + strlen(LM_PRESET_PREFIX);
    const lm_preset *p;

    if (strncmp(path, LM_PRESET_PREFIX, strlen(LM_PRESET_PREFIX)) != 0 || strcmp(given, path) == 0)
        return;
    if (strcasecmp(given, name) != 0 && lm_preset_find(name, &p, NULL) == LM_OK)
        lm_note("%s: the preset %s, %s (%s)", given, name, p->title, p->source);
}

lm_status lm_check_names(const lm_flag_list *names, size_t models, lm_error *e)
{
    if (names->n <= models)
        return LM_OK;
    return lm_fail(e, LM_USAGE, "--name", LM_NO_OFFSET, "given %zu times for %zu model%s", names->n, models,
                   models == 1 ? "" : "s");
}

/* Fetch the headers of a model that is not on this machine from the hub. If that fails too, *e keeps the
 * first error, unless it was cancelled or the model is damaged. */
static lm_status look_at_hub(lm_cli *cli, const char *name, const char **path, lm_error *e)
{
    lm_error why = { .offset = LM_NO_OFFSET };

    lm_status status = lm_hub_heads(cli, name, path, &why);
    if (status == LM_OK)
        return LM_OK;
    if (status != LM_NOT_FOUND || strstr(why.message, "status"))
        lm_note("%s: %s", why.where, why.message);
    if (status == LM_CANCELLED || status == LM_BAD_MODEL) {
        *e = why;
        return status;
    }
    return LM_NOT_FOUND;
}

lm_status lm_find_model(lm_cli *cli, const lm_model_flags *f, const char *argument, const char **path,
                        lm_error *e)
{
    const char *name = lm_hub_bare(f->model ? f->model : argument);
    lm_text found = { 0 };

    if (f->model && argument)
        return lm_fail(e, LM_USAGE, argument, LM_NO_OFFSET, "already given by --model: %s", f->model);
    if (name && f->model && lm_is_hub_name(cli))
        return f->heads ? lm_hub_heads(cli, name, path, e) : lm_hub_fetch(cli, name, path, e);
    lm_status status = lm_model_locate(name, &found, e);
    if (status == LM_NOT_FOUND && !name)
        lm_fail_hint(e, "name a .gguf file, a Hugging Face folder, or org/name from its cache; "
                        "in the source tree scripts/setup demo fetches the demo model (91 MB)");
    if (status == LM_NOT_FOUND && f->heads && lm_hub_may_have(name))
        return look_at_hub(cli, name, path, e);
    LM_TRY(status);
    *path = lm_store_strdup(&cli->store, found.data);
    lm_text_free(&found);
    if (!*path)
        return lm_fail_memory(e, "a path", 0);
    if (!name)
        lm_note("no MODEL given: this is the demo model, SmolLM2-135M-Instruct (%s)", *path);
    else
        name_preset(name, *path);
    return LM_OK;
}

/* Print a note about the source of the weights of a preset that was to be run. */
static void name_weights(const char *path)
{
    const lm_preset *p = NULL;
    const size_t n = strlen(LM_PRESET_PREFIX);

    if (strncmp(path, LM_PRESET_PREFIX, n) == 0 && lm_preset_find(path + n, &p, NULL) == LM_OK)
        lm_note("%s is a preset, a shape without weights; its source: %s", p->name, p->source);
    const char *published = p ? lm_hub_bare(p->source) : NULL;
    if (p && published != p->source)
        lm_note("lamina pull %.*s downloads its weights", (int)strcspn(published, " ;"), published);
}

/* Say where the model of a command that runs it may come from, after an error about its name. */
static void hint_at_models(const lm_cli *cli, const char *name, lm_status status, lm_error *e)
{
    if (status == LM_NOT_FOUND && lm_hub_may_have(name) && !lm_is_hub_name(cli))
        lm_fail_hint(e, "lamina pull %s downloads it, and so does -hf in place of -m", name);
    else if (strchr(name, ' ') && (strcmp(cli->command->name, "run") == 0))
        lm_fail_hint(e, "a prompt without a MODEL is given with -p: lamina run -p TEXT");
    else if (status == LM_NOT_FOUND || status == LM_USAGE)
        lm_fail_hint(e, "name a .gguf file, a folder, or org/name; lamina pull ORG/NAME downloads a model, "
                        "lamina doctor lists the models of the cache");
}

lm_status lm_find_weights(lm_cli *cli, const lm_model_flags *f, const char *argument, const char **path,
                          lm_error *e)
{
    const char *name = lm_hub_bare(f->model ? f->model : argument);
    const size_t n = strlen(LM_PRESET_PREFIX);
    lm_status status = lm_find_model(cli, f, argument, path, e);

    if (status != LM_OK && name && !(f->model && argument))
        hint_at_models(cli, name, status, e);
    if (status != LM_OK || strncmp(*path, LM_PRESET_PREFIX, n) != 0)
        return status;
    name_weights(*path);
    lm_fail(e, LM_USAGE, *path + n, LM_NO_OFFSET, "a preset has no weights and no tokenizer");
    return lm_fail_hint(e, "use lamina synth %s OUT.gguf to create it with random weights", *path + n);
}

lm_status lm_open_model(lm_cli *cli, lm_model_flags *f, const char *argument, lm_model **out, lm_error *e)
{
    const char *name = lm_hub_bare(f->model ? f->model : argument), *path = NULL, *warning;
    char count[LM_FORMATTED];
    lm_model_info info;

    bool runs = !f->o.structure_only && !f->o.weights_optional;
    lm_status status = lm_find_model(cli, f, argument, &path, e);
    if (status != LM_OK && runs && name && !(f->model && argument))
        hint_at_models(cli, name, status, e);
    LM_TRY(status);
    if (f->rope_scale > 0 && f->o.rope_freq_scale > 0)
        return lm_fail(e, LM_USAGE, "--rope-scale", LM_NO_OFFSET,
                       "cannot be combined with --rope-freq-scale");
    if (f->rope_scale > 0)
        f->o.rope_freq_scale = 1 / f->rope_scale;
    f->o.sliding_window = f->window;
    lm_progress bar = lm_progress_start("reading");
    bool held = lm_interrupt_record();
    lm_model *m = NULL;
    f->o.progress = lm_interrupt_progress;
    f->o.progress_arg = &bar;
    status = lm_model_open(path, &f->o, &m, e);
    lm_progress_end(&bar);
    f->o.progress = NULL;
    f->o.progress_arg = NULL;
    status = lm_interrupt_release(held, status, e);
    if (status != LM_OK) {
        if (status == LM_USAGE && runs)
            name_weights(path);
        if (status == LM_BAD_MODEL && strncmp(e->message, "an adapter", 10) == 0)
            lm_fail_hint(e, "lamina %s MODEL --lora %.100s", cli->command->name, path);
        lm_model_close(m);
        return status;
    }
    *out = m;
    for (size_t i = 0; (warning = lm_model_warning(*out, i)); i++)
        lm_warn("%s", warning);
    lm_model_describe(*out, &info);
    lm_detail("model      %s, %s, %s parameters, mostly %s, %s (%s)", info.name, info.family,
              lm_format_count(count, info.parameters), info.storage ? info.storage : "no weights",
              info.container, info.source);
    return LM_OK;
}

/* ---- engines ---- */

void lm_run_defaults(lm_run_flags *f)
{
    *f = (lm_run_flags){ .context = -1, .batch = 2048, .ubatch = 512, .cache = LM_CACHE_NOT_GIVEN };
}

static lm_status one_type(const lm_cache_flags *f, const char *flag, int given, lm_kv_type usual,
                          lm_kv_type *out, lm_error *e)
{
    if (f->both >= 0 && given >= 0 && f->both != given)
        return lm_fail(e, LM_USAGE, flag, LM_NO_OFFSET, "%s cannot be combined with --kv-type %s",
                       lm_kv_words[given], lm_kv_words[f->both]);
    *out = given >= 0 ? (lm_kv_type)given : f->both >= 0 ? (lm_kv_type)f->both : usual;
    return LM_OK;
}

lm_status lm_cache_options(const lm_cache_flags *f, lm_kv_type usual, lm_engine_options *out, lm_error *e)
{
    LM_TRY(one_type(f, "--cache-type-k", f->keys, usual, &out->kv, e));
    LM_TRY(one_type(f, "--cache-type-v", f->values, usual, &out->kv_values, e));
    out->kv_apart = true;
    return LM_OK;
}

const char *lm_cache_words(const lm_engine_options *o, char out[LM_CACHE_WORDS])
{
    lm_kv_type values = o->kv_apart ? o->kv_values : o->kv;

    snprintf(out, LM_CACHE_WORDS, values == o->kv ? "%s" : "%s/%s", lm_kv_words[o->kv], lm_kv_words[values]);
    return out;
}

/* Return the largest context, at most `max`, whose plan and thread stacks leave a sixteenth of the available
 * memory free. 0: none. */
static uint32_t largest_context(const lm_model *m, const lm_engine_options *o, uint64_t max)
{
    lm_engine_options tried = *o;
    lm_machine machine;
    lm_memory plan;
    uint64_t threads, stacks, usable;
    uint64_t fits = 0, over = (max < UINT32_MAX ? max : UINT32_MAX) / LEAST_CONTEXT + 1;

    if (lm_machine_describe(&machine, NULL) != LM_OK)
        return 0;
    threads = o->threads ? o->threads : machine.cores;
    stacks  = (threads > o->threads_batch ? threads : o->threads_batch) * LM_COMPUTE_STACK;
    usable = machine.available - machine.available / 16;
    usable = usable > stacks ? usable - stacks : 0;
    while (over - fits > 1) {                            /* in steps of LEAST_CONTEXT */
        uint64_t middle = fits + (over - fits) / 2;
        tried.context = (uint32_t)(middle * LEAST_CONTEXT);
        if (lm_engine_predict(m, &tried, &plan, NULL) == LM_OK && plan.total <= usable)
            fits = middle;
        else
            over = middle;
    }
    if (max % LEAST_CONTEXT && fits == max / LEAST_CONTEXT) {
        tried.context = (uint32_t)max;
        if (lm_engine_predict(m, &tried, &plan, NULL) == LM_OK && plan.total <= usable)
            return (uint32_t)max;
    }
    return (uint32_t)(fits * LEAST_CONTEXT);
}

/* Add to the hint of an error the context that would fit. */
static void hint_context(const lm_model *m, const lm_engine_options *o, lm_error *e)
{
    uint32_t fits = largest_context(m, o, o->context);
    char     before[sizeof e->hint];

    if (!fits)
        return;
    snprintf(before, sizeof before, "%s", e->hint);
    lm_fail_hint(e, "-c %u would fit%s%s", fits, *before ? "; or " : "", before);
}

lm_status lm_engine_flags(const lm_run_flags *f, const lm_model *m, uint64_t min, lm_engine_options *out,
                          lm_error *e)
{
    lm_model_info info;
    uint64_t context = min > 8192 ? min : 8192;

    lm_model_describe(m, &info);
    if (info.context_length && context > info.context_length)
        context = info.context_length;
    *out = (lm_engine_options){
        .context = f->context >= 0        ? (uint32_t)f->context
                   : context < UINT32_MAX ? (uint32_t)context
                                          : UINT32_MAX,
        .sequences = 1,
        .max_rows = f->batch < f->ubatch ? f->batch : f->ubatch,
        .compute = (lm_compute)f->compute,
        .threads = f->threads,
        .threads_batch = f->threads_batch,
        .no_repack = f->no_repack,
        .cpu = f->cpu,
        .checkpoints = f->checkpoints,
    };
    LM_TRY(lm_cache_options(&f->cache, LM_KV_F16, out, e));
    if (f->context != CONTEXT_AUTO)
        return LM_OK;
    out->context = largest_context(m, out, info.context_length ? info.context_length : context);
    if (out->context)
        return LM_OK;
    out->context = LEAST_CONTEXT;                        /* the engine reports how much memory is missing */
    return LM_OK;
}

const char *lm_context_warning(const lm_model *m, uint32_t context, char out[LM_CONTEXT_WARNING])
{
    lm_model_info info;

    lm_model_describe(m, &info);
    if (!info.context_length || context <= info.context_length)
        return NULL;
    snprintf(out, LM_CONTEXT_WARNING,
             "the context of %u positions is longer than the %" PRIu64 " that the model was made for",
             context, (uint64_t)info.context_length);
    return out;
}

lm_status lm_start_engine(const lm_model *m, lm_engine_options *o, lm_engine **out, lm_error *e)
{
    lm_progress bar = lm_progress_start("loading");
    char count[LM_FORMATTED], a[LM_FORMATTED], b[LM_FORMATTED], c[LM_FORMATTED], warning[LM_CONTEXT_WARNING];
    lm_memory memory;
    lm_status status;

    o->progress = lm_interrupt_progress;
    o->progress_arg = &bar;
    bool held = lm_interrupt_record();
    lm_engine *g = NULL;
    status = lm_engine_new(m, o, &g, e);
    lm_progress_end(&bar);
    status = lm_interrupt_release(held, status, e);
    if (status == LM_NO_FIT)
        hint_context(m, o, e);
    if (status != LM_OK) {
        lm_engine_free(g);
        return status;
    }
    *out = g;
    if (lm_context_warning(m, lm_engine_context(*out), warning))
        lm_warn("%s", warning);
    lm_engine_allocated(*out, &memory);
    lm_detail("engine     %s, %u thread%s (prompts %u), context %s; weights %s, cache %s, scratch %s",
              lm_engine_cpu(*out), lm_engine_threads(*out), lm_engine_threads(*out) == 1 ? "" : "s",
              lm_engine_threads_batch(*out), lm_format_count(count, lm_engine_context(*out)),
              lm_format_bytes(a, memory.weights), lm_format_bytes(b, memory.kv),
              lm_format_bytes(c, memory.scratch));
    return LM_OK;
}

void lm_lock_memory(void)
{
    struct rlimit limit = { 0 };
    char figure[LM_FORMATTED];

    if (mlockall(MCL_CURRENT | MCL_ONFAULT) == 0)
        return;
    if (errno == ENOMEM && getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        lm_warn("--mlock: memory cannot be locked: ulimit -l allows %s",
                lm_format_bytes(figure, limit.rlim_cur));
    else
        lm_warn("--mlock: memory cannot be locked: %s", strerror(errno));
}
