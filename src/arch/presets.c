/* presets.c - find a published model by its common names. */
#include "arch/presets.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"

#define MAX_WORDS 16
#define WORD      24
#define SHOWN     8          /* maximum number of candidates in an error */

const lm_preset *lm_preset_at(size_t i)
{
    return i < lm_n_presets ? &lm_preset_table[i] : NULL;
}

/* ---- names as words ----
 * "Llama-3.2-3B", "llama3.2 3b" and "meta-llama/Llama-3.2-3B" are all llama, 3.2, 3b: separators, case and
 * the organisation are ignored; a word ends where digits follow letters. */

typedef struct words {
    char word[MAX_WORDS][WORD];
    int  n;
} words;

static bool part_of_word(char c)
{
    return isalnum((unsigned char)c) || c == '.';
}

static void split(const char *name, words *out)
{
    const char *slash = strchr(name, '/');

    out->n = 0;
    for (const char *p = slash && slash[1] ? slash + 1 : name; *p && out->n < MAX_WORDS;) {
        size_t n = 0;
        while (*p && !part_of_word(*p))
            p++;
        for (; part_of_word(*p); p++) {
            if (n && isdigit((unsigned char)*p) && isalpha((unsigned char)p[-1]))
                break;
            if (n + 1 < WORD)
                out->word[out->n][n++] = (char)tolower((unsigned char)*p);
        }
        out->word[out->n][n] = '\0';
        out->n += n > 0;
    }
}

/* Count the occurrences of a word. */
static int count(const words *w, const char *word)
{
    int n = 0;

    for (int i = 0; i < w->n; i++)
        n += strcmp(w->word[i], word) == 0;
    return n;
}

static bool within(const words *few, const words *all)
{
    for (int i = 0; i < few->n; i++)
        if (count(few, few->word[i]) > count(all, few->word[i]))
            return false;
    return few->n > 0;
}

/* Return whether a name has all the words; a number also matches its minor versions: 3 matches 3.0. */
static bool of_version(const words *few, const words *all)
{
    for (int i = 0; i < few->n; i++) {
        size_t n = strlen(few->word[i]);
        bool   any = false;
        for (int k = 0; k < all->n && !any; k++)
            any = strcmp(few->word[i], all->word[k]) == 0 ||
                  (strspn(few->word[i], "0123456789") == n && strncmp(few->word[i], all->word[k], n) == 0 &&
                   all->word[k][n] == '.');
        if (!any)
            return false;
    }
    return few->n > 1;
}

/* How well one of the preset's names matches. */
enum { NO, VERSION, MORE, EXACTLY };

static int answers(const lm_preset *p, const words *given)
{
    const char *names[MAX_WORDS + 2] = { p->name, p->title };
    int         n = 2, best = 0;

    for (const char *const *a = p->aliases; *a && n < MAX_WORDS + 2; a++)
        names[n++] = *a;
    for (int i = 0; i < n && best < EXACTLY; i++) {
        words w;
        split(names[i], &w);
        if (within(given, &w))
            best = w.n == given->n ? EXACTLY : MORE;
        else if (best == NO && of_version(given, &w))
            best = VERSION;
    }
    return best;
}

/* ---- lookup ---- */

static void joined(const words *w, char *out, size_t size)
{
    size_t at = 0;

    out[0] = '\0';
    for (int i = 0; i < w->n && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%s", i ? "-" : "", w->word[i]);
}

/* Return the preset with the most similar name, if it is similar enough. */
static const lm_preset *nearest(const words *given)
{
    const lm_preset *best = NULL;
    char             name[128], candidate[128];
    size_t           min = SIZE_MAX;
    words            w;

    joined(given, name, sizeof name);
    for (size_t i = 0; i < lm_n_presets; i++) {
        split(lm_preset_table[i].name, &w);
        joined(&w, candidate, sizeof candidate);
        size_t d = lm_edit_distance(name, candidate);
        if (d < min) {
            min = d;
            best  = &lm_preset_table[i];
        }
    }
    return min <= 2 + strlen(name) / 6 ? best : NULL;
}

static lm_status several(const char *name, const words *given, int quality, size_t n, lm_error *e)
{
    char   list[320] = "";
    size_t at = 0, shown = 0;

    for (size_t i = 0; i < lm_n_presets && shown < SHOWN; i++)
        if (answers(&lm_preset_table[i], given) == quality && at < sizeof list) {
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", shown ? ", " : "",
                                   lm_preset_table[i].name);
            shown++;
        }
    if (n > shown && at < sizeof list)
        snprintf(list + at, sizeof list - at, " or %zu others", n - shown);
    return lm_fail(e, LM_USAGE, name, LM_NO_OFFSET, "matches several presets: %s", list);
}

lm_status lm_preset_find(const char *name, const lm_preset **out, lm_error *e)
{
    LM_REQUIRE(e, name && out);
    const lm_preset *found[EXACTLY + 1] = { NULL };
    size_t           n[EXACTLY + 1]     = { 0 };
    words            given;

    split(name, &given);
    for (size_t i = lm_n_presets; i-- > 0;) {
        int quality    = answers(&lm_preset_table[i], &given);
        found[quality] = &lm_preset_table[i];
        n[quality]++;
    }
    int quality = n[EXACTLY] ? EXACTLY : n[MORE] ? MORE : VERSION;
    if (n[quality] > 1)
        return several(name, &given, quality, n[quality], e);
    if (n[quality] == 1) {
        *out = found[quality];
        return LM_OK;
    }
    lm_fail(e, LM_NOT_FOUND, name, LM_NO_OFFSET, "no preset has this name");
    const lm_preset *near = given.n ? nearest(&given) : NULL;
    if (near)
        lm_fail_hint(e, "did you mean %s?", near->name);
    else
        lm_fail_hint(e, "`presets` lists them");
    return LM_NOT_FOUND;
}
