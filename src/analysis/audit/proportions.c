/* proportions.c - shares of the whole, savings, and how large a model is said to be. */
#include <ctype.h>
#include <string.h>

#include "analysis/audit/reading.h"

/* ---- "67% smaller", "~21% of the model", "saves ~263M parameters" ---- */

static bool has_any(lm_extent line, const char *const *words)
{
    for (; *words; words++)
        if (lm_span_has(line, *words))
            return true;
    return false;
}

/* What a share of the whole, a saving or a count of tied parameters is about; NULL: not clear. */
static const char *path_of_share(const lm_reading *d, lm_extent line, bool percent)
{
    static const char *const less[] = { "smaller", "reduc", "less", "lower", "saved", "saving", "減少", "减少", "လျှော့", NULL };
    static const char *const sharing[] = { "gqa", "mha", "mqa", "grouped", "multi-head", NULL };
    static const char *const whole[] = { "model total", "of total", "of the total", "of all parameters", "of the parameters",
                    "of the model's parameters", NULL };
    static const char *const tying[] = { "tying", "tied", "same matrix", "shared with", "shares weights", "share the matrix", NULL };
    static const char *const saves[] = { "save", "saving", "fewer", "reduc", "သက်သာ", "节省", "節省", "省下", NULL };
    static const char *const quantised[] = { "int8", "fp8", "q8", "quanti", "window", NULL };

    if (!percent)
        return has_any(line, tying) && has_any(line, saves) && lm_span_has(line, "param") ? "parameters.saved_by_tying" : NULL;
    if (lm_span_has(line, "cache") && has_any(line, less) && (has_any(line, sharing) || has_any(d->heading, sharing)) &&
        !has_any(line, quantised))
        return "kv.mha.saved";
    if (!has_any(line, whole) || has_any(line, less))
        return NULL;
    int embedding = lm_span_has(line, "embedding"), mlp = lm_span_has(line, "mlp") || lm_span_has(line, "feed-forward"),
        attention = lm_span_has(line, "attention");
    if (embedding + mlp + attention != 1)
        return NULL;
    return embedding ? "parameters.shares.embedding" : mlp ? "parameters.shares.mlp" : "parameters.shares.attention";
}

/* One number of its kind in the line, or it is not clear which is meant. */
static bool read_parts(lm_reading *d, lm_extent line, int scope)
{
    const char *end = line.s + line.n;
    lm_extent   only[2] = { { 0 } };
    size_t      n[2] = { 0 };
    bool        found = false;

    for (const char *p = line.s; p < end; p++) {
        size_t k = lm_digits_here(line.s, p, end);
        if (!k)
            continue;
        bool percent = p + k < end && p[k] == '%', many = p + k < end && strchr("MB", p[k]) && !(p + k + 1 < end &&
            isalnum((unsigned char)p[k + 1]));
        const char *from = p > line.s && p[-1] == '~' ? p - 1 : p;
        if (percent || many) {
            only[many] = (lm_extent){ from, (size_t)(p + k + 1 - from) };
            n[many]++;
        }
        p += k;
    }
    for (int many = 0; many < 2; many++) {
        const char *path = n[many] == 1 ? path_of_share(d, line, !many) : NULL;
        if (!path)
            continue;
        lm_say(d, only[many], lm_model_of(d, line, only[many].s, only[many].s + only[many].n, scope), path,
               lm_arena_strndup(&d->arena, only[many].s, only[many].n));
        found = true;
    }
    return found;
}

/* ---- "… 7B is 7.2B" ---- */
static bool read_sized(lm_reading *d, lm_extent line)
{
    static const char *const links[] = { " is ", " has ", " 是 ", " 有 " };
    const char *end = line.s + line.n;

    for (size_t l = 0; l < sizeof links / sizeof *links; l++)
        for (const char *p = line.s; (p = memmem(p, (size_t)(end - p), links[l], strlen(links[l]))) != NULL; p++) {
            const char *q = p + strlen(links[l]);
            size_t      n = lm_number_here(line.s, q, end);
            bool        name = p > line.s && strchr("Bb", p[-1]) && p - line.s > 2 && isdigit((unsigned char)p[-2]);
            int         m = n && q[n - 1] == 'B' && name ? lm_model_of(d, line, p, p, LM_NO_MODEL) : LM_NO_MODEL;
            if (m == LM_NO_MODEL)
                continue;
            lm_say(d, (lm_extent){ q, n }, m, "parameters.total", lm_arena_strndup(&d->arena, q, n));
            return true;
        }
    return false;
}

/* ---- "147,456 bytes per token", "the cache at 8,192 tokens is 1.21 GB" ---- */

/* Behind a number: its unit, of bytes; 0: none. */
static size_t bytes_behind(const char *p, const char *end)
{
    const char *u = p;

    while (u < end && *u == ' ')
        u++;
    if (end - u >= 5 && memcmp(u, "bytes", 5) == 0)
        return (size_t)(u + 5 - p);
    if (end - u < 2 || !strchr("KMGk", *u))
        return 0;
    size_t n = u[1] == 'i' ? 2 : 1;
    return u + n < end && u[n] == 'B' && !(u + n + 1 < end && isalnum((unsigned char)u[n + 1])) ? (size_t)(u + n + 1 - p) : 0;
}

bool lm_read_cache(lm_reading *d, lm_extent line, int model)
{
    static const char *const each[] = { "per token", "every token", "each token", NULL };
    static const char *const others[] = { "per layer", "each layer", "×", "=", "MHA", "multi-head", "int8", "fp8", "q8", NULL };
    const char *end = line.s + line.n;
    uint64_t    context = lm_context_in(line);
    bool        found = false;

    if (!lm_span_has(line, "cache") || has_any(line, others))
        return false;
    for (const char *p = line.s; p < end; p++) {
        size_t k = lm_digits_here(line.s, p, end), unit = k ? bytes_behind(p + k, end) : 0;
        if (!k)
            continue;
        lm_extent near = { p - line.s > 40 ? p - 40 : line.s, 0 }, value = { p, k + unit };
        for (const char *q = near.s; q + 1 < p; q++)         /* within its sentence */
            if (*q == '.' && q[1] == ' ')
                near.s = q + 1;
        const char *stop = memmem(p, (size_t)(end - p), ". ", 2);
        stop   = stop && stop - p < 40 ? stop : end - p > 40 ? p + 40 : end;
        near.n = (size_t)(stop - near.s);
        const char *path = !unit ? NULL : has_any(near, each) ? "kv.bytes_per_token" : !context ? NULL
                           : lm_arena_printf(&d->arena, "kv.at[%llu].bytes|kv.at[%llu].bytes_without_window", (unsigned long long)context,
                                             (unsigned long long)context);
        p += k;
        if (!path)
            continue;
        lm_say(d, value, lm_model_of(d, line, value.s, value.s + value.n, model), path, lm_arena_strndup(&d->arena, value.s, value.n));
        found = true;
    }
    return found;
}

bool lm_read_shares(lm_reading *d, lm_extent line, int scope)
{
    return read_parts(d, line, scope) | read_sized(d, line);
}
