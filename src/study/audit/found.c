/* found.c - collect the statements of a document and the lines without one, and decide when a statement may be called wrong. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "study/audit/reading.h"
#include "study/facts/claim.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/number.h"

static void *grow(lm_audit_document *d, void *list, size_t n, size_t *room, size_t size)
{
    if (n < *room)
        return list;
    void *grown = lm_realloc(list, 2 * (*room + 16) * size);
    if (!grown) {
        d->failed = true;
        return NULL;
    }
    *room = 2 * (*room + 16);
    return grown;
}

/* Return the statement of the same quantity by the same number, of which there is only one; NULL: none. */
static lm_audit_statement *stated(const lm_audit_document *d, lm_extent value, int model, const char *quantity)
{
    for (size_t i = d->n_statements; i-- > 0;) {
        lm_audit_statement *x = &d->statements[i];
        bool same = !d->candidates || !*quantity || strcmp(x->model, d->known[model].name) == 0;
        if (x->at == (size_t)(value.s - d->text) && strcmp(x->quantity, quantity) == 0 && same)
            return x;
        if (x->line < d->line)
            break;
    }
    return NULL;
}

void lm_add_statement(lm_audit_document *d, lm_extent value, int model, const char *quantity, const char *claim, bool unsure)
{
    size_t              line = d->line;
    lm_audit_statement *list;

    if (!quantity || !claim || model < 0 || !d->n_known) {
        d->failed |= !quantity || !claim;
        return;
    }
    lm_audit_statement *before = stated(d, value, model, quantity);
    if (before) {
        before->unsure &= unsure || (d->aside && *quantity);             /* one reading is certain */
        return;
    }
    for (const char *p = d->from; p < value.s; p++)
        line += *p == '\n';
    if (!(list = grow(d, d->statements, d->n_statements, &d->room_statements, sizeof *list)))
        return;
    d->statements = list;
    list[d->n_statements++] = (lm_audit_statement){ .line = line, .at = (size_t)(value.s - d->text), .size = value.n,
                                                    .model = d->known[model].name, .quantity = quantity, .claim = claim,
                                                    .unsure = unsure || ((d->aside || d->candidates) && *quantity),
                                                    .candidate = d->candidates && *quantity };
}

void lm_add_value(lm_audit_document *d, lm_extent value, int model, const char *quantity, bool unsure)
{
    lm_add_statement(d, value, model, quantity, lm_arena_strndup(&d->arena, value.s, value.n), unsure);
}

void lm_add_judged(lm_audit_document *d, lm_extent passage, const char *truth, const char *why)
{
    size_t before = d->n_statements;

    lm_add_value(d, passage, 0, "", false);
    if (d->n_statements == before)
        return;
    lm_audit_statement *s = &d->statements[before];
    s->model = "";
    s->judged.verdict = LM_CLAIM_WRONG;
    snprintf(s->judged.truth, sizeof s->judged.truth, "%s", truth);
    snprintf(s->judged.why, sizeof s->judged.why, "%s", why);
}

void lm_add_rule(lm_audit_document *d, lm_extent passage, const char *rule)
{
    size_t before = d->n_statements;

    lm_add_judged(d, passage, "", "");
    if (d->n_statements == before)
        return;
    d->statements[before].judged.verdict = LM_CLAIM_CONFIRMED;
    snprintf(d->statements[before].judged.path, sizeof d->statements[before].judged.path, "%s", rule);
}

void lm_add_checked(lm_audit_document *d, lm_extent passage, lm_claim verdict, double percent, const char *why)
{
    size_t before = d->n_statements;

    lm_add_judged(d, passage, lm_arena_printf(&d->arena, "%.4g%%", percent), verdict == LM_CLAIM_WRONG ? why : "");
    if (d->n_statements > before)
        d->statements[before].judged.verdict = verdict;
}

void lm_add_unread(lm_audit_document *d, lm_extent line)
{
    lm_audit_unread *list = d->candidates ? NULL : grow(d, d->unread, d->n_unread, &d->room_unread, sizeof *list);

    if (!list)
        return;
    line = lm_trim(line);
    size_t n = strcspn(line.s, "\n");                    /* the first line is enough to find it */
    d->unread = list;
    d->unread[d->n_unread++] = (lm_audit_unread){ .line = d->line, .text = lm_arena_strndup(&d->arena, line.s, n < line.n ? n : line.n) };
    d->failed |= !d->unread[d->n_unread - 1].text;
}

const lm_audit_statement *lm_audit_statement_at(const lm_audit_document *d, size_t i)
{
    return d && i < d->n_statements ? &d->statements[i] : NULL;
}

const lm_audit_unread *lm_audit_unread_at(const lm_audit_document *d, size_t i)
{
    return d && i < d->n_unread ? &d->unread[i] : NULL;
}

/* ---- judging ---- */

/* "40-43 GB": read a range; one that contains the fact is less precise than it could be. */
static bool read_range(const char *claim, bool bytes, double *low, double *high)
{
    const char *p = claim + strcspn(claim, "0123456789"), *q;
    lm_numeral  a, b;
    size_t      n = lm_read_numeral(p, bytes, &a, NULL);

    if (!n)
        return false;
    q = p + n + strcspn(p + n, "0123456789");
    if (!lm_read_numeral(q, bytes, &b, NULL) || q - (p + n) > 8)
        return false;
    double unit = !a.power && b.power && b.value != 0 ? pow(b.kibi ? 1024 : 1000, b.power) : 1;
    *low  = a.value * unit;
    *high = b.value;
    return *low < *high && *low >= *high / 4;
}

static bool starts(const char *s, const char *with)
{
    return strncmp(s, with, strlen(with)) == 0;
}

/* Return whether the number is the size in the model's name ("7B" for 7.6B parameters), which is not a wrong parameter count. */
static bool is_in_name(const lm_audit_statement *s)
{
    const char *p = s->claim + strcspn(s->claim, "0123456789"), *name = s->model;
    size_t      n = strspn(p, "0123456789.");

    for (; n && p[n] != ',' && *name; name++)
        if (strncasecmp(name, p, n) == 0 && strchr("bBmM", name[n]) && name[n] && strspn(name, "0123456789.") == n)
            return true;
    return false;
}

/* Return whether the size may be that of a file, since files of a type are not all quantised alike. `ratio`, `binary`: claimed size /
 * true size, with prefixes as powers of 1000 and of 1024. */
static bool may_be_packed_so(const char *path, double truth, double ratio, double binary)
{
    bool   q8 = starts(path, "weights.as.Q8_0");         /* everything except vectors and the tokenizer is in this type */
    double open = q8 ? 0.01 + 12e6 / truth : 0.04;       /* others keep some matrices in another type */

    return (starts(path, "weights.as.Q") || starts(path, "weights.as.IQ")) && (fabs(ratio - 1) < open || fabs(binary - 1) < open);
}

/* Return whether trailing zeros may be rounding: in "200k" perhaps only one digit is significant. */
static bool may_be_coarse(const lm_claimed *c, double truth)
{
    double coarse = 0.5 * pow(10, c->is.zeros) * pow(1000, c->is.power);

    return c->is.power && c->is.zeros && fabs(c->is.value - truth) <= fmin(coarse, 0.1 * fabs(truth));
}

static bool is_of_mlp(const char *quantity, const char *path)
{
    return strstr(path, ".mlp.") || strstr(quantity, "gate_proj") || strstr(quantity, "up_proj") || strstr(quantity, "down_proj");
}

/* Return whether a count may be of one expert or of all, or of heads with or without the part that is rotated. */
static bool is_of_parts(lm_facts *f, const lm_audit_statement *s, const lm_judgement *j)
{
    bool method = starts(j->path, "kv.by_method.m") && !starts(j->path, "kv.by_method.mla");

    return (is_of_mlp(s->quantity, j->path) && lm_facts_has_at(f, "mlp.experts")) ||
           (method && lm_facts_has_at(f, "attention.latent.kv_rank"));
}

/* Return whether a claim that differs from the fact may have been meant differently from how it was read. */
static bool doubtful(lm_facts *f, const lm_audit_statement *s, const lm_judgement *j)
{
    char      *end;
    double     truth = lm_read_double(j->truth, &end);
    bool       bytes = strstr(j->path, "bytes") != NULL || starts(j->path, "kv.") || starts(j->path, "weights.");
    lm_claimed c;

    if (s->unsure || is_of_parts(f, s, j))
        return true;
    if (*end || !lm_read_claim(s->claim, bytes, &c) || truth == 0)
        return false;
    double ratio = c.is.value / truth;
    if ((!s->precise && may_be_coarse(&c, truth)) || may_be_packed_so(j->path, truth, ratio, c.is.binary / truth))
        return true;
    if (starts(j->path, "flops.") && strchr(s->quantity, '|'))           /* the operations that are counted are not stated */
        return ratio > 0.05 && ratio < 20;
    if (starts(j->path, "parameters.total") && is_in_name(s))
        return true;
    if (starts(j->path, "architecture.context"))         /* the context may be given with or without RoPE scaling */
        return lm_facts_has_at(f, "rope.original_context") || ratio == 4;
    return starts(j->path, "attention.head_dim") && lm_facts_has_at(f, "attention.latent.kv_rank");
}

/* Judge the highest context of a range such as "4-32K". A context that RoPE is scaled to may be the highest one. */
static void judge_contexts(lm_facts *f, const lm_audit_statement *s, lm_judgement *out)
{
    lm_numeral  a, b;
    const char *p = s->claim + strcspn(s->claim, "0123456789");
    size_t      n = lm_read_numeral(p, false, &a, NULL), gap = n ? strcspn(p + n, "0123456789") : 0;
    double      truth = lm_facts_number(f, "architecture.context");

    if (!n || gap < 1 || gap > 5 || !lm_read_numeral(p + n + gap, false, &b, NULL) || b.power != 1 || a.value >= b.value || !(truth > 0))
        return;
    bool same   = fabs(b.value - truth) <= 0.05 * truth, scaled = lm_facts_has_at(f, "rope.original_context") || b.binary == 4 * truth;
    out->verdict = same ? LM_CLAIM_ROUNDED : scaled ? LM_CLAIM_NOT_CHECKABLE : LM_CLAIM_WRONG;
    snprintf(out->why, sizeof out->why, "%s", "a range");
}

static void judge_range(lm_facts *f, const lm_audit_statement *s, lm_judgement *out)
{
    double low, high, truth;
    char *end;

    if (out->verdict != LM_CLAIM_NOT_CHECKABLE || !*out->truth)
        return;
    if (!read_range(s->claim, strstr(out->path, "bytes") != NULL, &low, &high)) {
        if (strcmp(out->path, "architecture.context") == 0)
            judge_contexts(f, s, out);
        return;
    }
    truth = lm_read_double(out->truth, &end);
    if (*end)
        return;
    out->verdict = truth >= low && truth <= high ? LM_CLAIM_ROUNDED : LM_CLAIM_WRONG;
    snprintf(out->why, sizeof out->why, "%s", "a range");
}

/* Compare formulas by their signs, too. */
static void judge_formula(const lm_audit_statement *s, lm_judgement *out)
{
    if (!starts(out->path, "formulas."))
        return;
    bool same = lm_same_formula(s->claim, out->truth);
    out->verdict = same ? LM_CLAIM_CONFIRMED : LM_CLAIM_NOT_CHECKABLE;
    snprintf(out->why, sizeof out->why, "%s", same ? "" : "different wording, not comparable");
}

/* A formula that is one of several of the model's is right; keys without all of their parts are not. */
static void judge_part(const lm_audit_statement *s, lm_judgement *out)
{
    const char *part = starts(s->quantity, "formulas.") ? strstr(out->truth, s->claim) : NULL;

    if (strcmp(s->quantity, "formulas.latent_keys") == 0 && out->verdict != LM_CLAIM_CONFIRMED && *out->truth)
        out->verdict = LM_CLAIM_WRONG;
    else if (part && out->verdict == LM_CLAIM_NOT_CHECKABLE && part > out->truth + 1 && part[-2] == ',')
        out->verdict = LM_CLAIM_ROUNDED;
}

/* Return whether the claim has only one digit: a match may be chance. */
static bool says_little(const char *claim)
{
    size_t digits = 0;

    for (const char *p = claim; *p; p++)
        digits += *p >= '0' && *p <= '9';
    return digits == 1;
}

lm_status lm_audit_judge(const lm_audit_statement *s, lm_facts *f, lm_judgement *out, lm_error *e)
{
    LM_REQUIRE(e, s && out);
    *out = s->judged;
    if (!f || !*s->quantity)
        return LM_OK;
    bool first = true;
    for (const char *p = s->quantity; *p;) {
        lm_judgement one;
        char         name[160];
        size_t       n = strcspn(p, "|");
        snprintf(name, sizeof name, "%.*s", (int)n, p);
        LM_TRY(lm_facts_judge(f, name, s->claim, &one, e));
        judge_range(f, s, &one);
        judge_formula(s, &one);
        judge_part(s, &one);
        if (first || one.verdict < out->verdict)
            *out = one;
        first = false;
        p += n + (p[n] == '|');
    }
    bool large  = starts(out->path, "parameters.total");         /* "3B": its size is information too */
    bool chance = s->unsure && !s->likely && !large && says_little(s->claim) && !strstr(s->quantity, "_proj.heads") &&
                  !starts(s->quantity, "formulas.");
    if ((out->verdict == LM_CLAIM_WRONG && doubtful(f, s, out)) || (out->verdict < LM_CLAIM_WRONG && chance)) {
        out->verdict = LM_CLAIM_NOT_CHECKABLE;
        snprintf(out->why, sizeof out->why, "%s", "different wording, not comparable");
    }
    return LM_OK;
}
