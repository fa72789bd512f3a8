/* stops.c - find stop strings in a text that grows. */
#include "runtime/generate/stops.h"

#include <string.h>

/* Return the start of the character that contains byte `at`. */
static size_t character_start(const char *text, size_t n, size_t at)
{
    size_t start = at;

    while (start > 0 && start < n && at - start < 3 && ((unsigned char)text[start] & 0xC0) == 0x80)
        start--;
    return start < n && ((unsigned char)text[start] & 0xC0) == 0xC0 ? start : at;
}

/* Return whether `text` ends with the first `m` bytes of `stop`. */
static bool ends_in(const char *text, size_t n, const char *stop, size_t m)
{
    return m <= n && memcmp(text + n - m, stop, m) == 0;
}

static size_t tail_to_hold(const char *const *stops, const char *text, size_t n)
{
    size_t hold = 0;

    for (size_t i = 0; stops[i]; i++)
        for (size_t m = strlen(stops[i]); m > hold + 1;)
            if (ends_in(text, n, stops[i], --m))
                hold = m;
    return hold;
}

size_t lm_stop_scan(const char *const *stops, const char *text, size_t n, bool last, bool *found)
{
    *found = false;
    if (!stops || n == 0)
        return n;
    for (size_t end = 1; end <= n; end++) {
        size_t longest = 0;
        for (size_t i = 0; stops[i]; i++) {
            size_t m = strlen(stops[i]);
            if (m > longest && ends_in(text, end, stops[i], m))
                longest = m;
        }
        if (longest) {
            *found = true;
            return character_start(text, n, end - longest);
        }
    }
    return last ? n : character_start(text, n, n - tail_to_hold(stops, text, n));
}
