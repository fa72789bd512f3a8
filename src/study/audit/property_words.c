/* property_words.c - what words and phrases mean in a text about properties: subjects, properties, conditions, hedges, what affirms or
 * denies. Each item becomes a letter. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "study/audit/property_words.h"

typedef struct lexicon { char letter; const char *list; } lexicon;       /* in lower case, each between spaces */

static const lexicon whole[] = {
    { HARMLESS, " a an the of to in on for its it is are be does do did can has have their by itself own alone as s out box very "
                "quite naturally inherently fundamentally therefore thus hence also then note that recall nature plain vanilla standard "
                "pure longer sequence sequences length lengths beyond past during seen unseen at those multi-head "
                "tokens token input inputs order ability able capability property properties symmetry behaviour behavior quality "
                "operation mechanism layer layers encoding encodings embedding embeddings absolute method "
                "approach transformer transformers gives give offers offer provides provide shows show exhibits doesn don isn aren won "
                "wouldn 的 是 具有 " },
    { CONTEXT, " context contexts prompt prompts " },
    { GOOD, " good well excellent strong strongly great yes easily benefit advantage strength pro pros " },
    { POOR, " poor poorly weak weakly bad badly limited none drawback disadvantage limitation weakness con cons " },
    { TICK, " ✅ ✓ ✔ " },
    { CROSS, " ❌ ✗ ✘ " },
    { DENIAL, " not no cannot never fails fail struggles struggle lacks lack unable inability hardly barely doesn’t isn’t don’t can’t "
              "aren’t 不 " },
    { ENABLES, " enables enable allows allow supports support permits permit " },
    { NEED, " need needs needed require requires required requiring " },
    { UNLESS, " unless " },
    { HEDGE, " little slightly somewhat some partially partly moderately theory theoretically principle often sometimes usually generally "
             "supposedly allegedly said say says called believed believe think thought assume assumed loosely strictly better worse more "
             "less best degrade degrades until even rather precisely mistakenly wrongly incorrectly incorrect untrue inaccurate according "
             "write writes wrote written state states stated report reports reported argue argues argued repeat repeats authors author "
             "reviewer disagree modified modification changed errata erratum corrections correction corrected quiz exercise exercises "
             "pitfalls pitfall mistake mistakes claims claimed hypothesis wanted " },
    { FREQUENCY, " base theta θ swa window windows retrained retraining adjusted adjusting adjustment " },
    { PART, " key keys value values query queries q k v kv pool pooling pooled cross memory set sets score scores sum weights class cls "
            "causal causally masked mask masking decoder each one single per mean average averaged averaging readout equivariant " },
    { CONTRAST, " but while whereas although though however yet except " },
    { BREAK, " and so because since " },
};

static const lexicon beginnings[] = {
    { HARMLESS, " position " },
    { SCALED, " scal rescal interpolat yarn ntk longrope xpos fine-tun finetun " },
    { FREQUENCY, " frequenc wavelength sliding extend extension " },
    { GOOD, " benefits advantages strengths 良好 优秀 優秀 优点 優點 优势 အားသာချက် ကောင်း " },
    { POOR, " drawbacks disadvantages limitations weaknesses 较差 較差 有限 缺点 缺點 အားနည်းချက် " },
};

/* Return whether the item is one of the words of the list or, if `beginning`, begins with one. */
static bool matches(const lm_item *x, const char *list, bool beginning)
{
    int first = tolower((unsigned char)*x->at.s);

    for (const char *p = list; p[1];) {
        const char *word = p + 1;
        p = strchr(word, ' ');
        size_t n = (size_t)(p - word);
        if ((unsigned char)*word == first && (beginning ? x->at.n >= n : x->at.n == n) && strncasecmp(x->at.s, word, n) == 0)
            return true;
    }
    return false;
}

bool lm_is_among(const lm_item *x, const char *list)
{
    return matches(x, list, false);
}

static bool begins_among(const lm_item *x, const char *list)
{
    return matches(x, list, true);
}

static bool is_burmese(const unsigned char *p)
{
    return p[0] == 0xe1 && p[1] >= 0x80 && p[1] <= 0x82;
}

/* Return the letter of Burmese or Chinese text. Burmese is harmless unless it may contain a negation, "မ" before a consonant. */
static char unspaced_letter(lm_extent s)
{
    static const struct { const char *word; char letter; } chinese[] = {
        { "不", MAY_DENY }, { "没", MAY_DENY }, { "沒", MAY_DENY }, { "無", MAY_DENY }, { "无", MAY_DENY }, { "非", MAY_DENY }, { "未", MAY_DENY },
        { "难", MAY_DENY }, { "難", MAY_DENY }, { "插值", SCALED }, { "缩放", SCALED }, { "縮放", SCALED }, { "微调", SCALED }, { "微調", SCALED },
        { "查询", PART }, { "查詢", PART }, { "键", PART }, { "鍵", PART }, { "池化", PART }, { "输出", PART }, { "輸出", PART },
    };
    char found = HARMLESS;

    for (size_t k = 0; k < sizeof chinese / sizeof *chinese; k++)
        if (memmem(s.s, s.n, chinese[k].word, strlen(chinese[k].word)))
            return chinese[k].letter;
    for (size_t i = 0; i + 2 < s.n; i += 3) {
        const unsigned char *p = (const unsigned char *)s.s + i;
        if (!is_burmese(p))
            return UNKNOWN;
        if (memcmp(p, "မ", 3) == 0 && i + 5 < s.n && is_burmese(p + 3) && p[4] == 0x80 && p[5] <= 0xa1)
            found = MAY_DENY;
    }
    return s.n % 3 ? UNKNOWN : found;
}

/* Return the letter of a kind of positions. "Learned" is one before "positions", or as a whole cell. */
static char positions_of(const lm_item *items, size_t n, size_t i, bool cell)
{
    static const struct { const char *word; char letter; } kinds[] = {
        { "rope", ROTARY }, { "rotary", ROTARY }, { "sinusoidal", SINUSOIDAL }, { "alibi", LINEAR }, { "yarn", SCALED },
        { "swa", FREQUENCY },
    };
    const lm_item *next = i + 1 < n ? &items[i + 1] : NULL;

    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (lm_word_begins(items[i].at, kinds[k].word))
            return kinds[k].letter;
    bool named = next ? begins_among(next, " absolute position ") : cell;
    return lm_word_begins(items[i].at, "learned") && named ? LEARNED : UNKNOWN;
}

/* Return the letter of a property or subject of the vocabulary; 0: none. "To extrapolate, …" says nothing, "able to extrapolate" does. */
static char property_of(const lm_item *items, size_t i)
{
    static const struct { const char *value; char letter; } values[] = {
        { "invariant", INVARIANT }, { "equivariant", EQUIVARIANT }, { "extrapolates", EXTRAPOLATES }, { "extrapolation", EXTRAPOLATION },
        { "attention", ATTENTION },
    };
    bool to   = i && lm_is_among(&items[i - 1], " to ");
    bool able = i > 1 && lm_is_among(&items[i - 2], " ability able capability unable inability fails fail struggles struggle ");

    for (size_t k = 0; items[i].role == LM_UNKNOWN && k < sizeof values / sizeof *values; k++)
        if (lm_vocable_is(items[i].word, values[k].value))
            return values[k].letter == EXTRAPOLATES && to && !able ? UNKNOWN : values[k].letter;
    return '\0';
}

/* Return the letter of a word in the lists; 0: none. */
static char listed_letter(const lm_item *x)
{
    for (size_t k = 0; k < sizeof beginnings / sizeof *beginnings; k++)
        if (begins_among(x, beginnings[k].list))
            return beginnings[k].letter;
    for (size_t k = 0; k < sizeof whole / sizeof *whole; k++)
        if (lm_is_among(x, whole[k].list))
            return whole[k].letter;
    return '\0';
}

/* Return the letter of punctuation, a model or an unknown word. */
static char other_letter(const lm_item *x, bool cell)
{
    bool sign = x->role != LM_NUMBER && !isalnum((unsigned char)*x->at.s);

    if (x->role == LM_DOUBT)
        return cell && *x->at.s == '?' ? HARMLESS : DOUBT;
    if (x->role == LM_BREAK && sign)
        return BREAK;
    if (x->role == LM_UNKNOWN && (*x->at.s & 0x80))
        return strncmp(x->at.s, "⚠", 3) == 0 || strncmp(x->at.s, "\xef\xb8\x8f", 3) == 0 ? HARMLESS : unspaced_letter(x->at);
    return sign && x->role != LM_UNKNOWN && x->role != LM_LEAD && x->role != LM_TIMES ? HARMLESS : UNKNOWN;
}

/* Return whether the item is a word that is harmless behind some words only: "beyond the trained length", "longer than seen". "Trained on
 * long sequences" is a condition. */
static bool is_harmless_there(const lm_item *x)
{
    static const struct { const char *list, *before; } places[] = {
        { " trained training ", " beyond past the its their in during than " }, { " long ", " to very " }, { " than ", " longer beyond " },
    };

    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (lm_is_among(x, places[i].list))
            return lm_is_among(x - 1, places[i].before);
    return false;
}

static bool names_attention(const lm_item *x)
{
    return begins_among(x, " self-attention attention ") || lm_word_begins(x->at, "self attention") ||
           lm_word_begins(x->at, "multi-head attention");
}

static char letter_of(const lm_item *items, size_t n, size_t i, bool cell)
{
    const lm_item *x = &items[i];
    char           letter = property_of(items, i);

    if (!letter && lm_vocable_is(x->word, "kind"))
        letter = positions_of(items, n, i, cell);
    if (!letter && i && lm_is_among(x, " t ") && lm_is_among(x - 1, " doesn don isn aren can won wouldn "))
        letter = DENIAL;
    if (!letter && i && is_harmless_there(x))
        letter = HARMLESS;
    if (!letter && names_attention(x))
        letter = ATTENTION;
    if (!letter)
        letter = listed_letter(x);
    return letter ? letter : other_letter(x, cell);
}

/* "Without scaling", "without positional encodings": it is the plain subject; "especially with scaling": it is meant without it, too. */
static void excuse(const lm_item *items, char *letters, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t last = 0;
        bool   lacks = lm_is_among(&items[i], " without ");
        for (size_t k = i + 1; k < n && (lacks || lm_is_among(&items[i], " especially particularly ")); k++) {
            bool left_out = letters[k] == SCALED || (lacks && begins_among(&items[k], " position encod embed information "));
            if (!left_out && !lm_is_among(&items[k], " any the extra additional further explicit frequency rope or and with when "))
                break;
            last = left_out ? k : last;
        }
        if (last)
            memset(letters + i, HARMLESS, last - i + 1);
    }
}

void lm_read_property_words(const lm_item *items, char *letters, size_t n, bool cell)
{
    for (size_t i = 0; i < n; i++)
        letters[i] = letter_of(items, n, i, cell);
    excuse(items, letters, n);
}
