/* clause.c - what clauses and labels say: a quantity of a model, and the number or word that it is said to be. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "analysis/audit/reading.h"

static bool is(const lm_vocable *v, const char *family)
{
    return v && strcmp(v->value, family) == 0;
}

/* ---- labels ---- */

static unsigned form_of(const lm_vocable *v)
{
    static const struct { const char *name; unsigned form; } forms[] = {
        { "layer", LM_FORM_LAYER }, { "token", LM_FORM_TOKEN },   { "all", LM_FORM_ALL },       { "share", LM_FORM_SHARE },
        { "matmul", LM_FORM_MATMUL },
    };

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strcmp(forms[i].name, v->value) == 0)
            return forms[i].form;
    return 0;
}

static void set(const lm_vocable **place, const lm_vocable *v, lm_about *about)
{
    if (*place && strcmp((*place)->value, v->value) != 0)
        about->unsure = true;
    *place = v;
}

static bool counts_context(const lm_vocable *v)
{
    return is(v, "@tokens") || is(v, "architecture.context");
}

/* What a word adds to what is talked about; false: it adds nothing. */
static bool add(const lm_item *x, lm_about *about)
{
    switch (x->role) {
    case LM_MODEL:
        about->model = about->model == LM_NO_MODEL || about->model == x->model ? x->model : LM_OTHER_MODEL;
        return true;
    case LM_QUANTITY:
    case LM_TEXT_QUANTITY:
        if (is(x->word, "@total")) {         /* "Total": a part where parts are listed; "total parameters" */
            if (!about->quantity && !about->part)
                about->quantity = x->word;
            return true;
        }
        if (is(about->quantity, "@total"))
            about->quantity = NULL;
        if (is(about->quantity, "@cache") && counts_context(x->word))    /* "the cache at a context of 8,192" */
            return true;
        if (counts_context(about->quantity) && is(x->word, "@cache"))
            about->quantity = NULL;
        if (is(x->word, "@params") && about->quantity && !strncmp(about->quantity->value, "parameters.", 11))
            return true;
        set(&about->quantity, x->word, about);
        return true;
    case LM_PART:
        set(&about->part, x->word, about);
        return true;
    case LM_TYPE:
        set(&about->type, x->word, about);
        return true;
    case LM_FORM:
        about->forms |= form_of(x->word);
        return true;
    case LM_UNIT:
        about->unit = x->word;
        return true;
    default:
        return false;
    }
}

static void add_tokens(const lm_item *x, lm_about *about)
{
    about->thousands = x->number.power == 1;
    about->unsure |= about->tokens > 0 || x->last.n || x->number.power > 2 || x->number.value < 1 || x->number.value > 1e8;
    about->tokens = about->thousands ? x->number.binary : x->number.value;
}

static bool repeats(const lm_item *items, size_t n, size_t i)
{
    return (i && items[i - 1].role == LM_TIMES) || (i + 1 < n && items[i + 1].role == LM_TIMES) ||
           items[i].number.unit == LM_NUMERAL_TIMES;
}

static bool joins(const lm_item *x)
{
    return x->role == LM_NEUTRAL || x->role == LM_LINK || x->role == LM_BREAK || x->role == LM_AT || x->role == LM_TOKENS ||
           x->role == LM_TIMES;
}

void lm_read_label(const lm_reading *d, lm_extent label, lm_about *about)
{
    lm_item items[48];
    size_t  n = lm_scan(d, label, items, 48);

    about->unsure |= n == 48;
    for (size_t i = 0; i < n; i++) {
        const lm_item *x = &items[i];
        bool           plain = x->role == LM_NUMBER && (x->number.unit == LM_NUMERAL_PLAIN);
        if (add(x, about) || joins(x) || (x->role == LM_NUMBER && repeats(items, n, i)))
            continue;
        bool counted = i + 1 < n && (items[i + 1].role == LM_TOKENS || items[i + 1].role == LM_QUANTITY);
        bool linked = i && items[i - 1].role == LM_LINK && about->tokens == 0 && is(about->quantity, "@cache");
        if (plain && (counted || linked || (i && items[i - 1].role == LM_AT)))
            add_tokens(x, about);
        else
            about->unsure = true;
    }
}

/* ---- which fact ---- */

static lm_extent field(const char *list, int i)
{
    while (i-- && list)
        list = strchr(list, ';') ? strchr(list, ';') + 1 : NULL;
    return list ? (lm_extent){ list, strcspn(list, ";") } : (lm_extent){ "", 0 };
}

static const char *path_of_part(lm_reading *d, const lm_item *x, const lm_about *a, bool *unsure)
{
    bool      percent = x->number.unit == LM_NUMERAL_PERCENT || (a->forms & LM_FORM_SHARE);
    lm_extent layer = field(a->part->value, 0), all = field(a->part->value, 1), one;

    if (a->quantity && !is(a->quantity, "@params") && !is(a->quantity, "@total"))
        return NULL;
    if (a->type || a->tokens > 0 || (a->forms & (LM_FORM_TOKEN | LM_FORM_MATMUL)) || x->number.unit == LM_NUMERAL_BYTES)
        return NULL;
    if (!percent && !a->quantity && !a->forms && !x->number.power && x->number.value < 1e5)
        return NULL;                 /* 4,096 beside q_proj is a width */
    if (percent) {
        *unsure |= (a->forms & LM_FORM_LAYER) != 0;
        one = field(a->part->value, 2);
    } else if ((a->forms & LM_FORM_LAYER) && (a->forms & LM_FORM_ALL)) {
        return NULL;
    } else if (a->forms & LM_FORM_LAYER) {
        one = layer;
    } else if ((a->forms & LM_FORM_ALL) || (a->table && is(a->quantity, "@total")) || !layer.n) {
        one = all;
    } else {                         /* of a layer or of all of them: nobody says */
        *unsure |= !a->table;
        return lm_arena_printf(&d->arena, "%.*s|%.*s", (int)all.n, all.s, (int)layer.n, layer.s);
    }
    return one.n ? lm_arena_strndup(&d->arena, one.s, one.n) : NULL;
}

static const char *path_of_cache(lm_reading *d, const lm_item *x, const lm_about *a)
{
    if (x->number.unit != LM_NUMERAL_BYTES || (a->type && strcmp(a->type->value, "f16") != 0))
        return NULL;
    if (a->forms == LM_FORM_TOKEN && a->tokens == 0)
        return "kv.bytes_per_token";
    unsigned long long n = (unsigned long long)a->tokens, m = n / 1024 * 1000;
    if (!n)
        return NULL;
    if (a->forms == LM_FORM_LAYER)
        return lm_arena_printf(&d->arena, "kv.at[%llu].first_layer", n);
    if (a->forms & ~(unsigned)LM_FORM_ALL)
        return NULL;
    if (a->thousands)
        return lm_arena_printf(&d->arena, "kv.at[%llu].bytes|kv.at[%llu].bytes_without_window|kv.at[%llu].bytes", n, n, m ? m : n);
    return lm_arena_printf(&d->arena, "kv.at[%llu].bytes|kv.at[%llu].bytes_without_window", n, n);
}

/* The paths, any of which will do; NULL: there is none. */
static const char *path_of(lm_reading *d, const lm_item *x, const lm_about *a, bool *unsure)
{
    const lm_vocable *q = a->quantity;
    bool              bytes = x->number.unit == LM_NUMERAL_BYTES;

    if (a->part)
        return path_of_part(d, x, a, unsure);
    if (is(q, "@cache"))
        return path_of_cache(d, x, a);
    if (is(q, "@size") || (bytes && (!q || is(q, "@params") || is(q, "@total")))) {
        if (!bytes || a->tokens > 0 || (a->forms & ~(unsigned)LM_FORM_ALL) || (!is(q, "@size") && !a->type))
            return NULL;
        *unsure |= !a->type;
        return a->type ? lm_arena_printf(&d->arena, "weights.as.%s.bytes", a->type->value) : "weights.as.f16.bytes|weights.as.f32.bytes";
    }
    if (is(q, "@flops") || (!q && x->number.unit == LM_NUMERAL_OPERATIONS)) {
        *unsure |= !(a->forms & LM_FORM_MATMUL) || a->tokens > 0;
        return (a->forms & (LM_FORM_LAYER | LM_FORM_SHARE)) || x->number.unit != LM_NUMERAL_OPERATIONS ? NULL : "flops.per_token_matmul";
    }
    if (!q || a->type)
        return NULL;
    if (is(q, "@params") || is(q, "@total")) {
        bool few = x->number.power < 2 && x->number.value < 1e6;
        if (x->number.unit != LM_NUMERAL_PLAIN || (a->forms & ~(unsigned)LM_FORM_ALL) || few)
            return NULL;
        return is(q, "@total") || (a->forms & LM_FORM_ALL) ? "parameters.total" : "parameters.total|parameters.active";
    }
    *unsure |= (a->forms & ~(unsigned)LM_FORM_ALL) != 0 || a->tokens > 0;
    return *q->value == '@' || bytes || x->number.unit == LM_NUMERAL_OPERATIONS ? NULL : q->value;
}

/* Of counts that are one or the other ("active": experts or parameters) the kind that the number can be. */
static const char *fitting(lm_reading *d, const char *paths, const lm_item *x)
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

bool lm_audit_number(lm_reading *d, const lm_item *x, const lm_item *second, const lm_about *about)
{
    lm_about    a = *about;
    bool        unsure = a.unsure;
    lm_item     number = *x;
    const char *unit = a.unit ? a.unit->value : "";

    if (*unit && number.number.unit == LM_NUMERAL_PLAIN && !number.number.power) {
        if (strchr(unit, 'B') && strlen(unit) > 1)
            number.number.unit = LM_NUMERAL_BYTES;
        else if (strcmp(unit, "%") == 0)
            number.number.unit = LM_NUMERAL_PERCENT;
        else if (strstr(unit, "FLOP"))
            number.number.unit = LM_NUMERAL_OPERATIONS;
        else
            number.number.power = 2;
    } else {
        unit = "";
    }
    bool        times = number.number.unit == LM_NUMERAL_TIMES && !is(a.quantity, "attention.group") && !is(a.quantity, "mlp.expansion");
    const char *paths = a.model >= 0 && !times ? path_of(d, &number, &a, &unsure) : NULL;
    const char *pair = paths ? strstr(paths, " / ") : NULL;
    if (!paths || (pair != NULL) != (second != NULL) || !(paths = fitting(d, paths, &number)))
        return false;
    if (pair) {
        const char *one = lm_arena_strndup(&d->arena, paths, (size_t)(pair - paths));
        lm_say(d, x->at, a.model, one, lm_arena_strndup(&d->arena, x->at.s, x->at.n), unsure);
        lm_say(d, second->at, a.model, pair + 3, lm_arena_strndup(&d->arena, second->at.s, second->at.n), unsure);
        return true;
    }
    bool        led = x > d->items && x < d->items + LM_MOST_ITEMS && x[-1].role == LM_LEAD;
    lm_extent   lead = led ? x[-1].at : (lm_extent){ "", 0 };
    bool        known = !led || !x[-1].word || *x[-1].word->value;       /* "some 30B" is about 30B */
    const char *claim = lm_arena_printf(&d->arena, "%.*s%s%.*s%s%s", known ? (int)lead.n : 5, known ? lead.s : "about", led ? " " : "",
                                        (int)x->at.n, x->at.s, *unit ? " " : "", unit);
    lm_say(d, x->at, a.model, paths, claim, unsure);
    return true;
}

/* "SiLU", "yes (shared)": the words of a cell. */
bool lm_audit_words(lm_reading *d, lm_extent cell, const lm_about *about)
{
    size_t      n = 0;
    char       *claim;
    lm_extent   word = about->part ? field(about->part->value, 3) : (lm_extent){ "", 0 };
    const char *path = about->part ? lm_arena_strndup(&d->arena, word.s, word.n)
                       : about->quantity && about->quantity->role == LM_TEXT_QUANTITY ? about->quantity->value : "";

    cell = lm_trim(cell);
    while (cell.n && strchr("*`_\"", *cell.s))
        cell.s++, cell.n--;
    while (n < cell.n && !strchr("*`(,;|", cell.s[n]))
        n++;
    cell = lm_trim((lm_extent){ cell.s, n });
    while (cell.n && strchr(".*`_\"", cell.s[cell.n - 1]))
        cell.n--;
    bool other = (about->part && about->quantity) || about->type || about->forms;
    bool empty = !cell.n || cell.n > (about->part ? 16 : 40) || strncmp(cell.s, "-", cell.n) == 0;
    if (empty || other || about->model < 0 || !path || !*path || !(claim = lm_arena_strndup(&d->arena, cell.s, cell.n)))
        return false;
    lm_say(d, cell, about->model, path, claim, about->unsure);
    return true;
}

/* ---- clauses ---- */

/* Numbers that say how many tokens are cached, of a clause about the cache. */
static bool counts_tokens(const lm_item *items, size_t n, size_t i, const lm_about *a)
{
    const lm_item *x = &items[i];
    bool           context = i + 1 < n && items[i + 1].word && strcmp(items[i + 1].word->value, "architecture.context") == 0;

    return is(a->quantity, "@cache") && x->number.unit == LM_NUMERAL_PLAIN &&
           ((i + 1 < n && items[i + 1].role == LM_TOKENS) || (i && items[i - 1].role == LM_AT) || context);
}

static bool names_quantity(const lm_item *x)
{
    return x->role == LM_QUANTITY || x->role == LM_TEXT_QUANTITY || x->role == LM_PART;
}

/* The first quantity behind the number at i, with nothing between that is not of the two: 0: none. */
static size_t quantity_behind(const lm_item *items, size_t n, size_t i)
{
    size_t k = i + 1;

    for (; k < n; k++) {
        bool little = items[k].role == LM_NEUTRAL && items[k].at.n < 5 && !is(items[k].word, "kind");
        if (!little && items[k].role != LM_TOKENS && items[k].role != LM_TYPE && !(items[k].role == LM_LINK && items[k].at.n == 2))
            break;
    }
    return k < n && names_quantity(&items[k]) ? k : 0;
}

/* The quantity that the number at i is of: just behind it ("8 KV heads"), or before it with nothing but what links them ("hidden size of
 * 4,096", "cache of X at 8K: 1 GiB"). `from`: behind the number before. */
static bool quantity_of(const lm_item *items, size_t n, size_t i, size_t from, lm_about *a)
{
    size_t behind = quantity_behind(items, n, i);
    bool   linked = i && (items[i - 1].role == LM_LINK || (items[i - 1].role == LM_LEAD && i > 1 && items[i - 2].role == LM_LINK));
    bool   before = false, direct = i > from && names_quantity(&items[i - 1]);
    bool   whole = direct && strchr("sto", items[i - 1].at.s[items[i - 1].at.n - 1]) && items[i - 1].at.n > 12;

    if (whole) {                     /* "every key/value head serves", "numbered from 0 to" */
        add(&items[i - 1], a);
        return true;
    }
    for (size_t k = from; k < i; k++)
        before |= names_quantity(&items[k]) || items[k].role == LM_TYPE;
    if (behind && !(linked && before) && (behind == i + 1 || items[i + 1].role != LM_LINK || !before)) {
        add(&items[behind], a);
        if (behind + 1 < n && names_quantity(&items[behind + 1]))        /* "21B active parameters" */
            add(&items[behind + 1], a);
        a->unsure |= direct;
        return true;
    }
    for (size_t k = from; k < i; k++)
        if (names_quantity(&items[k]))
            add(&items[k], a);
    return before || items[i].number.unit == LM_NUMERAL_OPERATIONS || items[i].number.unit == LM_NUMERAL_BYTES;
}

static const lm_vocable cached_tokens = { "", LM_QUANTITY, "@cache" };

/* What is known before its numbers are looked at: the model, forms, types, tokens. */
static lm_about survey(const lm_item *items, size_t n, int model, bool doubt)
{
    lm_about a = { .model = LM_NO_MODEL, .unsure = doubt }, q = { .model = LM_NO_MODEL };

    for (size_t i = 0; i < n; i++) {
        const lm_item *x = &items[i];
        if (x->role == LM_QUANTITY)
            add(x, &q);
        if (x->role == LM_MODEL || x->role == LM_TYPE || x->role == LM_FORM)
            add(x, &a);
        else if (x->role == LM_UNKNOWN || x->role == LM_UNIT || x->role == LM_TIMES || x->role == LM_DOUBT)
            a.unsure = true;
    }
    a.model = a.model == LM_NO_MODEL ? model : a.model;
    for (size_t i = 0; i < n; i++) {
        lm_about of = { .quantity = NULL };
        for (size_t k = 0; k < n; k++)
            if (is(items[k].word, "@cache"))
                of.quantity = items[k].word;
        if (items[i].role == LM_NUMBER && counts_tokens(items, n, i, &of))
            add_tokens(&items[i], &a);
    }
    return a;
}

/* "ties its embeddings": a yes in words. */
static bool say_fact(lm_reading *d, const lm_item *x, const lm_about *a)
{
    const char *value = strchr(x->word->value, '=');

    if (a->model < 0)
        return false;
    lm_say(d, x->at, a->model, lm_arena_strndup(&d->arena, x->word->value, (size_t)(value - x->word->value)), value + 1, a->unsure);
    return true;
}

/* "Activation: SiLU": a word behind the colon at i. */
static bool say_label(lm_reading *d, const lm_item *items, size_t n, size_t i, lm_about a, bool doubt)
{
    const char *s = items[i].at.s + items[i].at.n, *end = items[n - 1].at.s + items[n - 1].at.n;

    a.unsure = doubt;
    for (size_t k = 0; k < i; k++) {
        add(&items[k], &a);
        a.unsure |= items[k].role == LM_UNKNOWN;
    }
    return end > s && lm_audit_words(d, (lm_extent){ s, (size_t)(end - s) }, &a);
}

/* Quantities that stand apart: "21 layers use the window" has two, and one number cannot be of both. */
static size_t groups_of(const lm_item *items, size_t n, bool cached)
{
    size_t groups = 0;

    for (size_t i = 0; i < n; i++)
        groups += names_quantity(&items[i]) && !(i && names_quantity(&items[i - 1])) && !(cached && counts_context(items[i].word)) &&
            !is(items[i].word, "@model") && !is(items[i].word, "@total") && !is(items[i].word, "attention.group");
    for (size_t i = 0; i < n; i++)
        groups = is(items[i].word, "architecture.last_layer") ? 1 : groups;
    return groups;
}

/* A clause, or a label and what stands behind its colon. `cached`: the clause before was about the cache. */
static bool read_clause(lm_reading *d, const lm_item *items, size_t n, int model, bool doubt, bool *cached)
{
    lm_about a = survey(items, n, model, doubt), cache = { .quantity = NULL };
    bool     said = false;
    size_t   from = 0, numbers = 0, named = 0;

    for (size_t i = 0; i < n; i++) {
        if (is(items[i].word, "@cache"))
            cache.quantity = items[i].word;
        numbers += items[i].role == LM_NUMBER;
        named += names_quantity(&items[i]);
        if (items[i].role == LM_SAYS)
            said |= say_fact(d, &items[i], &a);
    }
    if (!named && *cached)           /* "…, so 32,768 tokens are 3 GiB" */
        for (size_t i = 0; i < n; i++)
            if (items[i].role == LM_NUMBER && i + 1 < n && items[i + 1].role == LM_TOKENS && items[i].number.unit == LM_NUMERAL_PLAIN) {
                cache.quantity = a.quantity = &cached_tokens;
                add_tokens(&items[i], &a);
            }
    a.unsure |= groups_of(items, n, cache.quantity != NULL) > numbers - (a.tokens > 0);
    *cached = cache.quantity || (*cached && !named);
    for (size_t i = 0; i < n; i++) {
        const lm_item *x = &items[i];
        if (x->role != LM_NUMBER || counts_tokens(items, n, i, &cache))
            continue;
        const lm_item *second = i + 2 < n && items[i + 1].role == LM_SLASH && items[i + 2].role == LM_NUMBER ? &items[i + 2] : NULL;
        lm_about       one = a;
        bool           found = quantity_of(items, n, i, from, &one);
        bool adjacent = (i + 1 < n && names_quantity(&items[i + 1])) || (i && items[i - 1].role == LM_LINK);
        one.unsure |= numbers - (a.tokens > 0) > 1 && !adjacent && !second;
        said |= found && lm_audit_number(d, x, second, &one);
        i += second ? 2 : 0;
        from = i + 1;
    }
    for (size_t i = 1; !numbers && i + 1 < n; i++)
        if (items[i].role == LM_LINK && strchr(":\xef", *items[i].at.s))
            return say_label(d, items, n, i, a, doubt) || said;
    return said;
}

static bool is_question(const lm_item *x)
{
    return x->role == LM_DOUBT && !isalpha((unsigned char)*x->at.s);
}

/* Whether a sentence ends at the item: a point with a space or nothing behind it. */
static bool ends_sentence(const lm_reading *d, const lm_item *x)
{
    const char *after = x->at.s + x->at.n;

    bool        last = after >= d->text + d->size || isspace((unsigned char)*after) || *after == ')';

    return (x->role == LM_BREAK && x->at.n == 1 && strchr(".!", *x->at.s) && last) ||
           (x->role == LM_BREAK && x->at.n == 3 && memcmp(x->at.s, "。", 3) == 0) || is_question(x);
}

/* "KV cache at 8,192 tokens, FP16: 1 GiB": a label is one whatever divides it. True: it has words that are not known, so all behind
 * it may be of something else ("Vision encoder: 27 layers"). */
static bool join_label(lm_item *items, size_t n)
{
    bool   unknown = false;
    size_t colon = 0, models = 0;

    while (colon < n && colon < 14 && !(items[colon].role == LM_LINK && *items[colon].at.s == ':')) {
        models  += items[colon].role == LM_MODEL;
        unknown |= items[colon].role == LM_UNKNOWN;
        colon++;
    }
    if (colon == n || colon == 14 || models > 1)
        return false;
    for (size_t i = 0; i < colon; i++)
        if (items[i].role == LM_BREAK)
            items[i].role = LM_NEUTRAL;
    if (colon + 1 < n && items[colon + 1].role == LM_BREAK)              /* "**Layers:** 36" needs none; "Layers (all): (36)" */
        items[colon + 1].role = LM_NEUTRAL;
    return unknown;
}

/* Whether a sentence that names no model begins with words that are not known: "Our student has …". */
static bool of_another(const lm_item *items, size_t n)
{
    size_t i = 0;

    while (i < n && (items[i].role == LM_NEUTRAL || items[i].role == LM_BREAK || items[i].role == LM_LINK))
        i++;
    return i < n && (items[i].role == LM_UNKNOWN || (items[i].role == LM_DOUBT && !is_question(&items[i])));
}

/* One sentence of n items. Its clauses without a model are about the one that all of it names, or about `carry`. */
static bool read_sentence(lm_reading *d, lm_item *items, size_t n, int *carry)
{
    int  model = LM_NO_MODEL;
    bool doubt = false, foreign = false, said = false, many = false, cached = false, strange = false;

    for (size_t i = 0; i < n; i++) {
        many |= items[i].role == LM_MODEL && model != LM_NO_MODEL && model != items[i].model;
        model = items[i].role == LM_MODEL ? items[i].model : model;
        doubt |= items[i].role == LM_DOUBT;
        foreign |= items[i].foreign;
    }
    doubt |= join_label(items, n);
    d->dim = model == LM_NO_MODEL && (d->dim || of_another(items, n));
    doubt |= d->dim;
    int  subject = many ? LM_NO_MODEL : model == LM_NO_MODEL ? *carry : model;
    for (size_t i = 0, begin = 0; i <= n; i++) {
        if (i < n && items[i].role != LM_BREAK)
            continue;
        bool own = false, unknown = false;
        for (size_t k = begin; k < i; k++) {
            subject = many && items[k].role == LM_MODEL ? items[k].model : subject;
            own |= items[k].role == LM_MODEL;
            unknown |= items[k].role == LM_UNKNOWN;
        }
        strange &= !own;
        said |= i > begin && read_clause(d, items + begin, i - begin, subject, doubt || foreign || many || strange, &cached);
        strange |= unknown;
        begin = i + 1;
    }
    *carry = many ? LM_OTHER_MODEL : foreign && model == LM_NO_MODEL ? LM_OTHER_MODEL : subject;
    return said;
}

bool lm_audit_text(lm_reading *d, lm_extent text, int *carry)
{
    size_t n = lm_scan(d, text, d->items, LM_MOST_ITEMS), begin = 0;
    bool   said = false;

    if (n == LM_MOST_ITEMS)
        return false;
    said = lm_audit_sums(d, d->items, n);
    for (size_t i = 0; i <= n; i++) {
        if (i < n && !ends_sentence(d, &d->items[i]))
            continue;
        if (i > begin)
            said |= read_sentence(d, d->items + begin, i - begin + (i < n && is_question(&d->items[i])), carry);
        begin = i + 1;
    }
    return said;
}
