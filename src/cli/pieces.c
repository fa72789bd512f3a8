/* pieces.c - a prompt as its tokens read. */
#include "cli/pieces.h"

#include <string.h>

#include "base/error.h"

lm_status lm_prompt_pieces(lm_cli *cli, const lm_model *m, const char *prompt, const char *const **out, size_t *n_out, lm_error *e)
{
    const lm_tokenizer *t   = lm_model_tokenizer(m);
    lm_tokens           ids = { 0 };
    const char        **pieces;
    lm_status           status = LM_OK;

    if (!t)
        return lm_fail(e, LM_USAGE, "--prompt", LM_NO_OFFSET, "this model has no tokenizer here");
    LM_TRY(lm_tokenize(t, prompt, strlen(prompt), 0, &ids, e));
    pieces = lm_arena_new(&cli->arena, ids.n + 1, const char *);
    for (size_t i = 0; pieces && i < ids.n && status == LM_OK; i++) {
        lm_text text = { 0 };
        size_t  n    = 0;
        status       = lm_detokenize(t, &ids.ids[i], 1, 0, &text, e);
        const char *spelled = lm_tokenizer_piece(t, ids.ids[i], &n);
        if (status == LM_OK)
            pieces[i] = text.n && !strstr(text.data, "\xEF\xBF\xBD") ? lm_arena_strndup(&cli->arena, text.data, text.n)
                                                                      : lm_arena_strndup(&cli->arena, spelled ? spelled : "", n);
        lm_text_free(&text);
        if (status == LM_OK && !pieces[i])
            status = lm_fail_memory(e, "tokens", n);
    }
    size_t n_pieces = ids.n;
    lm_tokens_free(&ids);
    if (status == LM_OK && !n_pieces)
        status = lm_fail(e, LM_USAGE, "--prompt", LM_NO_OFFSET, "there is no token in it");
    if (status == LM_OK && !pieces)
        status = lm_fail_memory(e, "tokens", 0);
    if (status != LM_OK)
        return status;
    *out   = pieces;
    *n_out = n_pieces;
    return LM_OK;
}
