/* compared.c - facts of the compared models, and their texts. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "study/compare/comparison.h"
#include "study/facts/figure.h"

/* ---- facts ---- */

const char *lm_compare_printf(lm_comparison *c, const char *format, ...)
{
    lm_text      b = { 0 };
    va_list     args;
    const char *kept;

    va_start(args, format);
    lm_text_vprintf(&b, format, args);
    va_end(args);
    kept = b.failed ? NULL : lm_arena_strdup(&c->arena, b.data ? b.data : "");
    lm_text_free(&b);
    c->failed |= !kept;
    return kept ? kept : "";
}

const lm_fact *lm_compare_fact(const lm_comparison *c, size_t i, const char *path)
{
    const lm_fact *x = NULL;

    if (lm_facts_find(c->models[i], path, &x, NULL) != LM_OK || x->kind == LM_FACT_NONE)
        return NULL;
    return x;
}

uint64_t lm_compare_count(const lm_comparison *c, size_t i, const char *path)
{
    const lm_fact *x = lm_compare_fact(c, i, path);

    return x && x->kind == LM_FACT_COUNT ? x->count : 0;
}

const char *lm_compare_text(const lm_comparison *c, size_t i, const char *path)
{
    const lm_fact *x = lm_compare_fact(c, i, path);

    return x && x->kind == LM_FACT_TEXT ? x->text : "";
}

bool lm_compare_truth(const lm_comparison *c, size_t i, const char *path)
{
    const lm_fact *x = lm_compare_fact(c, i, path);

    return x && x->kind == LM_FACT_BOOL && x->truth;
}

/* ---- names ---- */

/* Return the last `parts` names of a path: "q4_0.gguf", "tiny/q4_0.gguf". */
static const char *end_of_path(const char *path, unsigned parts)
{
    const char *at = path + strlen(path);

    while (at > path && (at[-1] != '/' || --parts > 0))
        at--;
    return at;
}

/* Count the models before i with the same name. */
static size_t same_names(const lm_comparison *c, size_t i)
{
    size_t n = 0;

    for (size_t k = 0; k < i; k++)
        n += strcmp(c->name[k], c->name[i]) == 0;
    return n;
}

static bool is_shared(const lm_comparison *c, size_t i)
{
    for (size_t k = 0; k < c->n; k++)
        if (k != i && strcmp(c->name[k], c->name[i]) == 0)
            return true;
    return false;
}

static bool is_file(const lm_comparison *c, size_t i)
{
    const lm_fact *x = lm_compare_fact(c, i, "model.container");

    return x && x->id && strcmp(x->id, "preset") != 0;
}

/* Distinguish files of the same model by the shortest unique end of their paths, and a file given twice by a
 * number. */
void lm_compare_names(lm_comparison *c)
{
    enum { DEEPEST = 8 };
    bool shared[LM_COMPARED], left = true;

    for (size_t i = 0; i < c->n; i++)
        c->name[i] = lm_compare_text(c, i, "model.name");
    for (size_t i = 0; i < c->n; i++)
        shared[i] = is_shared(c, i) && is_file(c, i);
    for (unsigned parts = 1; left && parts <= DEEPEST; parts++) {
        left = false;
        for (size_t i = 0; i < c->n; i++)
            if (shared[i])
                c->name[i] = end_of_path(lm_compare_text(c, i, "model.source"), parts);
        for (size_t i = 0; i < c->n; i++)
            left |= shared[i] && is_shared(c, i);
    }
    for (size_t i = c->n; i-- > 1;)
        if (same_names(c, i))
            c->name[i] = lm_compare_printf(c, "%s (%zu)", c->name[i], same_names(c, i) + 1);
}

/* ---- texts ---- */

static const char *number_text(lm_comparison *c, const lm_fact *x)
{
    char figure[LM_FIG];

    switch (x->unit) {
    case LM_UNIT_BYTES:
        return lm_compare_printf(c, "%s", lm_fig_size(figure, x->number));
    case LM_UNIT_FLOPS:
        return lm_compare_printf(c, "%s", lm_fig_flops(figure, x->number));
    case LM_UNIT_RATIO:
        return lm_compare_printf(c, "%.2f", x->number);
    case LM_UNIT_PERCENT:
        return lm_compare_printf(c, "%.2f %%", x->number);
    default:
        if (x->number >= 1000 && x->number < 1e15 && x->number == floor(x->number))
            return lm_compare_printf(c, "%s",
                                     lm_fig_count(figure, (uint64_t)x->number)); /* RoPE bases: 1,000,000 */
        return lm_compare_printf(c, "%.6g", x->number);
    }
}

static const char *bytes_text(char out[LM_FIG], uint64_t n, bool binary)
{
    if (n < 10000000)
        return lm_fig_exact_bytes(out, n);
    return binary ? lm_fig_both(out, n) : lm_fig_bytes(out, n);
}

const char *lm_compared_text(lm_comparison *c, const lm_compared *x)
{
    const lm_fact *f = x->fact;
    char           figure[LM_FIG];

    if (x->word)
        return _(x->word);
    if (!f)
        return "–";
    switch (f->kind) {
    case LM_FACT_BOOL:
        return lm_truth_text(f->name, f->truth);
    case LM_FACT_TEXT:
        return _(f->text);
    case LM_FACT_NUMBER:
        return number_text(c, f);
    case LM_FACT_COUNT:
        if (f->unit == LM_UNIT_BYTES)
            return lm_compare_printf(c, "%s", bytes_text(figure, f->count, x->binary));
        if (f->unit == LM_UNIT_FLOPS)
            return lm_compare_printf(c, "%s", lm_fig_flops(figure, (double)f->count));
        return lm_compare_printf(c, "%s", lm_fig_count(figure, f->count));
    default:
        return "–";
    }
}

static double value_of(const lm_compared *x)
{
    if (!x->fact)
        return 0;
    return x->fact->kind == LM_FACT_COUNT    ? (double)x->fact->count
           : x->fact->kind == LM_FACT_NUMBER ? x->fact->number
                                             : 0;
}

/* Percentages have no ratio, and epsilons and bases are not sizes. */
bool lm_compared_change(const lm_comparison_row *r, double *ratio)
{
    double a = value_of(&r->value[0]), b = value_of(&r->value[1]);

    if (!(a > 0) || !(b > 0) || r->same || r->value[0].fact->unit == LM_UNIT_PERCENT ||
        (r->value[0].fact->kind == LM_FACT_NUMBER && r->value[0].fact->unit == LM_UNIT_NONE))
        return false;
    *ratio = b / a;
    return true;
}

const char *lm_compare_sharing(lm_comparison *c, size_t i, const char *path)
{
    const char *text = lm_compare_text(c, i, path), *names = c->name[i];

    for (size_t k = 0; k < i; k++)
        if (strcmp(lm_compare_text(c, k, path), text) == 0)
            return NULL;
    for (size_t k = i + 1; k < c->n; k++)
        if (strcmp(lm_compare_text(c, k, path), text) == 0)
            names = lm_compare_printf(c, "%s, %s", names, c->name[k]);
    return names;
}

const char *lm_norm_form(lm_norm_position p)
{
    static const char *const forms[] = {
        [LM_NORM_NOWHERE] = "x + f(x)", [LM_NORM_PRE] = "x + f(N(x))", [LM_NORM_POST] = "N(x + f(x))",
        [LM_NORM_SANDWICH] = "x + N(f(N(x)))", [LM_NORM_AFTER_BRANCH] = "x + N(f(x))",
    };
    return forms[p];
}

const char *lm_compare_note(lm_comparison *c, const lm_comparison_section *s, size_t i)
{
    char text[LM_PAGES_TEXT];

    for (size_t at = 0; at < c->n && strcmp(s->name, "memory") == 0; at++)
        if (*lm_pages_text(text, c->models[at]) && i-- == 0)
            return lm_compare_printf(c, _("%s: %s"), c->name[at], text);
    return NULL;
}
