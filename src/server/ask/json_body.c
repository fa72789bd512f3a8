/* json_body.c - json_body.h: parse; if that fails, mend the text and parse it again. */
#include "server/ask/json_body.h"

#include <string.h>

#include "base/json_exact.h"
#include "lamina/buffer.h"

json_t *lm_json_body(const char *text, size_t n, size_t flags, size_t *mended, json_error_t *why)
{
    lm_text out = { 0 };

    /* A byte order mark, as editors put before files. */
    if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3, n -= 3;
    json_t *o = json_loadb(text, n, flags, why);
    size_t many = o ? 0 : lm_text_add_mended_json(&out, text, n);

    if (!o && !out.failed && out.data)
        o = json_loadb(out.data, out.size, flags, why);
    if (mended)
        *mended = many;
    lm_text_free(&out);
    return o;
}
