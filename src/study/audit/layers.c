/* layers.c - layers that a text counts or numbers without a quantity: "Layer 0 ~ Layer 27", "i = 0, 1, ..., 27", "repeated 28 times". */
#include <string.h>

#include "study/audit/reading.h"

/* Return whether the item names a layer: "Layer", "decoder layer", "layers". */
static bool is_layer(const lm_item *x)
{
    return (x->role == LM_FORM && lm_vocable_is(x->word, "layer")) || lm_vocable_is(x->word, "architecture.layers") ||
           (x->role == LM_PART && strncmp(x->word->value, "layers[0].parameters", 20) == 0);
}

static bool is_whole(const lm_item *x)
{
    return x->role == LM_NUMBER && x->number.whole && x->number.unit == LM_NUMERAL_PLAIN && !x->number.power;
}

/* Return whether the item may stand between the numbers of a sequence: signs, and the word "layer" again. */
static bool joins(const lm_item *x)
{
    return x->role == LM_BREAK || x->role == LM_TIMES || x->role == LM_LEAD || (x->role == LM_FORM && is_layer(x)) ||
           lm_text_is(x->at, "to") || lm_text_is(x->at, "-") || lm_text_is(x->at, "…");
}

/* "0, 1, ..., 27", "0-27": return the last number of a sequence that begins with 0 at i; n is 0: none. */
static lm_extent last_of(const lm_item *items, size_t n, size_t i)
{
    lm_extent last = items[i].last;
    double    value = 0;

    for (size_t k = i + 1; !items[i].last.n && k < n; k++) {
        if (is_whole(&items[k]) && items[k].number.value > value && !items[k].last.n) {
            value = items[k].number.value;
            last  = items[k].at;
        } else if (!joins(&items[k])) {
            break;
        }
    }
    return last;
}

/* "Layer 27, the last one": return whether the text after the number at i says so. */
static bool is_last(const lm_item *items, size_t n, size_t i)
{
    static const char *const words[] = { "last", "final", "最后", "最後", NULL };

    for (size_t k = i + 1; k < n && k < i + 5; k++)
        if (lm_text_among(items[k].at, words))
            return true;
    return false;
}

/* Return the place of a part in the order of a model: embedding, layers, last norm, head; 0: another item. */
static int place_of(const lm_item *x)
{
    const char *path = x->role == LM_PART ? x->word->value : "";

    return strncmp(path, ";model.embed", 12) == 0  ? 1
           : is_layer(x)                           ? 2
           : strncmp(path, ";model.norm", 11) == 0 ? 3
           : strncmp(path, ";lm_head", 8) == 0     ? 4
                                                   : 0;
}

/* "Embedding → Layer 0 → … → final norm → lm_head": confirm the order of the parts. */
static bool add_order(lm_audit_document *d, const lm_item *items, size_t n)
{
    size_t first = 0, last = 0, arrows = 0;
    int    place = 0;

    for (size_t i = 0; i < n; i++) {
        int next = place_of(&items[i]);
        arrows += items[i].role == LM_TIMES && (lm_text_is(items[i].at, "→") || lm_text_is(items[i].at, "->"));
        if (!next)
            continue;
        if (next != place && next != place + 1)
            return false;
        first = place ? first : i;
        last  = i;
        place = next;
    }
    if (place < 4 || arrows < 3)
        return false;
    lm_extent at = { items[first].at.s, (size_t)(items[last].at.s + items[last].at.n - items[first].at.s) };
    lm_add_rule(d, at, "the order of the parts");
    return true;
}

bool lm_audit_layers(lm_audit_document *d, lm_extent line, int model)
{
    size_t n = lm_scan(d, line, d->items, LM_MOST_ITEMS);
    bool   layer = false, found = n < LM_MOST_ITEMS && add_order(d, d->items, n);

    for (size_t i = 0; i < n && n < LM_MOST_ITEMS && model >= 0; i++) {
        const lm_item *x = &d->items[i];
        layer |= is_layer(x);
        if (!layer || !is_whole(x))
            continue;
        lm_extent last = x->number.value == 0 ? last_of(d->items, n, i) : (lm_extent){ x->at.s, 0 };
        if (!last.n && i && is_layer(x - 1) && is_last(d->items, n, i))
            last = x->at;
        bool times = i + 1 < n && (lm_text_is(x[1].at, "次") || lm_text_is(x[1].at, "遍") || lm_text_is(x[1].at, "times"));
        if (last.n)
            lm_add_value(d, last, model, "architecture.last_layer", true);
        if (times)
            lm_add_value(d, x->at, model, "architecture.layers", true);
        found |= last.n || times;
    }
    return found;
}
