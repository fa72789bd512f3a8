/* claim.c - parse the words around a number: bounds, "about", and text that makes it more than a number. */
#include "study/claims/claim.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* ---- words before a number ---- */

static const struct { const char *word; int bound; bool about; } leads[] = {
    { "at least", 1, false },     { "more than", 1, false },  { "over", 1, false },          { "above", 1, false },
    { ">=", 1, false },           { "≥", 1, false },          { ">", 1, false },             { "at most", -1, false },
    { "less than", -1, false },   { "fewer than", -1, false }, { "up to", -1, false },        { "under", -1, false },
    { "below", -1, false },       { "<=", -1, false },        { "≤", -1, false },            { "<", -1, false },
    { "approximately", 0, true }, { "approx.", 0, true },     { "around", 0, true },         { "about", 0, true },
    { "roughly", 0, true },       { "nearly", 0, true },      { "almost", 0, true },         { "circa", 0, true },
    { "ca.", 0, true },           { "≈", 0, true },           { "~", 0, true },              { "∼", 0, true },
    { "top-", 0, false },         { "=", 0, false },          { " ", 0, false },
};

static const char *skip_leads(const char *s, lm_claimed *out)
{
    for (size_t i = 0; i < sizeof leads / sizeof *leads;) {
        size_t n    = strlen(leads[i].word);
        bool word = isalpha((unsigned char)*leads[i].word) && leads[i].word[n - 1] != '-' &&
                    leads[i].word[n - 1] != '.';
        if (strncasecmp(s, leads[i].word, n) != 0 || (word && isalpha((unsigned char)s[n]))) {
            i++;
            continue;
        }
        out->bound = leads[i].bound ? leads[i].bound : out->bound;
        out->about |= leads[i].about;
        s += n;
        i = 0;
    }
    return s;
}

/* ---- words after a number ---- */

static bool word_is(const char *s, const char *word)
{
    return strncasecmp(s, word, strlen(word)) == 0;
}

/* Return whether the text after a number makes it more than one number: "4 × hidden", "124 to 125M", "32,768
 * - 131,072", "2/3". */
static bool says_more(const char *s)
{
    const char *p = s + strspn(s, " ");
    size_t      times = lm_times_sign(s);

    if (*p == '/' || *p == '^')
        return isdigit((unsigned char)p[1]) || p[1] == ' ';
    if (*p == '-' || strncmp(p, "–", strlen("–")) == 0 || strncmp(p, "…", strlen("…")) == 0 ||
        word_is(p, "to ") || word_is(p, "or "))
        return isdigit((unsigned char)p[strcspn(p, "0123456789")]) && strcspn(p, "0123456789") <= 4;
    return times &&
           (isdigit((unsigned char)s[times]) || (s[times - 1] == ' ' && isalpha((unsigned char)s[times])));
}

static bool number_word(const char *s, lm_claimed *out)
{
    static const char *const words[] = { "zero",  "one",   "two",  "three", "four",   "five",  "six",
                                         "seven", "eight", "nine", "ten",   "eleven", "twelve" };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (word_is(s, words[i]) && !isalpha((unsigned char)s[strlen(words[i])]) &&
            s[strlen(words[i])] != '-') {
            out->is.value = out->is.binary = (double)i;
            out->is.whole = true;
            return true;
        }
    return false;
}

bool lm_read_claim(const char *text, bool bytes, lm_claimed *out)
{
    const char *s;
    size_t      n, tail;

    *out = (lm_claimed){ 0 };
    s    = skip_leads(text, out);
    if (number_word(s, out))
        return true;
    n = lm_read_numeral(s, bytes, &out->is, &tail);
    if (!n)
        return false;
    out->other |= says_more(s + tail) || (n != tail && says_more(s + n));
    if (s[tail] == '+' && !isdigit((unsigned char)s[tail + 1]))
        out->bound = 1;
    return true;
}
