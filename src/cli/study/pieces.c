/* pieces.c - split a prompt into the texts of its tokens or words. */
#include "cli/study/pieces.h"

#include <string.h>

lm_status lm_prompt_pieces(lm_cli *cli, const lm_model *m, const char *prompt, const char *const **out,
                           size_t *n_out, lm_error *e)
{
    const lm_tokenizer *t   = lm_model_tokenizer(m);
    lm_tokens           ids = { 0 };
    const char        **pieces;
    lm_status           status = LM_OK;

    if (!t)
        return lm_fail(e, LM_USAGE, "--prompt", LM_NO_OFFSET, "this model has no tokenizer");
    LM_TRY(lm_tokenize(t, prompt, strlen(prompt), 0, &ids, e));
    pieces = lm_store_new(&cli->store, ids.n + 1, const char *);
    for (size_t i = 0; pieces && i < ids.n && status == LM_OK; i++) {
        lm_text text = { 0 };
        size_t  n    = 0;
        status       = lm_detokenize(t, &ids.ids[i], 1, 0, &text, e);
        const char *spelled = lm_tokenizer_piece(t, ids.ids[i], &n);
        if (status == LM_OK)
            pieces[i] = text.size && !strstr(text.data, "\xEF\xBF\xBD")
                            ? lm_store_strndup(&cli->store, text.data, text.size)
                            : lm_store_strndup(&cli->store, spelled ? spelled : "", n);
        lm_text_free(&text);
        if (status == LM_OK && !pieces[i])
            status = lm_fail_memory(e, "tokens", n);
    }
    size_t n_pieces = ids.n;
    lm_tokens_free(&ids);
    if (status == LM_OK && !n_pieces)
        status = lm_fail(e, LM_USAGE, "--prompt", LM_NO_OFFSET, "contains no tokens");
    if (status == LM_OK && !pieces)
        status = lm_fail_memory(e, "tokens", 0);
    if (status != LM_OK)
        return status;
    *out   = pieces;
    *n_out = n_pieces;
    return LM_OK;
}

lm_status lm_prompt_words(lm_cli *cli, const char *prompt, const char *const **out, size_t *n_out,
                          lm_error *e)
{
    const char **words = lm_store_new(&cli->store, strlen(prompt) / 2 + 2, const char *);
    size_t       n     = 0;

    for (const char *at = prompt; words && *at;) {
        size_t blank = strspn(at, " \t\r\n"), size = strcspn(at + blank, " \t\r\n");
        at += blank;
        if (size && !(words[n++] = lm_store_strndup(&cli->store, at, size)))
            return lm_fail_memory(e, "words", size);
        at += size;
    }
    if (!words)
        return lm_fail_memory(e, "words", 0);
    if (!n)
        return lm_fail(e, LM_USAGE, "--prompt", LM_NO_OFFSET, "contains no words");
    *out   = words;
    *n_out = n;
    return LM_OK;
}
