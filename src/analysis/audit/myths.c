/* myths.c - what is often said of all models, or of one by its name, and is not so; and formulas that are right or are not. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "analysis/audit/reading.h"

/* Without what sets it: \text{…}, braces, spaces, dollars, stars. "$x + \text{Attn}(\text{Norm}(x))$" is "x+Attn(Norm(x))". */
static lm_extent bare(lm_reading *d, lm_extent line)
{
    char  *out = lm_arena_alloc(&d->arena, line.n + 1);
    size_t n   = 0;

    if (!out) {
        d->failed = true;
        return (lm_extent){ "", 0 };
    }
    for (size_t i = 0; i < line.n; i++) {
        size_t skip = line.n - i >= 5 && memcmp(line.s + i, "\\text", 5) == 0 ? 5 : strchr(" {}$*`\\", line.s[i]) != NULL;
        if (skip)
            i += skip - 1;
        else
            out[n++] = line.s[i];
    }
    return (lm_extent){ out, n };
}

static bool denies(lm_extent line)
{
    static const char *const words[] = { "not ", "n't ", "instead", "unlike", "poor", "limited", "fail", "❌" };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (lm_span_has(line, words[i]))
            return true;
    return false;
}

static bool has_all(lm_extent line, const char *words)
{
    for (const char *w = words; *w;) {
        char   word[64];
        size_t n = strcspn(w, "&");
        snprintf(word, sizeof word, "%.*s", (int)n, w);
        if (!lm_span_has(line, word))
            return false;
        w += n + (w[n] == '&');
    }
    return true;
}

/* Pre-norm is x + F(Norm(x)), post-norm Norm(x + F(x)). */
static bool read_norm_formula(lm_reading *d, lm_extent line, lm_extent f)
{
    bool pre = lm_span_has(line, "pre-norm"), post = lm_span_has(line, "post-norm");
    bool is_pre = lm_span_has(f, "x+Attn(Norm(x))") || lm_span_has(f, "x+F(Norm(x))") || lm_span_has(f, "x+MLP(Norm(x))") ||
        lm_span_has(f, "x+Attention(Norm(x))") ||
                  lm_span_has(f, "x+Sublayer(Norm(x))");
    bool is_post = lm_span_has(f, "Norm(x+");

    if (pre == post || is_pre == is_post)
        return false;
    bool right = pre == is_pre;
    lm_say_known(d, line, right ? LM_CLAIM_CONFIRMED : LM_CLAIM_WRONG, pre ? "x + F(Norm(x))" : "Norm(x + F(x))", right ? ""
                 : "the formula of the other");
    if (d->n_said)
        snprintf(d->said[d->n_said - 1].judged.path, sizeof d->said[0].judged.path, "the order of a norm and its part");
    return true;
}

/* "logits = W^T · h" of a matrix whose rows are looked up elsewhere as W[t]: its rows are tokens, so the logits are W h. */
static bool read_head_formula(lm_reading *d, lm_extent line, lm_extent f)
{
    size_t    from, to;
    lm_extent all = { d->text, d->size };
    char      lookup[32];

    if (!lm_span_has(f, "logits"))
        return false;
    for (to = 0; to + 2 < f.n; to++)
        if (memcmp(f.s + to, "^T", 2) == 0)
            break;
    if (to + 3 >= f.n)
        return false;
    for (from = to; from && (isalnum((unsigned char)f.s[from - 1]) || f.s[from - 1] == '_'); from--)
        ;
    bool product = memcmp(f.s + to + 2, "cdot", 4 < f.n - to - 2 ? 4 : f.n - to - 2) == 0 || f.s[to + 2] == 'h';
    snprintf(lookup, sizeof lookup, "%.*s[", (int)(to - from), f.s + from);
    if (to - from < 1 || to - from > 24 || !product || !lm_span_has(all, lookup))
        return false;
    lm_say_known(d, line, LM_CLAIM_WRONG, "W h: the rows of the matrix are the tokens", "a matrix transposed");
    return true;
}

/* "RoPE … extrapolates": not by itself. `method` or the heading says which positions, `said` what they are said to do. */
bool lm_says_plain_rope_stretches(lm_extent method, lm_extent heading, lm_extent said)
{
    bool      rope = lm_span_has(method, "rope") || lm_span_has(method, "rotary") ||
        (!method.n && (lm_span_has(heading, "rope") || lm_span_has(heading, "rotary")));
    lm_extent both[] = { method, said };

    for (size_t i = 0; i < 2; i++) {
        bool plain  = lm_span_has(both[i], "without scal") || lm_span_has(both[i], "unscaled");
        bool scaled = lm_span_has(both[i], "scal") || lm_span_has(both[i], "yarn") || lm_span_has(both[i], "ntk");
        bool others = lm_span_has(both[i], "swa") || lm_span_has(both[i], "alibi") || lm_span_has(both[i], "sliding");
        if ((scaled && !plain) || others || lm_span_has(both[i], "?") || denies(both[i]))
            return false;
    }
    return rope;
}

bool lm_read_myths(lm_reading *d, lm_extent line)
{
    lm_extent f     = bare(d, line);
    bool      found = read_norm_formula(d, line, f) | read_head_formula(d, line, f);

    if (*line.s != '|' && *line.s != '#' && (lm_span_has(line, "extrapolation to longer") ||
                                             lm_span_has(line, "extrapolates to longer") || lm_span_has(line, "good extrapolation")) &&
        lm_says_plain_rope_stretches((lm_extent){ "", 0 }, lm_span_has(line, "rope") ? line : d->heading, line)) {
        lm_say_known(d, line, LM_CLAIM_WRONG, "not by itself: beyond the trained length its frequencies must be scaled", "says too much");
        found = true;
    }
    for (const lm_myth *m = lm_myths; m->words && !denies(line); m++)
        if (has_all(line, m->words) || has_all(f, m->words)) {
            lm_say_known(d, line, LM_CLAIM_WRONG, m->truth, m->why);
            found = true;
        }
    return found;
}
