/* numerals.c - how numbers are written in a text, where a clause ends, the context that a line speaks of. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "analysis/audit/cells.h"

bool lm_ends_clause(const char *p)
{
    return *p == ';' || *p == '|' || strncmp(p, "。", 3) == 0 || ((*p == '.' || *p == ',') && p[1] == ' ');
}

/* A number with its prefix ("128K", "3,072", "1.24B") that stands alone; 0: none here. */
size_t lm_number_here(const char *start, const char *p, const char *end)
{
    static const char *const words[] = { " million", " billion" };
    const char *s = p;

    if (!isdigit((unsigned char)*p) || (p > start && (isalnum((unsigned char)p[-1]) || p[-1] == '.' || p[-1] == '_' || p[-1] == '/')))
        return 0;
    if (p - start >= 2 && (p[-1] == '-' || p[-1] == ',') && isalnum((unsigned char)p[-2]))
        return 0;
    while (p < end && (isdigit((unsigned char)*p) || ((*p == ',' || *p == '.') && p + 1 < end && isdigit((unsigned char)p[1]))))
        p++;
    if (p < end && strchr("KMBTkG", *p) && (p + 1 == end || !isalpha((unsigned char)p[1])))
        p++;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if ((size_t)(end - p) > strlen(words[i]) && strncasecmp(p, words[i], strlen(words[i])) == 0 &&
            !isalpha((unsigned char)p[strlen(words[i])]))
            p += strlen(words[i]);
    return p < end && (isalnum((unsigned char)*p) || *p == '_') ? 0 : (size_t)(p - s);
}

size_t lm_digits_here(const char *start, const char *p, const char *end)
{
    const char *s = p;

    if (!isdigit((unsigned char)*p) || (p > start && (isalnum((unsigned char)p[-1]) || p[-1] == '.')))
        return 0;
    while (p < end && (isdigit((unsigned char)*p) || ((*p == ',' || *p == '.') && p + 1 < end && isdigit((unsigned char)p[1]))))
        p++;
    return (size_t)(p - s);
}

/* "(seq_len=4096)", "8K context", "at 1,024 tokens". */
uint64_t lm_context_in(lm_extent s)
{
    static const char *const words[] = { "seq_len=", "seq_len = ", "context=", "context = ", "S=", "at " };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (size_t at = 0; at + strlen(words[i]) < s.n; at++) {
            const char *p = s.s + at + strlen(words[i]), *end = s.s + s.n;
            uint64_t    n = 0;
            if (memcmp(s.s + at, words[i], strlen(words[i])) != 0)
                continue;
            for (; p < end && n < 100000000 && (isdigit((unsigned char)*p) || (*p == ',' && n)); p++)
                n = *p == ',' ? n : n * 10 + (uint64_t)(*p - '0');
            if (n && p < end && (*p == 'K' || *p == 'k'))
                n *= 1024;
            if (n >= 128)
                return n;
        }
    return 0;
}

/* "kv.at[%N]" with the tokens of the heading; NULL where it names none. */
const char *lm_path_with_context(lm_reading *d, const char *path, bool windowed)
{
    const char *at = strstr(path, "%N");
    char       *out;

    if (!at)
        return path;
    if (!d->context)
        return NULL;
    if (windowed)
        return lm_arena_printf(&d->arena, "kv.at[%llu].bytes", (unsigned long long)d->context);
    out = lm_arena_strdup(&d->arena, "");
    for (; out && (at = strstr(path, "%N")); path = at + 2)
        out = lm_arena_printf(&d->arena, "%s%.*s%llu", out, (int)(at - path), path, (unsigned long long)d->context);
    out = out ? lm_arena_printf(&d->arena, "%s%s", out, path) : NULL;
    d->failed |= !out;
    return out;
}
