/* pretokenize.c - run the stages depth first, without building a list of pieces. */
#include "text/pretokenize.h"

#include <string.h>

#include "base/utf8.h"
#include "text/bytelevel.h"
#include "text/normalize.h"
#include "text/unicode/unicode_class.h"

/* ---- construction ---- */
lm_status lm_pretokenizer_add(lm_pretokenizer *p, const lm_pre_stage *stage, const char *where, lm_error *e)
{
    if (p->n == LM_MAX_STAGES) {
        lm_regex_free(stage->regex);
        return lm_fail(e, LM_UNSUPPORTED, where, LM_NO_OFFSET, "more than %d stages", LM_MAX_STAGES);
    }
    p->stages[p->n++] = *stage;
    return LM_OK;
}

lm_status lm_pretokenizer_add_split(lm_pretokenizer *p, const char *pattern, lm_behavior b, const char *where,
                                    lm_error *e)
{
    lm_pre_stage s = { .kind = LM_STAGE_SPLIT, .behavior = b };

    LM_TRY(lm_regex_new(lm_view_of(pattern), where, &s.regex, e));
    return lm_pretokenizer_add(p, &s, where, e);
}

lm_status lm_pretokenizer_add_class(lm_pretokenizer *p, bool (*in_class)(uint32_t), lm_behavior b,
                                    const char *where, lm_error *e)
{
    return lm_pretokenizer_add(p,
                               &(lm_pre_stage){ .kind = LM_STAGE_CLASS, .behavior = b, .in_class = in_class },
                               where, e);
}

void lm_pretokenizer_finish(lm_pretokenizer *p)
{
    if (p->n > 0 && p->stages[p->n - 1].kind == LM_STAGE_SPELL) {
        p->n--;
        p->bytes = true;
    }
}

void lm_pretokenizer_free(lm_pretokenizer *p)
{
    for (unsigned i = 0; i < p->n; i++)
        lm_regex_free(p->stages[i].regex);
    *p = (lm_pretokenizer){ 0 };
}

void lm_pretokenizer_work_free(lm_pretokenizer_work *w)
{
    for (unsigned i = 0; i < LM_MAX_STAGES; i++)
        lm_text_free(&w->text[i]);
    for (unsigned i = 0; i <= LM_MAX_STAGES; i++)
        lm_text_free(&w->shadow[i]);
}

/* ---- running ---- */
typedef struct run {
    const lm_pretokenizer *p;
    lm_pretokenizer_work  *w;
    lm_regex_work         *regex;
    lm_word_fn             word;
    void                  *arg;
    lm_error              *e;
} run;

/* A text, the shadow that patterns match, and how many bytes at its start come from the input's first
 * character. */
typedef struct piece { lm_view text; const char *shadow; size_t head; } piece;

static lm_status run_from(const run *r, unsigned stage, piece in);

/* Turns segments into pieces: one segment is held back until it is known whether the next joins it. */
typedef struct joiner {
    const run  *r;
    unsigned    next;           /* stage that gets the pieces */
    piece       in;
    lm_behavior behavior;
    bool        invert;
    bool        holds, held_match;
    size_t      from, to;
} joiner;

static lm_status release(joiner *j)
{
    const size_t head = lm_head_within(j->in.head, j->from, j->to);
    piece        out  = { { j->in.text.data + j->from, j->to - j->from }, j->in.shadow + j->from, head };

    if (!j->holds)
        return LM_OK;
    j->holds = false;
    return out.text.size ? run_from(j->r, j->next, out) : LM_OK;
}

static lm_status segment(joiner *j, size_t from, size_t to, bool match)
{
    bool joins = false;

    match ^= j->invert;
    if (j->behavior == LM_REMOVED && match)
        return LM_OK;
    if (j->holds)
        switch (j->behavior) {
        case LM_MERGED_WITH_PREVIOUS: joins = match && !j->held_match; break;
        case LM_MERGED_WITH_NEXT:     joins = !match && j->held_match; break;
        case LM_CONTIGUOUS:           joins = match == j->held_match; break;
        default:                      break;
        }
    if (!joins) {
        LM_TRY(release(j));
        j->from = from;
    }
    j->to         = to;
    j->holds      = true;
    j->held_match = match;
    return LM_OK;
}

static lm_status split(const run *r, unsigned stage, piece in)
{
    const lm_pre_stage *s       = &r->p->stages[stage];
    joiner j = { .r = r, .next = stage + 1, .in = in, .behavior = s->behavior, .invert = s->invert };
    const char     *seen    = lm_regex_is_literal(s->regex) ? in.text.data : in.shadow;
    lm_matches      matches = { .regex = s->regex, .work = r->regex, .subject = { seen, in.text.size } };
    size_t          at      = 0;
    lm_match        m;

    for (;;) {
        LM_TRY(lm_matches_next(&matches, &m, r->e));
        if (!m.found)
            break;
        if (at < m.from)
            LM_TRY(segment(&j, at, m.from, false));
        LM_TRY(segment(&j, m.from, m.to, true));
        at = m.to;
    }
    if (at < in.text.size)
        LM_TRY(segment(&j, at, in.text.size, false));
    return release(&j);
}

static lm_status split_class(const run *r, unsigned stage, piece in)
{
    const lm_pre_stage *s   = &r->p->stages[stage];
    joiner j = { .r = r, .next = stage + 1, .in = in, .behavior = s->behavior, .invert = s->invert };
    size_t          gap = 0, size;

    for (size_t at = 0; at < in.text.size; at += size) {
        if (!s->in_class(lm_utf8_decode(in.text.data + at, &size)))
            continue;
        if (gap < at)
            LM_TRY(segment(&j, gap, at, false));
        LM_TRY(segment(&j, at, at + size, true));
        gap = at + size;
    }
    if (gap < in.text.size)
        LM_TRY(segment(&j, gap, in.text.size, false));
    return release(&j);
}

/* Pass on text that a stage has rewritten. */
static lm_status rewritten(const run *r, unsigned stage, size_t head)
{
    lm_text *text = &r->w->text[stage], *shadow = &r->w->shadow[stage + 1];
    piece   out = { lm_text_view(text), NULL, head };

    if (!text->failed)
        out.shadow = lm_pattern_text(out.text, shadow);
    if (text->failed || shadow->failed)
        return lm_fail_memory(r->e, "a piece of text", text->size);
    return run_from(r, stage + 1, out);
}

static lm_status metaspace(const run *r, unsigned stage, piece in)
{
    const lm_pre_stage *s   = &r->p->stages[stage];
    lm_text         *out = &r->w->text[stage];
    lm_view         mark = lm_view_of(s->text);
    bool            has  = in.text.data[0] == ' ' || lm_view_starts(in.text, mark);
    size_t          head = in.head;

    lm_text_clear(out);
    if (!has && (s->prepend == LM_PREPEND_ALWAYS || (s->prepend == LM_PREPEND_FIRST && in.head)))
        lm_text_add_view(out, mark);
    head += in.head ? out->size : 0;
    for (size_t at = 0; at < in.text.size;) {
        const char *space = memchr(in.text.data + at, ' ', in.text.size - at);
        size_t      n     = space ? (size_t)(space - in.text.data) - at : in.text.size - at;

        lm_text_add(out, in.text.data + at, n);
        if (space) {
            lm_text_add_view(out, mark);
            head += at + n < in.head ? mark.size - 1 : 0;
        }
        at += n + 1;
    }
    return rewritten(r, stage, head);
}

static lm_status rewrite(const run *r, unsigned stage, piece in)
{
    lm_text *out = &r->w->text[stage];
    size_t  head;

    lm_text_clear(out);
    if (r->p->stages[stage].kind == LM_STAGE_SPELL) {
        lm_bytelevel_spell(out, in.text.data, in.head);
        head = out->size;
        lm_bytelevel_spell(out, in.text.data + in.head, in.text.size - in.head);
    } else {
        if (in.text.data[0] == ' ')
            return run_from(r, stage + 1, in);
        lm_text_add_char(out, ' ');
        lm_text_add_view(out, in.text);
        head = in.head ? in.head + 1 : 0;
    }
    return rewritten(r, stage, head);
}

static lm_status run_from(const run *r, unsigned stage, piece in)
{
    if (stage == r->p->n)
        return r->word(r->arg, in.text, r->e);
    switch (r->p->stages[stage].kind) {
    case LM_STAGE_SPLIT:     return split(r, stage, in);
    case LM_STAGE_CLASS:     return split_class(r, stage, in);
    case LM_STAGE_METASPACE: return metaspace(r, stage, in);
    default:                 return rewrite(r, stage, in);
    }
}

lm_status lm_pretokenize(const lm_pretokenizer *p, lm_pretokenizer_work *w, lm_regex_work *regex,
                         lm_view text, size_t head, lm_word_fn word, void *arg, lm_error *e)
{
    run r = { p, w, regex, word, arg, e };

    if (text.size == 0)
        return LM_OK;
    piece in = { text, lm_pattern_text(text, &w->shadow[0]), head };
    if (w->shadow[0].failed)
        return lm_fail_memory(e, "a text", text.size);
    return run_from(&r, 0, in);
}
