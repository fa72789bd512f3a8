/* foldercard.c - create generation_config.json and README.md from general.* keys. */
#include <stdio.h>
#include <string.h>

#include "base/jsontext.h"
#include "export/vocabulary/folderfiles.h"
#include "formats/samplingkeys.h"

json_t *lm_generation_config(const lm_meta *m, json_t *ends)
{
    json_t       *made = json_object();
    lm_meta_value v;
    double        x;

    if (lm_meta_get(m, "tokenizer.ggml.bos_token_id", &v) && v.kind == LM_META_UINT)
        json_object_set_new(made, "bos_token_id", json_integer((json_int_t)v.u));
    if (ends)
        json_object_set(made, "eos_token_id", ends);
    for (lm_sampling_key_id i = 0; i < LM_SAMPLING_KEYS; i++)
        if (lm_sampling_key_read(m, true, i, &x, NULL))
            json_object_set_new(made, lm_sampling_keys[i].member,
                                lm_sampling_keys[i].whole ? json_integer((json_int_t)x) : lm_json_float(x));
    return made;
}

/* Write text as a YAML scalar, quoted unless it is plain. */
static void put(lm_text *out, lm_view v)
{
    bool plain = v.size > 0;

    for (size_t i = 0; i < v.size; i++)
        plain &= strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./", v.data[i]) !=
                     NULL &&
                 v.data[i];
    if (!plain)
        lm_text_add_char(out, '"');
    for (size_t i = 0; i < v.size; i++)
        if ((unsigned char)v.data[i] >= 32 && v.data[i] != '"' && v.data[i] != '\\')
            lm_text_add_char(out, v.data[i]);
    if (!plain)
        lm_text_add_char(out, '"');
}

static void add_text(const lm_meta *m, const char *key, const char *member, lm_text *out)
{
    lm_meta_value v;

    if (!lm_meta_get(m, key, &v) || v.kind != LM_META_STRING)
        return;
    lm_text_printf(out, "%s: ", member);
    put(out, v.s);
    lm_text_add_char(out, '\n');
}

static void add_list(const lm_meta *m, const char *key, const char *member, lm_text *out)
{
    lm_meta_value list, v;

    if (!lm_meta_get(m, key, &list) || list.kind != LM_META_ARRAY || !list.a.n)
        return;
    lm_text_printf(out, "%s:\n", member);
    for (uint64_t i = 0; i < list.a.n; i++)
        if (lm_meta_at(&list, i, &v) && v.kind == LM_META_STRING) {
            lm_text_add_str(out, "- ");
            put(out, v.s);
            lm_text_add_char(out, '\n');
        }
}

/* Convert general.base_model.0.repo_url … to the ids that hubs use. */
static void add_origins(const lm_meta *m, const char *kind, const char *member, lm_text *out)
{
    static const char hub[] = "https://huggingface.co/";
    char              key[96];
    uint32_t          n = 0;
    lm_view           v;

    snprintf(key, sizeof key, "general.%s.count", kind);
    if (!lm_meta_has(m, key) || lm_meta_u32(m, key, 1, 256, &n, NULL) != LM_OK)
        return;
    lm_text_printf(out, "%s:\n", member);
    for (uint32_t i = 0; i < n; i++) {
        snprintf(key, sizeof key, "general.%s.%u.repo_url", kind, i);
        if (!lm_meta_has(m, key))
            snprintf(key, sizeof key, "general.%s.%u.name", kind, i);
        if (lm_meta_string(m, key, &v, NULL) != LM_OK)
            continue;
        if (lm_view_starts(v, lm_view_of(hub)))
            v = (lm_view){ v.data + sizeof hub - 1, v.size - sizeof hub + 1 };
        lm_text_add_str(out, "- ");
        put(out, v);
        lm_text_add_char(out, '\n');
    }
}

void lm_folder_card(const lm_meta *m, lm_text *out)
{
    lm_text body = { 0 };
    lm_view name;

    add_text(m, "general.license", "license", &body);
    add_text(m, "general.license.name", "license_name", &body);
    add_text(m, "general.license.link", "license_link", &body);
    add_list(m, "general.languages", "language", &body);
    add_list(m, "general.tags", "tags", &body);
    add_origins(m, "base_model", "base_model", &body);
    add_origins(m, "dataset", "datasets", &body);
    add_text(m, "general.author", "author", &body);
    add_text(m, "general.organization", "organization", &body);
    add_text(m, "general.description", "description", &body);
    add_text(m, "general.name", "name", &body);
    if (body.size && !body.failed) {
        lm_text_add_str(out, "---\n");
        lm_text_add_view(out, lm_text_view(&body));
        lm_text_add_str(out, "---\n");
        if (lm_meta_string(m, "general.name", &name, NULL) == LM_OK)
            lm_text_printf(out, "\n# %.*s\n", (int)name.size, name.data);
    }
    lm_text_free(&body);
}
