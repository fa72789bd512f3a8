/* draft_fits.c - whether two models have the same tokens. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "lamina/sequence.h"

enum { PADDING = 128 };              /* maximum difference in tokens: vocabularies are padded to round
                                        numbers */

lm_status lm_draft_fits(const lm_model *draft, const lm_model *m, lm_error *e)
{
    LM_REQUIRE(e, draft && m);
    const lm_tokenizer *a = lm_model_tokenizer(draft), *b = lm_model_tokenizer(m);
    lm_model_info       of_draft, of_m;
    uint32_t            n;

    lm_model_describe(draft, &of_draft);
    lm_model_describe(m, &of_m);
    if (!a != !b)
        return lm_fail(e, LM_USAGE, "draft model", LM_NO_OFFSET, "only the %s has a tokenizer",
                       a ? "draft model" : "model");
    uint32_t na = a ? lm_tokenizer_size(a) : of_draft.n_vocab, nb = b ? lm_tokenizer_size(b) : of_m.n_vocab;
    if ((na > nb ? na - nb : nb - na) > PADDING)
        return lm_fail(e, LM_USAGE, "draft model", LM_NO_OFFSET, "it has %u tokens, the model %u", na, nb);
    n = na < nb ? na : nb;
    for (uint32_t i = 0; a && i < n; i++) {
        size_t      sa = 0, sb = 0;
        const char *pa = lm_tokenizer_piece(a, (lm_token)i, &sa),
                   *pb = lm_tokenizer_piece(b, (lm_token)i, &sb);
        if (!pa != !pb || sa != sb || (pa && memcmp(pa, pb, sa) != 0))
            return lm_fail(e, LM_USAGE, "draft model", LM_NO_OFFSET,
                           "its token %u is \"%.*s\", the model's \"%.*s\"", i, (int)sa, pa ? pa : "",
                           (int)sb, pb ? pb : "");
    }
    return LM_OK;
}
