/* adapter_peft.c - read PEFT's folders: adapter_config.json gives rank and scale of every module,
 * adapter_model.safetensors contains "base_model.model.PATH.lora_A.weight" [r][in] and "….lora_B.weight"
 * [out][r]. */
#include <math.h>
#include <string.h>

#include "runtime/adapters/adapter_file.h"
#include "runtime/adapters/adapter_names.h"

/* ---- the config ---- */

static lm_status refuse(const lm_adapter_file *f, const char *key, const char *what, lm_error *e)
{
    lm_fail(e, LM_UNSUPPORTED, key, LM_NO_OFFSET, "%s", what);
    return lm_fail_in(e, lm_meta_file(f->config));
}

static bool is_on(const lm_meta *m, const char *key)
{
    lm_meta_value v;

    return lm_meta_has(m, key) && lm_meta_get(m, key, &v) && !(v.kind == LM_META_BOOL && !v.b) &&
           !((v.kind == LM_META_ARRAY || v.kind == LM_META_OBJECT) && !v.a.n);
}

static lm_status flag(const lm_adapter_file *f, const char *key, bool *out, lm_error *e)
{
    *out = false;
    return lm_meta_has(f->config, key) ? lm_meta_bool(f->config, key, out, e) : LM_OK;
}

/* Reject options that do more than add pairs of matrices. */
static lm_status check_kind(const lm_adapter_file *f, lm_error *e)
{
    static const struct { const char *key, *what; } others[] = {
        { "use_qalora", "QA-LoRA pools its input and is not supported" },
        { "use_bdlora", "block-diagonal pairs are not supported" },
        { "layer_replication", "an adapter that repeats layers is not supported" },
        { "alora_invocation_tokens", "adapters that a text switches on (aLoRA) are not supported" },
        { "trainable_token_indices", "rows of the embedding that were trained alone are not supported" },
    };
    static const char *const moved[] = { "pissa", "olora", "loftq", "corda", NULL };
    lm_view v;

    if (lm_meta_has(f->config, "peft_type")) {
        LM_TRY(lm_meta_string(f->config, "peft_type", &v, e));
        if (!lm_view_is(v, "LORA"))
            return refuse(f, "peft_type", "only LORA is supported", e);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (is_on(f->config, others[i].key))
            return refuse(f, others[i].key, others[i].what, e);
    lm_meta_value init;
    if (lm_meta_get(f->config, "init_lora_weights", &init) && init.kind == LM_META_STRING)
        for (size_t i = 0; moved[i]; i++)
            if (lm_view_starts(init.s, lm_view_of(moved[i])))
                return refuse(f, "init_lora_weights",
                              "its initialisation changed the base model, which is not here", e);
    return LM_OK;
}

static lm_status read_config(lm_adapter_file *f, lm_error *e)
{
    lm_view v;
    bool    unused;

    LM_TRY(check_kind(f, e));
    f->rank  = 8;
    f->alpha = 8;
    if (lm_meta_has(f->config, "r"))
        LM_TRY(lm_meta_u32(f->config, "r", 1, UINT16_MAX, &f->rank, e));
    if (lm_meta_has(f->config, "lora_alpha"))
        LM_TRY(lm_meta_f64(f->config, "lora_alpha", -1e9, 1e9, &f->alpha, e));
    LM_TRY(flag(f, "use_rslora", &f->rslora, e));
    LM_TRY(flag(f, "use_dora", &f->dora, e));
    LM_TRY(flag(f, "fan_in_fan_out", &unused, e));       /* how the base model stores a matrix: pairs do not
                                                            depend on it */
    if (lm_meta_has(f->config, "base_model_name_or_path")) {
        LM_TRY(lm_meta_string(f->config, "base_model_name_or_path", &v, e));
        f->base = lm_arena_strndup(&f->arena, v.data, v.size);
        if (!f->base)
            return lm_fail_memory(e, "adapter", v.size);
    }
    const lm_meta *notes = lm_container_meta(f->tensors);
    if (lm_meta_has(notes, "lamina.base_fingerprint") &&
        lm_meta_string(notes, "lamina.base_fingerprint", &v, NULL) == LM_OK)
        f->fingerprint = lm_arena_strndup(&f->arena, v.data, v.size);
    return LM_OK;
}

/* ---- tensors ---- */

static const struct ending { const char *end; size_t field; bool table; } endings[] = {
    { ".lora_A.weight", offsetof(lm_adapter_entry, a), false },
    { ".lora_B.weight", offsetof(lm_adapter_entry, b), false },
    { ".lora_B.bias", offsetof(lm_adapter_entry, bias), false },
    { ".lora_embedding_A", offsetof(lm_adapter_entry, a), true },
    { ".lora_embedding_B", offsetof(lm_adapter_entry, b), true },
    { ".lora_magnitude_vector", offsetof(lm_adapter_entry, magnitude), false },
    { ".lora_magnitude_vector.weight", offsetof(lm_adapter_entry, magnitude), false },
    { ".base_layer.bias", offsetof(lm_adapter_entry, base_bias), false },
};

static const struct ending *ending_of(lm_view name)
{
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (lm_view_ends(name, lm_view_of(endings[i].end)))
            return &endings[i];
    return NULL;
}

static lm_status take(lm_adapter_file *f, const lm_tensor_info *t, const lm_module_list *saved, lm_error *e)
{
    lm_view name = lm_view_of(t->name), prefix = LM_VIEW("base_model.model.");

    if (lm_view_starts(name, prefix))
        name = (lm_view){ name.data + prefix.size, name.size - prefix.size };
    /* a frozen copy of a table of the base model */
    if (lm_view_ends(name, LM_VIEW(".base_layer.weight")))
        return LM_OK;
    const struct ending *end = ending_of(name);
    if (!end) {
        const char *dot    = memrchr(name.data, '.', name.size);
        char       *module = dot ? lm_arena_strndup(&f->arena, name.data, (size_t)(dot - name.data)) : NULL;
        bool        whole  = false;
        if (dot && !module)
            return lm_fail_memory(e, t->name, 0);
        if (module)
            LM_TRY(lm_module_list_has(saved, module, &whole, e));
        if (!whole)
            return lm_adapter_wrong(f, t, LM_BAD_MODEL, e, "no tensor of a LoRA adapter");
        f->whole[f->n_whole++] = t;
        return LM_OK;
    }
    lm_adapter_entry *x = lm_adapter_entry_of(f, name.data, name.size - strlen(end->end));
    if (!x)
        return lm_fail_memory(e, t->name, 0);
    memcpy((char *)x + end->field, &t, sizeof t);
    x->table |= end->table;
    return LM_OK;
}

static lm_status number_entries(lm_adapter_file *f, const lm_module_numbers *ranks,
                                const lm_module_numbers *alphas, lm_error *e)
{
    for (size_t i = 0; i < f->n_entries; i++) {
        lm_adapter_entry *x = &f->entries[i];
        double            rank;
        LM_TRY(lm_module_numbers_of(ranks, x->name, f->rank, &rank, e));
        LM_TRY(lm_module_numbers_of(alphas, x->name, f->alpha, &x->alpha, e));
        x->rank  = (uint32_t)rank;
        x->scale = x->alpha / (f->rslora ? sqrt(rank) : rank);
    }
    return LM_OK;
}

lm_status lm_adapter_read_peft(lm_adapter_file *f, lm_error *e)
{
    lm_module_numbers ranks = { 0 }, alphas = { 0 };
    lm_module_list    saved = { 0 };
    size_t            n = lm_container_n_tensors(f->tensors);
    lm_status         status = read_config(f, e);

    f->whole = lm_arena_new(&f->arena, n + 1, const lm_tensor_info *);
    if (status == LM_OK && !f->whole)
        status = lm_fail_memory(e, f->path, 0);
    if (status == LM_OK)
        status = lm_module_list_read(f->config, "modules_to_save", &saved, e);
    if (status == LM_OK)
        status = lm_module_numbers_read(f->config, "rank_pattern", 1, UINT16_MAX, &ranks, e);
    if (status == LM_OK)
        status = lm_module_numbers_read(f->config, "alpha_pattern", -1e9, 1e9, &alphas, e);
    for (size_t i = 0; status == LM_OK && i < n; i++)
        status = take(f, lm_container_tensor(f->tensors, i), &saved, e);
    if (status == LM_OK)
        status = number_entries(f, &ranks, &alphas, e);
    lm_module_list_free(&saved);
    lm_module_numbers_free(&ranks);
    lm_module_numbers_free(&alphas);
    return status;
}
