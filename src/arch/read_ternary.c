/* read_ternary.c - read quantization_config of models with matrices of -1, 0 and 1, as transformers' BitNet
 * classes define it. */
#include "arch/config.h"

#define KEY "quantization_config/"

const char lm_ternary_method[] = "bitnet";

/* Only the head keeps its floats: other lists have no form. */
static lm_status check_kept(const lm_source *s, lm_error *e)
{
    lm_meta_value list, first;

    if (!lm_meta_has(s->meta, KEY "modules_to_not_convert"))
        return LM_OK;
    LM_TRY(lm_meta_array(s->meta, KEY "modules_to_not_convert", 1024, &list, e));
    if (list.a.n == 1 && lm_meta_at(&list, 0, &first) && first.kind == LM_META_STRING &&
        lm_view_is(first.s, "lm_head"))
        return LM_OK;
    return lm_no_form(s, KEY "modules_to_not_convert", "only [\"lm_head\"] has a form here", e);
}

/* Read one of two words; absent: the second. */
static lm_status read_word(const lm_source *s, const char *key, const char *first, const char *second,
                           bool *is_first, lm_error *e)
{
    lm_view word = lm_view_of(second);

    if (lm_meta_has(s->meta, key))
        LM_TRY(lm_meta_string(s->meta, key, &word, e));
    *is_first = lm_view_is(word, first);
    if (*is_first || lm_view_is(word, second))
        return LM_OK;
    return lm_wrong(s, key, NULL, e, "\"%.*s\" is neither %s nor %s",
                    (int)(word.size < 40 ? word.size : 40), word.data, first, second);
}

bool lm_is_ternary(const lm_source *s)
{
    lm_meta_value method;

    return s->kind != LM_GGUF && lm_meta_get(s->meta, KEY "quant_method", &method) &&
           method.kind == LM_META_STRING && lm_view_is(method.s, lm_ternary_method);
}

lm_status lm_read_ternary(const lm_source *s, lm_config *c, lm_error *e)
{
    bool scaled, online, norms;

    if (!lm_is_ternary(s))
        return LM_OK;
    LM_TRY(read_word(s, KEY "linear_class", "autobitlinear", "bitlinear", &scaled, e));
    LM_TRY(read_word(s, KEY "quantization_mode", "online", "offline", &online, e));
    LM_TRY(lm_read_bool(s, KEY "use_rms_norm", NULL, false, &norms, e));
    if (norms)
        return lm_no_form(s, KEY "use_rms_norm", "a norm in front of every product has no form here", e);
    LM_TRY(check_kept(s, e));
    c->ternary = (lm_ternary){ .class_name = scaled ? "AutoBitLinear" : "BitLinear",
                               .inverse    = !scaled,
                               .bias_after = !scaled || online,
                               .online     = scaled && online };
    return LM_OK;
}
