/* chat_template.c - where a model keeps its chat templates.
 *
 * Folders: chat_template.jinja wins; then tokenizer_config.json, a string or a list of {name, template}. GGUF:
 * tokenizer.chat_template and tokenizer.chat_template.NAME. */
#include <stdio.h>
#include <string.h>

#include "runtime/model.h"

static const char *keep(lm_model *m, lm_view v)
{
    return v.data ? lm_arena_strndup(&m->arena, v.data, v.size) : NULL;
}

static const char *from_gguf(lm_model *m, const char *name)
{
    char    key[128];
    lm_view text;

    snprintf(key, sizeof key, name ? "tokenizer.chat_template.%s" : "tokenizer.chat_template", name);
    if (lm_meta_string(lm_container_meta(m->container), key, &text, NULL) != LM_OK)
        return NULL;
    return keep(m, text);
}

/* One of a list of {name, template}. */
static const char *from_list(lm_model *m, const lm_meta_value *list, const char *name)
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
            return keep(m, text);
    }
    return NULL;
}

static const char *from_folder(lm_model *m, const char *name)
{
    const lm_meta *config;
    lm_view        file;
    lm_meta_value  v;

    if (!name && lm_container_text(m->container, "chat_template.jinja", &file, NULL) == LM_OK && file.data)
        return keep(m, file);
    if (lm_container_json(m->container, "tokenizer_config.json", &config, NULL) != LM_OK || !config ||
        !lm_meta_get(config, "chat_template", &v))
        return NULL;
    if (v.kind == LM_META_STRING)
        return name ? NULL : keep(m, v.s);
    return v.kind == LM_META_ARRAY ? from_list(m, &v, name) : NULL;
}

void lm_model_find_templates(lm_model *m)
{
    static const char *const names[LM_TEMPLATES] = { NULL, "tool_use", "rag" };

    for (size_t i = 0; m->container && i < LM_TEMPLATES; i++) {
        bool gguf               = lm_container_kind_of(m->container) == LM_GGUF;
        m->templates[i].name    = names[i];
        m->templates[i].source  = gguf ? from_gguf(m, names[i]) : from_folder(m, names[i]);
    }
}

const char *lm_model_chat_template(const lm_model *m, const char *name)
{
    for (size_t i = 0; i < LM_TEMPLATES; i++) {
        const char *n = m->templates[i].name;
        if (m->templates[i].source && (name ? n && strcmp(n, name) == 0 : !n))
            return m->templates[i].source;
    }
    return NULL;
}
