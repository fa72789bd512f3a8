/* letters.c - the letters of the formulas of topics, found in their LaTeX. */
#include "study/explain/letters.h"

#include <ctype.h>
#include <string.h>

/* A letter with the index … is any letter of this name whose index is not in the list. */
static const lm_letter letters[] = {
    { "D", "D", N_("width of the residual stream") },
    { "F", "F", N_("width of the MLP") },
    { "H", "H", N_("query heads") },
    { "G", "G", N_("heads of keys and values") },
    { "K", "K", N_("dimensions of a head") },
    { "K_R", "K_R", N_("rotated dimensions of a head") },
    { "d_k", "d_k", N_("dimensions whose square root divides the scores") },
    { "L", "L", N_("decoder layers") },
    { "ℓ", "\\ell", N_("number of a layer") },
    { "V", "V", N_("tokens of the vocabulary") },
    { "P", "P", N_("rows of the position table") },
    { "R", "R", N_("width of the latent of keys and values") },
    { "E", "E", N_("routed experts of a layer") },
    { "E_a", "E_a", N_("active experts per token (top-k)") },
    { "S", "S", N_("tokens of context") },
    { "S_…", "S_{\\ldots}", N_("tokens of context; the index says which") },
    { "W", "W", N_("keys that a token attends to, including its own") },
    { "N", "N", N_("parameters stored") },
    { "N_…", "N_{\\ldots}", N_("parameters; the index names the part or the formula") },
    { "m", "m", N_("matrices of an MLP: three with a gate, two without") },
    { "group", "\\mathrm{group}", N_("query heads that share a key/value head") },
    { "n", "n", N_("example batch size, tokens") },
    { "b_v", "b_v", N_("bytes of a cached value") },
    { "B_W", "B_W", N_("bytes of weights in allocated memory, in the layout of the kernels") },
    { "C", "C", N_("bytes of the cache's pages") },
    { "A", "A", N_("bytes of activations, page tables, threads") },
    { "t", "t", N_("id of a token") },
    { "pos", "\\mathrm{pos}", N_("position of a token") },
    { "i", "i", N_("index: position, head, pair or expert, by the title of the formula") },
    { "j", "j", N_("another index of the same kind") },
    { "h", "h", N_("residual stream: h_0 before the layers, h_L after them") },
    { "x", "x", N_("input of an operation") },
    { "y", "y", N_("output of an operation") },
    { "Q", "\\mathbf{Q}", N_("queries") },
    { "K", "\\mathbf{K}", N_("keys") },
    { "V", "\\mathbf{V}", N_("values") },
    { "M", "\\mathbf{M}", N_("mask: what is added to the scores") },
    { "q", "q", N_("query of a token") },
    { "k", "k", N_("key of a token") },
    { "v", "v", N_("value of a token") },
    { "o", "o", N_("output of a head for a token") },
    { "c_KV", "c_{KV}", N_("latent of keys and values") },
    { "W_…", "W_{\\ldots}", N_("weight matrix; the index names it") },
    { "b_…", "b_{\\ldots}", N_("bias; the index names it") },
    { "s", "s", N_("scores") },
    { "scale", "\\mathrm{scale}", N_("factor of the scores") },
    { "η", "\\eta", N_("weight of a head of the indexer, from the token") },
    { "n_k", "n_k", N_("keys that the indexer chooses for a token") },
    { "𝐉", "\\mathbf{J}", N_("positions that the indexer chooses for a token") },
    { "𝐛", "\\mathbf{b}", N_("block of keys, which are chosen together") },
    { "p", "p", N_("result of a softmax: weights or probabilities, whose sum is 1") },
    { "r", "r", N_("number of a head") },
    { "m_r", "m_r", N_("slope of head r") },
    { "s_r", "s_r", N_("sink of head r") },
    { "a_m", "a_m", N_("exponent of the last slope") },
    { "H₂", "H_2", N_("largest power of two that is at most the number of heads; the other heads have "
                      "slopes between these") },
    { "θ", "\\theta", N_("frequency of a pair") },
    { "φ", "\\varphi", N_("angle by which a pair is rotated") },
    { "Rot", "\\mathrm{Rot}", N_("rotation of a pair by a position") },
    { "base", "\\mathrm{base}", N_("base of the frequencies of RoPE") },
    { "PE", "\\mathrm{PE}", N_("sines and cosines of a position") },
    { "ω", "\\omega", N_("frequency of a pair") },
    { "g", "g", N_("weights of the experts, by the router") },
    { "E_i", "E_i", N_("expert i") },
    { "E_s", "E_s", N_("shared expert") },
    { "s_i", "s_i", N_("factor of expert i, trained") },
    { "λ", "\\lambda", N_("factor of a layer, or of what its router reads, trained") },
    { "Inputs", "\\mathrm{Inputs}", N_("rows of a table of the layer's own, multiplied by a gate from the stream") },
    { "χ", "\\chi", N_("streams of a layer, predicted from all of them") },
    { "ψ", "\\psi", N_("streams of a layer, corrected by what one of them became") },
    { "κ", "\\kappa", N_("coefficients of streams, from a token") },
    { "Predict", "\\mathrm{Predict}", N_("every stream plus a weighted sum of all") },
    { "Correct", "\\mathrm{Correct}", N_("every stream plus a multiple of what one of them changed") },
    { "Match", "\\mathrm{Match}", N_("streams, scaled to the root mean square of the first") },
    { "Low", "\\mathrm{Low}", N_("residual of low rank, beside attention") },
    { "Top", "\\mathrm{Top}", N_("gates far above their mean; the others are 0") },
    { "γ", "\\gamma", N_("scale of a norm, trained") },
    { "β", "\\beta", N_("shift of a norm, trained; in a recurrence, factor of what a token adds") },
    { "μ", "\\mu", N_("mean of x") },
    { "var", "\\mathrm{var}", N_("variance of x") },
    { "ε", "\\varepsilon", N_("small number that keeps the divisor above 0") },
    { "σ", "\\sigma", N_("sigmoid: 1 / (1 + exp(−x))") },
    { "Φ", "\\varPhi", N_("probability that a standard normal variable is below x") },
    { "erf", "\\mathrm{erf}", N_("error function") },
    { "π", "\\pi", N_("3.14159…, the ratio of a circle's circumference to its diameter") },
    { "e", "e", N_("2.71828…, base of the natural logarithm") },
    { "𝐒", "\\mathbf{S}", N_("state of a head; in a selective scan, of all dimensions") },
    { "𝐀", "\\mathbf{A}", N_("logarithms of the rates at which the state decays, trained") },
    { "𝐁", "\\mathbf{B}", N_("direction in which a token adds to the state") },
    { "𝐂", "\\mathbf{C}", N_("direction in which a token reads the state") },
    { "Δ", "\\Delta", N_("what a token adds to the state for its key; in a selective scan, its step in each dimension") },
    { "α", "\\alpha", N_("factor by which a token decays the state") },
    { "𝐡", "\\mathbf{h}", N_("state of RG-LRU, a number for each dimension") },
    { "𝐚", "\\mathbf{a}", N_("factors by which a token decays the state, one for each dimension") },
    { "𝐫", "\\mathbf{r}", N_("gate of the decay, from the token, between 0 and 1") },
    { "𝐢", "\\mathbf{i}", N_("gate of the input, from the token, between 0 and 1") },
    { "Λ", "\\Lambda", N_("parameter of the decay, trained") },
    { "b", "b", N_("bias of a convolution, if it has one") },
    { "Mix", "\\mathrm{Mix}", N_("part of a layer with a state: a convolution or recurrence and its products") },
    { "n_c", "n_c", N_("positions that a convolution reads") },
    { "w_…", "w_{\\ldots}", N_("weight of a position in a convolution, one per dimension") },
    { "z", "z", N_("logits") },
    { "τ", "\\tau", N_("temperature") },
};

enum { N_LETTERS = sizeof letters / sizeof *letters };

static bool is(const char *at, size_t n, const char *name)
{
    return strlen(name) == n && memcmp(at, name, n) == 0;
}

/* Return the index of a letter in the list, or N_LETTERS. */
static size_t listed(const char *name, size_t n)
{
    size_t i = 0;

    while (i < N_LETTERS && !is(name, n, letters[i].latex))
        i++;
    return i;
}

const lm_letter *lm_letter_of(const char *latex)
{
    size_t i = listed(latex, strlen(latex));

    return i < N_LETTERS ? &letters[i] : NULL;
}

static size_t letters_at(const char *at)
{
    size_t n = 0;

    while (isalpha((unsigned char)at[n]))
        n++;
    return n;
}

/* Return the length of a group in braces that contains none, or of a single character. */
static size_t group_at(const char *at)
{
    const char *end = *at == '{' ? strchr(at, '}') : NULL;

    return end ? (size_t)(end - at) + 1 : *at != '\0';
}

/* Return the length of the letter at the start: a Latin one, \theta or \mathrm{pos}; 0: there is none, and
 * `skip` is the length of what there is instead. */
static size_t letter_at(const char *at, size_t *skip)
{
    size_t n = letters_at(at + 1);

    *skip = 1;
    if (isalpha((unsigned char)*at))
        return 1;
    if (*at != '\\')
        return 0;
    *skip = n ? n + 1 : 1 + (at[1] != '\0');
    if (is(at + 1, n, "mathrm") || is(at + 1, n, "mathbf"))
        return n + 1 + group_at(at + n + 1);
    if (is(at + 1, n, "text") || is(at + 1, n, "mathbb") || is(at + 1, n, "begin") || is(at + 1, n, "end"))
        *skip += group_at(at + *skip);
    return listed(at, n + 1) < N_LETTERS ? n + 1 : 0;
}

/* Find the letter with its index, or the letter alone. Sets the length of what was read; an index that is not
 * part of the letter is read next. */
static size_t with_index(const char *at, size_t n, size_t *length)
{
    char   any[] = "x_{\\ldots}";
    size_t index = at[n] == '_' ? group_at(at + n + 1) : 0, found;

    *length = n;
    if (!index)
        return listed(at, n);
    found = listed(at, n + 1 + index);
    if (found == N_LETTERS && n == 1) {
        any[0] = *at;
        found  = listed(any, strlen(any));
    }
    if (found < N_LETTERS) {
        *length = n + 1 + index;
        return found;
    }
    return listed(at, n);
}

/* Return whether the table of a derivation has a letter; a quantity without a letter of its own is
 * \mathrm{name} there. */
static bool in_table(const lm_derivation *d, const char *latex)
{
    const char *name = strncmp(latex, "\\mathrm{", 8) == 0 ? latex + 8 : "";

    for (size_t i = 0; d && i < d->n_symbols; i++) {
        const lm_symbol *s = &d->symbols[i];
        if (!s->used || !s->meaning)
            continue;
        size_t n = s->name && !s->latex ? strlen(s->name) : 0;
        if (s->latex ? strcmp(s->latex, latex) == 0
                     : n && strncmp(name, s->name, n) == 0 && strcmp(name + n, "}") == 0)
            return true;
    }
    return false;
}

size_t lm_find_letters(const lm_card_formula formulas[LM_CARD_LINES], const lm_derivation *d,
                       const lm_letter *out[LM_MAX_LETTERS])
{
    bool   seen[N_LETTERS + 1] = { false };
    size_t n = 0, skip;

    for (int i = 0; i < LM_CARD_LINES && formulas[i].latex; i++)
        for (const char *at = formulas[i].latex; *at; at += skip) {
            size_t length = letter_at(at, &skip);
            if (length)
                seen[with_index(at, length, &skip)] = true;
        }
    for (size_t i = 0; i < N_LETTERS && n < LM_MAX_LETTERS; i++)
        if (seen[i] && !in_table(d, letters[i].latex))
            out[n++] = &letters[i];
    return n;
}
