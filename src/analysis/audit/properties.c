/* properties.c - properties that a text states in words: "self-attention is permutation invariant", "RoPE extrapolates well".
 *
 * Each item of a sentence becomes a letter. A clause is judged if it consists of a subject, a property, and words that only affirm or deny
 * it. A statement under a condition ("with scaling") or with a hedge ("often said") is not judged. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "analysis/audit/reading.h"

#define N_(text) text                /* mark for translation; the program translates it when it is shown */

enum {
    HARMLESS = '.', UNKNOWN = '?', BREAK = ',', DOUBT = 'd', HEDGE = 'h',
    ATTENTION = 'a', ROTARY = 'r', LEARNED = 'l', SINUSOIDAL = 's', LINEAR = 'b',        /* subjects; LINEAR: biases of scores */
    INVARIANT = 'i', EQUIVARIANT = 'e', EXTRAPOLATES = 'x', EXTRAPOLATION = 'n',         /* properties */
    GOOD = '+', POOR = '-', ENABLES = 'v', DENIAL = '!',
    TICK = 'Y', CROSS = 'Z',         /* count if no word affirms or denies */
    MAY_DENY = 'm',                  /* a text in another language that may contain a negation */
    SCALED = 'c', FREQUENCY = 'f',   /* conditions: positions are scaled; their frequencies, or the window, are others */
    PART = 'k', CONTEXT = 'C',       /* of attention: the order of keys, of the context, has no effect on one query */
    NEED = 'u', UNLESS = 'U', CONTRAST = 'B',
};

static const char subjects[] = { ATTENTION, ROTARY, LEARNED, SINUSOIDAL, LINEAR, '\0' };
static const char properties[] = { INVARIANT, EQUIVARIANT, EXTRAPOLATES, EXTRAPOLATION, '\0' };
static const char plain[] = { HARMLESS, CONTEXT, BREAK, GOOD, POOR, ENABLES, DENIAL, TICK, CROSS, '\0' };

/* A property that a subject has (`holds`) or lacks. truth NULL: the opposite is disputed, and not called wrong. */
static const struct { char subject, property; bool holds; const char *rule, *truth, *why; } facts[] = {
    { ATTENTION, INVARIANT, false, "attention is permutation equivariant", "permutation equivariant",
      N_("permuted inputs give permuted outputs") },
    { ATTENTION, EQUIVARIANT, true, "attention is permutation equivariant", NULL, NULL },
    { ROTARY, EXTRAPOLATES, false, "RoPE does not extrapolate by itself", "no, not by itself; needs frequency scaling",
      N_("positions beyond the trained length are unknown") },
    { LEARNED, EXTRAPOLATES, false, "learned positions end with their table", "no",
      N_("positions beyond the trained length are unknown") },
    { SINUSOIDAL, EXTRAPOLATES, false, "sinusoidal positions extrapolate poorly", NULL, NULL },
    { LINEAR, EXTRAPOLATES, true, "ALiBi extrapolates", NULL, NULL },
};

/* ---- letters ---- */

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

static bool begins(const lm_item *x, const char *word, size_t n)
{
    return x->at.n >= n && strncasecmp(x->at.s, word, n) == 0;
}

/* Return whether the item is one of the words or, if `beginning`, begins with one. */
static bool is_among(const lm_item *x, const char *list, bool beginning)
{
    int first = tolower((unsigned char)*x->at.s);

    for (const char *p = list; p[1];) {
        const char *word = p + 1;
        p = strchr(word, ' ');
        size_t n = (size_t)(p - word);
        if ((unsigned char)*word == first && begins(x, word, n) && (beginning || x->at.n == n))
            return true;
    }
    return false;
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
        if (begins(&items[i], kinds[k].word, strlen(kinds[k].word)))
            return kinds[k].letter;
    bool named = next ? is_among(next, " absolute position ", true) : cell;
    return begins(&items[i], "learned", 7) && named ? LEARNED : UNKNOWN;
}

/* Return the letter of a property or subject of the vocabulary; 0: none. "To extrapolate, …" says nothing, "able to extrapolate" does. */
static char property_of(const lm_item *items, size_t i)
{
    static const struct { const char *value; char letter; } values[] = {
        { "invariant", INVARIANT }, { "equivariant", EQUIVARIANT }, { "extrapolates", EXTRAPOLATES }, { "extrapolation", EXTRAPOLATION },
        { "attention", ATTENTION },
    };
    bool to   = i && is_among(&items[i - 1], " to ", false);
    bool able = i > 1 && is_among(&items[i - 2], " ability able capability unable inability fails fail struggles struggle ", false);

    for (size_t k = 0; items[i].role == LM_UNKNOWN && k < sizeof values / sizeof *values; k++)
        if (lm_vocable_is(items[i].word, values[k].value))
            return values[k].letter == EXTRAPOLATES && to && !able ? UNKNOWN : values[k].letter;
    return '\0';
}

/* Return the letter of a word in the lists; 0: none. */
static char listed_letter(const lm_item *x)
{
    for (size_t k = 0; k < sizeof beginnings / sizeof *beginnings; k++)
        if (is_among(x, beginnings[k].list, true))
            return beginnings[k].letter;
    for (size_t k = 0; k < sizeof whole / sizeof *whole; k++)
        if (is_among(x, whole[k].list, false))
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
        if (is_among(x, places[i].list, false))
            return is_among(x - 1, places[i].before, false);
    return false;
}

static bool names_attention(const lm_item *x)
{
    return is_among(x, " self-attention attention ", true) || begins(x, "self attention", 14) || begins(x, "multi-head attention", 20);
}

static char letter_of(const lm_item *items, size_t n, size_t i, bool cell)
{
    const lm_item *x = &items[i];
    char           letter = property_of(items, i);

    if (!letter && lm_vocable_is(x->word, "kind"))
        letter = positions_of(items, n, i, cell);
    if (!letter && i && is_among(x, " t ", false) && is_among(x - 1, " doesn don isn aren can won wouldn ", false))
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
        bool   lacks = is_among(&items[i], " without ", false);
        for (size_t k = i + 1; k < n && (lacks || is_among(&items[i], " especially particularly ", false)); k++) {
            bool left_out = letters[k] == SCALED || (lacks && is_among(&items[k], " position encod embed information ", true));
            if (!left_out && !is_among(&items[k], " any the extra additional further explicit frequency rope or and with when ", false))
                break;
            last = left_out ? k : last;
        }
        if (last)
            memset(letters + i, HARMLESS, last - i + 1);
    }
}

static void read_letters(const lm_item *items, char *letters, size_t n, bool cell)
{
    for (size_t i = 0; i < n; i++)
        letters[i] = letter_of(items, n, i, cell);
    excuse(items, letters, n);
}

/* ---- clauses ---- */

typedef struct clause {
    char   subject, property;
    size_t named, at;                /* the indices of both */
    size_t good, poor, enables, denials, ticks, crosses;
    bool   unclear, context;
} clause;

static void count(clause *c, char letter)
{
    c->good    += letter == GOOD;
    c->poor    += letter == POOR;
    c->enables += letter == ENABLES;
    c->denials += letter == DENIAL;
    c->ticks   += letter == TICK;
    c->crosses += letter == CROSS;
    c->context |= letter == CONTEXT;
    c->unclear |= !strchr(plain, letter);
}

static clause survey(const char *letters, size_t from, size_t to)
{
    clause c = { .subject = '\0' };

    for (size_t i = from; i < to; i++) {
        if (strchr(subjects, letters[i])) {
            c.unclear |= c.subject && c.subject != letters[i];
            c.named   = c.subject ? c.named : i;
            c.subject = letters[i];
        } else if (strchr(properties, letters[i])) {
            c.unclear |= c.property != '\0';
            c.property = letters[i];
            c.at       = i;
        } else {
            count(&c, letters[i]);
        }
    }
    return c;
}

/* Return whether the clause affirms and denies the property at the same time, or says something else. */
static bool is_ambiguous(const clause *c, size_t negative)
{
    bool mixed = c->good && c->poor, marks = c->crosses && (c->ticks || c->good || c->enables);

    return c->unclear || mixed || marks || negative > 1 || (c->context && c->subject == ATTENTION);
}

/* Return whether the clause affirms the property (1), denies it (-1) or does neither (0). */
static int polarity(const clause *c)
{
    bool   words = c->good || c->poor || c->enables || c->denials;
    bool   good  = c->good || c->enables || (c->ticks && !words);
    size_t negative = c->denials + (c->poor || (c->crosses && !words));

    if (is_ambiguous(c, negative))
        return 0;
    return negative ? -1 : c->property == EXTRAPOLATION && !good ? 0 : 1;
}

/* Add what the clause says. `mild`: it may be meant differently, and is not called wrong. */
static bool add(lm_audit_document *d, const clause *c, lm_extent at, bool mild)
{
    char property = c->property == EXTRAPOLATION ? EXTRAPOLATES : c->property;
    int  says     = polarity(c);

    for (size_t i = 0; says && i < sizeof facts / sizeof *facts; i++) {
        bool right = (says > 0) == facts[i].holds;
        if (facts[i].subject != c->subject || facts[i].property != property || (!right && (mild || !facts[i].truth)))
            continue;
        if (right)
            lm_add_rule(d, at, facts[i].rule);
        else
            lm_add_judged(d, at, facts[i].truth, facts[i].why);
        return true;
    }
    return false;
}

/* ---- sentences ---- */

/* Return the subject that the sentence begins with, if it has no other one: "RoPE rotates queries and extrapolates". */
static char lead_of(const char *letters, size_t n)
{
    size_t i = 0;
    char   lead;

    while (i < n && letters[i] == HARMLESS)
        i++;
    lead = i < n && strchr(subjects, letters[i]) ? letters[i] : '\0';
    for (; i < n; i++)
        if (letters[i] != lead && strchr(subjects, letters[i]))
            return '\0';
    return lead;
}

/* Return whether something outside of the clause from `from` to `to` may change what it says. `wrong`: the clause is wrong as it is. */
static bool is_limited(const char *letters, size_t n, size_t from, size_t to, char subject, bool wrong)
{
    bool need = memchr(letters, NEED, n) || memchr(letters, UNLESS, n);

    for (size_t i = 0; i < n; i++) {
        char x = letters[i];
        if (i >= from && i < to)
            continue;
        if ((x == SCALED || x == FREQUENCY) && (wrong || !need))
            return true;
        bool other = strchr(subjects, x) && x != subject;
        if (wrong && (other || (x == CONTRAST && i >= to) || (x == PART && subject == ATTENTION) || strchr("-!m" "ie", x)))
            return true;
    }
    return false;
}

/* Give the clause its subject if it names none: that of the sentence before a verb, or `listed`, that of its list; 0: there is none. */
static void find_subject(const lm_audit_document *d, const char *letters, size_t n, size_t from, char listed, clause *c)
{
    while (strchr("." "Y" "Z" "!", letters[from]) && letters[from])
        from++;
    if (c->property != EXTRAPOLATION && from == c->at)
        c->subject = lead_of(letters, n);
    if (c->subject || !listed || strpbrk(letters, subjects))
        return;
    bool own = c->good || c->poor || c->enables || c->denials || c->ticks || c->crosses;
    c->subject = listed;
    c->good += !own && d->listed.praise > 0;
    c->poor += !own && c->property == EXTRAPOLATION && d->listed.praise < 0;
}

/* "Given enough data, RoPE …": return whether the sentence begins with a clause, before `from`, of unknown words without a subject. */
static bool has_condition_before(const char *letters, size_t from)
{
    size_t first = strcspn(letters, ",");
    bool   unknown = false;

    for (size_t i = 0; i < first && first < from; i++) {
        if (strchr(subjects, letters[i]))
            return false;
        unknown |= letters[i] == UNKNOWN;
    }
    return unknown;
}

/* Return whether p is within quotation marks that open on its line. */
static bool is_quoted(const lm_audit_document *d, const char *p)
{
    const char *from = p;
    bool        open = false;

    while (from > d->text && from[-1] != '\n')
        from--;
    for (; from < p; from++)
        open = *from == '"' ? !open : strncmp(from, "“", 3) == 0 || (open && strncmp(from, "”", 3) != 0);
    return open;
}

/* Judge the clause of a sentence from `from` to `to`. `letters` ends in a NUL. */
static bool judge_clause(lm_audit_document *d, const lm_item *items, const char *letters, size_t n, size_t from, size_t to, char listed)
{
    clause c = survey(letters, from, to);

    if (!c.property)
        return false;
    if (c.subject)
        c.unclear |= c.property != EXTRAPOLATION && c.named > c.at;
    else
        find_subject(d, letters, n, from, listed, &c);
    bool mild = d->scaled || d->listed.doubtful || d->section.doubtful || is_limited(letters, n, from, to, c.subject, true) ||
                is_quoted(d, items[c.at].at.s) || has_condition_before(letters, from);
    return !is_limited(letters, n, from, to, c.subject, false) && add(d, &c, items[c.at].at, mild);
}

static bool judge_sentence(lm_audit_document *d, const lm_item *items, char *letters, size_t n, bool refuted, bool in_list)
{
    char end = letters[n], listed = in_list ? d->listed.subject : '\0';
    bool found = false;

    letters[n] = '\0';
    for (size_t i = 0, from = 0; i <= n && !refuted && !strpbrk(letters, "dh"); i++) {
        if (i < n && letters[i] != BREAK && letters[i] != UNLESS && letters[i] != CONTRAST)
            continue;
        found |= judge_clause(d, items, letters, n, from, i, listed);
        from = i + 1;
    }
    letters[n] = end;
    return found;
}

/* Return whether a sentence ends at the item. */
static bool ends(const lm_audit_document *d, const lm_item *x)
{
    const char *after = x->at.s + x->at.n;
    bool        last  = after >= d->text + d->size || isspace((unsigned char)*after);

    return (x->role == LM_BREAK && ((last && strchr(".!", *x->at.s)) || strncmp(x->at.s, "。", 3) == 0)) ||
           (x->role == LM_DOUBT && *x->at.s == '?');
}

/* ---- lists ---- */

/* Read what a heading, or a line that ends in a colon, says of the list below it. */
static lm_listed read_listed(const lm_item *items, const char *letters, size_t n, char subject)
{
    lm_listed l = { .subject = subject };
    clause    c = survey(letters, 0, n);

    for (size_t i = 0; i < n; i++) {
        bool versus = *items[i].at.s == '?' || lm_vocable_is(items[i].word, "versus");
        l.doubtful |= letters[i] == HEDGE || (letters[i] == DOUBT && !versus);
    }
    bool others = false;
    for (size_t i = 0; i < n; i++)
        others |= strchr(subjects, letters[i]) && letters[i] != c.subject;
    l.subject = others || c.subject == ATTENTION ? '\0' : c.subject ? c.subject : subject;
    l.praise  = !c.good == !c.poor ? 0 : c.good ? 1 : -1;
    return l;
}

void lm_audit_properties_of(lm_audit_document *d, lm_extent heading)
{
    char   letters[LM_MOST_ITEMS + 1];
    size_t n = lm_scan(d, heading, d->items, LM_MOST_ITEMS);

    read_letters(d->items, letters, n, false);
    d->section = d->listed = read_listed(d->items, letters, n, '\0');
    d->scaled  = memchr(letters, SCALED, n) != NULL;
}

/* Learn from the line what the list below it is about. "Benefits:" is about the subject of the heading, "Results:" about none, and a list
 * below a question may be of answers to choose from. */
static void name_list(lm_audit_document *d, const char *letters, size_t n, bool item, bool caption)
{
    clause c = survey(letters, 0, n);

    if (caption || (n == 1 && strchr("+-", *letters))) {
        d->listed = read_listed(d->items, letters, n, strpbrk(letters, "+-") ? d->section.subject : '\0');
        d->listed.item = item;
        d->listed.doubtful |= memchr(letters, UNKNOWN, n) || memchr(letters, DENIAL, n);
        return;
    }
    if (item) {                      /* "1. ALiBi": what is nested below it is about ALiBi */
        d->listed.subject = c.subject && !c.property && c.subject != d->listed.subject ? '\0' : d->listed.subject;
        return;
    }
    if (c.subject && c.subject != d->section.subject)
        d->section.subject = '\0';
    d->listed = d->section;
    d->listed.doubtful |= n && *d->items[n - 1].at.s == '?';
}

/* Return whether the line of a list is indented below another one. */
static bool is_nested(const lm_audit_document *d, lm_extent line)
{
    const char *from = line.s;

    while (from > d->text && from[-1] != '\n')
        from--;
    return *from == ' ' || *from == '\t';
}

bool lm_audit_properties(lm_audit_document *d, lm_extent line, bool item, bool caption)
{
    char   letters[LM_MOST_ITEMS + 1];
    size_t n = lm_scan(d, line, d->items, LM_MOST_ITEMS);
    bool   found = false, refuted = false;

    if (n == LM_MOST_ITEMS || (item && line.n > 2 && memcmp(line.s, "[ ]", 3) == 0))         /* a task that is not done */
        return false;
    read_letters(d->items, letters, n, false);
    letters[n] = '\0';
    for (size_t i = 0; i < n; i++)
        refuted |= is_among(&d->items[i], " wrong false myth misconception incorrect untrue mistake error ", false);
    refuted |= lm_has_note(line);
    name_list(d, letters, n, item, caption);
    bool listed = item && (d->listed.item || !is_nested(d, line));
    for (size_t i = 0, from = 0; i <= n; i++) {
        if (i < n && !ends(d, &d->items[i]))
            continue;
        bool question = i < n && d->items[i].role == LM_DOUBT;
        found |= i > from && !question && judge_sentence(d, d->items + from, letters + from, i - from, refuted, listed);
        from = i + 1;
    }
    d->scaled |= memchr(letters, SCALED, n) != NULL;
    return found;
}

/* ---- tables ---- */

enum { MOST_OF_CELL = 24 };

/* Return whether the text has a part of a phrase for a property. Most cells are about other things, and are not scanned. */
static bool may_name_property(lm_extent s)
{
    static const char *const parts[] = { "xtrapol", "variant", "enerali", "外推", "不变", "不變", "等变", "等變" };

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (memmem(s.s, s.n, parts[i], strlen(parts[i])))
            return true;
    return false;
}

/* Return whether the text names a condition of positions, or of attention. */
static bool is_conditional(const lm_audit_document *d, lm_extent text, bool attention)
{
    lm_item items[MOST_OF_CELL];
    char    letters[MOST_OF_CELL];
    size_t  n = lm_scan(d, text, items, MOST_OF_CELL);

    read_letters(items, letters, n, true);
    return memchr(letters, SCALED, n) || memchr(letters, attention ? PART : FREQUENCY, n);
}

/* Judge a clause of a cell whose letters follow `before` letters of its column and row. */
static bool judge_cell(lm_audit_document *d, const char *letters, size_t before, size_t from, size_t to, lm_extent at, bool mild)
{
    char   all[3 * MOST_OF_CELL];
    size_t n = before + to - from;

    memcpy(all, letters, before);
    memcpy(all + before, letters + from, to - from);
    clause c = survey(all, 0, n), own = survey(all, before, n);
    bool   says = own.property || own.good || own.poor || own.denials || own.ticks || own.crosses;
    bool   mark = own.crosses && !own.poor && !own.denials && (c.poor || c.denials);     /* a cross below "poor extrapolation" */
    return says && !mark && c.subject && c.property && add(d, &c, at, mild);
}

bool lm_audit_property_cell(lm_audit_document *d, const lm_cells *head, const lm_cells *row, size_t first, size_t i)
{
    lm_item   items[3 * MOST_OF_CELL];
    char      letters[3 * MOST_OF_CELL + 1];
    lm_extent parts[] = { i < head->n ? head->cell[i] : (lm_extent){ "", 0 }, row->cell[first], row->cell[i] };
    size_t    n = 0, before = 0;
    bool      found = false, mild = d->scaled || d->section.doubtful || d->listed.doubtful || lm_has_note(row->cell[i]);

    if (!may_name_property(parts[0]) && !may_name_property(parts[1]) && !may_name_property(parts[2]))
        return false;
    for (size_t p = 0; p < 3; p++) {
        size_t m = lm_scan(d, parts[p], items + n, MOST_OF_CELL);
        if (m == MOST_OF_CELL)
            return false;
        read_letters(items + n, letters + n, m, true);
        before = n;
        n += m;
    }
    letters[n] = '\0';
    if (!strpbrk(letters, properties) || !strpbrk(letters, subjects) || strpbrk(letters, "dhB"))
        return false;
    bool attention = strchr(letters, ATTENTION) != NULL;
    for (size_t k = 0; k < row->n; k++)
        mild |= is_conditional(d, row->cell[k], attention) || (k < head->n && is_conditional(d, head->cell[k], attention));
    bool listed = strpbrk(letters + before, properties) != NULL;         /* "relative, length extrapolation" */
    for (size_t k = before, from = before; k <= n; k++) {
        if (k < n && !(listed && is_among(&items[k], " , ; ， 、 ", false)))
            continue;
        found |= judge_cell(d, letters, before, from, k, row->cell[i], mild);
        from = k + 1;
    }
    return found;
}
