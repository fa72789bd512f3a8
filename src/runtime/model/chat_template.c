/* chat_template.c - find the chat templates of a model.
 *
 * Folders: chat_template.jinja takes precedence; then tokenizer_config.json, a string or a list of {name,
 * template}. GGUF: tokenizer.chat_template and tokenizer.chat_template.NAME. */
#include <stdio.h>
#include <string.h>

#include "runtime/model/model.h"

/* All of these leave *out unchanged if there is no such template. */

static lm_status keep(lm_model *m, lm_view v, const char **out, lm_error *e)
{
    if (!v.data)
        return LM_OK;
    *out = lm_arena_strndup(&m->arena, v.data, v.size);
    return *out ? LM_OK : lm_fail_memory(e, "chat template", v.size);
}

static lm_status from_gguf(lm_model *m, const char *name, const char **out, lm_error *e)
{
    const lm_meta *meta = lm_container_meta(m->container);
    char           key[128];
    lm_view        text;

    snprintf(key, sizeof key, name ? "tokenizer.chat_template.%s" : "tokenizer.chat_template", name);
    if (!lm_meta_has(meta, key))
        return LM_OK;
    LM_TRY(lm_meta_string(meta, key, &text, e));
    return keep(m, text, out, e);
}

/* Find a template in a list of {name, template}. */
static lm_status from_list(lm_model *m, const lm_meta_value *list, const char *name, const char **out,
                           lm_error *e)
{
    lm_meta_value entry, member;
    lm_view       key, found = { 0 }, text = { 0 };

    for (uint64_t i = 0; i < list->a.n && lm_meta_at(list, i, &entry); i++) {
        found = text = (lm_view){ 0 };
        for (uint64_t k = 0; entry.kind == LM_META_OBJECT && lm_meta_member(&entry, k, &key, &member); k++) {
            if (member.kind == LM_META_STRING && lm_view_is(key, "name"))
                found = member.s;
            if (member.kind == LM_META_STRING && lm_view_is(key, "template"))
                text = member.s;
        }
        if (lm_view_is(found, name ? name : "default"))
            return keep(m, text, out, e);
    }
    return LM_OK;
}

static lm_status from_folder(lm_model *m, const char *name, const char **out, lm_error *e)
{
    const lm_meta *config;
    lm_view        file = { 0 };
    lm_meta_value  v;

    if (!name)
        LM_TRY(lm_container_text(m->container, "chat_template.jinja", &file, e));
    if (file.data)
        return keep(m, file, out, e);
    LM_TRY(lm_container_json(m->container, "tokenizer_config.json", &config, e));
    if (!config || !lm_meta_get(config, "chat_template", &v))
        return LM_OK;
    if (v.kind == LM_META_STRING && !name)
        return keep(m, v.s, out, e);
    if (v.kind == LM_META_ARRAY)
        return from_list(m, &v, name, out, e);
    if (v.kind == LM_META_STRING || v.kind == LM_META_NULL)
        return LM_OK;
    lm_fail(e, LM_BAD_MODEL, "chat_template", LM_NO_OFFSET,
            "expected a string or a list of named ones, found %s", lm_meta_kind_name(v.kind));
    return lm_fail_in(e, lm_meta_file(config));
}

lm_status lm_model_find_templates(lm_model *m, lm_error *e)
{
    static const char *const names[LM_TEMPLATES] = { NULL, "tool_use", "rag" };

    for (size_t i = 0; m->container && i < LM_TEMPLATES; i++) {
        bool gguf            = lm_container_kind_of(m->container) == LM_GGUF;
        m->templates[i].name = names[i];
        LM_TRY((gguf ? from_gguf : from_folder)(m, names[i], &m->templates[i].source, e));
    }
    return LM_OK;
}

const char *lm_model_chat_template(const lm_model *m, const char *name)
{
    if (!m)
        return NULL;
    for (size_t i = 0; i < LM_TEMPLATES; i++) {
        const char *n = m->templates[i].name;
        if (m->templates[i].source && (name ? n && strcmp(n, name) == 0 : !n))
            return m->templates[i].source;
    }
    return NULL;
}
