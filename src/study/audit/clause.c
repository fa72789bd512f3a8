/* clause.c - find the statements of a clause: a quantity of a model, and a number or word. */
#include <string.h>

#include "study/audit/reading.h"

enum { MOST_RESULT = 24 };

/* Return whether the number at i, in a clause about the cache, is the number of cached tokens. */
static bool counts_tokens(const lm_item *items, size_t n, size_t i, const lm_about *a)
{
    const lm_item *x = &items[i];
    bool           context = i + 1 < n && items[i + 1].word && strcmp(items[i + 1].word->value, "architecture.context") == 0;

    return lm_vocable_is(a->quantity, "@cache") && x->number.unit == LM_NUMERAL_PLAIN &&
           ((i + 1 < n && items[i + 1].role == LM_TOKENS) || (i && items[i - 1].role == LM_AT) || context);
}

static bool names_quantity(const lm_item *x)
{
    return x->role == LM_QUANTITY || x->role == LM_TEXT_QUANTITY || x->role == LM_PART;
}

/* Return the index of the first quantity after the number at i, or 0 if none follows or if words that belong to neither come between. */
static size_t quantity_behind(const lm_item *items, size_t n, size_t i)
{
    size_t k = i + 1;

    for (; k < n; k++) {
        bool little = items[k].role == LM_NEUTRAL && items[k].at.n < 5 && !lm_vocable_is(items[k].word, "kind");
        if (!little && items[k].role != LM_TOKENS && items[k].role != LM_TYPE && !(items[k].role == LM_LINK && items[k].at.n == 2))
            break;
    }
    return k < n && names_quantity(&items[k]) ? k : 0;
}

/* Return whether the phrase includes everything up to its number: "every key/value head serves", "is shared by", "numbered from 0 to". */
static bool leads_to_number(const lm_item *x)
{
    return names_quantity(x) && x->at.n > 12 && (strchr("sto", x->at.s[x->at.n - 1]) || memcmp(x->at.s + x->at.n - 3, " by", 3) == 0);
}

static bool names_before(const lm_item *items, size_t from, size_t i)
{
    for (size_t k = from; k < i; k++)
        if (names_quantity(&items[k]) || items[k].role == LM_TYPE)
            return true;
    return false;
}

/* Add the quantities before the number at i. Layers are not counted in operations: "all 28 layers: 5.6 GFLOPs". */
static void add_quantities(const lm_item *items, size_t from, size_t i, lm_about *a)
{
    bool operations = items[i].number.unit == LM_NUMERAL_OPERATIONS;

    for (size_t k = from; k < i; k++)
        if (names_quantity(&items[k]) && !(operations && lm_vocable_is(items[k].word, "architecture.layers")))
            lm_about_add(&items[k], a);
}

/* Find the quantity of the number at i: directly after it ("8 KV heads"), or before it with only linking words between ("hidden size of
 * 4,096", "cache of X at 8K: 1 GiB"). `from`: the item after the previous number. */
static bool quantity_of(const lm_item *items, size_t n, size_t i, size_t from, lm_about *a)
{
    size_t behind = quantity_behind(items, n, i);
    bool   linked = i && (items[i - 1].role == LM_LINK || (items[i - 1].role == LM_LEAD && i > 1 && items[i - 2].role == LM_LINK));
    bool   before = names_before(items, from, i), direct = i > from && names_quantity(&items[i - 1]);

    if (direct && leads_to_number(&items[i - 1])) {
        lm_about_add(&items[i - 1], a);
        return true;
    }
    if (behind && !(linked && before) && (behind == i + 1 || items[i + 1].role != LM_LINK || !before)) {
        lm_about_add(&items[behind], a);
        if (behind + 1 < n && names_quantity(&items[behind + 1]))        /* "21B active parameters" */
            lm_about_add(&items[behind + 1], a);
        a->unsure |= direct;
        return true;
    }
    add_quantities(items, from, i, a);
    return before || items[i].number.unit == LM_NUMERAL_OPERATIONS || items[i].number.unit == LM_NUMERAL_BYTES;
}

static const lm_vocable cached_tokens = { "", LM_QUANTITY, "@cache" };

/* Collect what is known before the numbers are read: the model, forms, types, tokens. */
static lm_about survey(const lm_item *items, size_t n, int model, bool doubt)
{
    lm_about a = { .model = LM_NO_MODEL, .unsure = doubt }, q = { .model = LM_NO_MODEL };

    for (size_t i = 0; i < n; i++) {
        const lm_item *x = &items[i];
        if (x->role == LM_QUANTITY)
            lm_about_add(x, &q);
        if (x->role == LM_MODEL || x->role == LM_TYPE || x->role == LM_FORM)
            lm_about_add(x, &a);
        else if (x->role == LM_UNKNOWN || x->role == LM_UNIT || x->role == LM_TIMES || x->role == LM_DOUBT)
            a.unsure = true;
    }
    a.model = a.model == LM_NO_MODEL ? model : a.model;
    for (size_t i = 0; i < n; i++) {
        lm_about of = { .quantity = NULL };
        for (size_t k = 0; k < n; k++)
            if (lm_vocable_is(items[k].word, "@cache"))
                of.quantity = items[k].word;
        if (items[i].role == LM_NUMBER && counts_tokens(items, n, i, &of))
            lm_about_set_tokens(&items[i], &a);
    }
    return a;
}

bool lm_audit_phrase(lm_audit_document *d, const lm_item *x, int model, bool unsure)
{
    const char *value = strchr(x->word->value, '=');

    if (model < 0)
        return false;
    const char *quantity = lm_arena_strndup(&d->arena, x->word->value, (size_t)(value - x->word->value));
    lm_add_statement(d, x->at, model, quantity, value + 1, unsure);
    return true;
}

/* "Activation: SiLU": add the word after the colon at i. */
static bool add_labelled(lm_audit_document *d, const lm_item *items, size_t n, size_t i, lm_about a, bool doubt)
{
    const char *s = items[i].at.s + items[i].at.n, *end = items[n - 1].at.s + items[n - 1].at.n;

    a.unsure = doubt;
    for (size_t k = 0; k < i; k++) {
        lm_about_add(&items[k], &a);
        a.unsure |= items[k].role == LM_UNKNOWN;
    }
    return end > s && lm_audit_words(d, (lm_extent){ s, (size_t)(end - s) }, &a);
}

/* "21B active parameters", "the total": words that do not start another group of quantities. */
static bool is_addition(const lm_vocable *v)
{
    return lm_vocable_is(v, "@model") || lm_vocable_is(v, "@total") || lm_vocable_is(v, "attention.group");
}

/* Count the groups of quantities: "21 layers use the window" has two, and one number cannot belong to both. */
static size_t groups_of(const lm_item *items, size_t n, bool cached)
{
    size_t groups = 0;

    for (size_t i = 0; i < n; i++)
        groups += names_quantity(&items[i]) && !(i && names_quantity(&items[i - 1])) && !(cached && lm_counts_context(items[i].word)) &&
                  !is_addition(items[i].word);
    for (size_t i = 0; i < n; i++)
        groups = lm_vocable_is(items[i].word, "architecture.last_layer") ? 1 : groups;
    return groups;
}

/* A clause, and what it contains apart from what its numbers are about. */
typedef struct clause {
    const lm_item    *items;
    size_t            n, numbers, named;
    const lm_vocable *cache;         /* the word that names the cache, or NULL */
    bool              cached;        /* the previous clause was about the cache */
    bool              own;           /* it names its model, and nothing makes it doubtful */
    bool              clear;         /* all of its words are known */
    lm_about          about;
} clause;

/* "…, so 32,768 tokens are 3 GiB": the clause is still about the cache. */
static void take_up_cache(clause *c)
{
    for (size_t i = 0; i + 1 < c->n; i++)
        if (c->items[i].role == LM_NUMBER && c->items[i + 1].role == LM_TOKENS && c->items[i].number.unit == LM_NUMERAL_PLAIN) {
            c->cache = c->about.quantity = &cached_tokens;
            lm_about_set_tokens(&c->items[i], &c->about);
        }
}

/* Return whether the number at i is what the clause calls a model: "MODEL is 7.2B". */
static bool is_size_of_model(const clause *c, size_t i)
{
    const lm_item *x = &c->items[i];

    return i > 1 && i + 1 == c->n && x[-1].role == LM_LINK && x[-2].role == LM_MODEL && x->number.power == 3 &&
           x->number.unit == LM_NUMERAL_PLAIN;
}

/* "67% smaller than MHA": return whether the percentage is what sharing keys and values saves of the cache. */
static bool is_saved_by_sharing(const clause *c, size_t i)
{
    bool unshared = false;

    for (size_t k = i; k < c->n; k++)
        unshared |= lm_vocable_is(c->items[k].word, "kind") && lm_word_is(c->items[k].at, "mha");
    return c->items[i].number.unit == LM_NUMERAL_PERCENT && (c->cache || c->cached) && unshared;
}

/* Name what a number is about if its clause does not name it: the size of a model, what sharing saves, the total of a caption. */
static bool name_quantity(const lm_audit_document *d, const clause *c, size_t i, lm_about *a)
{
    static const lm_vocable total = { "", LM_QUANTITY, "parameters.total" };
    static const lm_vocable saved = { "", LM_QUANTITY, "what_if.kv_projections_saved" };
    static const lm_vocable width = { "", LM_QUANTITY, "architecture.hidden|attention.head_dim" };
    const lm_item *next = i + 1 < c->n ? &c->items[i + 1] : NULL;
    bool listed = lm_vocable_is(d->heading.quantity, "@params") && d->heading.part && !a->part && lm_vocable_is(c->items[0].word, "@total");

    if (is_size_of_model(c, i))
        a->quantity = &total;
    else if (is_saved_by_sharing(c, i))
        a->quantity = &saved;
    else if (listed)
        a->part = d->heading.part;
    else if (next && (lm_text_is(next->at, "dimensions") || lm_text_is(next->at, "dims")) && !a->quantity)
        a->quantity = &width;
    else
        return false;
    a->unsure |= listed || a->quantity == &saved || a->quantity == &width;
    return true;
}

/* Add the statement of the number at i; `second`: the second number of "32 / 8". */
static bool add_number(lm_audit_document *d, const clause *c, size_t i, size_t from, const lm_item *second)
{
    const lm_item *x = &c->items[i];
    lm_about       one = c->about;
    bool           found = quantity_of(c->items, c->n, i, from, &one);
    bool           adjacent = (i + 1 < c->n && names_quantity(x + 1)) || (i && x[-1].role == LM_LINK);

    one.unsure |= c->numbers - (c->about.tokens > 0) > 1 && !adjacent && !second && !x->type;
    if (x->number.unit == LM_NUMERAL_OPERATIONS && c->own && i + 1 < c->n && x[1].role == LM_FORM && lm_vocable_is(x[1].word, "token"))
        one.unsure = false;          /* "8 TFLOPs per token": unambiguous, whichever operations are counted */
    if (x->number.unit == LM_NUMERAL_BYTES && !one.quantity && !one.part && (c->cache || c->cached)) {
        one.quantity = &cached_tokens;       /* of the cache, not of the weights */
        one.unsure |= !c->cache;
    }
    found |= name_quantity(d, c, i, &one);
    return found && lm_audit_number(d, x, second, &one);
}

/* Return the name of the projection that the clause mentions before i; n is 0: none. */
static lm_extent projection_before(const lm_item *items, size_t i)
{
    while (i-- > 0)
        if (items[i].role == LM_PART && *items[i].word->value)
            return lm_projection_in(items[i].word->value);
    return (lm_extent){ "", 0 };
}

/* Return whether the number at i is followed by a sign and exactly one more number. */
static bool is_two(const lm_item *items, size_t n, size_t i)
{
    const lm_item *x = &items[i];
    bool           two = i + 2 < n && x[1].role == LM_TIMES && x[2].role == LM_NUMBER && x[2].number.whole;
    bool           goes_on = i + 3 < n && (x[3].role == LM_TIMES || (x[3].role == LM_LINK && x[3].at.n < 3));

    return two && !goes_on && !(i && x[-1].role == LM_TIMES);
}

/* "k_proj maps 4,096 to 1,024", "2048 → 512", "q_proj: 2048 × 2048": add the widths of a projection. `*used`: number of items after i
 * that belong to it. */
static bool add_shape(lm_audit_document *d, const clause *c, size_t i, size_t *used)
{
    const lm_item *x = &c->items[i];
    const char    *to = x->last.n ? memmem(x->at.s, x->at.n, " to ", 4) : NULL;
    lm_extent      name = projection_before(c->items, i);

    if (!name.n || !x->number.whole || c->about.model < 0 || !(to || (!x->last.n && is_two(c->items, c->n, i))))
        return false;
    lm_extent first = { x->at.s, to ? (size_t)(to - x->at.s) : x->at.n }, last = to ? x->last : x[2].at;
    bool      product = !to && *x[1].at.s != '-' && strncmp(x[1].at.s, "→", 3) != 0;
    *used = to ? 0 : 2;
    const char *claim = lm_arena_printf(&d->arena, "%.*s%s%.*s", (int)first.n, first.s, product ? " × " : "->", (int)last.n, last.s);
    lm_add_statement(d, (lm_extent){ first.s, (size_t)(last.s + last.n - first.s) }, c->about.model,
                     lm_arena_printf(&d->arena, "%.*s.shape", (int)name.n, name.s), claim, c->about.unsure || product);
    return true;
}

/* "12.9B of its 46.7B parameters per token": add the active and the total parameters. `*used`: number of items after i that belong to
 * it. */
static bool add_part_of_all(lm_audit_document *d, const clause *c, size_t i, size_t *used)
{
    static const lm_vocable all = { "", LM_QUANTITY, "parameters.total" }, active = { "", LM_QUANTITY, "parameters.active" };
    size_t                  k = i + 2;

    if (k >= c->n || !lm_text_is(c->items[i + 1].at, "of"))
        return false;
    k += lm_text_is(c->items[k].at, "its") || lm_text_is(c->items[k].at, "the") || lm_text_is(c->items[k].at, "their");
    if (k + 1 >= c->n || c->items[k].role != LM_NUMBER || !strchr("pP", *c->items[k + 1].at.s) ||
        !(lm_vocable_is(c->items[k + 1].word, "@params") || lm_vocable_is(c->items[k + 1].word, "parameters.active")))
        return false;
    bool     token = lm_vocable_is(c->items[k + 1].word, "parameters.active") || (c->about.forms & LM_FORM_TOKEN);
    lm_about part  = c->about, whole = c->about;
    part.quantity  = &active;
    whole.quantity = &all;
    part.forms     = whole.forms = 0;
    part.unsure   |= !token;
    whole.unsure  |= !token;         /* possibly of something else */
    *used = k + 1 - i;
    bool found = lm_audit_number(d, &c->items[i], NULL, &part);
    return lm_audit_number(d, &c->items[k], NULL, &whole) || found;
}

/* Return whether the whole number at i counts what the next quantity is. */
static bool counts(const clause *c, size_t i, const char *quantity, size_t *behind)
{
    *behind = i < c->n && c->items[i].role == LM_NUMBER && c->items[i].number.whole ? quantity_behind(c->items, c->n, i) : 0;
    return *behind && lm_vocable_is(c->items[*behind].word, quantity);
}

/* Return whether the number at i counts key/value heads: "8 KV heads", "1 KV head". */
static bool counts_kv_heads(const clause *c, size_t i, size_t *behind)
{
    if (counts(c, i, "attention.kv_heads", behind))
        return true;
    for (*behind = i + 1; *behind < c->n && *behind < i + 3; ++*behind)
        if (lm_vocable_is(c->items[*behind].word, "kv_head"))
            return c->items[i].role == LM_NUMBER && c->items[i].number.value == 1;
    return false;
}

/* "3 query heads share 1 KV head": add the size of a group; "24 query heads share 8 KV heads": add both. `*used`: number of items after
 * i that belong to it. */
static bool add_sharing(lm_audit_document *d, const clause *c, size_t i, size_t *used)
{
    static const lm_vocable group = { "", LM_QUANTITY, "attention.group" };
    size_t   heads, kv_heads, k = 0;
    lm_about one = c->about, two = c->about;

    if (counts(c, i, "attention.heads", &heads))
        for (k = heads + 1; k < c->n && k < heads + 4 && c->items[k].role != LM_NUMBER;)
            k++;
    if (!k || k >= c->n || !counts_kv_heads(c, k, &kv_heads))
        return false;
    one.likely   = two.likely = true;
    one.quantity = c->items[k].number.value == 1 ? &group : c->items[heads].word;
    two.quantity = c->items[kv_heads].word;
    *used = kv_heads - i;
    bool found = lm_audit_number(d, &c->items[i], NULL, &one);
    return (c->items[k].number.value > 1 && lm_audit_number(d, &c->items[k], NULL, &two)) || found;
}

/* Read what takes several numbers: a shape, a part of all parameters, heads that share heads. `*used`: number of items after i that
 * belong to it. */
static bool add_several(lm_audit_document *d, const clause *c, size_t i, size_t *used)
{
    return add_shape(d, c, i, used) || add_part_of_all(d, c, i, used) || add_sharing(d, c, i, used);
}

/* "GPT-2 uses LayerNorm" is certain; a short label that only names kinds may be. */
static bool add_kinds(lm_audit_document *d, const clause *c)
{
    size_t use = 0;

    for (size_t i = 0; i < c->n; i++)
        use = lm_is_use(&c->items[i]) ? i + 1 : use;
    bool certain = c->own && use && c->clear && !c->numbers;
    return (certain || c->n < 9) && lm_audit_kinds(d, c->items + use, c->n - use, c->about.model, !certain);
}

static size_t label_end(const lm_item *items, size_t n)
{
    for (size_t i = 1; i + 1 < n; i++)
        if (items[i].role == LM_LINK && strchr(":=\xef", *items[i].at.s))
            return i;
    return 0;
}

/* Read what is said without a number: "Activation: SiLU", "uses RMSNorm". */
static bool read_kinds(lm_audit_document *d, const clause *c, bool doubt)
{
    size_t colon = c->numbers ? 0 : label_end(c->items, c->n);

    return colon ? add_labelled(d, c->items, c->n, colon, c->about, doubt) : add_kinds(d, c);
}

static bool is_equals(const lm_item *x)
{
    return (x->role == LM_LINK && *x->at.s == '=') || (x->role == LM_LEAD && strncmp(x->at.s, "≈", 3) == 0);
}

static bool is_sign(const lm_item *x)
{
    return x->role == LM_TIMES || x->role == LM_SLASH;
}

/* "head_dim = 4096 / 32 = 128": return the index of the last "=" behind a calculation with signs, or 0. */
static size_t result_at(const lm_item *items, size_t n)
{
    size_t first = 0, last = 0, signs = 0;

    while (first < n && !is_equals(&items[first]) && !(items[first].role == LM_LINK && *items[first].at.s == ':'))
        first++;
    for (size_t i = first + 1; first && i < n; i++) {
        signs += is_sign(&items[i]);
        if (is_equals(&items[i]) && signs)
            last = i;
        else if (items[i].role != LM_NUMBER && !is_sign(&items[i]) && !last)
            return 0;
    }
    return last && last + 1 < n && items[last + 1].role == LM_NUMBER ? last : 0;
}

/* Read "head_dim = 4096 / 32 = 128" as "head_dim = 128". */
static bool read_result(lm_audit_document *d, const lm_item *items, size_t n, int model, bool doubt, bool *cached)
{
    lm_item short_form[MOST_RESULT];
    size_t  last = result_at(items, n), first = 0;

    while (first < last && items[first].role != LM_LINK)
        first++;
    if (!last || first + n - last > MOST_RESULT)
        return false;
    memcpy(short_form, items, first * sizeof *items);
    memcpy(short_form + first, items + last, (n - last) * sizeof *items);
    lm_read_clause(d, short_form, first + n - last, model, doubt || items[last].role == LM_LEAD, cached);
    return true;
}

bool lm_read_clause(lm_audit_document *d, const lm_item *items, size_t n, int model, bool doubt, bool *cached)
{
    clause c = { items, n, .cached = *cached, .about = survey(items, n, model, doubt) };
    bool   found = false;

    if (read_result(d, items, n, model, doubt, cached))
        return true;
    for (size_t i = 0; i < n; i++) {
        c.cache = lm_vocable_is(items[i].word, "@cache") ? items[i].word : c.cache;
        c.numbers += items[i].role == LM_NUMBER;
        c.own |= items[i].role == LM_MODEL && items[i].model >= 0 && !doubt;
        c.named += names_quantity(&items[i]);
        if (items[i].role == LM_SAYS)
            found |= lm_audit_phrase(d, &items[i], c.about.model, c.about.unsure);
    }
    if (!c.named && *cached)
        take_up_cache(&c);
    c.clear = !c.about.unsure;
    c.about.unsure |= groups_of(items, n, c.cache != NULL) > c.numbers - (c.about.tokens > 0);
    *cached = c.cache || (*cached && !c.named);
    lm_about cache = { .quantity = c.cache };
    for (size_t i = 0, from = 0, used = 0; i < n; i++) {
        if (items[i].role != LM_NUMBER || counts_tokens(items, n, i, &cache))
            continue;
        if (add_several(d, &c, i, &used)) {
            found = true;
            i += used;
            from = i + 1;
            continue;
        }
        const lm_item *second = i + 2 < n && items[i + 1].role == LM_SLASH && items[i + 2].role == LM_NUMBER ? &items[i + 2] : NULL;
        found |= add_number(d, &c, i, from, second);
        i += second ? 2 : 0;
        from = i + 1;
    }
    return read_kinds(d, &c, doubt) || found;
}
