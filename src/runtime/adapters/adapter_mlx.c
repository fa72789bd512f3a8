/* adapter_mlx.c - read adapters of mlx_lm.lora: "model.layers.0.self_attn.q_proj.lora_a" [in][r], ".lora_b"
 * [r][out], the scale itself. */
#include <string.h>

#include "runtime/adapters/adapter_file.h"

static lm_status take(lm_adapter_file *f, const lm_tensor_info *t, double scale, lm_error *e)
{
    lm_view name = lm_view_of(t->name);
    bool    a    = lm_view_ends(name, LM_VIEW(".lora_a")), b = lm_view_ends(name, LM_VIEW(".lora_b"));

    if (!a && !b)
        return lm_adapter_wrong(f, t, LM_BAD_MODEL, e,
                                "is neither a .lora_a nor a .lora_b: no tensor of an adapter");
    lm_adapter_entry *x = lm_adapter_entry_of(f, t->name, name.size - strlen(".lora_a"));
    if (!x)
        return lm_fail_memory(e, t->name, 0);
    *(a ? &x->a : &x->b) = t;
    x->scale = scale;
    return LM_OK;
}

lm_status lm_adapter_read_mlx(lm_adapter_file *f, lm_error *e)
{
    double  scale;
    lm_view type;

    f->turned = true;
    if (lm_meta_has(f->config, "fine_tune_type")) {
        LM_TRY(lm_meta_string(f->config, "fine_tune_type", &type, e));
        if (!lm_view_is(type, "lora")) {
            lm_fail(e, LM_UNSUPPORTED, "fine_tune_type", LM_NO_OFFSET, "\"%.*s\"; \"lora\" is supported",
                    (int)(type.size < 64 ? type.size : 64), type.data);
            return lm_fail_in(e, lm_meta_file(f->config));
        }
    }
    LM_TRY(lm_meta_f64(f->config, "lora_parameters/scale", -1e9, 1e9, &scale, e));
    if (lm_meta_has(f->config, "lora_parameters/rank"))
        LM_TRY(lm_meta_u32(f->config, "lora_parameters/rank", 1, UINT16_MAX, &f->rank, e));
    if (lm_meta_has(f->config, "model")) {
        LM_TRY(lm_meta_string(f->config, "model", &type, e));
        f->base = lm_arena_strndup(&f->arena, type.data, type.size);
    }
    for (size_t i = 0; i < lm_container_n_tensors(f->tensors); i++)
        LM_TRY(take(f, lm_container_tensor(f->tensors, i), scale, e));
    for (size_t i = 0; i < f->n_entries; i++)
        f->entries[i].rank = f->rank;
    return LM_OK;
}
