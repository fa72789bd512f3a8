/* quantity.c - choose the facts that a number is compared with, by what its label says. */
#include <math.h>
#include <string.h>

#include "study/audit/audit_document.h"

/* Return the i-th of the fields divided by ";", which begins at the result, and its length. */
static lm_extent field(const char *list, int i)
{
    while (i-- && list)
        list = strchr(list, ';') ? strchr(list, ';') + 1 : NULL;
    return list ? (lm_extent){ list, strcspn(list, ";") } : (lm_extent){ "", 0 };
}

/* Return whether a number beside a part can count its parameters, or be its share of them. */
static bool counts_parameters(const lm_label *a, const lm_numeral *x, bool percent)
{
    bool other = a->quantity && !lm_label_is(a, "@params") && !lm_label_is(a, "@total");
    /* 4,096 beside q_proj */
    bool width = !percent && !a->quantity && !a->forms && !x->power && x->value < 1e5;

    return !other && !width && !a->type && a->tokens <= 0 &&
           !(a->forms & (LM_LABEL_TOKEN | LM_LABEL_MATMUL)) &&
           x->unit != LM_NUMERAL_BYTES && x->unit != LM_NUMERAL_OPERATIONS;
}

/* The parameters of a part, or its share of all parameters. */
static const char *paths_of_part(lm_audit_document *d, const lm_label *a, const lm_numeral *x, bool *unsure)
{
    bool      percent = x->unit == LM_NUMERAL_PERCENT || (a->forms & LM_LABEL_SHARE);
    unsigned  forms   = a->forms & (LM_LABEL_LAYER | LM_LABEL_ALL);
    lm_extent layer   = field(a->part, 0), all = field(a->part, 1), one = { "", 0 };

    if (!counts_parameters(a, x, percent))
        return NULL;
    *unsure |= !a->counts && !d->counts;                 /* operations or bytes may be counted */
    /* one layer or all layers: not stated */
    if (!percent && !forms && layer.n && !lm_label_is(a, "@total"))
        return lm_arena_printf(&d->arena, "%.*s|%.*s", (int)all.n, all.s, (int)layer.n, layer.s);
    if (percent)
        one = forms ? one : field(a->part, 2);
    else if (forms == LM_LABEL_LAYER)
        one = layer;
    else if (!(forms & LM_LABEL_LAYER))
        one = all;
    return one.n ? lm_arena_strndup(&d->arena, one.s, one.n) : NULL;
}

static const char *paths_of_cache(lm_audit_document *d, const lm_label *a, const lm_numeral *x)
{
    unsigned long long n = (unsigned long long)a->tokens, decimal = n / 1024 * 1000;
    unsigned           forms = a->forms & ~(unsigned)LM_LABEL_ALL;

    if (x->unit != LM_NUMERAL_BYTES || (a->type && strcmp(a->type, "f16") != 0))
        return NULL;
    if (forms == LM_LABEL_TOKEN && !n)
        return "kv.bytes_per_token";
    if (!n || (forms && forms != LM_LABEL_LAYER))
        return NULL;
    if (forms)
        return lm_arena_printf(&d->arena, "kv.at[%llu].first_layer", n);
    if (a->thousands)
        return lm_arena_printf(&d->arena,
                               "kv.at[%llu].bytes|kv.at[%llu].bytes_without_window|kv.at[%llu].bytes", n, n,
                               decimal ? decimal : n);
    return lm_arena_printf(&d->arena, "kv.at[%llu].bytes|kv.at[%llu].bytes_without_window", n, n);
}

static const char *paths_of_weights(lm_audit_document *d, const lm_label *a, const lm_numeral *x,
                                    bool *unsure)
{
    bool memory = lm_label_is(a, "@memory"), named = lm_label_is(a, "@size") || memory;

    if (x->unit != LM_NUMERAL_BYTES || a->tokens > 0 || (a->forms & ~(unsigned)LM_LABEL_ALL) ||
        (!named && !a->type))
        return NULL;
    *unsure |= !a->type || memory;       /* other things use memory too */
    return a->type ? lm_arena_printf(&d->arena, "weights.as.%s.bytes", a->type)
           : "weights.as.f16.bytes|weights.as.f32.bytes";
}

/* FLOPs of a token. If the counted operations are not stated, the count at full context is another
 * candidate. */
static const char *paths_of_flops(const lm_label *a, const lm_numeral *x, bool *unsure)
{
    if (x->unit != LM_NUMERAL_OPERATIONS || (a->forms & (LM_LABEL_LAYER | LM_LABEL_SHARE)))
        return NULL;
    *unsure |= !(a->forms & (LM_LABEL_MATMUL | LM_LABEL_TOKEN)) || a->tokens > 0;
    return a->forms & LM_LABEL_MATMUL ? "flops.per_token_matmul"
           : "flops.per_token_matmul|flops.at_context|flops.layers";
}

/* Return whether the number is too small to count the parameters of a model. */
static bool is_few(const lm_numeral *x)
{
    return x->power < 2 && x->value < 1e6;
}

/* Return whether the number has a fraction where only whole ones exist. */
static bool is_broken(const char *path, const lm_numeral *x)
{
    static const char *const ratios[] = { "rope.base", "architecture.norm_eps", "mlp.expansion",
                                          "attention.group", "parameters." };

    for (size_t i = 0; i < sizeof ratios / sizeof *ratios; i++)
        if (strncmp(path, ratios[i], strlen(ratios[i])) == 0)
            return false;
    return x->value != floor(x->value);
}

/* Return the path of a quantity that is a single fact, not a family of facts. */
static const char *paths_of_fact(lm_audit_document *d, const lm_label *a, const lm_numeral *x)
{
    const char *path  = a->quantity;
    bool        times = x->unit == LM_NUMERAL_TIMES && strcmp(path, "attention.group") != 0 &&
                        strcmp(path, "mlp.expansion") != 0;

    if (*path == '@' || times || x->unit == LM_NUMERAL_BYTES || x->unit == LM_NUMERAL_OPERATIONS ||
        x->unit == LM_NUMERAL_PERCENT ||
        a->tokens > 0 || (a->forms & ~(unsigned)LM_LABEL_ALL) || is_broken(path, x))
        return NULL;
    if (strncmp(path, "parameters.", 11) == 0 && is_few(x))
        return NULL;
    return a->second ? lm_arena_printf(&d->arena, "%s / %s", path, a->second) : path;
}

static const char *paths_of_total(const lm_label *a, const lm_numeral *x)
{
    if (x->unit != LM_NUMERAL_PLAIN || (a->forms & ~(unsigned)LM_LABEL_ALL) || is_few(x) || a->tokens > 0)
        return NULL;
    return lm_label_is(a, "@total") || (a->forms & LM_LABEL_ALL) ? "parameters.total"
           : "parameters.total|parameters.active";
}

const char *lm_paths_of(lm_audit_document *d, const lm_label *a, const lm_numeral *x, bool *unsure)
{
    bool params = lm_label_is(a, "@params") || lm_label_is(a, "@total"), unit = !a->quantity || params;

    if (a->unclear)
        return NULL;
    if (a->part)
        return paths_of_part(d, a, x, unsure);
    if (lm_label_is(a, "@cache"))
        return paths_of_cache(d, a, x);
    if (lm_label_is(a, "@size") || lm_label_is(a, "@memory") || (unit && x->unit == LM_NUMERAL_BYTES))
        return paths_of_weights(d, a, x, unsure);
    if (lm_label_is(a, "@flops") || (unit && x->unit == LM_NUMERAL_OPERATIONS))
        return paths_of_flops(a, x, unsure);
    if (!a->quantity || a->type || a->worded)
        return NULL;
    return params ? paths_of_total(a, x) : paths_of_fact(d, a, x);
}
