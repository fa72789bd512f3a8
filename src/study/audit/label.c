/* label.c - what a label says, and the value that it describes. */
#include <ctype.h>
#include <string.h>

#include "study/audit/audit_document.h"

/* ---- lexemes of a label ---- */

static unsigned form_of(const char *value)
{
    static const struct { const char *name; unsigned form; } forms[] = {
        { "layer", LM_LABEL_LAYER }, { "token", LM_LABEL_TOKEN },   { "all", LM_LABEL_ALL },
        { "share", LM_LABEL_SHARE }, { "matmul", LM_LABEL_MATMUL },
    };
    size_t i = 0;

    while (strcmp(forms[i].name, value) != 0)
        i++;
    return forms[i].form;
}

static void set(const char **place, const char *value, lm_label *l)
{
    l->unclear |= *place && strcmp(*place, value) != 0;
    *place = value;
}

/* Set the quantity. "KV cache at a context of 8,192" is about the cache, "total KV cache" too, "total (16
 * layers)" about the total. */
static void set_quantity(const lm_lexeme *x, lm_label *l)
{
    const char *old    = l->quantity ? l->quantity : "";

    l->counts |= strcmp(x->value, "@params") == 0 || strncmp(x->value, "parameters.", 11) == 0;
    bool        cached = strcmp(old, "@cache") == 0 &&
                         (strcmp(x->value, "architecture.context") == 0 || strcmp(x->value, "@tokens") == 0);
    bool        again  = strcmp(x->value, "@params") == 0 && strncmp(old, "parameters.", 11) == 0;

    if (cached || again || (strcmp(x->value, "@total") == 0 && (*old || l->part)))
        return;
    if (strcmp(old, "@total") == 0)
        l->quantity = NULL;
    if (memchr(x->at.s, '_', x->at.n))
        l->key = x->at;
    l->worded = x->kind == LM_LEX_WORDED;
    set(&l->quantity, x->value, l);
}

/* "Layers / hidden size": two quantities, for a cell with two numbers. */
static bool names_two(const lm_lexeme *x, size_t n)
{
    return n > 2 && x[0].kind == LM_LEX_QUANTITY && x[1].kind == LM_LEX_SLASH &&
           x[2].kind == LM_LEX_QUANTITY && *x[0].value != '@' &&
           *x[2].value != '@' && !strstr(x[0].value, " / ") && !strstr(x[2].value, " / ");
}

/* Interpret a number in a label: how many tokens, or how often a part is repeated ("× 36"). */
static void add_number(const lm_lexeme *x, size_t n, size_t i, lm_label *l)
{
    const lm_lexeme *before = i ? &x[i - 1] : NULL, *next = i + 1 < n ? &x[i + 1] : NULL;
    bool tokens = (before && before->kind == LM_LEX_AT) || (next && next->kind == LM_LEX_TOKENS) ||
                  (next && next->kind == LM_LEX_QUANTITY && strcmp(next->value, "architecture.context") == 0);

    if ((before && before->kind == LM_LEX_TIMES) || (next && next->kind == LM_LEX_TIMES) ||
        x[i].number.unit == LM_NUMERAL_TIMES)
        return;
    if (!tokens || l->tokens > 0 || x[i].number.unit != LM_NUMERAL_PLAIN || x[i].number.power > 2 ||
        x[i].number.value < 1) {
        l->unclear = true;
        return;
    }
    l->thousands = x[i].number.power == 1;
    l->tokens    = l->thousands ? x[i].number.binary : x[i].number.value;
}

void lm_label_add(lm_label *l, const lm_lexeme *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        switch (x[i].kind) {
        case LM_LEX_MODEL:
            l->model = l->model == LM_NO_MODEL || l->model == x[i].model ? x[i].model : LM_OTHER_MODEL;
            break;
        case LM_LEX_QUANTITY:
        case LM_LEX_WORDED:
            set_quantity(&x[i], l);
            if (names_two(x + i, n - i) && !l->second) {
                l->second = x[i + 2].value;
                i += 2;
            }
            break;
        case LM_LEX_PART:
            set(&l->part, x[i].value, l);
            break;
        case LM_LEX_TYPE:
            set(&l->type, x[i].value, l);
            break;
        case LM_LEX_UNIT:
            set(&l->unit, x[i].value, l);
            break;
        case LM_LEX_FORM:
            l->forms |= form_of(x[i].value);
            break;
        case LM_LEX_NUMBER:
            add_number(x, n, i, l);
            break;
        case LM_LEX_DOUBT:
            l->doubt = l->unclear = true;
            break;
        case LM_LEX_UNKNOWN:
        case LM_LEX_SLASH:
            l->unclear = true;
            break;
        case LM_LEX_NEUTRAL:
            l->kind |= strcmp(x[i].value ? x[i].value : "", "kind") == 0;
            break;
        default:                         /* signs and words without a meaning here */
            break;
        }
    }
    l->unclear |= l->kind && lm_label_is(l, "architecture.layers");
}

lm_label lm_label_of(const lm_audit_document *d, lm_extent text)
{
    lm_label  l = { .model = LM_NO_MODEL };
    lm_lexeme x[LM_MAX_LEXEMES];
    size_t    n = lm_scan(d, text, x, LM_MAX_LEXEMES);

    lm_label_add(&l, x, n);
    l.unclear |= n == LM_MAX_LEXEMES;
    return l;
}

/* Return whether a quantity only says that parameters are counted: a part says of what. */
static bool counts_all(const lm_label *l)
{
    return !l->quantity || lm_label_is(l, "@params") || lm_label_is(l, "@total");
}

static void inherit_quantity(lm_label *l, const lm_label *from)
{
    bool own = l->quantity || l->part;

    if (!own || (l->part && counts_all(from)) || (counts_all(l) && from->part)) {
        l->unclear |= l->part && from->part && l->part != from->part;
        l->quantity = l->quantity ? l->quantity : from->quantity;
        l->part     = l->part ? l->part : from->part;
        l->second   = own ? l->second : from->second;
        l->worded   = own ? l->worded : from->worded;
        l->key      = own ? l->key : from->key;
    } else if (from->part ||
               (from->quantity && strcmp(from->quantity, l->quantity ? l->quantity : "") != 0)) {
        l->unclear = true;               /* they are about different things */
    }
}

void lm_label_inherit(lm_label *l, const lm_label *from)
{
    inherit_quantity(l, from);
    if (l->tokens <= 0) {
        l->tokens    = from->tokens;
        l->thousands = from->thousands;
    }
    l->type = l->type ? l->type : from->type;
    l->unit = l->unit ? l->unit : from->unit;
    l->forms |= from->forms;
    l->model = l->model == LM_NO_MODEL ? from->model : l->model;
    l->unclear |= from->unclear;
    l->doubt |= from->doubt;
    l->counts |= from->counts;
    l->assumed |= from->assumed;
}

void lm_assume_model(const lm_audit_document *d, lm_label *l)
{
    if (l->model != LM_NO_MODEL)
        return;
    l->model   = d->scope;
    l->assumed = d->assumed;
}

/* ---- values ---- */

/* Give a number without a unit the unit of its column. Returns that unit; "": the number has its own, or
 * there is none. */
static const char *take_unit(lm_numeral *x, const lm_label *a)
{
    const char *unit = a->unit ? a->unit : "";

    if (!*unit || x->unit != LM_NUMERAL_PLAIN || x->power)
        return "";
    if (strcmp(unit, "%") == 0)
        x->unit = LM_NUMERAL_PERCENT;
    else if (strstr(unit, "FLOP"))
        x->unit = LM_NUMERAL_OPERATIONS;
    else if (unit[1])
        x->unit = LM_NUMERAL_BYTES;
    else
        x->power = 2;
    return unit;
}

/* Return the number as written, with "about" before it and the unit of its column after it. */
static const char *claim_of(lm_audit_document *d, const lm_lexeme *x, bool led, const char *unit)
{
    lm_extent lead = led ? x[-1].at : (lm_extent){ "", 0 };

    return lm_arena_printf(&d->arena, "%.*s%s%.*s%s%s", (int)lead.n, lead.s, led ? " " : "", (int)x->at.n,
                           x->at.s, *unit ? " " : "", unit);
}

/* A configuration may count otherwise than the program does: its key is another name of the quantity. */
static const char *with_key(lm_audit_document *d, const char *paths, lm_extent key)
{
    bool usable = key.n && key.n < 48 && !strstr(paths, " / ") && *paths;

    return usable ? lm_arena_printf(&d->arena, "%s|%.*s", paths, (int)key.n, key.s) : paths;
}

static bool add_number_value(lm_audit_document *d, const lm_lexeme *x, bool led, const lm_lexeme *second,
                             const lm_label *a, bool unsure)
{
    lm_numeral  number = x->number;
    const char *unit   = take_unit(&number, a);
    const char *paths  = lm_paths_of(d, a, &number, &unsure);
    const char *pair   = paths ? strstr(paths, " / ") : NULL;

    if (!paths || (pair != NULL) != (second != NULL))
        return false;
    if (pair) {
        lm_add_value(d, x->at, a->model, lm_arena_strndup(&d->arena, paths, (size_t)(pair - paths)), unsure);
        lm_add_value(d, second->at, a->model, pair + 3, unsure);
    } else {
        lm_add_statement(d, x->at, a->model, with_key(d, paths, a->key), claim_of(d, x, led, unit), unsure);
    }
    return true;
}

/* Add what stands behind a number to its label: "8 (GQA)", "36 layers", "6.17 GB in BF16". Returns whether it
 * may take back what the number says. */
static bool add_remark(const lm_audit_document *d, const lm_lexeme *x, size_t n, lm_label *a)
{
    lm_label rest = { .model = LM_NO_MODEL };

    lm_label_add(&rest, x, n);
    bool other = rest.quantity && a->quantity && strcmp(rest.quantity, a->quantity) != 0 &&
                 !counts_all(&rest);
    other |= rest.model != LM_NO_MODEL && a->model != LM_NO_MODEL && rest.model != a->model &&
        rest.model != d->scope;
    bool unsure = rest.unclear || other || (rest.part && a->part && rest.part != a->part) ||
                  (rest.tokens > 0 && a->tokens > 0);
    a->model      = rest.model != LM_NO_MODEL ? rest.model : a->model;
    rest.unclear  = rest.doubt = false;
    rest.quantity = other ? NULL : rest.quantity;
    rest.part     = unsure ? NULL : rest.part;
    lm_label_inherit(a, &rest);
    lm_assume_model(d, a);
    return unsure || a->assumed;
}

/* Read the number x[i], which `about` describes. */
static bool read_number(lm_audit_document *d, const lm_lexeme *x, size_t i, size_t n, const lm_label *about)
{
    lm_label         a      = *about;
    bool             macs   = memmem(x[i].at.s, x[i].at.n, "MAC", 3) != NULL;    /* half as many as FLOPs */
    bool             two    = i + 2 < n && x[i + 1].kind == LM_LEX_SLASH && x[i + 2].kind == LM_LEX_NUMBER;
    const lm_lexeme *second = two ? &x[i + 2] : NULL;
    size_t           behind = two ? i + 3 : i + 1;
    bool             unsure = add_remark(d, x + behind, n - behind, &a);

    return !macs && a.model >= 0 &&
           add_number_value(d, &x[i], i > 0 && x[i - 1].kind == LM_LEX_LEAD, second, &a, unsure);
}

/* Return whether the words are one term, such as "SiLU" or "Grouped-Query Attention", not a phrase about
 * one. */
static bool is_term(const lm_lexeme *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (x[i].kind != LM_LEX_UNKNOWN && x[i].kind != LM_LEX_PART && x[i].kind != LM_LEX_WORDED &&
            !(x[i].kind == LM_LEX_NEUTRAL && (n == 1 || x[i].at.n > 3 || *x[i].at.s == '-')))
            return n == 1;
    return n < 4;
}

/* Read a value in words: "SiLU", "yes (shared)". */
static bool read_words(lm_audit_document *d, lm_extent cell, const lm_label *about)
{
    const char *path = about->worded ? about->quantity : NULL, *open = memchr(cell.s, '(', cell.n);
    lm_extent   word = lm_strip_markup((lm_extent){ cell.s, open ? (size_t)(open - cell.s) : cell.n });
    lm_lexeme   x[8];
    size_t      n    = lm_scan(d, word, x, 8);
    lm_label    a    = *about;

    lm_assume_model(d, &a);
    /* the kind of norm, of attention */
    if (!about->quantity && about->part && (path = strrchr(about->part, ';')))
        path++;
    if (!path || !*path || about->type || about->forms || a.model < 0 || !word.n || word.n > 40 ||
        (*word.s == '-' && word.n < 4))
        return false;
    const char *claim = lm_arena_strndup(&d->arena, word.s, word.n);
    lm_add_statement(d, word, a.model, with_key(d, path, about->key), claim, a.assumed || !is_term(x, n));
    return true;
}

bool lm_read_value(lm_audit_document *d, lm_extent cell, const lm_label *about)
{
    lm_lexeme x[LM_MAX_LEXEMES];
    size_t    n = lm_scan(d, cell, x, LM_MAX_LEXEMES), i = 0;

    if (!n || n == LM_MAX_LEXEMES || about->unclear)
        return false;
    while (i < n &&
           (x[i].kind == LM_LEX_LEAD || (x[i].kind == LM_LEX_NEUTRAL && isalpha((unsigned char)*x[i].at.s))))
        i++;
    if (i < n && x[i].kind == LM_LEX_NUMBER)
        return read_number(d, x, i, n, about);
    return read_words(d, cell, about);
}
