/* templatekeys.c - the places where folders store chat templates, in order of precedence. */
#include "export/keys/templatekeys.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAMED = 64, MAX_NAME = 96 };

/* Replace everything except letters and digits with '_'. */
static void plain_name(const char *name, char out[MAX_NAME])
{
    snprintf(out, MAX_NAME, "%s", name);
    for (char *c = out; *c; c++)
        if (!isalnum((unsigned char)*c))
            *c = '_';
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Add a list of {name, template}; "default" becomes the main template. */
static void add_named(lm_gguf_writer *w, const json_t *list, lm_text *notes)
{
    char          names[MAX_NAMED][MAX_NAME], key[160];
    const char   *sorted[MAX_NAMED];
    lm_view       views[MAX_NAMED];
    const json_t *one;
    size_t        i, n = 0;

    json_array_foreach(list, i, one) {
        const char *name = json_string_value(json_object_get(one, "name")),
                   *text = json_string_value(json_object_get(one, "template"));
        if (!name || !text) {
            lm_text_printf(notes, "chat_template: entry %zu has no name or template: not carried\n", i);
        } else if (strcmp(name, "default") == 0) {
            lm_gguf_add_string(w, "tokenizer.chat_template", lm_view_of(text));
        } else if (n < MAX_NAMED) {
            plain_name(name, names[n]);
            snprintf(key, sizeof key, "tokenizer.chat_template.%s", names[n]);
            lm_gguf_add_string(w, key, lm_view_of(text));
            sorted[n] = names[n];
            n++;
        }
    }
    qsort(sorted, n, sizeof *sorted, by_name);
    for (i = 0; i < n; i++)
        views[i] = lm_view_of(sorted[i]);
    if (n)
        lm_gguf_add_strings(w, "tokenizer.chat_templates", views, n);
}

lm_status lm_add_template_keys(lm_gguf_writer *w, lm_container *c, const json_t *config, lm_text *notes,
                               lm_error *e)
{
    const json_t *templates = json_object_get(config, "chat_template");
    lm_view       text;

    if (json_is_string(templates)) {
        lm_gguf_add_string(w, "tokenizer.chat_template",
                           (lm_view){ json_string_value(templates), json_string_length(templates) });
        return LM_OK;
    }
    if (json_is_array(templates)) {
        add_named(w, templates, notes);
        return LM_OK;
    }
    LM_TRY(lm_container_text(c, "chat_template.jinja", &text, e));
    if (text.data && text.size) {
        lm_gguf_add_string(w, "tokenizer.chat_template", text);
        return LM_OK;
    }
    LM_TRY(lm_container_text(c, "chat_template.json", &text, e));
    json_t *whole = text.data ? json_loadb(text.data, text.size, 0, NULL) : NULL;
    if (json_is_string(json_object_get(whole, "chat_template")))
        lm_gguf_add_string(w, "tokenizer.chat_template",
                           lm_view_of(json_string_value(json_object_get(whole, "chat_template"))));
    json_decref(whole);
    return LM_OK;
}
