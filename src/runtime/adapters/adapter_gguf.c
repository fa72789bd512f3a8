/* adapter_gguf.c - read llama.cpp's adapters: "blk.0.attn_q.weight.lora_a" [r][in], ".lora_b" [out][r]; for
 * token_embd, A is [rows][r]. */
#include <string.h>

#include "runtime/adapters/adapter_file.h"

static lm_status need(const lm_adapter_file *f, const char *key, const char *value, lm_error *e)
{
    const lm_meta *m = lm_container_meta(f->tensors);
    lm_view        v;

    if (!lm_meta_has(m, key)) {
        lm_fail(e, LM_UNSUPPORTED, key, LM_NO_OFFSET, "absent: this GGUF file is not an adapter");
        return lm_fail_in(e, f->path);
    }
    LM_TRY(lm_meta_string(m, key, &v, e));
    if (lm_view_is(v, value))
        return LM_OK;
    lm_fail(e, LM_UNSUPPORTED, key, LM_NO_OFFSET, "\"%.*s\"; \"%s\" is supported",
            (int)(v.size < 64 ? v.size : 64), v.data, value);
    return lm_fail_in(e, f->path);
}

static lm_status text_of(lm_adapter_file *f, const char *key, const char **out, lm_error *e)
{
    const lm_meta *m = lm_container_meta(f->tensors);
    lm_view        v;

    if (!lm_meta_has(m, key))
        return LM_OK;
    LM_TRY(lm_meta_string(m, key, &v, e));
    *out = lm_arena_strndup(&f->arena, v.data, v.size);
    return *out ? LM_OK : lm_fail_memory(e, key, v.size);
}

static lm_status take(lm_adapter_file *f, const lm_tensor_info *t, lm_error *e)
{
    lm_view name = lm_view_of(t->name);
    bool    a    = lm_view_ends(name, LM_VIEW(".lora_a")), b = lm_view_ends(name, LM_VIEW(".lora_b"));

    if (!a && !b && lm_view_ends(name, LM_VIEW("_norm.weight"))) {
        lm_text_printf(&f->warnings, "%s is left out: norms of adapters have no effect in llama.cpp either\n",
                       t->name);
        return LM_OK;
    }
    if (!a && !b)
        return lm_adapter_wrong(f, t, LM_BAD_MODEL, e,
                                "is neither a .lora_a nor a .lora_b: no tensor of an adapter");
    lm_adapter_entry *x = lm_adapter_entry_of(f, t->name, name.size - strlen(".lora_a"));
    if (!x)
        return lm_fail_memory(e, t->name, 0);
    *(a ? &x->a : &x->b) = t;
    x->table = lm_view_is(lm_view_of(x->name), "token_embd.weight");
    return LM_OK;
}

lm_status lm_adapter_read_gguf(lm_adapter_file *f, lm_error *e)
{
    const lm_meta *m = lm_container_meta(f->tensors);

    LM_TRY(need(f, "general.type", "adapter", e));
    LM_TRY(need(f, "adapter.type", "lora", e));
    LM_TRY(text_of(f, "general.architecture", &f->architecture, e));
    LM_TRY(text_of(f, "general.base_model.0.name", &f->base, e));
    LM_TRY(text_of(f, "lamina.base_fingerprint", &f->fingerprint, e));
    LM_TRY(text_of(f, "adapter.lora.task_name", &f->task_name, e));
    LM_TRY(text_of(f, "adapter.lora.prompt_prefix", &f->prompt_prefix, e));
    if (lm_meta_has(m, "adapter.alora.invocation_tokens")) {
        lm_fail(e, LM_UNSUPPORTED, "adapter.alora.invocation_tokens", LM_NO_OFFSET,
                "adapters that a text switches on (aLoRA) are not supported");
        return lm_fail_in(e, f->path);
    }
    if (lm_meta_has(m, "adapter.lora.alpha"))
        LM_TRY(lm_meta_f64(m, "adapter.lora.alpha", -1e9, 1e9, &f->alpha, e));
    if (f->alpha < 0) {
        lm_fail(e, LM_BAD_MODEL, "adapter.lora.alpha", LM_NO_OFFSET, "%g is below 0", f->alpha);
        return lm_fail_in(e, f->path);
    }
    for (size_t i = 0; i < lm_container_n_tensors(f->tensors); i++)
        LM_TRY(take(f, lm_container_tensor(f->tensors, i), e));
    return LM_OK;
}
