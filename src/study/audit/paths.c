/* paths.c - choose the facts that a number or a word is compared with, by what its labels and clause are about. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "study/audit/reading.h"

static lm_extent field(const char *list, int i)
{
    while (i-- && list)
        list = strchr(list, ';') ? strchr(list, ';') + 1 : NULL;
    return list ? (lm_extent){ list, strcspn(list, ";") } : (lm_extent){ "", 0 };
}

/* Return whether the number can be a parameter count, or a share of the parameters, of a part. */
static bool counts_parameters(const lm_item *x, const lm_about *a, bool percent)
{
    bool other = a->quantity && !lm_vocable_is(a->quantity, "@params") && !lm_vocable_is(a->quantity, "@total");
    bool width = !percent && !a->quantity && !a->forms && !x->number.power && x->number.value < 1e5;     /* 4,096 next to q_proj */

    return !other && !width && !a->type && a->tokens == 0 && !(a->forms & (LM_FORM_TOKEN | LM_FORM_MATMUL)) &&
           x->number.unit != LM_NUMERAL_BYTES;
}

static const char *path_of_part(lm_audit_document *d, const lm_item *x, const lm_about *a, bool *unsure)
{
    bool      percent = x->number.unit == LM_NUMERAL_PERCENT || (a->forms & LM_FORM_SHARE);
    lm_extent layer = field(a->part->value, 0), all = field(a->part->value, 1), one;

    if (!counts_parameters(x, a, percent))
        return NULL;
    if (percent) {
        *unsure |= (a->forms & LM_FORM_LAYER) != 0;
        one = field(a->part->value, 2);
    } else if ((a->forms & LM_FORM_LAYER) && (a->forms & LM_FORM_ALL)) {
        return NULL;
    } else if (a->forms & LM_FORM_LAYER) {
        one = layer;
    } else if ((a->forms & LM_FORM_ALL) || (a->table && lm_vocable_is(a->quantity, "@total")) || !layer.n) {
        one = all;
    } else {                         /* one layer or all layers: not stated */
        *unsure |= !a->table;
        return lm_arena_printf(&d->arena, "%.*s|%.*s", (int)all.n, all.s, (int)layer.n, layer.s);
    }
    return one.n ? lm_arena_strndup(&d->arena, one.s, one.n) : NULL;
}

static const char *path_of_cache(lm_audit_document *d, const lm_item *x, const lm_about *a, bool *unsure)
{
    if (x->number.unit == LM_NUMERAL_PERCENT) {          /* what sharing saves */
        *unsure = true;
        return "kv.mha.saved";
    }
    if (x->number.unit != LM_NUMERAL_BYTES || (a->type && strcmp(a->type->value, "f16") != 0))
        return NULL;
    if (a->forms == LM_FORM_TOKEN && a->tokens == 0)
        return "kv.bytes_per_token";
    unsigned long long n = (unsigned long long)a->tokens, m = n / 1024 * 1000;
    if (!n)
        return NULL;
    if (a->unshared && !(a->forms & ~(unsigned)(LM_FORM_ALL | LM_FORM_LAYER)))           /* if the model shared nothing */
        return lm_arena_printf(&d->arena, a->forms == LM_FORM_LAYER ? "kv.at[%llu].mha_first_layer" : "kv.at[%llu].mha", n);
    if (a->forms == LM_FORM_LAYER)
        return lm_arena_printf(&d->arena, "kv.at[%llu].first_layer", n);
    if (a->forms & ~(unsigned)LM_FORM_ALL)
        return NULL;
    if (a->thousands)
        return lm_arena_printf(&d->arena, "kv.at[%llu].bytes|kv.at[%llu].bytes_without_window|kv.at[%llu].bytes", n, n, m ? m : n);
    return lm_arena_printf(&d->arena, "kv.at[%llu].bytes|kv.at[%llu].bytes_without_window", n, n);
}

static const char *path_of_weights(lm_audit_document *d, const lm_item *x, const lm_about *a, bool *unsure)
{
    bool memory = lm_vocable_is(a->quantity, "@memory"), named = lm_vocable_is(a->quantity, "@size") || memory;
    bool small = !x->number.power && !x->last.n && x->number.value < 1e6 && !a->unit;

    if (x->number.unit != LM_NUMERAL_BYTES || small || a->tokens > 0 || (a->forms & ~(unsigned)LM_FORM_ALL) || (!named && !a->type))
        return NULL;
    *unsure |= !a->type || memory;           /* other things use memory too */
    return a->type ? lm_arena_printf(&d->arena, "weights.as.%s.bytes", a->type->value) : "weights.as.f16.bytes|weights.as.f32.bytes";
}

/* FLOPs of a token. If the counted operations are not stated, the count at full context is a second candidate. */
static const char *path_of_flops(const lm_item *x, const lm_about *a, bool *unsure)
{
    bool macs = x->at.n && memchr(x->at.s, 'M', x->at.n) && memchr(x->at.s, 'C', x->at.n);

    if (a->forms & LM_FORM_LAYER) {
        *unsure = true;
        return x->number.unit == LM_NUMERAL_OPERATIONS && !macs && a->forms == LM_FORM_LAYER ? "flops.layer[0].matmul" : NULL;
    }
    if ((a->forms & LM_FORM_SHARE) || x->number.unit != LM_NUMERAL_OPERATIONS || macs)
        return NULL;
    *unsure |= !(a->forms & (LM_FORM_MATMUL | LM_FORM_TOKEN)) || a->tokens > 0;
    return a->forms & LM_FORM_MATMUL ? "flops.per_token_matmul" : "flops.per_token_matmul|flops.at_context|flops.layers";
}

/* Return whether the number is too small to be a model's parameter count. */
static bool is_few(const lm_item *x)
{
    return x->number.power < 2 && x->number.value < 1e6;
}

static const char *path_of_total(const lm_item *x, const lm_about *a)
{
    if (x->number.unit != LM_NUMERAL_PLAIN || (a->forms & ~(unsigned)LM_FORM_ALL) || is_few(x))
        return NULL;
    return lm_vocable_is(a->quantity, "@total") || (a->forms & LM_FORM_ALL) ? "parameters.total" : "parameters.total|parameters.active";
}

/* Return whether the number has a fraction where only whole ones exist, as "8.1" has for a context. */
static bool is_broken(const char *path, const lm_item *x)
{
    static const char *const ratios[] = { "rope.base", "architecture.norm_eps", "mlp.expansion", "attention.group", "parameters." };

    for (size_t i = 0; i < sizeof ratios / sizeof *ratios; i++)
        if (strncmp(path, ratios[i], strlen(ratios[i])) == 0)
            return false;
    return x->number.value != floor(x->number.value);
}

/* Return the path of a quantity that is a single fact, not a family of facts. */
static const char *path_of_fact(lm_audit_document *d, const lm_item *x, const lm_about *a, bool *unsure)
{
    const char *path = a->quantity->value;

    *unsure |= (a->forms & ~(unsigned)LM_FORM_ALL) != 0 || a->tokens > 0;
    if (*path == '@' || x->number.unit == LM_NUMERAL_BYTES || x->number.unit == LM_NUMERAL_OPERATIONS)
        return NULL;
    if ((strncmp(path, "parameters.", 11) == 0 && is_few(x)) || is_broken(path, x))
        return NULL;
    if (a->unshared && strcmp(path, "what_if.kv_projections") == 0)
        return "what_if.kv_projections_mha";
    return a->second ? lm_arena_printf(&d->arena, "%s / %s", path, a->second->value) : path;
}

/* Return the candidate paths, separated by "|": any of them may match. NULL: none. */
static const char *path_of(lm_audit_document *d, const lm_item *x, const lm_about *a, bool *unsure)
{
    const lm_vocable *q = a->quantity;
    bool              bytes = x->number.unit == LM_NUMERAL_BYTES, total = lm_vocable_is(q, "@params") || lm_vocable_is(q, "@total");

    if (a->part)
        return path_of_part(d, x, a, unsure);
    if (lm_vocable_is(q, "@cache"))
        return path_of_cache(d, x, a, unsure);
    if (lm_vocable_is(q, "@size") || lm_vocable_is(q, "@memory") || (bytes && (!q || total)))
        return path_of_weights(d, x, a, unsure);
    if (lm_vocable_is(q, "@flops") || ((!q || total) && x->number.unit == LM_NUMERAL_OPERATIONS))
        return path_of_flops(x, a, unsure);
    if (!q || a->type)
        return NULL;
    if (total)
        return path_of_total(x, a);
    return path_of_fact(d, x, a, unsure);
}

/* Keep the paths that the number can match, if they are of different kinds ("active": experts or parameters). */
static const char *fitting(lm_audit_document *d, const char *paths, const lm_item *x)
{
    bool  large = x->number.power >= 2 || x->number.value >= 1e6;
    char *out = lm_arena_strdup(&d->arena, "");

    if (!strchr(paths, '|'))
        return paths;
    for (size_t n; out && *paths; paths += n + (paths[n] == '|')) {
        n = strcspn(paths, "|");
        if (large || strncmp(paths, "parameters.", 11) != 0)
            out = lm_arena_printf(&d->arena, "%s%s%.*s", out, *out ? "|" : "", (int)n, paths);
    }
    return out && *out ? out : NULL;
}

/* Give a number without a unit the unit of its column. Returns that unit; "": the number has its own, or there is none. */
static const char *with_unit(lm_item *x, const lm_about *a)
{
    const char *unit = a->unit ? a->unit->value : "";

    if (!*unit || x->number.unit != LM_NUMERAL_PLAIN || x->number.power)
        return "";
    if (strchr(unit, 'B') && strlen(unit) > 1)
        x->number.unit = LM_NUMERAL_BYTES;
    else if (strcmp(unit, "%") == 0)
        x->number.unit = LM_NUMERAL_PERCENT;
    else if (strstr(unit, "FLOP"))
        x->number.unit = LM_NUMERAL_OPERATIONS;
    else
        x->number.power = 2;
    return unit;
}

/* A configuration may describe a quantity otherwise than the program counts it: its key is another name for the quantity. */
static const char *with_key(lm_audit_document *d, const char *paths, const lm_about *a)
{
    bool differs = strncmp(paths, "attention.", 10) == 0 || strncmp(paths, "mlp.", 4) == 0;

    return differs && a->key.n && a->key.n < 40 ? lm_arena_printf(&d->arena, "%s|%.*s", paths, (int)a->key.n, a->key.s) : paths;
}

/* Return the number as written, with "about" before it and the unit of its column after it. */
static const char *claim_of(lm_audit_document *d, const lm_item *x, const char *unit)
{
    bool      led = x > d->items && x < d->items + LM_MOST_ITEMS && x[-1].role == LM_LEAD;
    lm_extent lead = led ? x[-1].at : (lm_extent){ "", 0 };

    if (led && x[-1].word && !*x[-1].word->value)        /* "some 30B" is about 30B */
        lead = (lm_extent){ "about", 5 };
    return lm_arena_printf(&d->arena, "%.*s%s%.*s%s%s", (int)lead.n, lead.s, led ? " " : "", (int)x->at.n, x->at.s, *unit ? " " : "", unit);
}

bool lm_audit_number(lm_audit_document *d, const lm_item *x, const lm_item *second, const lm_about *about)
{
    lm_about    a = *about;
    bool        unsure = a.unsure;
    lm_item     number = *x;

    a.type = x->type ? x->type : a.type;
    const char *unit = with_unit(&number, &a);
    bool        ratio = lm_vocable_is(a.quantity, "attention.group") || lm_vocable_is(a.quantity, "mlp.expansion");
    if (a.model < 0 || (number.number.unit == LM_NUMERAL_TIMES && !ratio))
        return false;
    const char *paths = path_of(d, &number, &a, &unsure);
    const char *pair = paths ? strstr(paths, " / ") : NULL;
    if (!paths || (pair != NULL) != (second != NULL) || !(paths = fitting(d, paths, &number)))
        return false;
    size_t before = d->n_statements;
    if (pair) {
        const char *one = lm_arena_strndup(&d->arena, paths, (size_t)(pair - paths));
        lm_add_value(d, x->at, a.model, one, unsure);
        lm_add_value(d, second->at, a.model, pair + 3, unsure);
    } else {
        lm_add_statement(d, x->at, a.model, with_key(d, paths, &a), claim_of(d, x, unit), unsure);
    }
    for (; before < d->n_statements; before++)
        d->statements[before].likely = a.likely;
    return true;
}

/* ---- words ---- */

/* Return the first words of a cell, without markup and without the explanation after them. */
static lm_extent first_words(lm_extent cell)
{
    size_t n = 0;

    cell = lm_trim(cell);
    while (cell.n && strchr("*`_\"", *cell.s))
        cell.s++, cell.n--;
    while (n < cell.n && !strchr("*`(,;|", cell.s[n]))
        n++;
    cell = lm_trim((lm_extent){ cell.s, n });
    while (cell.n && strchr(".*`_\"", cell.s[cell.n - 1]))
        cell.n--;
    return cell;
}

/* "SiLU", "yes (shared)": read the words of a cell. */
bool lm_audit_words(lm_audit_document *d, lm_extent cell, const lm_about *about)
{
    char       *claim;
    lm_extent   word = about->part ? field(about->part->value, 3) : (lm_extent){ "", 0 };
    const char *path = about->part ? lm_arena_strndup(&d->arena, word.s, word.n)
                       : about->quantity && about->quantity->role == LM_TEXT_QUANTITY ? about->quantity->value : "";

    cell = first_words(cell);
    bool other = (about->part && about->quantity) || about->type || about->forms;
    bool empty = !cell.n || cell.n > (about->part ? 16 : 40) || strncmp(cell.s, "-", cell.n) == 0;
    if (empty || other || about->model < 0 || !path || !*path || !(claim = lm_arena_strndup(&d->arena, cell.s, cell.n)))
        return false;
    lm_add_statement(d, cell, about->model, with_key(d, path, about), claim, about->unsure);
    return true;
}
