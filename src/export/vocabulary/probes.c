/* probes.c - scripts, digits, white space and code that pre-tokenizers treat differently. */
#include "export/vocabulary/probes.h"

#include <string.h>

#include "text/pre_prints.h"

const char *const lm_probes[LM_PROBES] = {
    lm_pre_probe,
    "Hello world, it's 12345 o'clock.\n\n  def f(x):\n\treturn x**2  # caf\xC3\xA9 na\xC3\xAFve r\xC3\xA9sum\xC3\xA9\n",
    "\xE4\xBD\xA0\xE5\xA5\xBD\xEF\xBC\x8C\xE4\xB8\x96\xE7\x95\x8C\xE3\x80\x82 \xE3\x81\x93\xE3\x82\x93\xE3\x81\xAB\xE3\x81\xA1\xE3\x81\xAF "
    "\xD0\x9F\xD1\x80\xD0\xB8\xD0\xB2\xD0\xB5\xD1\x82 \xD9\x85\xD8\xB1\xD8\xAD\xD8\xA8\xD8\xA7 \xE0\xA4\xA8\xE0\xA4\xAE\xE0\xA4\xB8\xE0\xA5\x8D\xE0\xA4\xA4\xE0\xA5\x87",
    " leading", "a", "HTTPServer2XMLParser DON'T WE'LL x1y22z333 1,234,567.89 $9.99 50% <b>bold</b> e-mail@example.org http://a.b/c?d=e&f=g",
};

lm_status lm_probe_tokenizers(const lm_tokenizer *one, const lm_tokenizer *other, bool *same, lm_error *e)
{
    *same = true;
    for (unsigned i = 0; i < 2 * LM_PROBES && *same; i++) {
        lm_tokens a = { 0 }, b = { 0 };
        unsigned  flags  = i < LM_PROBES ? 0 : LM_ADD_SPECIAL;
        size_t    size   = strlen(lm_probes[i % LM_PROBES]);
        lm_status status = lm_tokenize(one, lm_probes[i % LM_PROBES], size, flags, &a, e);
        if (status == LM_OK)
            status = lm_tokenize(other, lm_probes[i % LM_PROBES], size, flags, &b, e);
        *same = a.n == b.n && (!a.n || memcmp(a.ids, b.ids, a.n * sizeof *a.ids) == 0);
        lm_tokens_free(&a);
        lm_tokens_free(&b);
        LM_TRY(status);
    }
    return LM_OK;
}
