/* lettered.c - shapes in letters, such as "logits [batch, seq, vocab]" and "W_q_i | [H, head_dim]", which are the same in every model. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "study/audit/reading.h"

/* A tensor by its name without signs, and its dimensions: t tokens, h hidden size, d head dimension, v vocabulary. A batch may come
 * first. */
static const struct { const char *name, *dims, *rule; } tensors[] = {
    { "x", "th", "the input of a layer" },          { "wqi", "hd", "a head's matrix of queries" }, { "wki", "hd", "a head's matrix of keys" },
    { "wvi", "hd", "a head's matrix of values" },   { "qi", "td", "queries of a head" },           { "ki", "td", "keys of a head" },
    { "vi", "td", "values of a head" },             { "inputids", "t", "tokens of a batch" },
    { "hiddenstates", "th", "the input of a layer" }, { "logits", "tv", "a logit of each token of the vocabulary" },
};

enum { MOST_NAME = 24, MOST_DIMS = 5 };

/* Write the letters of a tensor's name: "Q_head_i" is "qi", "W^Q_i" is "wqi". */
static void name_of(lm_extent s, char out[MOST_NAME])
{
    size_t n = 0;

    for (size_t i = 0; i < s.n && n + 1 < MOST_NAME; i++) {
        bool head = s.n - i > 4 && strncasecmp(s.s + i, "head", 4) == 0;
        i += head ? 3 : 0;
        if (!head && isalnum((unsigned char)s.s[i]))
            out[n++] = (char)tolower((unsigned char)s.s[i]);
    }
    out[n] = '\0';
}

/* Return the letter of a dimension; 'b': a batch, '?': unknown. */
static char dimension_of(const lm_audit_document *d, lm_extent s)
{
    static const struct { const char *path; char letter; } quantities[] = {
        { "architecture.hidden", 'h' }, { "attention.head_dim", 'd' }, { "architecture.vocabulary", 'v' },
    };
    static const char *const batch[] = { "batch", "b", "batch_size", "bsz", "1", NULL };
    static const char *const tokens[] = { "seq", "seq_len", "t", "s", "n", "tokens", "sequence", "seq_length", "sequence_length", NULL };
    lm_item                  items[2];

    if (lm_word_among(s, batch))
        return 'b';
    if (lm_word_among(s, tokens))
        return 't';
    const lm_vocable *word = lm_scan(d, s, items, 2) == 1 ? lm_symbol(d, &items[0]) : NULL;
    for (size_t i = 0; word && i < sizeof quantities / sizeof *quantities; i++)
        if (strncmp(word->value, quantities[i].path, strlen(quantities[i].path)) == 0)
            return quantities[i].letter;
    return '?';
}

/* Write the letters of "batch, seq_len, H" without the batch. */
static void dims_of(const lm_audit_document *d, lm_extent list, char out[MOST_DIMS])
{
    const char *from = list.s, *end = list.s + list.n;
    size_t      n = 0;

    for (const char *p = list.s; p <= end; p++) {
        if (p < end && *p != ',')
            continue;
        char letter = dimension_of(d, lm_trim((lm_extent){ from, (size_t)(p - from) }));
        if (n + 1 < MOST_DIMS && !(letter == 'b' && !n))
            out[n++] = letter;
        from = p + 1;
    }
    out[n] = '\0';
}

bool lm_audit_shape(lm_audit_document *d, lm_extent name, lm_extent list)
{
    char tensor[MOST_NAME], dims[MOST_DIMS];

    name_of(name, tensor);
    dims_of(d, list, dims);
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        if (strcmp(tensors[i].name, tensor) == 0 && strcmp(tensors[i].dims, dims) == 0) {
            lm_add_rule(d, list, tensors[i].rule);
            return true;
        }
    return false;
}

/* Return the name that ends before p, behind spaces, signs and a line break of HTML. */
static lm_extent name_before(lm_extent line, const char *p)
{
    static const char gap[] = "<br/>";
    const char       *end, *start = line.s;

    while (p > start && (strchr(" :=(", p[-1]) || (p - start > 5 && memcmp(p - 5, gap, 5) == 0)))
        p -= p[-1] == '>' ? 5 : 1;
    for (end = p; p > start && (isalnum((unsigned char)p[-1]) || p[-1] == '_');)
        p--;
    return (lm_extent){ p, (size_t)(end - p) };
}

bool lm_audit_shapes(lm_audit_document *d, lm_extent line)
{
    static const char word[] = "shape:";
    const char       *end = line.s + line.n;
    bool              found = false;

    for (const char *p = line.s; p < end; p++) {
        bool named = end - p > 6 && memcmp(p, word, 6) == 0;
        if (!named && *p != '[')
            continue;
        const char *from = p + (named ? 6 : 1), *to = from;
        while (to < end && !strchr("[])\"|<", *to))
            to++;
        lm_extent list = lm_trim((lm_extent){ from, (size_t)(to - from) });
        found |= list.n && lm_audit_shape(d, name_before(line, p), list);
    }
    return found;
}
