/* model_names.c - find which model a text names. A full name counts if all of its words follow in order and
 * no word after it makes it the name of another model; a part of a name counts if only one model of the
 * document begins with it. */
#include <ctype.h>
#include <string.h>

#include "study/audit/audit_document.h"
#include "lamina/preset.h"

/* Find the next word of [*p, end): letters, or digits with points between them and letters after them ("3.2",
 * "3b"). Returns its length; 0: none. */
static size_t next_word(const char **p, const char *end)
{
    const char *s = *p;

    while (s < end && !isalnum((unsigned char)*s))
        s++;
    *p = s;
    if (s < end && isdigit((unsigned char)*s))
        while (s < end &&
               (isdigit((unsigned char)*s) || (*s == '.' && s + 1 < end && isdigit((unsigned char)s[1]))))
            s++;
    while (s < end && isalpha((unsigned char)*s))
        s++;
    return (size_t)(s - *p);
}

static void learn(lm_audit_document *d, const char *name, const char *words, bool here)
{
    lm_model_name *k     = &d->names[d->n_names++];
    const char    *slash = strrchr(words, '/'), *p = slash && slash[1] ? slash + 1
                           : words, *end = words + strlen(words);
    size_t         gguf  = end - p > 5 && strcmp(end - 5, ".gguf") == 0 ? 5 : 0;

    *k = (lm_model_name){ .name = name, .here = here };
    for (size_t n; k->n < LM_MAX_NAME_WORDS && (n = next_word(&p, end - gguf)); p += n) {
        for (size_t i = 0; i < n && i + 1 < sizeof k->words[0]; i++)
            k->words[k->n][i] = (char)tolower((unsigned char)p[i]);
        k->n++;
    }
    if (k->n == 1 && !strpbrk(k->words[0], "0123456789"))            /* "model.gguf" names no model */
        k->n = 0;
}

static bool same_name(const lm_audit_document *d, int a, size_t b)
{
    return strcmp(d->names[a].name, d->names[b].name) == 0;
}

/* Count the words of the name that follow each other at s; `*after` points past the last one. */
static size_t matched(const lm_model_name *k, const char *s, const char *end, const char **after)
{
    const char *p = s;
    size_t      found = 0;

    *after = s;
    for (size_t n; found < k->n && (n = next_word(&p, end)); p += n) {
        if ((found && (p - *after > 2 || strspn(*after, " -_(:") < (size_t)(p - *after))) ||
            !lm_extent_is((lm_extent){ p, n }, k->words[found]))
            break;
        *after = p + n;
        found++;
    }
    return found;
}

/* "3b", "124m": a model size. */
static bool is_size(const char *text, size_t n)
{
    return n > 1 && isdigit((unsigned char)*text) && strchr("bBmM", text[n - 1]) &&
           strspn(text, "0123456789.") == n - 1;
}

static bool is_among(lm_extent word, const char *const *words)
{
    while (*words && !lm_extent_is(word, *words))
        words++;
    return *words != NULL;
}

/* Return whether the text after a name makes it the name of another model: "-Coder", " 1.5B", "-v0.2".
 * Fine-tuned variants ("-Instruct") have the same structure. */
static bool name_continues(const char *p, const char *end)
{
    static const char *const same[]  = { "instruct", "chat", "base", "it", "hf", "gguf", "fp16", "bf16",
                                         "awq", "gptq", "model", NULL };
    static const char *const other[] = { "lite", "coder", "math", "vision", "vl", "mini", "large", "small",
                                         "medium", "xl", "moe", "turbo",
                                         "pro", "plus", "distill", "nano", "code", "omni", "audio", "guard",
                                             "embedding", "next", "max",
                                         "thinking", NULL };
    const char *q = p;
    size_t      n = next_word(&q, end);

    if (!n || q - p > 2 || strspn(p, " -_(.") < (size_t)(q - p) || (q - p == 2 && *p == '.'))
        return false;
    if (isdigit((unsigned char)*q))
        return is_size(q, n) || q == p || *p == '-' || *p == '.';
    return is_among((lm_extent){ q, n }, other) ||
           (q == p + 1 && (*p == '-' || *p == '_') && !is_among((lm_extent){ q, n }, same));
}

/* Return the model of the document whose name matches the largest number of words at s; names may differ in
 * their endings. LM_OTHER_MODEL: several match. */
static int by_beginning(const lm_audit_document *d, const char *s, const char *end, size_t *n)
{
    int    best = LM_NO_MODEL;
    size_t max = 0;

    for (size_t i = 0; i < d->n_names; i++) {
        const char *after;
        size_t      m = d->names[i].here ? matched(&d->names[i], s, end, &after) : 0;
        if (!m || m < max || (m == 1 && !isupper((unsigned char)*s)))
            continue;
        best = m > max || (best >= 0 && same_name(d, best, i)) ? (int)i : LM_OTHER_MODEL;
        max = m;
        *n   = (size_t)(after - s);
    }
    if (best == LM_NO_MODEL)
        return best;
    /* "GPT 5" is another model than the GPT of the document */
    const char *version = s + *n + 1;
    bool        newer   = max == 1 && version < end && version[-1] == ' ' &&
                          isdigit((unsigned char)*version);
    return newer || name_continues(s + *n, end) ? LM_OTHER_MODEL : best;
}

int lm_model_at(const lm_audit_document *d, const char *s, const char *end, size_t *n)
{
    int    best = LM_NO_MODEL;
    size_t max = 0, families = 0;

    for (size_t i = 0; i < d->n_names; i++) {
        const lm_model_name *k = &d->names[i];
        const char          *after;
        if (!k->n || tolower((unsigned char)*s) != *k->words[0])
            continue;
        size_t m = matched(k, s, end, &after);
        families += m > 1;
        if (m < k->n || m < max || (m == max && best >= 0 && best < (int)d->n_given))
            continue;
        best = (int)i;
        max = m;
        *n   = (size_t)(after - s);
    }
    if (best >= 0)
        return name_continues(s + *n, end) || (d->n_given && !d->names[best].here) ? LM_OTHER_MODEL : best;
    int part = by_beginning(d, s, end, n);
    if (part == LM_NO_MODEL && families) {               /* of this family the document has no model */
        const char *p = s;
        *n   = next_word(&p, end);
        part = LM_OTHER_MODEL;
    }
    return part;
}

int lm_only_model(const lm_audit_document *d)
{
    int only = LM_NO_MODEL;

    if (d->n_given)
        return d->n_given == 1 ? 0 : LM_NO_MODEL;
    for (size_t i = 0; i < d->n_names; i++)
        if (d->names[i].here && (only == LM_NO_MODEL || !same_name(d, only, i))) {
            if (only != LM_NO_MODEL)
                return LM_NO_MODEL;
            only = (int)i;
        }
    return only;
}

/* If no models are given, the models of the document are those that the text names in full. */
static void find_those_named(lm_audit_document *d)
{
    const char *end = d->text + d->size;

    for (const char *p = d->text; p < end; p++) {
        size_t n;
        bool   begins = isalnum((unsigned char)*p) && (p == d->text || !isalnum((unsigned char)p[-1]));
        int    m      = begins ? lm_model_at(d, p, end, &n) : LM_NO_MODEL;
        for (size_t i = 0; m >= 0 && i < d->n_names; i++)
            d->names[i].here |= same_name(d, m, i);
    }
}

void lm_learn_models(lm_audit_document *d, const char *const *models, size_t n)
{
    size_t           names = 0;
    const lm_preset *preset;

    for (size_t i = 0; (preset = lm_preset_at(i)); i++, names += 2)
        for (const char *const *a = preset->aliases; a && *a; a++)
            names++;
    if (!(d->names = lm_arena_new(&d->arena, n + names, lm_model_name))) {
        d->failed = true;
        return;
    }
    for (size_t i = 0; i < n; i++)
        learn(d, lm_arena_strdup(&d->arena, models[i]), models[i], true);
    d->n_given = n;
    for (size_t i = 0; (preset = lm_preset_at(i)); i++) {
        bool        given = false;
        const char *name  = preset->name;
        for (size_t k = 0; k < n && !given; k++)
            if (strcmp(models[k], name) == 0) {
                given = true;
                name  = d->names[k].name;
            }
        learn(d, name, preset->name, given);
        learn(d, name, preset->title, given);
        for (const char *const *a = preset->aliases; a && *a; a++)
            learn(d, name, *a, given);
    }
    if (!n)
        find_those_named(d);
}
