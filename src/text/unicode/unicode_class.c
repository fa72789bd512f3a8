/* unicode_class.c - look up characters in the generated ranges. */
#include "text/unicode/unicode_class.h"

#include "base/utf8.h"

bool lm_in_ranges(const lm_range *r, size_t n, uint32_t cp)
{
    size_t low = 0, high = n;       /* the first range that does not end before cp */

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (r[middle].last < cp)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && r[low].first <= cp;
}

bool lm_is_space(uint32_t cp)
{
    if (cp < 0x80)
        return cp == ' ' || (cp >= 0x09 && cp <= 0x0D);
    return cp == 0x85 || cp == 0xA0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 ||
           cp == 0x2029 || cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

static const lm_substitute *substitute(uint32_t cp)
{
    size_t low = 0, high = lm_substitutes_n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (lm_substitutes[middle].last < cp)
            low = middle + 1;
        else
            high = middle;
    }
    return low < lm_substitutes_n && lm_substitutes[low].first <= cp ? &lm_substitutes[low] : NULL;
}

const char *lm_pattern_text(lm_view text, lm_text *shadow)
{
    const uint32_t first  = lm_substitutes[0].first;
    bool           copied = false;
    size_t         size;

    lm_text_clear(shadow);
    for (size_t at = 0; at < text.size; at += size) {
        size = 1;
        if ((unsigned char)text.data[at] < 0xE0)     /* below U+0800: nothing to replace, and continuation
                                                        bytes */
            continue;
        uint32_t cp = lm_utf8_decode(text.data + at, &size);
        const lm_substitute *row = cp < first ? NULL : substitute(cp);
        if (!row)
            continue;
        if (!copied) {
            lm_text_add(shadow, text.data, text.size);
            if (shadow->failed)
                return text.data;
            copied = true;
        }
        lm_utf8_encode(row->shown, shadow->data + at);
    }
    return copied ? shadow->data : text.data;
}
