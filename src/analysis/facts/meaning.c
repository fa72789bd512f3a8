/* meaning.c - names of facts: those used in documents and in config.json, in addition to the paths of the tree. */
#include "analysis/facts/meaning.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "analysis/facts/fact.h"
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

/* Look up "q_proj.shape" or "self_attn.q_proj.weight.shape": a fact of the first module of a layer whose path ends this way. */
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
            if (p->modules[m].layer < 0 || all <= n || of[all - n - 1] != '.' || strncmp(of + all - n, name, n) != 0)
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

lm_meanings lm_meanings_of(lm_facts *f, const char *name)
{
    const lm_fact *x   = NULL;
    lm_meanings    out = { .ours = fact_of_quantity(f, name) };

    if (!out.ours && lm_facts_find(f, name, &x, NULL) == LM_OK)
        out.ours = x;
    if (!out.ours)
        out.ours = fact_of_module(f, name);
    for (x = first_of_config(f); x && !out.described; x = lm_fact_next(x))
        out.described = x->name && same_name(x->name, name) ? x : NULL;
    return out;
}

/* ---- suggestions ---- */

/* Return the edits tolerated in a word of this length; swapped letters count as two. */
static size_t slips(const char *name)
{
    size_t n = strlen(name);

    return n < 4 ? 0 : n < 8 ? 1 : 2;
}

static void nearer(const char *name, const char *candidate, size_t *far, const char **best)
{
    size_t d = lm_edit_distance(name, candidate);

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

static lm_status no_such_name(lm_facts *f, const char *name, lm_error *e)
{
    const char    *near = lm_nearest_meaning(f, name), *best = NULL;
    size_t         far = slips(name) + 1;
    const lm_fact *x;

    lm_fail(e, LM_NOT_FOUND, name, LM_NO_OFFSET, lm_quantity_known(name) ? "this model has no such quantity" : "no such fact");
    for (x = lm_fact_first(&f->root); x; x = lm_fact_next(x))
        nearer(name, x->name, &far, &best);
    if (near && lm_facts_has(f, "config.%s", near))
        lm_fail_hint(e, "did you mean %s, which is config.%s?", near, near);
    else if (near || best)
        lm_fail_hint(e, "did you mean %s?", near ? near : best);
    return LM_NOT_FOUND;
}

/* Return whether the tree has a branch named like the path up to its first dot or bracket. */
static bool has_branch(lm_facts *f, const char *path)
{
    return lm_fact_member(&f->root, path, strcspn(path, ".[")) != NULL;
}

lm_status lm_facts_named(lm_facts *f, const char *name, const lm_fact **out, lm_error *e)
{
    LM_GIVEN(e, f && name && out);
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
