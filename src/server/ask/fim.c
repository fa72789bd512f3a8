/* fim.c - fim.h: prompts in llama-server's form, file by file, then prefix, suffix and middle. */
#include "server/ask/fim.h"

#include <string.h>

static lm_token find(const lm_service *s, lm_middle_token which)
{
    return lm_tokenizer_middle(s->tokenizer, which);
}

bool lm_fim_supported(const lm_service *s)
{
    return find(s, LM_MIDDLE_PREFIX) >= 0 && find(s, LM_MIDDLE_SUFFIX) >= 0 && find(s, LM_MIDDLE_MIDDLE) >= 0;
}

lm_status lm_fim_check(const lm_fim *m, const char *field, lm_error *e)
{
    for (size_t i = 0; i < json_array_size(m->extra); i++) {
        const json_t *file = json_array_get(m->extra, i), *name = json_object_get(file, "filename");

        if (!json_is_string(json_object_get(file, "text")) || (name && !json_is_string(name)))
            return lm_fail(e, LM_USAGE, field, LM_NO_OFFSET,
                           "element %zu must be an object with the strings text and filename", i);
    }
    return LM_OK;
}

static lm_status add_text(const lm_service *s, const char *text, lm_tokens *out, lm_error *e)
{
    return text && *text ? lm_tokenize(s->tokenizer, text, strlen(text), LM_NO_PARSE_SPECIAL, out, e) : LM_OK;
}

static lm_status add_file(const lm_service *s, const char *name, const char *text, lm_tokens *out,
                          lm_error *e)
{
    lm_token separator = find(s, LM_MIDDLE_FILE);

    if (separator < 0) {
        LM_TRY(add_text(s, "\n\n--- snippet ---\n\n", out, e));
    } else {
        LM_TRY(lm_tokens_add(out, separator, e));
        LM_TRY(add_text(s, name, out, e));
        LM_TRY(add_text(s, "\n", out, e));
    }
    return add_text(s, text, out, e);
}

lm_status lm_fim_prompt(const lm_service *s, const lm_fim *m, lm_tokens *out, lm_error *e)
{
    lm_token repository = find(s, LM_MIDDLE_REPOSITORY);
    size_t n = json_array_size(m->extra);

    LM_TRY(lm_tokenize(s->tokenizer, "", 0, LM_ADD_SPECIAL, out, e));
    if (n && repository >= 0) {
        LM_TRY(lm_tokens_add(out, repository, e));
        LM_TRY(add_text(s, "myproject\n", out, e));
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *file = json_array_get(m->extra, i), *name = json_object_get(file, "filename");
        LM_TRY(add_file(s, name ? json_string_value(name) : "tmp",
                        json_string_value(json_object_get(file, "text")), out, e));
    }
    if (n && find(s, LM_MIDDLE_FILE) >= 0)
        LM_TRY(add_file(s, "filename", "", out, e));
    LM_TRY(lm_tokens_add(out, find(s, LM_MIDDLE_PREFIX), e));
    LM_TRY(add_text(s, m->prefix, out, e));
    LM_TRY(lm_tokens_add(out, find(s, LM_MIDDLE_SUFFIX), e));
    LM_TRY(add_text(s, m->suffix, out, e));
    LM_TRY(lm_tokens_add(out, find(s, LM_MIDDLE_MIDDLE), e));
    return add_text(s, m->begun, out, e);
}
