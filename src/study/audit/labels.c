/* labels.c - what a label names: a quantity or a part of a model, a type, a form ("per layer"), a number of tokens. */
#include <string.h>

#include "study/audit/reading.h"

bool lm_vocable_is(const lm_vocable *v, const char *value)
{
    return v && strcmp(v->value, value) == 0;
}

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

bool lm_counts_context(const lm_vocable *v)
{
    return lm_vocable_is(v, "@tokens") || lm_vocable_is(v, "architecture.context");
}

static void add_quantity(const lm_vocable *v, lm_about *about)
{
    if (lm_vocable_is(v, "@total")) {        /* "Total": a part if parts are listed; "total parameters" */
        if (!about->quantity && !about->part)
            about->quantity = v;
        return;
    }
    if (lm_vocable_is(about->quantity, "@total"))
        about->quantity = NULL;
    if (lm_vocable_is(about->quantity, "@cache") && lm_counts_context(v))        /* "the cache at a context of 8,192" */
        return;
    if (lm_counts_context(about->quantity) && lm_vocable_is(v, "@cache"))
        about->quantity = NULL;
    if (lm_vocable_is(v, "@params") && about->quantity && !strncmp(about->quantity->value, "parameters.", 11))
        return;
    set(&about->quantity, v, about);
}

static bool is_whole_layer(const lm_vocable *part)
{
    return part && strncmp(part->value, "layers[0].parameters", 20) == 0;
}

/* "MLP" in a row below "One layer": the part is that of one layer. */
static void add_part(const lm_vocable *v, lm_about *about)
{
    if (about->part && is_whole_layer(v) != is_whole_layer(about->part)) {
        about->forms |= LM_FORM_LAYER;
        about->part   = is_whole_layer(v) ? about->part : v;
    } else {
        set(&about->part, v, about);
    }
}

bool lm_about_add(const lm_item *x, lm_about *about)
{
    switch (x->role) {
    case LM_MODEL:
        about->model = about->model == LM_NO_MODEL || about->model == x->model ? x->model : LM_OTHER_MODEL;
        return true;
    case LM_QUANTITY:
    case LM_TEXT_QUANTITY:
        add_quantity(x->word, about);
        if (about->quantity == x->word)
            about->key = memchr(x->at.s, '_', x->at.n) ? x->at : (lm_extent){ NULL, 0 };
        return true;
    case LM_PART:
        add_part(x->word, about);
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

void lm_about_set_tokens(const lm_item *x, lm_about *about)
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
    return x->role == LM_NEUTRAL || x->role == LM_SAYS || x->role == LM_LINK || x->role == LM_BREAK || x->role == LM_AT ||
           x->role == LM_TOKENS || x->role == LM_TIMES || (x->at.n == 1 && *x->at.s == '+');
}

bool lm_is_single_fact(const lm_item *x)
{
    const char *path = x->role == LM_QUANTITY ? x->word->value : "@";

    return *path != '@' && !strchr(path, '/') && strncmp(path, "parameters.", 11) != 0;
}

/* "Layers / hidden size": two quantities, for a cell with two numbers. */
static bool names_two(const lm_item *items, size_t n, size_t i)
{
    return i + 2 < n && lm_is_single_fact(&items[i]) && items[i + 1].role == LM_SLASH && lm_is_single_fact(&items[i + 2]) &&
           items[i].word != items[i + 2].word;
}

/* Interpret a number in a label: tokens, the layers that a sum covers, or unknown. */
static void add_number(const lm_item *items, size_t n, size_t i, lm_about *about)
{
    const lm_item *x = &items[i];
    const lm_item *next = i + 1 < n ? x + 1 : NULL, *before = i ? x - 1 : NULL;
    bool plain = x->role == LM_NUMBER && x->number.unit == LM_NUMERAL_PLAIN;
    bool linked = before && before->role == LM_LINK && about->tokens == 0 && lm_vocable_is(about->quantity, "@cache");

    if (plain && next && next->role == LM_QUANTITY && lm_vocable_is(next->word, "architecture.layers")) {
        about->forms |= LM_FORM_ALL;         /* "40 layers": all layers, if the model has that many */
        about->unsure = true;
    } else if (plain && ((next && (next->role == LM_TOKENS || next->role == LM_QUANTITY)) || linked || (before && before->role == LM_AT))) {
        lm_about_set_tokens(x, about);
    } else {
        about->unsure = true;
    }
}

/* "MHA (32 KV heads)": a remark that tells the kind, not the quantity. */
static bool is_remark(const lm_item *x, size_t n)
{
    return n > 3 && *x[0].at.s == '(' && x[1].role == LM_NUMBER && x[2].role == LM_QUANTITY && *x[3].at.s == ')' &&
           strncmp(x[2].word->value, "attention.", 10) == 0;
}

void lm_read_label(const lm_audit_document *d, lm_extent label, lm_about *about)
{
    lm_item items[48];
    size_t  n = lm_scan(d, label, items, 48);

    about->unsure |= n == 48;
    for (size_t i = 0; i < n; i++) {
        const lm_item *x = &items[i];
        if (i && is_remark(x, n - i)) {
            about->unsure = true;
            i += 3;
            continue;
        }
        about->unshared |= lm_vocable_is(x->word, "kind") && lm_word_is(x->at, "mha");
        bool           layers = i && items[i - 1].role == LM_NUMBER && lm_vocable_is(x->word, "architecture.layers");
        if (names_two(items, n, i) && !about->quantity && !about->second) {
            about->quantity = x->word;
            about->second   = items[i + 2].word;
            i += 2;
        } else if (!layers && !lm_about_add(x, about) && !joins(x) && !(x->role == LM_NUMBER && repeats(items, n, i))) {
            add_number(items, n, i, about);
        }
    }
}

lm_about lm_label_of(const lm_audit_document *d, lm_extent label)
{
    lm_about a = { .model = LM_NO_MODEL };

    lm_read_label(d, label, &a);
    return a;
}

lm_extent lm_projection_in(const char *path)
{
    const char *end = strstr(path, "_proj.parameters"), *name = end;

    while (name && name > path && name[-1] != '.')
        name--;
    return name ? (lm_extent){ name, (size_t)(end + 5 - name) } : (lm_extent){ path, 0 };
}
