/* statements.c - read a document or a list of statements, and decide when a statement may be called wrong. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "study/audit/audit_document.h"
#include "study/claims/claim.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/language.h"
#include "base/number.h"

/* ---- lists of statements ---- */

static lm_status fail_at(lm_error *e, size_t line, int64_t offset, const char *what)
{
    char where[32];

    snprintf(where, sizeof where, "line %zu", line);
    return lm_fail(e, LM_USAGE, where, offset, "%s", what);
}

static size_t column_named(const lm_cells *head, const char *const *names)
{
    for (; *names; names++)
        for (size_t i = 0; i < head->n; i++)
            if (lm_extent_is(head->cell[i], *names))
                return i;
    return LM_MAX_CELLS;
}

/* Split a line at its tabs; empty cells stay. */
static void split_tabs(const char *p, lm_cells *out)
{
    const char *end = p + strcspn(p, "\r\n");

    for (out->n = 0; out->n < LM_MAX_CELLS; p++) {
        size_t n = strcspn(p, "\t\r\n");
        out->cell[out->n++] = (lm_extent){ p, n };
        p += n;
        if (p >= end)
            return;
    }
}

/* Read a text whose first line names its columns: model (or asked), quantity, and claim (or seed_value or
 * value). False: another text. */
static bool read_list(lm_audit_document *d, lm_error *e, lm_status *status)
{
    static const char *const models[] = { "asked", "model", NULL };
    static const char *const quantities[] = { "quantity", NULL };
    static const char *const claims[] = { "claim", "seed_value", "value", NULL };
    lm_cells    row;
    const char *p = d->text;

    split_tabs(p, &row);
    size_t model = column_named(&row, models), quantity = column_named(&row, quantities);
    size_t claim = column_named(&row, claims);
    if (row.n < 2 || quantity == LM_MAX_CELLS || claim == LM_MAX_CELLS)
        return false;
    size_t last = model < LM_MAX_CELLS && model > claim ? model : claim;
    last = quantity > last ? quantity : last;
    if (model == LM_MAX_CELLS && d->n_given != 1)
        *status = fail_at(e, 1, LM_NO_OFFSET, "missing columns: model, quantity and claim");
    for (d->line = 2; *status == LM_OK && (p = strchr(p, '\n')) && *++p; d->line++) {
        split_tabs(p, &row);
        if (row.n == 1 && !row.cell[0].n)
            continue;
        if (row.n <= last) {
            *status = fail_at(e, d->line, LM_NO_OFFSET, "fewer columns than the header line");
            break;
        }
        lm_extent q = row.cell[quantity], c = row.cell[claim];
        d->from = c.s;
        lm_add_statement(d, c, 0, lm_arena_strndup(&d->arena, q.s, q.n),
                         lm_arena_strndup(&d->arena, c.s, c.n), false);
        if (d->failed)
            break;
        lm_audit_statement *s = &d->statements[d->n_statements - 1];
        s->listed = true;
        if (model < LM_MAX_CELLS)
            s->model = lm_arena_strndup(&d->arena, row.cell[model].s, row.cell[model].n);
        d->failed |= !s->model;
    }
    return true;
}

/* ---- a document ---- */

lm_status lm_audit_read(const char *text, size_t size, const char *const *models, size_t n,
                        lm_audit_document **out, lm_error *e)
{
    LM_REQUIRE(e, text && out && (models || !n));
    const char *nul = memchr(text, '\0', size);
    size_t      line = 1;
    for (const char *p = text; nul && p < nul; p++)
        line += *p == '\n';
    if (nul)                             /* it would silently end the document */
        return fail_at(e, line, nul - text, "contains a NUL byte; not a text file");
    for (size_t i = 0; i < n; i++)
        LM_REQUIRE(e, models[i]);
    lm_audit_document *d = lm_alloc_zero(1, sizeof *d);
    if (!d || !(d->text = lm_alloc(size + 1))) {
        lm_free(d);
        return lm_fail_memory(e, "a document", size);
    }
    memcpy(d->text, text, size);
    d->text[size] = '\0';
    d->size       = size;
    lm_learn_models(d, models, n);
    lm_status status = LM_OK;
    if (!d->failed && !read_list(d, e, &status))
        lm_read_lines(d);
    if (status == LM_OK && d->failed)
        status = lm_fail_memory(e, "a document", size);
    if (status == LM_OK)
        *out = d;
    else
        lm_audit_free(d);
    return status;
}

void lm_audit_free(lm_audit_document *d)
{
    if (!d)
        return;
    lm_arena_free(&d->arena);
    lm_free(d->statements);
    lm_free(d->unread);
    lm_free(d->text);
    lm_free(d);
}

/* ---- judging ---- */

static bool starts(const char *s, const char *with)
{
    return strncmp(s, with, strlen(with)) == 0;
}

/* Return whether the number is the size in the model's name ("7B" for 7.6B parameters), which is not a wrong
 * parameter count. */
static bool is_in_name(const lm_audit_statement *s)
{
    const char *p = s->claim + strcspn(s->claim, "0123456789"), *name = s->model;
    size_t      n = strspn(p, "0123456789.");

    for (; n && p[n] != ',' && *name; name++)
        if (strncasecmp(name, p, n) == 0 && name[n] && strchr("bBmM", name[n]) &&
            strspn(name, "0123456789.") == n)
            return true;
    return false;
}

/* Return whether the size may be that of a file: files of a type keep some matrices in another one, and hold
 * a tokenizer. `ratio`: stated size / true size. */
static bool may_be_a_file(const char *path, double truth, double ratio)
{
    double open = starts(path, "weights.as.Q8_0") ? 0.01 + 12e6 / truth : 0.04;

    return (starts(path, "weights.as.Q") || starts(path, "weights.as.IQ")) && fabs(ratio - 1) < open;
}

/* Return whether trailing zeros may be rounding: in "200k" perhaps only one digit is significant. */
static bool may_be_coarse(const lm_claimed *c, double truth)
{
    double coarse = 0.5 * pow(10, c->is.zeros) * pow(1000, c->is.power);

    return c->is.power && c->is.zeros && fabs(c->is.value - truth) <= fmin(coarse, 0.1 * fabs(truth));
}

/* Return whether a count of parameters is cut off instead of rounded, or leaves out the embedding, the head
 * or both. Of active parameters, some of these are often left out. */
static bool counts_otherwise(lm_facts *f, const lm_claimed *c, double truth, bool active)
{
    double embedding = lm_facts_number(f, "parameters.embedding"),
           head = lm_facts_number(f, "parameters.head");
    double cut       = truth - c->is.value;

    if (active && cut >= 0 && cut <= embedding + head + c->is.half)
        return true;
    return (cut >= 0 && cut < 2 * c->is.half) || fabs(cut - embedding) <= c->is.half ||
           fabs(cut - embedding - head) <= c->is.half;
}

/* Return whether an MLP of several experts is meant, of which a document may count one or all. */
static bool is_of_experts(lm_facts *f, const lm_audit_statement *s, const char *path)
{
    bool mlp = strstr(path, "mlp.") || strstr(s->quantity, "gate_proj") || strstr(s->quantity, "up_proj") ||
               strstr(s->quantity, "down_proj");

    return mlp && !starts(path, "mlp.experts") && !starts(path, "mlp.activation") &&
           lm_facts_has_at(f, "mlp.experts");
}

/* Return whether a claim that differs from the fact may have been meant otherwise than it was read. */
static bool may_be_meant_otherwise(lm_facts *f, const lm_audit_statement *s, const lm_judgement *j)
{
    char      *end;
    double     truth = lm_read_double(j->truth, &end);
    bool       bytes = strstr(j->path, "bytes") != NULL;
    bool       latent = lm_facts_has_at(f, "attention.latent.kv_rank");
    lm_claimed c;

    if (s->unsure || is_of_experts(f, s, j->path))
        return true;
    if (*end || !lm_read_claim(s->claim, bytes, &c) || truth == 0)
        return false;
    double ratio = c.is.value / truth;
    if (may_be_coarse(&c, truth) || may_be_a_file(j->path, truth, ratio) ||
        may_be_a_file(j->path, truth, c.is.binary / truth))
        return true;
    /* the operations that are counted are not stated */
    if (starts(j->path, "flops.") && strchr(s->quantity, '|'))
        return ratio > 0.05 && ratio < 20;
    if (starts(j->path, "parameters.total") || starts(j->path, "parameters.active"))
        return is_in_name(s) || counts_otherwise(f, &c, truth, starts(j->path, "parameters.active"));
    if (starts(j->path, "architecture.context"))         /* with or without the scaling of rotary positions */
        return lm_facts_has_at(f, "rope.original_context") || ratio == 4;
    return latent && (starts(j->path, "attention.head_dim") || starts(j->path, "attention.kv"));
}

static void cannot_tell(lm_judgement *out, const char *why)
{
    out->verdict = LM_CLAIM_NOT_CHECKABLE;
    snprintf(out->why, sizeof out->why, "%s", why);
}

static bool has_one_digit(const char *claim)
{
    size_t digits = 0;

    for (const char *p = claim; *p; p++)
        digits += *p >= '0' && *p <= '9';
    return digits == 1;
}

lm_status lm_audit_judge(const lm_audit_statement *s, lm_facts *f, lm_judgement *out, lm_error *e)
{
    LM_REQUIRE(e, s && f && out);
    if (s->listed)
        return lm_facts_judge(f, s->quantity, s->claim, out, e);
    for (const char *p = s->quantity; *p;) {
        lm_judgement one;
        char         name[160];
        size_t       n = strcspn(p, "|");
        snprintf(name, sizeof name, "%.*s", (int)n, p);
        LM_TRY(lm_facts_judge(f, name, s->claim, &one, e));
        if (p == s->quantity || one.verdict < out->verdict || (!*out->path && *one.path))
            *out = one;
        p += n + (p[n] == '|');
    }
    /* a document has names of anything; none of them is misspelt */
    out->nearest = NULL;
    if (out->verdict == LM_CLAIM_WRONG && may_be_meant_otherwise(f, s, out))
        cannot_tell(out, N_("different wording, not comparable"));
    else if (out->verdict < LM_CLAIM_WRONG && s->unsure && has_one_digit(s->claim))
        cannot_tell(out, N_("different wording, not comparable"));
    return LM_OK;
}
