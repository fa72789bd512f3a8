/* regex.c - run PCRE2 within limits. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/regex.h"

#include <pcre2.h>
#include <string.h>

#include "base/alloc.h"
#include "base/os/clock.h"

enum {
    MAX_PATTERN   = 1 << 16,
    MATCH_LIMIT   = 10 * 1000 * 1000,   /* backtracks per start */
    HEAP_LIMIT    = 64 * 1024,          /* KiB, without JIT */
    JIT_STACK     = 8 << 20,
    STARTS        = 4096,               /* starts tried before the clock is read */
    FINDS         = 256,                /* matches found before the clock is read */
};

struct lm_regex {
    pcre2_code *code;                   /* NULL: a literal */
    char       *literal;
    size_t      size;
};

lm_status lm_regex_new(lm_view pattern, const char *where, lm_regex **out, lm_error *e)
{
    lm_text                 spelled = { 0 };
    char                   why[160];
    int                    code;
    PCRE2_SIZE             at;
    lm_status              status  = LM_OK;
    lm_regex              *r       = lm_alloc_zero(1, sizeof *r);
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);

    if (!r || !context) {
        status = lm_fail_memory(e, "a pattern", pattern.size);
        goto done;
    }
    if (pattern.size > MAX_PATTERN) {
        status = lm_fail(e, LM_UNSUPPORTED, where, LM_NO_OFFSET,
                         "a pattern of %zu bytes, at most %d are read", pattern.size, MAX_PATTERN);
        goto done;
    }
    LM_TRY_GOTO(status, lm_regex_translate(pattern, &spelled, where, e), done);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    /* PCRE2 10.42 wrongly makes the first part of "\P{M}+\P{L}" possessive, as if the two were disjoint, and
     * then nothing matches. */
    r->code = pcre2_compile((PCRE2_SPTR)(spelled.size ? spelled.data : ""), spelled.size,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_USE_OFFSET_LIMIT |
                                PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_AUTO_POSSESS,
                            &code, &at, context);
    if (!r->code) {
        pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
        status = lm_fail(e, LM_UNSUPPORTED, where, LM_NO_OFFSET, "pattern '%s': %s at byte %zu", spelled.data,
                         why, at);
        goto done;
    }
    pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE);     /* without it the interpreter runs */
    *out = r;
    r    = NULL;
done:
    lm_regex_free(r);
    pcre2_compile_context_free(context);
    lm_text_free(&spelled);
    return status;
}

lm_status lm_regex_literal(lm_view text, lm_regex **out, lm_error *e)
{
    lm_regex *r = lm_alloc_zero(1, sizeof *r);

    if (r)
        r->literal = lm_alloc(text.size);
    if (!r || !r->literal) {
        lm_regex_free(r);
        return lm_fail_memory(e, "a pattern", text.size);
    }
    memcpy(r->literal, text.data, text.size);
    r->size = text.size;
    *out    = r;
    return LM_OK;
}

void lm_regex_free(lm_regex *r)
{
    if (!r)
        return;
    pcre2_code_free(r->code);
    lm_free(r->literal);
    lm_free(r);
}

bool lm_regex_is_literal(const lm_regex *r)
{
    return !r->code;
}

lm_status lm_regex_begin(lm_regex_work *w, size_t size, lm_error *e)
{
    const int64_t second = 1000000000;

    if (!w->data) {
        w->data    = pcre2_match_data_create(1, NULL);
        w->context = pcre2_match_context_create(NULL);
        w->stack   = pcre2_jit_stack_create(32 * 1024, JIT_STACK, NULL);
        if (!w->data || !w->context) {
            lm_regex_work_free(w);
            return lm_fail_memory(e, "matching", JIT_STACK);
        }
        pcre2_set_match_limit(w->context, MATCH_LIMIT);
        pcre2_set_heap_limit(w->context, HEAP_LIMIT);
        if (w->stack)
            pcre2_jit_stack_assign(w->context, NULL, w->stack);
    }
    w->finds    = 0;
    w->deadline = lm_clock_ns() + 10 * second + (int64_t)(size >> 20) * 10 * second;
    return LM_OK;
}

void lm_regex_work_free(lm_regex_work *w)
{
    pcre2_match_data_free(w->data);
    pcre2_match_context_free(w->context);
    pcre2_jit_stack_free(w->stack);
    *w = (lm_regex_work){ 0 };
}

static lm_status too_long(const char *what, lm_error *e)
{
    return lm_fail(e, LM_LIMIT, "pre-tokenizer", LM_NO_OFFSET,
                   "a pattern of the tokenizer takes too %s on this text", what);
}

static lm_status find_literal(const lm_regex *r, lm_view subject, size_t at, lm_match *out)
{
    const char *found = memmem(subject.data + at, subject.size - at, r->literal, r->size);

    *out = (lm_match){ .found = found != NULL };
    if (found) {
        out->from = (size_t)(found - subject.data);
        out->to   = out->from + r->size;
    }
    return LM_OK;
}

lm_status lm_regex_find(const lm_regex *r, lm_regex_work *w, lm_view subject, size_t at, lm_match *out,
                        lm_error *e)
{
    if (!r->code)
        return find_literal(r, subject, at, out);
    *out = (lm_match){ 0 };
    for (;;) {
        bool   last  = subject.size - at <= STARTS;
        size_t limit = last ? PCRE2_UNSET : at + STARTS;
        int    rc;

        pcre2_set_offset_limit(w->context, limit);
        rc = pcre2_match(r->code, (PCRE2_SPTR)subject.data, subject.size, at, PCRE2_NO_UTF_CHECK, w->data,
                         w->context);
        if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
            rc = pcre2_match(r->code, (PCRE2_SPTR)subject.data, subject.size, at,
                             PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, w->data, w->context);
        if (++w->finds % FINDS == 0 || !last)
            if (lm_clock_ns() > w->deadline)
                return too_long("long", e);
        if (rc >= 0) {
            const PCRE2_SIZE *edge = pcre2_get_ovector_pointer(w->data);
            *out = (lm_match){ true, edge[0], edge[1] };
            return LM_OK;
        }
        if (rc != PCRE2_ERROR_NOMATCH)
            return too_long(rc == PCRE2_ERROR_NOMEMORY || rc == PCRE2_ERROR_HEAPLIMIT ? "much memory"
                                                                                      : "many steps",
                            e);
        if (last)
            return LM_OK;
        for (at = limit + 1; at < subject.size && ((unsigned char)subject.data[at] & 0xC0) == 0x80;)
            at++;
    }
}

lm_status lm_matches_next(lm_matches *m, lm_match *out, lm_error *e)
{
    for (;;) {
        *out = (lm_match){ 0 };
        if (m->at > m->subject.size)
            return LM_OK;
        LM_TRY(lm_regex_find(m->regex, m->work, m->subject, m->at, out, e));
        /* \K in a look-ahead can end a match before it starts; such a pattern cannot split text. */
        if (!out->found || out->to < out->from || out->from < m->last)
            return *out = (lm_match){ 0 }, LM_OK;
        if (out->from != out->to || !m->had || m->last != out->to)
            break;
        for (m->at++; m->at < m->subject.size && ((unsigned char)m->subject.data[m->at] & 0xC0) == 0x80;)
            m->at++;
    }
    m->at   = out->to;
    m->last = out->to;
    m->had  = true;
    return LM_OK;
}
