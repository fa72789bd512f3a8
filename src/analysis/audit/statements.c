/* statements.c - a text line by line: headings, tables, code, lists and sentences. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "analysis/audit/reading.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/number.h"

/* ---- lines ---- */

typedef struct walk { lm_extent head, modules; bool table, code; int outside; } walk;         /* outside: the scope before a diagram */

/* "---|:--:|". */
static bool is_rule(lm_extent s)
{
    bool dash = false;

    for (size_t i = 0; i < s.n; i++) {
        if (!strchr("|:- \t", s.s[i]))
            return false;
        dash |= s.s[i] == '-';
    }
    return dash;
}

static void read_heading(lm_reading *d, lm_extent line, bool first)
{
    bool many;
    int  m = lm_mentioned(d, line, &many);

    if (first && m >= 0 && !many)
        d->title = m;
    d->scope   = many ? LM_NO_MODEL : m == LM_NO_MODEL ? (line.n > 2 && line.s[2] == '#' ? d->scope : d->title) : m;
    d->context = lm_context_in(line);
    d->heading = line;
    d->caption = (lm_extent){ "", 0 };
    d->chain.begun = false;
}

static bool ends_in_colon(lm_extent s)
{
    while (s.n && s.s[s.n - 1] == '*')
        s.n--;
    return s.n && (s.s[s.n - 1] == ':' || (s.n >= 3 && memcmp(s.s + s.n - 3, "：", 3) == 0));
}

/* A caption: "**KV Cache per Layer (seq_len=1024):**", a model's name and a colon. */
static void read_caption(lm_reading *d, lm_extent line)
{
    uint64_t context = lm_context_in(line);
    bool     many;
    int      m = lm_mentioned(d, line, &many);

    if (context)
        d->context = context;
    if (ends_in_colon(line))
        d->caption = line;
    if (m != LM_NO_MODEL && !many && line.n < 120 && (line.s[line.n - 1] == ':' || d->scope == LM_NO_MODEL))
        d->scope = m;
}

/* A line of a diagram that is a model's name ("2019 : GPT-2"): what follows is about it. */
static void read_stage(lm_reading *d, lm_extent line)
{
    bool many;
    int  m;

    if (line.n > 8 && memcmp(line.s, "subgraph", 8) == 0) {              /* a box of a diagram */
        m = lm_mentioned(d, line, &many);
        d->scope = many ? LM_NO_MODEL : m != LM_NO_MODEL ? m : d->scope;
        return;
    }
    if (line.n > 64 || memchr(line.s, '(', line.n))
        return;
    if (memchr(line.s, ':', line.n) && isdigit((unsigned char)*line.s))  /* of a timeline: a new stage, whoever it is about */
        d->scope = LM_NO_MODEL;
    m = lm_mentioned(d, line, &many);
    if (m != LM_NO_MODEL && !many)
        d->scope = m;
}

/* Whether a line has a number other than its place in a list and the name of a layer: "Layer 3" says nothing that could be checked. */
static bool has_figure(lm_extent s)
{
    size_t first = 0;

    while (first < s.n && isdigit((unsigned char)s.s[first]))
        first++;
    first = first + 1 < s.n && s.s[first] == '.' && s.s[first + 1] == ' ' ? first : 0;
    for (size_t i = first; i < s.n; i++) {
        bool layer = i >= 6 && strncasecmp(s.s + i - 6, "layer ", 6) == 0;
        if (isdigit((unsigned char)s.s[i]) && !layer)
            return true;
        while (layer && i < s.n && isdigit((unsigned char)s.s[i]))
            i++;
    }
    return false;
}

static void read_line(lm_reading *d, walk *w, lm_extent raw, lm_extent next)
{
    lm_extent line = lm_trim(raw);
    bool    fence = line.n >= 3 && (memcmp(line.s, "```", 3) == 0 || memcmp(line.s, "~~~", 3) == 0);

    if (fence) {
        w->code      = !w->code;
        if (w->code)
            w->outside = d->scope;
        else
            d->scope = w->outside;
        w->table     = false;
        w->modules.n = 0;
    } else if (!line.n) {
        w->table = false;
    } else if (!w->code && *line.s == '#') {
        read_heading(d, line, d->title == LM_NO_MODEL);
        lm_read_counts(d, line, d->scope);
    } else if (!w->code && memchr(line.s, '|', line.n) && is_rule(lm_trim(next))) {
        w->head   = line;
        d->shares = 0;
        w->table = true;
    } else if (!w->code && *line.s == '|') {
        if (!is_rule(line))
            lm_read_row(d, w->table ? w->head : (lm_extent){ "", 0 }, line);
    } else if (w->code && lm_span_has(line, "param #")) {
        w->modules = line;
    } else if (!(w->modules.n && lm_read_module_row(d, w->modules, line))) {
        if (w->code)
            read_stage(d, line);
        else
            read_caption(d, line);
        if (!lm_read_sentence(d, line, w->code) && !w->code && has_figure(line))
            lm_leave_unread(d, line);
    }
}

static void read_lines(lm_reading *d)
{
    const char *p = d->text, *end = d->text + d->size;
    walk        w = { 0 };

    while (p < end && !d->failed) {
        const char *stop = memchr(p, '\n', (size_t)(end - p)), *after;
        stop  = stop ? stop : end;
        after = stop < end ? memchr(stop + 1, '\n', (size_t)(end - stop - 1)) : end;
        after = after ? after : end;
        d->line++;
        read_line(d, &w, (lm_extent){ p, (size_t)(stop - p) }, stop < end ? (lm_extent){ stop + 1, (size_t)(after - stop - 1) }
                  : (lm_extent){ "", 0 });
        p = stop + 1;
    }
}

/* The first model that the text names, where none of its headings does. */
static void find_title(lm_reading *d)
{
    if (d->n_given == 1)
        d->title = 0;
    for (const char *p = d->text, *end = d->text + d->size; d->title == LM_NO_MODEL && p < end;) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        lm_extent     line = { p, (size_t)((stop ? stop : end) - p) };
        bool        many;
        int         m = lm_mentioned(d, line, &many);
        if (line.n && *line.s == '#' && line.s[1] == ' ') {
            d->title = m >= 0 ? m : d->title;
            break;
        }
        p = stop ? stop + 1 : end;
    }
    d->scope = d->title;
}

lm_status lm_reading_read(const char *text, size_t size, const char *const *models, size_t n, lm_reading **out, lm_error *e)
{
    LM_GIVEN(e, text && out && (models || !n));
    const char *nul = memchr(text, '\0', size);
    if (nul)
        return lm_fail(e, LM_USAGE, "text", nul - text, "contains a NUL byte; not a text file");
    for (size_t i = 0; i < n; i++)
        LM_GIVEN(e, models[i]);
    lm_reading *d = lm_alloc_zero(1, sizeof *d);
    if (!d || !(d->text = lm_alloc(size + 1))) {
        lm_free(d);
        return lm_fail_memory(e, "a document", size);
    }
    memcpy(d->text, text, size);
    d->text[size] = '\0';
    d->size  = size;
    d->title   = LM_NO_MODEL;
    d->heading = d->caption = (lm_extent){ "", 0 };
    lm_know_models(d, models, n);
    if (!d->failed) {
        find_title(d);
        read_lines(d);
    }
    if (d->failed) {
        lm_reading_free(d);
        return lm_fail_memory(e, "a document", size);
    }
    *out = d;
    return LM_OK;
}

void lm_reading_free(lm_reading *d)
{
    if (!d)
        return;
    lm_arena_free(&d->arena);
    lm_free(d->said);
    lm_free(d->unread);
    lm_free(d->text);
    lm_free(d);
}

const lm_said *lm_reading_said(const lm_reading *d, size_t i)
{
    return d && i < d->n_said ? &d->said[i] : NULL;
}

const lm_unread *lm_reading_unread(const lm_reading *d, size_t i)
{
    return d && i < d->n_unread ? &d->unread[i] : NULL;
}

/* "4-128K", "768–1,600": the ends of a range; the prefix of the last is that of both. */
static bool read_range(const char *text, double *low, double *high)
{
    char  *end, digits[2][32] = { "", "" };
    size_t n[2] = { 0 }, side = 0;

    for (; *text; text++) {
        bool dash = *text == '-' || strncmp(text, "–", strlen("–")) == 0;
        if (isdigit((unsigned char)*text) || *text == '.') {
            if (n[side] + 1 < sizeof digits[0])
                digits[side][n[side]++] = *text;
        } else if (dash && side == 0 && n[0]) {
            side = 1;
            text += *text == '-' ? 0 : strlen("–") - 1;
        } else if (*text != ',' && *text != ' ') {
            break;
        }
    }
    if (!n[0] || !n[1])
        return false;
    double times = *text == 'K' || *text == 'k' ? 1024 : *text == 'M' ? 1e6 : *text == 'B' ? 1e9 : 1;
    *low  = lm_read_double(digits[0], &end) * times;
    *high = lm_read_double(digits[1], &end) * times;
    return (!*text || times > 1) && *low < *high;
}

/* Of one value: a range that does not hold it is wrong, one that does says less than it could. */
static void judge_range(lm_facts *f, const lm_said *s, lm_judgement *out)
{
    double low, high, truth;
    char  *end;

    if (out->verdict != LM_CLAIM_NOT_CHECKABLE || !*out->truth || !read_range(s->claim, &low, &high) || !lm_facts_has_at(f, out->path))
        return;
    truth = lm_read_double(out->truth, &end);
    if (*end)
        return;
    bool context = strcmp(out->path, "architecture.context") == 0;      /* a model has no positions beyond its last */
    out->verdict = truth >= low && truth <= high && !(context && high > 1.03 * truth) ? LM_CLAIM_ROUNDED : LM_CLAIM_WRONG;
    snprintf(out->why, sizeof out->why, "%s", "a range");
}

lm_status lm_said_judge(const lm_said *s, lm_facts *f, lm_judgement *out, lm_error *e)
{
    LM_GIVEN(e, s && out);
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
        if (first || one.verdict < out->verdict)
            *out = one;
        first = false;
        p += n + (p[n] == '|');
    }
    judge_range(f, s, out);
    return LM_OK;
}
