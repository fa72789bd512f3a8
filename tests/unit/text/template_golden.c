/* template_golden.c - every template renders as jinja2 does in transformers' environment: the same bytes, or
 * an error where jinja2 raises one (tools/oracle/templates.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/alloc.h"
#include "base/os/filemap.h"
#include "formats/container.h"
#include "lamina/text.h"

enum { MAX_CONVERSATIONS = 32, MAX_SHOWN = 20 };

typedef struct table {
    json_t     *conversations;
    const char *names[MAX_CONVERSATIONS];
    char       *contexts[MAX_CONVERSATIONS];
    size_t      n;
    int         templates, absent, renderings, equal, errors;
} table;

/* Return the chat template in a file of a model, or NULL if the file has not been fetched. Free it with
 * json_decref. */
static json_t *template_of(const char *asset)
{
    char          path[1024], *bytes = NULL;
    size_t        size;
    json_t       *found = NULL;
    lm_container *c = NULL;
    lm_meta      *config = NULL;
    lm_view       text;

    snprintf(path, sizeof path, "%s/%s", getenv("LAMINA_ASSETS"), asset);
    if (strcmp(strrchr(asset, '.'), ".json") == 0) {
        if (lm_file_read(path, 1 << 24, &bytes, &size, NULL) == LM_OK &&
            lm_meta_from_json(bytes, size, path, 64, &config, NULL) == LM_OK &&
            lm_meta_string(config, "chat_template", &text, NULL) == LM_OK)
            found = json_stringn(text.data, text.size);
        lm_meta_free(config);
        lm_free(bytes);
    } else if (lm_container_open(path, NULL, &c, NULL) == LM_OK) {
        if (lm_meta_string(lm_container_meta(c), "tokenizer.chat_template", &text, NULL) == LM_OK)
            found = json_stringn(text.data, text.size);
        lm_container_close(c);
    }
    return found;
}

static void report(table *t, const char *name, size_t i, const json_t *wanted, lm_status status,
                   const lm_rendering *r, const lm_error *e)
{
    char   text[1024] = "";
    size_t at = 0, n = json_string_length(wanted);

    if (t->renderings - t->equal > MAX_SHOWN)
        return;
    while (status == LM_OK && at < n && at < r->text.size &&
           json_string_value(wanted)[at] == r->text.data[at])
        at++;
    if (status != LM_OK)
        lm_error_text(e, text, sizeof text);
    print_message("%s, %s: %s; differs at byte %zu: wanted %.60s, got %.60s\n", name, t->names[i],
                  status == LM_OK ? "rendered" : text, at,
                  json_is_null(wanted) ? "an error" : json_string_value(wanted) + at,
                  status == LM_OK ? r->text.data + at : "an error");
}

static void check_template(table *t, const char *name, const json_t *source, const json_t *renderings)
{
    lm_template *tmpl = NULL;
    lm_error     e = { 0 };
    lm_status compiled = lm_template_new(json_string_value(source), json_string_length(source), name, &tmpl,
                                         &e);

    assert_int_equal(json_array_size(renderings), t->n);
    t->templates++;
    for (size_t i = 0; i < t->n; i++) {
        const json_t *wanted = json_array_get(renderings, i);
        lm_rendering  r = { 0 };
        lm_status     status = compiled;
        if (compiled == LM_OK)
            status = lm_template_render(tmpl, t->contexts[i], strlen(t->contexts[i]), &r, &e);
        bool equal = status == LM_OK ? json_is_string(wanted) && json_string_length(wanted) == r.text.size &&
                                           memcmp(json_string_value(wanted), r.text.data, r.text.size) == 0
                                     : json_is_null(wanted);
        t->renderings++;
        t->equal += equal;
        t->errors += json_is_null(wanted);
        if (!equal)
            report(t, name, i, wanted, status, &r, &e);
        lm_rendering_free(&r);
    }
    lm_template_free(tmpl);
}

static void take_conversations(table *t, json_t *line)
{
    const char *name;
    json_t     *context;

    t->conversations = json_incref(json_object_get(line, "conversations"));
    json_object_foreach(t->conversations, name, context)
    {
        assert_true(t->n < MAX_CONVERSATIONS);
        t->names[t->n] = name;
        t->contexts[t->n++] = json_dumps(context, JSON_COMPACT);
    }
}

static void renderings_equal_jinja2(void **state)
{
    char    path[1024], *line = NULL;
    size_t  capacity = 0;
    ssize_t n;
    table   t = { 0 };

    (void)state;
    snprintf(path, sizeof path, "%s/golden/template/renderings.jsonl", getenv("LAMINA_TESTS"));
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while ((n = getline(&line, &capacity, f)) > 0) {
        json_t *row = json_loadb(line, (size_t)n, JSON_ALLOW_NUL, NULL);
        assert_non_null(row);
        if (json_object_get(row, "conversations")) {
            take_conversations(&t, row);
        } else {
            const char *asset = json_string_value(json_object_get(row, "asset"));
            json_t     *source = asset ? template_of(asset) : json_incref(json_object_get(row, "source"));
            if (source)
                check_template(&t, json_string_value(json_object_get(row, "template")), source,
                               json_object_get(row, "renderings"));
            if (!source)
                print_message("%s has not been fetched\n", asset);
            t.absent += source == NULL;
            json_decref(source);
        }
        json_decref(row);
    }
    free(line);
    fclose(f);
    printf("template table: %d / %d renderings equal (%d templates, %zu conversations, %d errors wanted, %d "
           "templates not fetched)\n",
           t.equal, t.renderings, t.templates, t.n, t.errors, t.absent);
    printf("count: template renderings %d\n", t.renderings);
    for (size_t i = 0; i < t.n; i++)
        free(t.contexts[i]);
    json_decref(t.conversations);
    assert_true(t.renderings >= 12 * 80);
    assert_int_equal(t.equal, t.renderings);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(renderings_equal_jinja2) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
