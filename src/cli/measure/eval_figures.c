/* eval_figures.c - functions shared by the kinds of `lamina eval`: reading the text, the engine's options,
 * output of a value. */
#include <sodium/crypto_hash_sha256.h>
#include <stdarg.h>
#include <stdio.h>

#include "cli/base/interrupt.h"
#include "cli/base/prompt.h"
#include "cli/measure/eval.h"

lm_status lm_eval_read(lm_evaluation *v, lm_error *e)
{
    const lm_tokenizer *t     = lm_model_tokenizer(v->model);
    unsigned flags = (v->o->bare ? 0u : LM_ADD_SPECIAL) | (v->o->parse_special ? 0u : LM_NO_PARSE_SPECIAL);
    lm_text             text  = { 0 };
    unsigned char       hash[crypto_hash_sha256_BYTES];
    lm_status           status;

    if (!v->o->file)
        return lm_fail(e, LM_USAGE, v->kind, LM_NO_OFFSET, "requires --file");
    if (!t)
        return lm_fail(e, LM_USAGE, "--file", LM_NO_OFFSET, "the model has no tokenizer");
    status = lm_read_text(v->o->file, &text, e);
    if (status == LM_OK) {
        crypto_hash_sha256(hash, (const unsigned char *)(text.data ? text.data : ""), text.size);
        for (size_t i = 0; i < sizeof hash; i++)
            snprintf(v->text_hash + 2 * i, 3, "%02x", hash[i]);
        status = lm_tokenize(t, text.data ? text.data : "", text.size, flags, &v->ids, e);
    }
    lm_text_free(&text);
    return status;
}

lm_status lm_eval_engine(const lm_evaluation *v, const lm_model *m, uint32_t context, uint32_t sequences,
                         uint32_t logits, lm_engine_options *out, lm_error *e)
{
    const uint64_t max = UINT64_C(256) << 20;            /* bytes of logits */
    lm_model_info  info;

    lm_model_describe(m, &info);
    LM_TRY(lm_engine_flags(&v->o->run, m, context, out, e));
    out->context    = context;
    out->sequences  = sequences;
    out->max_logits = logits < out->max_rows ? logits : out->max_rows;
    if ((uint64_t)out->max_logits * info.n_vocab * sizeof(float) > max)
        out->max_logits = (uint32_t)(max / sizeof(float) / info.n_vocab);
    out->max_logits = out->max_logits ? out->max_logits : 1;
    if (m == v->model)
        lm_loras_engine(&v->loras, out);
    return LM_OK;
}

void lm_eval_figure(lm_evaluation *v, const char *label, const char *key, double x, const char *format, ...)
{
    char    text[200];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    lm_text_printf(&v->page, "%-17s %s\n", label, text);
    lm_text_printf(&v->markdown, "| %s | %s |\n", label, text);
    if (key)
        json_object_set_new(v->document, key, lm_json_finite(x));
}

bool lm_eval_progress(void *evaluation, uint64_t done, uint64_t of)
{
    lm_evaluation *v = evaluation;

    return lm_interrupt_progress(&v->bar, (double)done / (double)of);
}
