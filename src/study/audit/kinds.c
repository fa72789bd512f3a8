/* kinds.c - statements without a number: the kind of attention, MLP, norm and positions that a model uses, such as "uses RMSNorm". */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "study/audit/reading.h"

static const char attention[] = "attention.type|architecture.attention|attention.sharing";

static const struct { const char *word, *paths; } kinds[] = {
    { "gqa", attention },
    { "mha", attention },
    { "mqa", attention },
    { "mla", attention },
    { "grouped", attention },
    { "multi", attention },
    { "swiglu", "architecture.mlp|mlp.activation" },
    { "geglu", "architecture.mlp|mlp.activation" },
    { "reglu", "architecture.mlp|mlp.activation" },
    { "silu", "mlp.activation|architecture.mlp" },
    { "gelu", "mlp.activation|architecture.mlp" },
    { "relu", "mlp.activation|architecture.mlp" },
    { "rope", "architecture.position" },
    { "rotary", "architecture.position" },
    { "alibi", "architecture.position" },
    { "learned", "architecture.position" },
    { "sinusoidal", "architecture.position" },
    { "rmsnorm", "architecture.norm" },
    { "layernorm", "architecture.norm" },
    { "pre", "architecture.norm_position" },
    { "post", "architecture.norm_position" },
};

static bool begins_with(const lm_item *x, const char *word)
{
    static const char last[] = "final ";
    size_t skip = lm_word_begins(x->at, last) ? strlen(last) : 0;        /* "final RMSNorm" */

    return lm_word_begins((lm_extent){ x->at.s + skip, x->at.n - skip }, word);
}

/* Return the paths of the kind that the item names, or NULL. "Pre" and "Post" alone count beside the name of a norm only. */
static const char *paths_of(const lm_item *items, size_t n, size_t i)
{
    const lm_item *x = &items[i];
    bool known = lm_vocable_is(x->word, "kind") || begins_with(x, "rmsnorm") || begins_with(x, "layernorm");
    bool alone = x->role == LM_UNKNOWN && ((x->at.n == 3 && begins_with(x, "pre")) || (x->at.n == 4 && begins_with(x, "post")));

    if (alone) {
        const lm_item *before = i ? x - 1 : NULL;
        before = before && before->role == LM_BREAK && i > 1 ? x - 2 : before;
        known  = before && (begins_with(before, "rmsnorm") || begins_with(before, "layernorm"));
    }
    for (size_t k = 0; known && i < n && k < sizeof kinds / sizeof *kinds; k++)
        if (begins_with(x, kinds[k].word))
            return kinds[k].paths;
    return NULL;
}

/* Return whether the items name two kinds of one thing: "from MHA to GQA" is a statement about neither. */
static bool has_rival(const lm_item *items, size_t n, size_t i, const char *paths)
{
    for (size_t k = 0; k < n; k++) {
        const char *other = k == i ? NULL : paths_of(items, n, k);
        bool        same = items[k].at.n == items[i].at.n && strncasecmp(items[k].at.s, items[i].at.s, items[i].at.n) == 0;
        if (other && strcmp(other, paths) == 0 && !same)
            return true;
    }
    return false;
}

bool lm_only_kinds(const lm_item *items, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (items[i].role == LM_MODEL || items[i].role == LM_DOUBT ||
            (items[i].role == LM_UNKNOWN && !paths_of(items, n, i) && isalnum((unsigned char)*items[i].at.s)))
            return false;
    return n > 0;
}

static bool is_plus(const lm_item *x)
{
    return x->at.n == 1 && *x->at.s == '+';
}

bool lm_audit_kinds(lm_audit_document *d, const lm_item *items, size_t n, int model, bool unsure)
{
    bool found = false;

    for (size_t i = 0; i < n; i++) {
        const char *paths = paths_of(items, n, i);
        if (!paths || model < 0 || has_rival(items, n, i, paths))
            continue;
        lm_extent at = items[i].at;
        if (i + 2 < n && is_plus(&items[i + 1]) && lm_vocable_is(items[i + 2].word, "kind"))        /* "RoPE + YaRN" */
            at.n = (size_t)(items[i + 2].at.s + items[i + 2].at.n - at.s);
        lm_add_value(d, at, model, paths, unsure);
        found = true;
    }
    return found;
}

bool lm_is_use(const lm_item *x)
{
    static const char *const verbs[] = { "uses", "use", "using", "employs", "adopts", "has", "features", "with", "使用", "采用", "採用",
                                         NULL };

    return lm_word_among(x->at, verbs);
}
