/* devices.c - find a device by its common names. */
#include "study/facts/devices.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/language.h"
#include "base/str.h"

enum { NAME = 96, SHOWN = 6 };

const lm_device *lm_device_at(size_t i)
{
    return i < lm_n_devices ? &lm_device_table[i] : NULL;
}

/* ---- memory that a model cannot have ---- */

typedef struct reserve {
    const char *kind;
    uint64_t    bytes;
    unsigned    part;                    /* additionally memory / part; 0: none */
    const char *source;
} reserve;

static const reserve reserves[] = {
    { "gpu", 512ull << 20, 0,
      N_("driver and runtime: CUDA contexts of 256 to 330 MiB are published "
         "(github.com/invoke-ai/InvokeAI/issues/9413, github.com/unslothai/unsloth/pull/6718); 512 MiB is an "
         "assumption") },
    { "accelerator", 512ull << 20, 0,
      N_("driver and runtime: 512 MiB is an assumption, as for graphics processors") },
    { "apple", 0, 4,
      N_("Metal recommends to use between 0.67 (M1 Max, 32 GiB: github.com/ggml-org/llama.cpp/pull/2011) and "
         "0.84 of the memory (128 GiB: github.com/antirez/ds4/pull/909); keeping a quarter is an assumption "
         "between them") },
    { "phone", 0, 2,
      N_("an app gets about half of the memory: 3 of 6 GB on an iPhone 14 "
         "(antigravitylab.net: memory budget design for mobile apps, 2026); an assumption for other "
         "phones") },
    { "board", 1ull << 30, 0, N_("operating system without a desktop: 1 GiB is an assumption") },
    { "cpu", 1ull << 30, 0, N_("operating system without a desktop: 1 GiB is an assumption") },
};

uint64_t lm_device_reserve(const lm_device *d, const char **source)
{
    static const reserve none = { .source = "" };
    const reserve       *r    = &none;

    for (size_t i = 0; d && i < sizeof reserves / sizeof *reserves; i++)
        if (strcmp(reserves[i].kind, d->kind) == 0)
            r = &reserves[i];
    if (source)
        *source = r->source;
    return r->bytes + (r->part ? d->memory / r->part : 0);
}

uint64_t lm_device_usable(const lm_device *d)
{
    return d->memory - lm_device_reserve(d, NULL);
}

bool lm_is_tight(uint64_t memory, uint64_t total)
{
    return total <= memory && memory - total < memory / 20;
}

/* ---- names ---- */

/* Copy letters and digits in lower case: "RTX 4090" and "rtx-4090" become equal; "+" distinguishes
 * processors. */
static const char *plain(char out[NAME], const char *text, size_t n)
{
    size_t at = 0;

    for (size_t i = 0; i < n && text[i] && at + 1 < NAME; i++)
        if (isalnum((unsigned char)text[i]) || text[i] == '+')
            out[at++] = (char)tolower((unsigned char)text[i]);
    out[at] = '\0';
    return out;
}

/* Return 2 if one of the names equals `wanted`, 1 if one contains it, 0 otherwise. */
static int answers(const lm_device *d, const char *wanted)
{
    const char *names[2] = { d->name, d->title };
    char        name[NAME];
    int         best = 0;

    for (int i = 0; i < 2; i++) {
        plain(name, names[i], NAME);
        if (strcmp(name, wanted) == 0)
            return 2;
        if (strstr(name, wanted))
            best = 1;
    }
    for (const char *a = d->aliases; *a; a += strspn(a, " ")) {
        size_t n = strcspn(a, " ");
        if (strcmp(plain(name, a, n), wanted) == 0)
            return 2;
        a += n;
    }
    return best;
}

static lm_status several(const char *name, const char *wanted, size_t n, lm_error *e)
{
    char   list[240] = "";
    size_t at = 0, shown = 0;

    for (size_t i = 0; i < lm_n_devices && shown < SHOWN; i++)
        if (answers(&lm_device_table[i], wanted) == 1 && at < sizeof list) {
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", shown ? ", " : "",
                                   lm_device_table[i].name);
            shown++;
        }
    if (n > shown && at < sizeof list)
        snprintf(list + at, sizeof list - at, " or %zu others", n - shown);
    return lm_fail(e, LM_USAGE, name, LM_NO_OFFSET, "matches several devices: %s", list);
}

static lm_status unknown(const char *name, const char *wanted, lm_error *e)
{
    const lm_device *best = NULL;
    char             candidate[NAME];
    size_t           min = strlen(wanted) / 3 + 1;

    for (size_t i = 0; i < lm_n_devices; i++) {
        size_t d = lm_edit_distance(wanted, plain(candidate, lm_device_table[i].name, NAME));
        if (d < min) {
            min = d;
            best  = &lm_device_table[i];
        }
    }
    lm_fail(e, LM_NOT_FOUND, name, LM_NO_OFFSET, "no device has this name");
    if (best)
        lm_fail_hint(e, "did you mean %s?", best->name);
    else
        lm_fail_hint(e, "`devices` lists them");
    return LM_NOT_FOUND;
}

lm_status lm_device_find(const char *name, const lm_device **out, lm_error *e)
{
    LM_REQUIRE(e, name && out);
    const lm_device *found[3] = { NULL };
    size_t           n[3]     = { 0 };
    char             wanted[NAME];

    plain(wanted, name, NAME);
    for (size_t i = lm_n_devices; *wanted && i-- > 0;) {
        int quality    = answers(&lm_device_table[i], wanted);
        found[quality] = &lm_device_table[i];
        n[quality]++;
    }
    int quality = n[2] ? 2 : 1;
    if (!n[quality])
        return unknown(name, wanted, e);
    if (n[quality] > 1)
        return several(name, wanted, n[quality], e);
    *out = found[quality];
    return LM_OK;
}
