/* mention.c - which model a piece of text names. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "analysis/audit/reading.h"
#include "lamina/preset.h"

static bool is_word(char c)
{
    return isalnum((unsigned char)c);
}

/* The next word of [*p, end): letters, or digits with points among them and the letters behind ("3.2", "3b"). Its length; 0: none. */
static size_t next_word(const char **p, const char *end)
{
    const char *s = *p;

    while (s < end && !is_word(*s))
        s++;
    *p = s;
    if (s < end && isdigit((unsigned char)*s))
        while (s < end && (isdigit((unsigned char)*s) || (*s == '.' && s + 1 < end && isdigit((unsigned char)s[1]))))
            s++;
    while (s < end && isalpha((unsigned char)*s))
        s++;
    return (size_t)(s - *p);
}

static void split_name(lm_known *k, const char *name)
{
    const char *slash = strrchr(name, '/'), *p = slash && slash[1] ? slash + 1 : name, *end = name + strlen(name);

    k->name = name;
    for (size_t n; k->n < LM_MOST_WORDS && (n = next_word(&p, end)); p += n) {
        for (size_t i = 0; i < n && i + 1 < sizeof k->words[0]; i++)
            k->words[k->n][i] = (char)tolower((unsigned char)p[i]);
        k->n++;
    }
}

void lm_know_models(lm_reading *d, const char *const *models, size_t n)
{
    size_t presets = 0;

    while (lm_preset_at(presets))
        presets++;
    d->known = lm_arena_array(&d->arena, n + presets, sizeof *d->known);
    if (!d->known) {
        d->failed = true;
        return;
    }
    d->n_given = n;
    for (size_t i = 0; i < n; i++)
        split_name(&d->known[d->n_known++], lm_arena_strdup(&d->arena, models[i]));
    for (size_t i = 0; i < presets; i++)
        split_name(&d->known[d->n_known++], lm_preset_at(i)->name);
}

static bool word_is(const char *text, size_t n, const char *word)
{
    for (size_t i = 0; i < n; i++)
        if (!word[i] || tolower((unsigned char)text[i]) != word[i])
            return false;
    return word[n] == '\0';
}

static bool has_word(const lm_known *k, const char *text, size_t n)
{
    for (size_t i = 0; i < k->n; i++)
        if (word_is(text, n, k->words[i]))
            return true;
    return false;
}

/* "3b", "124m", "8x7b": how large it is. */
static bool is_size(const char *text, size_t n)
{
    return n > 1 && isdigit((unsigned char)*text) && strchr("bBmM", text[n - 1]) != NULL;
}

static bool has_size(const lm_known *k)
{
    for (size_t i = 1; i < k->n; i++)
        if (is_size(k->words[i], strlen(k->words[i])))
            return true;
    return false;
}

/* How many words of the name stand at s, one behind the other; -1: those that do are of another model. `*after`: behind the last. */
static int matched(const lm_known *k, const char *s, const char *end, const char **after)
{
    const char *p = s, *last;
    size_t      n = next_word(&p, end);
    int         found = 1;

    if (!k->n || !word_is(p, n, k->words[0]) || n < 2)
        return 0;
    *after = last = p + n;
    for (p = last; (n = next_word(&p, end)); p = last) {
        bool number = isdigit((unsigned char)*p);
        if (p - last > 2 || (p > last && strspn(last, " -_(.") < (size_t)(p - last)))
            break;
        if (has_word(k, p, n))
            found++;
        else if (number && !(is_size(p, n) && !has_size(k)))
            return -1;
        else if (!number && !word_is(p, n, "v"))
            break;
        *after = last = p + n;
    }
    return found;
}

/* "the 8B model": of those given, the only one of this size. */
static int by_size(const lm_reading *d, const char *p, size_t n, const char *end)
{
    int         found = LM_NO_MODEL;
    const char *next  = p + n;
    size_t      m     = next_word(&next, end);

    if (!is_size(p, n) || next - (p + n) != 1 || !(word_is(next, m, "model") || word_is(next, m, "models") || word_is(next, m, "variant")))
        return LM_NO_MODEL;
    for (size_t i = 0; i < d->n_given; i++)
        if (has_word(&d->known[i], p, n)) {
            if (found >= 0)
                return LM_NO_MODEL;
            found = (int)i;
        }
    return found < 0 && d->n_given ? LM_OTHER_MODEL : found;
}

/* The model whose name begins at s. One that is given goes before presets; of several that fit, the document's own, then that with the most
 * words there and the fewest words that are not. */
static int named_at(const lm_reading *d, const char *s, const char *end, const char **after)
{
    int    best = LM_NO_MODEL, most = 0;
    bool   other = false;

    for (size_t i = 0; i < d->n_known; i++) {
        const char *behind = s;
        bool        given  = i < d->n_given;
        int         n      = matched(&d->known[i], s, end, &behind);
        if (n < 0)
            other = true;
        if (n <= 0 || (!given && d->n_given && best >= 0 && best < (int)d->n_given) || (!given && n < 2))
            continue;
        int fit = 100 * n - (int)d->known[i].n + ((int)i == d->title ? 50 : 0) + (given ? 10 : 0);
        if (best == LM_NO_MODEL || fit > most) {
            best   = (int)i;
            most   = fit;
            *after = behind;
        }
    }
    if (best >= 0 && d->n_given && best >= (int)d->n_given)
        return LM_OTHER_MODEL;
    return best == LM_NO_MODEL && other ? LM_OTHER_MODEL : best;
}

int lm_mentioned(const lm_reading *d, lm_extent s, bool *many)
{
    const char *end = s.s + s.n, *p = s.s;
    int         first = LM_NO_MODEL;

    if (many)
        *many = false;
    for (size_t n; (n = next_word(&p, end));) {
        const char *after = p + n;
        int         m     = named_at(d, p, end, &after);
        if (m == LM_NO_MODEL)
            m = by_size(d, p, n, end);
        if (m != LM_NO_MODEL && first == LM_NO_MODEL) {
            first = m;
            if (!many)
                return m;
        } else if (m != LM_NO_MODEL && m != first) {
            *many = true;
        }
        p = after > p ? after : p + n;
    }
    return first;
}

/* The model that a number at `at` is about: the last that its sentence has named before, or "in the 8B model" just behind it. */
int lm_model_of(const lm_reading *d, lm_extent line, const char *at, const char *after, int scope)
{
    const char *end = line.s + line.n, *start = at, *stop = after;
    int         m;

    while (stop < end && stop - after < 24 && !lm_ends_clause(stop) && *stop != ')')
        stop++;
    if ((m = lm_mentioned(d, (lm_extent){ after, (size_t)(stop - after) }, NULL)) != LM_NO_MODEL &&
        (*after == ' ' && (after[1] == '(' || after[1] == 'i')))
        return m;
    while (start > line.s && !(start[-1] == ';' || (start[-1] == ' ' && start - 1 > line.s && start[-2] == '.')))
        start--;
    for (const char *p = at; p-- > start;)
        if ((p == line.s || !isalnum((unsigned char)p[-1])) && isalnum((unsigned char)*p) &&
            (m = lm_mentioned(d, (lm_extent){ p, (size_t)(at - p) }, NULL)) != LM_NO_MODEL)
            return m;
    return scope;
}
