/* properties.c - properties that a text states in words: "self-attention is permutation invariant", "RoPE extrapolates well".
 *
 * Each item of a sentence becomes a letter. A clause is judged if it consists of a subject, a property, and words that only affirm or deny
 * it. A statement under a condition ("with scaling") or with a hedge ("often said") is not judged. */
#include <ctype.h>
#include <string.h>

#include "study/audit/property_words.h"

static const char subjects[] = { ATTENTION, ROTARY, LEARNED, SINUSOIDAL, LINEAR, '\0' };
static const char properties[] = { INVARIANT, EQUIVARIANT, EXTRAPOLATES, EXTRAPOLATION, '\0' };
static const char plain[] = { HARMLESS, CONTEXT, BREAK, GOOD, POOR, ENABLES, DENIAL, TICK, CROSS, '\0' };
static const char praise[] = { GOOD, POOR, '\0' }, doubts[] = { DOUBT, HEDGE, '\0' }, doubts_of_cell[] = { DOUBT, HEDGE, CONTRAST, '\0' };
static const char leading[] = { HARMLESS, TICK, CROSS, DENIAL, '\0' };             /* words that may stand before the property */
static const char opposing[] = { POOR, DENIAL, MAY_DENY, INVARIANT, EQUIVARIANT, '\0' };

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
        if (wrong && (other || (x == CONTRAST && i >= to) || (x == PART && subject == ATTENTION) || strchr(opposing, x)))
            return true;
    }
    return false;
}

/* Give the clause its subject if it names none: that of the sentence before a verb, or `listed`, that of its list; 0: there is none. */
static void find_subject(const lm_audit_document *d, const char *letters, size_t n, size_t from, char listed, clause *c)
{
    while (strchr(leading, letters[from]) && letters[from])
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
    size_t first = strcspn(letters, (char[]){ BREAK, '\0' });
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
    bool open = false;

    for (const char *from = lm_line_start(d, p); from < p; from++)
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
    for (size_t i = 0, from = 0; i <= n && !refuted && !strpbrk(letters, doubts); i++) {
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

    lm_read_property_words(d->items, letters, n, false);
    d->section = d->listed = read_listed(d->items, letters, n, '\0');
    d->scaled  = memchr(letters, SCALED, n) != NULL;
}

/* Learn from the line what the list below it is about. "Benefits:" is about the subject of the heading, "Results:" about none, and a list
 * below a question may be of answers to choose from. */
static void name_list(lm_audit_document *d, const char *letters, size_t n, bool item, bool caption)
{
    clause c = survey(letters, 0, n);

    if (caption || (n == 1 && strchr(praise, *letters))) {
        d->listed = read_listed(d->items, letters, n, strpbrk(letters, praise) ? d->section.subject : '\0');
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
    const char *from = lm_line_start(d, line.s);

    return *from == ' ' || *from == '\t';
}

bool lm_audit_properties(lm_audit_document *d, lm_extent line, bool item, bool caption)
{
    char   letters[LM_MOST_ITEMS + 1];
    size_t n = lm_scan(d, line, d->items, LM_MOST_ITEMS);
    bool   found = false, refuted = false;

    if (n == LM_MOST_ITEMS || (item && line.n > 2 && memcmp(line.s, "[ ]", 3) == 0))         /* a task that is not done */
        return false;
    lm_read_property_words(d->items, letters, n, false);
    letters[n] = '\0';
    for (size_t i = 0; i < n; i++)
        refuted |= lm_is_among(&d->items[i], " wrong false myth misconception incorrect untrue mistake error ");
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

    lm_read_property_words(items, letters, n, true);
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
        lm_read_property_words(items + n, letters + n, m, true);
        before = n;
        n += m;
    }
    letters[n] = '\0';
    if (!strpbrk(letters, properties) || !strpbrk(letters, subjects) || strpbrk(letters, doubts_of_cell))
        return false;
    bool attention = strchr(letters, ATTENTION) != NULL;
    for (size_t k = 0; k < row->n; k++)
        mild |= is_conditional(d, row->cell[k], attention) || (k < head->n && is_conditional(d, head->cell[k], attention));
    bool listed = strpbrk(letters + before, properties) != NULL;         /* "relative, length extrapolation" */
    for (size_t k = before, from = before; k <= n; k++) {
        if (k < n && !(listed && lm_is_among(&items[k], " , ; ， 、 ")))
            continue;
        found |= judge_cell(d, letters, before, from, k, row->cell[i], mild);
        from = k + 1;
    }
    return found;
}
