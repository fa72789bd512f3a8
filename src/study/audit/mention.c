/* mention.c - find which model a text names. A full name counts if all of its words follow in order and no word after it makes it the
 * name of another model; a part of a name counts if only one model of the document begins with it. */
#include <ctype.h>
#include <string.h>

#include "study/audit/reading.h"
#include "lamina/preset.h"

/* Find the next word of [*p, end): letters, or digits with points between them and letters after them ("3.2", "3b"). Returns its length;
 * 0: none. */
static size_t next_word(const char **p, const char *end)
{
    const char *s = *p;

    while (s < end && !isalnum((unsigned char)*s))
        s++;
    *p = s;
    if (s < end && isdigit((unsigned char)*s))
        while (s < end && (isdigit((unsigned char)*s) || (*s == '.' && s + 1 < end && isdigit((unsigned char)s[1]))))
            s++;
    while (s < end && isalpha((unsigned char)*s))
        s++;
    return (size_t)(s - *p);
}

static void know(lm_audit_document *d, const char *name, const char *words, bool here)
{
    lm_known   *k = &d->known[d->n_known++];
    const char *slash = strrchr(words, '/'), *p = slash && slash[1] ? slash + 1 : words, *end = words + strlen(words);
    size_t      gguf = (size_t)(end - p) > 5 && strcmp(end - 5, ".gguf") == 0 ? 5 : 0;

    *k = (lm_known){ .name = name, .here = here };
    for (size_t n; k->n < LM_MOST_WORDS && (n = next_word(&p, end - gguf)); p += n) {
        for (size_t i = 0; i < n && i + 1 < sizeof k->words[0]; i++)
            k->words[k->n][i] = (char)tolower((unsigned char)p[i]);
        k->n++;
    }
}

/* "3b", "124m": a model size. */
static bool is_size(const char *text, size_t n)
{
    return n > 1 && isdigit((unsigned char)*text) && strchr("bBmM", text[n - 1]) != NULL && strspn(text, "0123456789.") == n - 1;
}

/* Count the words of the name that follow each other at s; `*after` points past the last one. */
static size_t matched(const lm_known *k, const char *s, const char *end, const char **after)
{
    const char *p = s;
    size_t      found = 0;

    *after = s;
    for (size_t n; found < k->n && (n = next_word(&p, end)); p += n) {
        if ((found && (p - *after > 2 || strspn(*after, " -_(:") < (size_t)(p - *after))) ||
            !lm_word_is((lm_extent){ p, n }, k->words[found]))
            break;
        *after = p + n;
        found++;
    }
    return found;
}

/* Return the bytes of "/4" in "GPT-3/4": what is said of both holds of the first. */
static size_t pair_at(const char *p, const char *end)
{
    const char *q = p;
    size_t      n = next_word(&q, end);

    return n && *p == '/' && q == p + 1 && isdigit((unsigned char)*q) && !is_size(q, n) ? n + 1 : 0;
}

/* Return whether the text after a name makes it the name of another model: "-Coder", " 1.5B", "-v0.2". Fine-tuned variants ("-Instruct")
 * have the same structure. */
static bool name_continues(const char *p, const char *end)
{
    static const char *const same[] = { "instruct", "chat", "base", "it", "hf", "gguf", "fp16", "bf16", "awq", "gptq", "model", "class",
                                        "style", "based", NULL };
    static const char *const other[] = { "lite", "coder", "math", "vision", "vl", "mini", "large", "small", "medium", "xl", "moe", "turbo",
                                         "pro", "plus", "distill", "nano", "code", "omni", "audio", "guard", "embedding", "next", "max",
                                         "thinking", NULL };
    const char *q = p;
    size_t      n = next_word(&q, end);

    if (!n || pair_at(p, end) || q - p > 2 || strspn(p, " -_(.") < (size_t)(q - p) || (q - p == 2 && *p == '.'))
        return false;
    if (isdigit((unsigned char)*q))
        return is_size(q, n) || q == p || *p == '-' || *p == '.';
    if (lm_word_among((lm_extent){ q, n }, other))
        return true;
    return q == p + 1 && (*p == '-' || *p == '_') && !lm_word_among((lm_extent){ q, n }, same);
}

/* "GPT 5": a version after a family makes it another model than the one of that family that the document names. */
static bool has_version(const char *p, const char *end)
{
    const char *q = p;
    size_t      n = next_word(&q, end);

    return n && q == p + 1 && *p == ' ' && strspn(q, "0123456789.") == n;
}

/* Return the model of the document whose name matches the largest number of words at s; names may differ in their endings.
 * LM_OTHER_MODEL: several match. */
static int by_beginning(const lm_audit_document *d, const char *s, const char *end, size_t *n)
{
    int    best = LM_NO_MODEL;
    size_t most = 0;

    for (size_t i = 0; i < d->n_known; i++) {
        const char *after;
        size_t      m = d->known[i].here ? matched(&d->known[i], s, end, &after) : 0;
        if (!m || m < most || (m == 1 && !isupper((unsigned char)*s)))
            continue;
        bool same = best >= 0 && strcmp(d->known[best].name, d->known[i].name) == 0;
        best = m > most || same ? (int)i : LM_OTHER_MODEL;
        most = m;
        *n   = (size_t)(after - s);
    }
    if (best == LM_NO_MODEL)
        return best;
    bool other = name_continues(s + *n, end) || (most == 1 && has_version(s + *n, end));
    *n += pair_at(s + *n, end);
    return other ? LM_OTHER_MODEL : best;
}

/* "the 8B model": return the only model of the document with this size. `*n`: bytes of the size and the noun. */
static int by_size(const lm_audit_document *d, const char *s, const char *end, size_t *n)
{
    static const char *const nouns[] = { "model", "variant", "version", NULL };
    const char *p = s, *q;
    int         best = LM_NO_MODEL;
    size_t      m = next_word(&p, end), k;

    q = p + m;
    if (p != s || !is_size(p, m) || !(k = next_word(&q, end)) || q - (p + m) != 1 || !lm_word_among((lm_extent){ q, k }, nouns))
        return LM_NO_MODEL;
    *n = (size_t)(q + k - s);
    for (size_t i = 0; i < d->n_known; i++)
        for (size_t w = 0; w < d->known[i].n && d->known[i].here; w++)
            if (lm_word_is((lm_extent){ p, m }, d->known[i].words[w]) &&
                (best == LM_NO_MODEL || strcmp(d->known[best].name, d->known[i].name) != 0))
                best = best == LM_NO_MODEL ? (int)i : LM_OTHER_MODEL;
    return best == LM_NO_MODEL ? LM_OTHER_MODEL : best;
}

int lm_model_at(const lm_audit_document *d, const char *s, const char *end, size_t *n)
{
    int    best = LM_NO_MODEL;
    size_t most = 0, families = 0;

    for (size_t i = 0; i < d->n_known; i++) {
        const lm_known *k = &d->known[i];
        if (!k->n || tolower((unsigned char)*s) != *k->words[0])
            continue;
        const char *after;
        size_t      m = matched(k, s, end, &after);
        families += m > 1;
        if (m < k->n || m < 2 || m < most || (m == most && best >= 0 && best < (int)d->n_given))
            continue;
        best = (int)i;
        most = m;
        *n   = (size_t)(after - s);
    }
    if (best >= 0) {
        bool other = name_continues(s + *n, end) || (d->n_given && !d->known[best].here);
        *n += pair_at(s + *n, end);
        return other ? LM_OTHER_MODEL : best;
    }
    int part = by_beginning(d, s, end, n);
    if (part != LM_NO_MODEL)
        return part;
    if (families) {                  /* a family of which the document has no model */
        const char *p = s;
        *n = next_word(&p, end);
        return LM_OTHER_MODEL;
    }
    return by_size(d, s, end, n);
}

/* If no models are given, the models of the document are those that the text names in full. */
static void find_those_named(lm_audit_document *d)
{
    const char *end = d->text + d->size;

    for (const char *p = d->text; p < end; p++) {
        size_t n;
        int    m = !isalnum((unsigned char)*p) || (p > d->text && isalnum((unsigned char)p[-1])) ? LM_NO_MODEL : lm_model_at(d, p, end, &n);
        for (size_t i = 0; m >= 0 && i < d->n_known; i++)
            d->known[i].here |= strcmp(d->known[i].name, d->known[m].name) == 0;
    }
}

void lm_know_models(lm_audit_document *d, const char *const *models, size_t n)
{
    size_t           names = 0;
    const lm_preset *preset;

    for (size_t i = 0; (preset = lm_preset_at(i)); i++, names += 2)
        for (const char *const *a = preset->aliases; a && *a; a++)
            names++;
    if (!(d->known = lm_arena_new(&d->arena, n + names, lm_known))) {
        d->failed = true;
        return;
    }
    for (size_t i = 0; i < n; i++)
        know(d, lm_arena_strdup(&d->arena, models[i]), models[i], true);
    d->n_given = n;
    for (size_t i = 0; (preset = lm_preset_at(i)); i++) {
        bool        given = false;
        const char *name = preset->name;
        for (size_t k = 0; k < n && !given; k++)
            if (strcmp(models[k], name) == 0) {
                given = true;
                name  = d->known[k].name;
            }
        know(d, name, preset->name, given);
        know(d, name, preset->title, given);
        for (const char *const *a = preset->aliases; a && *a; a++)
            know(d, name, *a, given);
    }
    if (!n)
        find_those_named(d);
}
