/* quantize_budget.c - `lamina quantize --budget`: choose the types of tensors by their measured error on a
 * text. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/base/interrupt.h"
#include "cli/base/options.h"
#include "cli/base/prompt.h"
#include "cli/weights/quantize_budget.h"

/* Return the bytes of a GGUF file outside its tensors, which the new file contains too; 0 for other
 * containers. */
static uint64_t beside_tensors(const char *path, const lm_model *m)
{
    lm_model_info info;
    struct stat   s;

    lm_model_describe(m, &info);
    if (strcmp(info.container, "gguf") != 0 || stat(path, &s) != 0 || (uint64_t)s.st_size < info.weight_bytes)
        return 0;
    return (uint64_t)s.st_size - info.weight_bytes;
}

/* ---- curve ---- */

static json_t *curve_json(const lm_allotment *a)
{
    json_t *steps = json_array();

    for (size_t i = 0; i < a->n_steps; i++) {
        const lm_allot_step *s = &a->steps[i];
        json_array_append_new(steps, json_pack("{s:s?, s:s?, s:s?, s:I, s:f, s:o, s:o}", "tensor", s->tensor,
                                               "from", s->from, "to", s->to, "bytes", (json_int_t)s->bytes,
                                               "bpw", 8 * (double)s->bytes / (double)a->elements,
                                               "estimate", lm_json_finite(s->estimate),
                                               "kl", lm_json_finite(s->kl)));
    }
    return json_pack("{s:I, s:f, s:o, s:I, s:I, s:f, s:o}", "bytes", (json_int_t)a->bytes,
                     "bpw", a->bits_per_weight, "kl", lm_json_finite(a->kl), "tried", (json_int_t)a->tried,
                     "untried", (json_int_t)a->untried, "seconds", a->seconds, "steps", steps);
}

static lm_status save_curve(const lm_budget_flags *o, const lm_allotment *a, lm_error *e)
{
    lm_text out = { 0 };

    if (!o->curve)
        return LM_OK;
    json_t *document = curve_json(a);
    char   *text     = document ? json_dumps(document, JSON_INDENT(1)) : NULL;
    if (text)
        lm_text_add_str(&out, text);
    lm_text_add_char(&out, '\n');
    lm_status status = text ? lm_text_save(&out, o->curve, e) : lm_fail_memory(e, "a curve", 0);
    lm_text_free(&out);
    free(text);
    json_decref(document);
    return status;
}

/* ---- search ---- */

static lm_status search(lm_cli *cli, const lm_budget_flags *o, const lm_quantize_options *q, lm_model *m,
                        lm_tokens *ids, const char *path, lm_allotment *out, lm_error *e)
{
    lm_allot_options a = { .engine = { .threads = q->threads },
                           .bits_per_weight = o->budget,
                           .imatrix = q->imatrix,
                           .state = o->state,
                           .seconds = 60 * o->minutes,
                           .chunk = o->chunk,
                           .chunks = o->chunks,
                           .progress = lm_interrupt_progress_of };
    char             bytes[LM_FORMATTED], time[LM_FORMATTED];

    (void)cli;
    if (!lm_model_tokenizer(m))
        return lm_fail(e, LM_USAGE, "--text", LM_NO_OFFSET, "the model has no tokenizer");
    LM_TRY(lm_read_tokens(o->text, lm_model_tokenizer(m), LM_ADD_SPECIAL | LM_NO_PARSE_SPECIAL, ids, e));
    uint64_t beside = o->size ? beside_tensors(path, m) : 0;
    if (o->size && beside >= o->size)
        return lm_fail(e, LM_USAGE, "--size", LM_NO_OFFSET, "less than the metadata of the file");
    a.bytes          = o->size ? o->size - beside : 0;
    a.ids            = ids->ids;
    a.n              = ids->n;
    lm_progress bar  = lm_progress_start("trying");
    a.progress_arg   = &bar;
    lm_status status = lm_allot(m, &a, out, e);
    lm_progress_end(&bar);
    LM_TRY(status);
    lm_note("types for %s, %.3f bits per weight: KL %.5f nats on the part of the text that judges; "
            "%zu tensor%s tried%s, %s",
            lm_format_bytes(bytes, out->bytes), out->bits_per_weight, out->kl, out->tried,
            out->tried == 1 ? "" : "s", out->untried ? ", others by their kind" : "",
            lm_format_time(time, out->seconds));
    return save_curve(o, out, e);
}

lm_status lm_budget_search(lm_cli *cli, const lm_budget_flags *o, const lm_quantize_options *q,
                           const char *path, lm_allotment *out, lm_error *e)
{
    lm_model_options m = { .tokenizer_optional = false, .allow_unused = true };
    lm_model        *model = NULL;
    lm_tokens        ids = { 0 };

    if (o->budget > 0 && o->size)
        return lm_fail(e, LM_USAGE, "--size", LM_NO_OFFSET, "cannot be combined with --budget");
    if (!o->text)
        return lm_fail(e, LM_USAGE, "--text", LM_NO_OFFSET,
                       "required by --budget and --size, which measure the error of tensors on it");
    LM_TRY(lm_model_open(path, &m, &model, e));
    lm_interrupt_watch(NULL);
    lm_status status = search(cli, o, q, model, &ids, path, out, e);
    lm_tokens_free(&ids);
    lm_model_close(model);
    return status;
}

bool lm_budget_requested(const lm_budget_flags *o)
{
    return o->budget > 0 || o->size;
}
