/* meaning.c - names of facts: those used in documents and in config.json, in addition to the paths of the
 * tree. */
#include "study/claims/meaning.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "study/facts/fact.h"
#include "base/error.h"

static bool is_gap(char c)
{
    return c == ' ' || c == '_' || c == '-';
}

/* Return whether names are equal, ignoring case and the kind of separator between words. */
static bool same_name(const char *a, const char *b)
{
    for (; *a && *b; a++, b++)
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b) && !(is_gap(*a) && is_gap(*b)))
            return false;
    return *a == *b;
}

bool lm_quantity_known(const char *name)
{
    for (const lm_quantity *q = lm_quantities; q->name; q++)
        if (same_name(q->name, name))
            return true;
    return false;
}

/* ---- lookup ---- */

static const lm_fact *fact_of_quantity(lm_facts *f, const char *name)
{
    const lm_fact *x = NULL;

    for (const lm_quantity *q = lm_quantities; q->name; q++)
        if (same_name(q->name, name) && lm_facts_find(f, q->path, &x, NULL) == LM_OK)
            return x;
    return NULL;
}

/* Look up "q_proj.shape" or "self_attn.q_proj.weight.shape": a fact of the first module of a layer whose path
 * ends this way. */
static const lm_fact *fact_of_module(lm_facts *f, const char *name)
{
    const lm_program *p = f->s.program;
    char              path[256];
    const lm_fact    *x = NULL;

    for (size_t n = strlen(name); n-- > 0;) {
        const char *dot = name + n;
        for (uint32_t m = 0; *dot == '.' && m < p->n_modules; m++) {
            const char *of = p->modules[m].path;
            size_t      all = strlen(of);
            if (p->modules[m].layer < 0 || all <= n || of[all - n - 1] != '.' ||
                strncmp(of + all - n, name, n) != 0)
                continue;
            snprintf(path, sizeof path, "%s%s", of, dot);
            return lm_facts_find(f, path, &x, NULL) == LM_OK ? x : NULL;
        }
    }
    return NULL;
}

static const lm_fact *first_of_config(lm_facts *f)
{
    const lm_fact *config;

    return lm_facts_find(f, "config", &config, NULL) == LM_OK ? lm_fact_first(config) : NULL;
}

static const lm_fact *fact_of_config(lm_facts *f, const char *name)
{
    for (const lm_fact *x = first_of_config(f); x; x = lm_fact_next(x))
        if (x->name && same_name(x->name, name))
            return x;
    return NULL;
}

lm_meanings lm_meanings_of(lm_facts *f, const char *name)
{
    const lm_fact *x   = NULL;
    lm_meanings    out = { .ours = fact_of_quantity(f, name) };

    if (!out.ours && lm_facts_find(f, name, &x, NULL) == LM_OK)
        out.ours = x;
    if (!out.ours)
        out.ours = fact_of_module(f, name);
    out.described = fact_of_config(f, name);
    return out;
}

/* ---- suggestions ---- */

/* Return the edits tolerated in a word of this length; swapped letters count as two. */
static size_t slips(const char *name)
{
    size_t n = strlen(name);

    return n < 4 ? 0 : n < 8 ? 1 : 2;
}

/* Copy a name in lower case and without separators, so that hidden_size and HiddenSize are equal. A longer
 * name is cut. */
static void plain(const char *name, char out[static 65])
{
    size_t n = 0;

    for (; *name && n < 64; name++)
        if (!is_gap(*name))
            out[n++] = (char)tolower((unsigned char)*name);
    out[n] = '\0';
}

static void nearer(const char *name, const char *candidate, size_t *far, const char **best)
{
    char a[65], b[65];

    plain(name, a);
    plain(candidate, b);
    size_t d = lm_edit_distance(a, b);

    if (d < *far) {
        *far  = d;
        *best = candidate;
    }
}

const char *lm_nearest_meaning(lm_facts *f, const char *name)
{
    const char *best = NULL;
    size_t      far  = slips(name) + 1;

    if (lm_quantity_known(name))
        return NULL;
    for (const lm_fact *x = first_of_config(f); x; x = lm_fact_next(x))
        if (x->name)
            nearer(name, x->name, &far, &best);
    for (const lm_quantity *q = lm_quantities; q->name; q++)
        nearer(name, q->name, &far, &best);
    return best;
}

/* ---- lookup with error messages ---- */

/* Copy the next word of a name in lower case: words are divided by separators and by capitals, as in
 * num_layers and numLayers. Return what follows it, or NULL after the last. A longer word is cut. */
static const char *next_word(const char *name, char word[static 65])
{
    size_t n     = 0;
    bool   upper = true;                             /* the previous character cannot end a word */

    while (is_gap(*name))
        name++;
    for (; *name && !is_gap(*name) && (upper || !isupper((unsigned char)*name)); name++) {
        upper = isupper((unsigned char)*name);
        if (n < 64)
            word[n++] = (char)tolower((unsigned char)*name);
    }
    word[n] = '\0';
    return n ? name : NULL;
}

/* Return whether each word of `name` is a word of `longer`: vocab_size for vocab, num_hidden_layers for
 * numLayers. */
static bool has_words(const char *longer, const char *name)
{
    char   word[65], other[65];
    size_t letters = 0;

    while ((name = next_word(name, word))) {
        const char *rest = longer;
        while ((rest = next_word(rest, other)) && strcmp(other, word) != 0)
            ;
        if (!rest)
            return false;
        letters += strlen(word);
    }
    return letters > 2;
}

/* Offer the names of config.json that contain the words of `name`, unless there are many. */
static void offer_longer(lm_facts *f, const char *name, lm_error *e)
{
    enum { MANY = 4 };
    lm_text names = { 0 };
    size_t  n = 0;

    for (const lm_fact *x = first_of_config(f); x; x = lm_fact_next(x))
        if (x->name && has_words(x->name, name) && n++ < MANY)
            lm_text_printf(&names, "%s%s", n > 1 ? " or " : "", x->name);
    if (n && n < MANY && !names.failed)
        lm_fail_hint(e, "did you mean %s?", names.data);
    lm_text_free(&names);
}

/* Return the branch of the tree that is meant by the first `n` letters of `name`; NULL: none. */
static const char *nearest_branch(lm_facts *f, const char *name, size_t n)
{
    char        branch[65];
    const char *best = NULL;

    if (n > 64)
        return NULL;
    snprintf(branch, sizeof branch, "%.*s", (int)n, name);
    size_t far = slips(branch) + 1;
    for (const lm_fact *x = lm_fact_first(&f->root); x; x = lm_fact_next(x))
        nearer(branch, x->name, &far, &best);
    return best;
}

static lm_status no_such_name(lm_facts *f, const char *name, lm_error *e)
{
    size_t      head = strcspn(name, ".[");
    const char *near = lm_nearest_meaning(f, name), *branch = nearest_branch(f, name, head);

    lm_fail(e, LM_NOT_FOUND, name, LM_NO_OFFSET,
            lm_quantity_known(name) ? "this model does not have this quantity" : "no such fact");
    if (near && lm_facts_has(f, "config.%s", near))
        lm_fail_hint(e, "did you mean %s, which is config.%s?", near, near);
    else if (near)
        lm_fail_hint(e, "did you mean %s?", near);
    else if (branch && (!name[head] || lm_facts_has(f, "%s%s", branch, name + head)))
        lm_fail_hint(e, "did you mean %s%s?", branch, name + head);
    else if (!lm_quantity_known(name))
        offer_longer(f, name, e);
    return LM_NOT_FOUND;
}

/* Return whether the tree has a branch named like the path up to its first dot or bracket. */
static bool has_branch(lm_facts *f, const char *path)
{
    return lm_fact_member(&f->root, path, strcspn(path, ".[")) != NULL;
}

lm_status lm_facts_named(lm_facts *f, const char *name, const lm_fact **out, lm_error *e)
{
    LM_REQUIRE(e, f && name && out);
    const lm_fact *x = NULL;
    lm_error       ours;

    name += *name == '.' && name[1];                 /* jq syntax */
    lm_status status = lm_facts_find(f, name, &x, &ours);
    if (status != LM_NOT_FOUND || has_branch(f, name)) {
        if (status == LM_OK)
            *out = x;
        else if (e)
            *e = ours;
        return status;
    }
    lm_text key = { 0 };
    lm_text_printf(&key, "config.%s", name);
    if (!key.failed && lm_facts_find(f, key.data, &x, NULL) != LM_OK)
        x = fact_of_config(f, name);
    if (!x)
        x = fact_of_quantity(f, name);
    bool failed = key.failed;
    lm_text_free(&key);
    if (failed || f->failed)
        return lm_fail_memory(e, "facts", 0);
    x = x ? x : fact_of_module(f, name);
    if (!x)
        return no_such_name(f, name, e);
    *out = x;
    return LM_OK;
}
