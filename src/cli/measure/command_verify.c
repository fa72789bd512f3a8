/* lamina verify - compare the engine with reference logits, or two models on a text. */
#include <inttypes.h>
#include <string.h>

#include "cli/base/interrupt.h"
#include "cli/base/options.h"
#include "cli/base/output.h"
#include "cli/measure/verify_models.h"
#include "cli/run/adapting.h"

typedef struct verify_options {
    lm_model_flags model;
    lm_cache_flags cache;
    lm_lora_flags  lora;
    int            compute;
    const char    *cpu, *dump;
    uint32_t       threads;
    double         tol, kl_max;          /* negative: not given */
    lm_verify_texts texts;               /* for the comparison of two models */
    bool           force;                /* replace an existing file (checked by lm_flags_read) */
} verify_options;

#define O(field) offsetof(verify_options, field)

static const lm_flag verify_flag_table[] = {
    { "--compute", NULL, LM_FLAG_WORD, O(compute), "auto|fine|f32",
      "f32: float32 arithmetic, like the reference (default); auto, fine: the fast paths",
      0, 0, lm_compute_words },
    { "--tol", NULL, LM_FLAG_DOUBLE, O(tol), "X",
      "maximum relative error of a row of logits (1e-4)", 0, 1e3, NULL },
    { "--kl-max", NULL, LM_FLAG_DOUBLE, O(kl_max), "X",
      "maximum mean KL divergence in nats, instead of --tol", 0, 1e3, NULL },
    { "--file", "-f", LM_FLAG_TEXT, O(texts.file), "FILE",
      "compare two models on the text of FILE; -: standard input", 0, 0, NULL },
    { "--prompt", "-p", LM_FLAG_TEXT, O(texts.prompt), "TEXT", "compare two models on TEXT", 0, 0, NULL },
    { "--ids", NULL, LM_FLAG_TEXT, O(texts.ids), "IDS",
      "compare two models on token ids: 1,2,3", 0, 0, NULL },
    { "--ctx-size", "-c --context", LM_FLAG_COUNT, O(texts.window), "N",
      "tokens of the text read at a time by two models (default: all, at most the models' context)",
      2, INT32_MAX, NULL },
    { "--no-add-special", NULL, LM_FLAG_SWITCH, O(texts.bare), NULL,
      "do not add the tokenizer's special tokens (BOS ...) to the text", 0, 0, NULL },
    { "--cpu", NULL, LM_FLAG_TEXT, O(cpu), "LEVEL",
      "highest instruction set to use: ref, avx2, avx512 ... (default: the best available)", 0, 0, NULL },
    { "--threads", "-t", LM_FLAG_COUNT, O(threads), "N", "threads (default: physical cores)", 0, 1024, NULL },
    { "--dump", NULL, LM_FLAG_OUTPUT, O(dump), "FILE",
      "write the computed logits, in the format of GOLDEN", 0, 0, NULL },
    { "--force", NULL, LM_FLAG_SWITCH, O(force), NULL,
      "replace the FILE of --dump if it exists", 0, 0, NULL },
    { 0 },
};

static const lm_flag_group verify_groups[] = {
    { "comparison", verify_flag_table, 0 },
    { "adapters", lm_lora_flag_table, O(lora) },
    { "KV cache", lm_cache_flag_table, O(cache) },
    { "model", lm_model_flag_table, O(model) },
    { 0 },
};

static void verify_defaults(void *options)
{
    verify_options *o = options;

    o->compute = LM_COMPUTE_F32;
    o->cache = LM_CACHE_NOT_GIVEN;
    o->tol = -1;
    o->kl_max = -1;
}

/* The argument of print_row, which is called per compared row. `rows`: for --json, else NULL. */
typedef struct row_printer { lm_progress bar; uint64_t n; json_t *rows; } row_printer;

static void print_row(void *arg, const lm_verdict_row *r)
{
    row_printer *t = arg;

    lm_progress_end(&t->bar);
    if (!t->n)
        lm_detail("%6s %9s %9s %15s %10s  %s", "row", "sequence", "position", "relative error", "KL (nats)",
                  "argmax");
    lm_detail("%6" PRIu64 " %9" PRIu64 " %9" PRIu64 " %15.3g %10.3g  %s", t->n++, r->sequence, r->position,
              r->rel_err, r->kl, r->argmax_equal ? "equal" : "different");
    if (!t->rows)
        return;
    json_array_append_new(t->rows, json_pack("{s:I, s:I, s:o, s:o, s:b}", "sequence", (json_int_t)r->sequence,
                                             "position", (json_int_t)r->position,
                                             "rel_err", lm_json_finite(r->rel_err),
                                             "kl", lm_json_finite(r->kl), "argmax_equal", r->argmax_equal));
}

static json_t *verdict_json(const lm_verdict *v, json_t *rows)
{
    json_t *j = json_object();

    json_object_set_new(j, "source", lm_json_of(v->source, strnlen(v->source, sizeof v->source)));
    json_object_set_new(j, "rows", json_integer((json_int_t)v->rows));
    json_object_set_new(j, "tol", json_real(v->tol));
    json_object_set_new(j, "max_rel_err", lm_json_finite(v->max_rel_err));
    json_object_set_new(j, "worst_row", json_integer((json_int_t)v->worst_row));
    json_object_set_new(j, "mean_kl", lm_json_finite(v->mean_kl));
    json_object_set_new(j, "max_kl", lm_json_finite(v->max_kl));
    json_object_set_new(j, "argmax_agreement", json_real(v->argmax_agreement));
    json_object_set_new(j, "greedy_common",
                        v->has_greedy ? json_integer((json_int_t)v->greedy_common) : json_null());
    json_object_set_new(j, "greedy_differs",
                        v->has_greedy && !v->greedy_agrees
                            ? json_pack("{s:I, s:I}", "sequence", (json_int_t)v->greedy_sequence,
                                        "step", (json_int_t)v->greedy_step)
                            : json_null());
    json_object_set_new(j, "greedy_total",
                        v->has_greedy ? json_integer((json_int_t)v->greedy_total) : json_null());
    json_object_set_new(j, "bitwise",
                        v->bitwise_known
                            ? json_pack("{s:b, s:b}", "chunked", v->chunked, "stepwise", v->stepwise)
                            : json_null());
    json_object_set_new(j, "taps", json_integer((json_int_t)v->taps));
    json_object_set_new(j, "first_divergence",
                        v->diverges ? json_pack("{s:s, s:I, s:o}", "path", v->first_path,
                                                "position", (json_int_t)v->first_position,
                                                "rel_err", lm_json_finite(v->first_rel_err))
                                    : json_null());
    json_object_set_new(j, "note", v->note[0] ? json_string(v->note) : json_null());
    json_object_set_new(j, "agrees", json_boolean(v->agrees));
    json_object_set(j, "per_row", rows);
    return j;
}

static void verdict_text(const lm_verdict *v, bool by_kl, double kl_max, lm_text *out)
{
    char n[LM_FORMATTED], source[4 * sizeof v->source];

    lm_escape(source, sizeof source, v->source);
    lm_text_printf(out, "reference        %s\n", source[0] ? source : "(does not say who computed it)");
    lm_text_printf(out, "rows             %s\n", lm_format_count(n, v->rows));
    lm_text_printf(out, "relative error   %.3g at row %" PRIu64, v->max_rel_err, v->worst_row);
    lm_text_printf(out, by_kl ? ", not judged\n" : " (tolerance %.3g)\n", v->tol);
    lm_text_printf(out, "KL divergence    mean %.3g, largest %.3g nats", v->mean_kl, v->max_kl);
    lm_text_printf(out, by_kl ? " (at most %.3g on average)\n" : "\n", kl_max);
    lm_text_printf(out, "argmax           %.2f %% equal\n", 100 * v->argmax_agreement);
    if (v->has_greedy)
        lm_text_printf(out, "greedy           %" PRIu64 " of %" PRIu64 " ids in common%s\n", v->greedy_common,
                       v->greedy_total,
                       v->greedy_common == v->greedy_total ? ""
                       : v->greedy_agrees                  ? "; the rest within the tolerance"
                                                           : "");
    if (v->bitwise_known)
        lm_text_printf(out, "bitwise          in chunks %s, one at a time %s\n",
                       v->chunked ? "equal" : "DIFFERENT", v->stepwise ? "equal" : "DIFFERENT");
    if (v->diverges)
        lm_text_printf(out, "first divergence %s at position %" PRIu64 ", relative error %.3g\n",
                       v->first_path, v->first_position, v->first_rel_err);
    else if (v->has_taps)
        lm_text_printf(out, "taps             %" PRIu64 " compared, none diverges\n", v->taps);
    if (v->note[0])
        lm_text_printf(out, "note             %s\n", v->note);
    lm_text_printf(out, "verdict          %s\n", v->agrees ? "agrees" : "DIFFERS");
}

/* Fail with the reason why the results differ. */
static lm_status differs(const lm_verdict *v, bool by_kl, double kl_max, const char *golden, lm_error *e)
{
    if (v->bitwise_known && !(v->chunked && v->stepwise))
        lm_fail(e, LM_DIFFERS, v->chunked ? "one token at a time" : "in chunks", LM_NO_OFFSET,
                "not bitwise equal to the result computed at once");
    else if (by_kl ? !(v->mean_kl <= kl_max) : !(v->max_rel_err <= v->tol))
        lm_fail(e, LM_DIFFERS, v->diverges ? v->first_path : "logits", LM_NO_OFFSET,
                by_kl ? "mean KL divergence %.3g, at most %.3g is allowed"
                      : "relative error %.3g, at most %.3g is allowed",
                by_kl ? v->mean_kl : v->max_rel_err, by_kl ? kl_max : v->tol);
    else
        lm_fail(e, LM_DIFFERS, "greedy_ids", LM_NO_OFFSET,
                "different token at step %" PRIu64 " of sequence %" PRIu64
                " although the margin exceeds the tolerance",
                v->greedy_step, v->greedy_sequence);
    return lm_fail_in(e, golden);
}

/* Print the verdict. If it is negative, return LM_DIFFERS; the JSON document then contains the error too. */
static lm_status print_verdict(lm_cli *cli, const lm_verdict *v, const verify_options *o, json_t *rows,
                               const char *golden, lm_error *e)
{
    bool by_kl = o->kl_max >= 0;
    lm_status verdict = v->agrees ? LM_OK : differs(v, by_kl, o->kl_max, golden, e), status;
    lm_text text = { 0 };

    if (cli->json) {
        json_t *document = verdict_json(v, rows);
        if (verdict != LM_OK)
            json_object_set_new(document, "error", lm_json_error(e));
        status = lm_out_json(cli, document, e);
    } else {
        verdict_text(v, by_kl, o->kl_max, &text);
        status = lm_out_buf(&text, e);
        lm_text_free(&text);
    }
    return status == LM_OK ? verdict : status;
}

static lm_status verify_golden(lm_cli *cli, verify_options *o, lm_error *e)
{
    lm_verify_options v = {
        .engine = { .compute = (lm_compute)o->compute, .cpu = o->cpu, .threads = o->threads },
        .tol = o->tol > 0 ? o->tol : o->tol < 0 ? 1e-4 : -1,
        .kl_max = o->kl_max > 0 ? o->kl_max : o->kl_max < 0 ? 0 : -1,
        .dump = o->dump,
        .row = print_row,
    };
    row_printer t = { .bar = lm_progress_start("loading") };
    const char *model = cli->n_args > 1 ? cli->args[0] : NULL, *golden = cli->args[cli->n_args - 1];
    lm_model *m = NULL;
    lm_loras loras = { 0 };
    lm_verdict verdict;
    lm_status status;

    LM_TRY(lm_cache_options(&o->cache, LM_KV_F32, &v.engine, e));
    t.rows = cli->json ? json_array() : NULL;
    v.engine.progress = lm_interrupt_progress;
    v.engine.progress_arg = &t.bar;
    v.arg = &t;
    o->model.o.tokenizer_optional = true;
    status = lm_open_model(cli, &o->model, model, &m, e);
    if (status == LM_OK)
        status = lm_loras_open(cli, &o->lora, m, &loras, e);
    lm_loras_engine(&loras, &v.engine);
    if (status == LM_OK)
        status = lm_verify(m, golden, &v, &verdict, e);
    lm_progress_end(&t.bar);
    lm_loras_close(&loras);
    lm_model_close(m);
    if (status == LM_OK)
        status = print_verdict(cli, &verdict, o, t.rows, golden, e);
    json_decref(t.rows);
    return status;
}

/* Reject flags that would have no effect: some apply only to goldens, some only to texts. */
static lm_status check(const lm_cli *cli, const verify_options *o, lm_error *e)
{
    const lm_verify_texts *t = &o->texts;
    const int texts = (t->file != NULL) + (t->prompt != NULL) + (t->ids != NULL);
    const size_t named = cli->n_args + (o->model.model != NULL);

    if (texts > 1)
        return lm_fail(e, LM_USAGE, "verify", LM_NO_OFFSET, "--file, --prompt and --ids cannot be combined");
    if (!texts && (t->window || t->bare))
        return lm_fail(e, LM_USAGE, t->window ? "--ctx-size" : "--no-add-special", LM_NO_OFFSET,
                       "requires a text: --file, --prompt or --ids");
    if (texts && (o->dump || o->tol >= 0))
        return lm_fail(e, LM_USAGE, o->dump ? "--dump" : "--tol", LM_NO_OFFSET,
                       "cannot be combined with a text; two models have no golden");
    if (named > 2)
        return lm_fail(e, LM_USAGE, cli->args[1], LM_NO_OFFSET, "already given by --model: %s",
                       o->model.model);
    if (named == 2)
        return LM_OK;
    lm_fail(e, LM_USAGE, "verify", LM_NO_OFFSET, texts ? "requires two models" : "requires MODEL and GOLDEN");
    return lm_fail_hint(e, texts ? "lamina verify MODEL REFERENCE -f TEXT"
                                 : "lamina verify MODEL REFERENCE -f TEXT compares two models");
}

static lm_status verify_models(lm_cli *cli, verify_options *o, lm_error *e)
{
    const char *models[2] = { o->model.model ? o->model.model : cli->args[0], cli->args[cli->n_args - 1] };
    lm_engine_options engine = { .compute = (lm_compute)o->compute, .cpu = o->cpu, .threads = o->threads };

    if (o->lora.files.n)
        return lm_fail(e, LM_USAGE, "--lora", LM_NO_OFFSET,
                       "cannot be combined with a text: adapters are compared with a golden");
    LM_TRY(lm_cache_options(&o->cache, LM_KV_F32, &engine, e));
    o->model.model = NULL;
    return lm_verify_models(cli, &o->model, models, &o->texts, &engine, o->kl_max, e);
}

static lm_status verify(lm_cli *cli, void *options, lm_error *e)
{
    verify_options *o = options;

    LM_TRY(check(cli, o, e));
    if (o->texts.file || o->texts.prompt || o->texts.ids)
        return verify_models(cli, o, e);
    return verify_golden(cli, o, e);
}

const lm_command lm_command_verify = {
    .name = "verify",
    .usage = "MODEL GOLDEN.safetensors | MODEL REFERENCE -f TEXT",
    .summary = "compare the engine with reference logits, or two models on a text",
    .about = "  GOLDEN contains input_ids I64 [B,T] and logits F32 [B,T,V] (or [B,P,V] with logit_positions "
             "I64 [P]), optionally\n"
             "  greedy_ids I64 [B,N] and tap.MODULE F32 [B,T,width]. The prompt is computed at once, in "
             "uneven chunks and token by\n"
             "  token; all three must be bitwise equal. Exit status 5 if the results differ. -v and --json "
             "show every row.\n"
             "  With a text, MODEL is compared with another model of the same vocabulary: KL divergence of "
             "its predictions from those\n"
             "  of REFERENCE, share of equal top tokens, and change of the probability of the text's own "
             "tokens (Δp).\n",
    .groups = verify_groups,
    .min_args = 1,
    .max_args = 2,
    .options_size = sizeof(verify_options),
    .defaults = verify_defaults,
    .run = verify,
};
