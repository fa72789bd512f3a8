/* normalize.c - each kind is a function from a view to a buffer; two buffers are used alternately. */
#include "text/normalize.h"

#include <string.h>
#include <utf8proc.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "text/unicode/unicode_class.h"

lm_status lm_normalizers_add(lm_normalizers *n, const lm_normalizer *one, const char *where, lm_error *e)
{
    if (n->n == LM_MAX_NORMALIZERS) {
        lm_regex_free(one->pattern);
        return lm_fail(e, LM_UNSUPPORTED, where, LM_NO_OFFSET, "more than %d normalizers",
                       LM_MAX_NORMALIZERS);
    }
    n->list[n->n++] = *one;
    return LM_OK;
}

void lm_normalizers_free(lm_normalizers *n)
{
    for (unsigned i = 0; i < n->n; i++)
        lm_regex_free(n->list[i].pattern);
    *n = (lm_normalizers){ 0 };
}

void lm_normalize_work_free(lm_normalize_work *w)
{
    lm_text_free(&w->text[0]);
    lm_text_free(&w->text[1]);
    lm_text_free(&w->shadow);
    lm_free(w->points);
    *w = (lm_normalize_work){ 0 };
}

/* Replace matches. A replacement comes from the same input character as the last character of its
 * match; for an empty match at the start, from the first. */
static lm_status replace(const lm_normalizer *n, lm_normalize_work *w, lm_regex_work *r, lm_view text,
                         size_t *head, lm_text *out, lm_error *e)
{
    size_t      kept    = 0;
    const char *seen    = lm_regex_is_literal(n->pattern) ? text.data : lm_pattern_text(text, &w->shadow);
    lm_matches  matches = { .regex = n->pattern, .work = r, .subject = { seen, text.size } };
    size_t      at      = 0;
    lm_match    m;

    if (w->shadow.failed)
        return lm_fail_memory(e, "a text", text.size);
    for (;;) {
        LM_TRY(lm_matches_next(&matches, &m, e));
        if (!m.found)
            break;
        lm_text_add(out, text.data + at, m.from - at);
        lm_text_add_view(out, n->text);
        kept += lm_head_within(*head, at, m.from) + (m.to <= *head ? n->text.size : 0);
        at = m.to;
    }
    lm_text_add(out, text.data + at, text.size - at);
    *head = kept + lm_head_within(*head, at, text.size);
    return LM_OK;
}

static void lowercase(lm_view text, lm_text *out)
{
    char   small[4];
    size_t size;

    for (size_t at = 0; at < text.size; at += size) {
        uint32_t cp = lm_utf8_decode(text.data + at, &size), lower = (uint32_t)utf8proc_tolower((int32_t)cp);

        for (size_t i = 0; i < lm_lower_n && lower == cp && cp >= lm_lower[0].upper; i++)
            if (lm_lower[i].upper == cp)
                lower = lm_lower[i].lower;
        if (cp == 0x130)                    /* the only one that becomes two: i and a dot above */
            lm_text_add_str(out, "i\xCC\x87");
        else
            lm_text_add(out, small, lm_utf8_encode(lower, small));
    }
}

static lm_view strip(const lm_normalizer *n, lm_view text)
{
    size_t size;

    while (n->left && text.size && lm_is_space(lm_utf8_decode(text.data, &size))) {
        text.data += size;
        text.size -= size;
    }
    while (n->right && text.size && lm_is_space(lm_utf8_last(text.data, text.size, &size)))
        text.size -= size;
    return text;
}

/* ---- normalisation forms (Unicode Annex 15) ----
 * utf8proc decomposes and composes characters; marks are ordered here, because utf8proc's own sorting is
 * quadratic in a long run of marks. */
static lm_status room(lm_normalize_work *w, size_t points, lm_error *e)
{
    if (points <= w->capacity)
        return LM_OK;
    size_t   capacity = points + points / 2 + 64;
    int32_t *p        = lm_realloc(w->points, capacity * sizeof *p);
    if (!p)
        return lm_fail_memory(e, "normalising", capacity * sizeof *p);
    w->points   = p;
    w->capacity = capacity;
    return LM_OK;
}

static int class_of(int32_t cp)
{
    return cp < 0x300 ? 0 : utf8proc_get_property(cp)->combining_class;
}

/* Sort one run of marks by class, stably: by insertion if short, otherwise by counting. */
static lm_status order_run(int32_t *run, size_t n, lm_error *e)
{
    size_t start[257] = { 0 };

    if (n < 32) {
        for (size_t i = 1; i < n; i++)
            for (size_t k = i; k > 0 && class_of(run[k - 1]) > class_of(run[k]); k--) {
                int32_t swap = run[k];
                run[k]       = run[k - 1];
                run[k - 1]   = swap;
            }
        return LM_OK;
    }
    int32_t *copy = lm_alloc(n * sizeof *copy);
    if (!copy)
        return lm_fail_memory(e, "normalising", n * sizeof *copy);
    memcpy(copy, run, n * sizeof *copy);
    for (size_t i = 0; i < n; i++)
        start[(class_of(copy[i]) & 0xFF) + 1]++;
    for (size_t i = 1; i <= 256; i++)
        start[i] += start[i - 1];
    for (size_t i = 0; i < n; i++)
        run[start[class_of(copy[i]) & 0xFF]++] = copy[i];
    lm_free(copy);
    return LM_OK;
}

static lm_status order_marks(int32_t *points, size_t n, lm_error *e)
{
    for (size_t at = 0; at < n;) {
        size_t end = at;

        while (end < n && class_of(points[end]) != 0)
            end++;
        if (end - at > 1)
            LM_TRY(order_run(points + at, end - at, e));
        at = end + 1;
    }
    return LM_OK;
}

/* Normalise one stretch without inert characters. */
static lm_status normal_form(lm_normalize_work *w, lm_view text, bool compose, bool compatible, lm_text *out,
                             lm_error *e)
{
    const utf8proc_option_t options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE |
                                      (compatible ? UTF8PROC_COMPAT : 0);
    size_t                  n       = 0, size;
    char                    bytes[4];
    int                     boundary = 0;

    for (size_t at = 0; at < text.size; at += size) {
        uint32_t cp = lm_utf8_decode(text.data + at, &size);

        LM_TRY(room(w, n + 32, e));         /* the longest decomposition has 18 characters */
        utf8proc_ssize_t made = utf8proc_decompose_char((int32_t)cp, w->points + n, 32, options, &boundary);
        if (made < 0 || made > 32)
            w->points[n++] = (int32_t)cp;
        else
            n += (size_t)made;
    }
    LM_TRY(order_marks(w->points, n, e));
    if (compose) {
        utf8proc_ssize_t kept = utf8proc_normalize_utf32(w->points, (utf8proc_ssize_t)n,
                                                         UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        n                     = kept < 0 ? n : (size_t)kept;
    }
    for (size_t i = 0; i < n; i++)
        lm_text_add(out, bytes, lm_utf8_encode((uint32_t)w->points[i], bytes));
    return LM_OK;
}

/* Inert characters do not change, and nothing composes or moves across them: normalise the stretches between
 * them. */
static lm_status normal_forms(lm_normalize_work *w, lm_view text, bool compose, bool compatible, lm_text *out,
                              lm_error *e)
{
    size_t from = 0, size;

    for (size_t at = 0; at < text.size; at += size) {
        uint32_t cp = lm_utf8_decode(text.data + at, &size);

        if (cp < lm_inert[0].first || !lm_in_ranges(lm_inert, lm_inert_n, cp))
            continue;
        LM_TRY(normal_form(w, (lm_view){ text.data + from, at - from }, compose, compatible, out, e));
        lm_text_add(out, text.data + at, size);
        from = at + size;
    }
    return normal_form(w, (lm_view){ text.data + from, text.size - from }, compose, compatible, out, e);
}

/* Return whether all characters are below `limit`, the code point below which the form changes nothing. */
static bool all_below(lm_view text, uint32_t limit)
{
    size_t size;

    for (size_t at = 0; at < text.size; at += size) {
        size = 1;
        if ((unsigned char)text.data[at] >= 0x80 && lm_utf8_decode(text.data + at, &size) >= limit)
            return false;
    }
    return true;
}

/* Apply letter case or a normalisation form: character by character, except for marks. */
static lm_status respell(const lm_normalizer *n, lm_normalize_work *w, lm_view text, lm_text *out,
                         lm_error *e)
{
    const bool nfkc = n->kind == LM_NORMALIZE_NFKC;

    if (n->kind == LM_NORMALIZE_LOWERCASE) {
        lowercase(text, out);
        return LM_OK;
    }
    return normal_forms(w, text, nfkc || n->kind == LM_NORMALIZE_NFC, nfkc || n->kind == LM_NORMALIZE_NFKD,
                        out, e);
}

/* Set *head to the size of as many characters of `all` as the head becomes when rewritten alone: marks that
 * join it add none. */
static lm_status respelled_head(const lm_normalizer *n, lm_normalize_work *w, lm_view text, size_t *head,
                                lm_view all, lm_error *e)
{
    lm_text alone = { 0 };
    size_t at    = 0, size;

    if (*head == 0 || *head == text.size) {
        *head = *head ? all.size : 0;
        return LM_OK;
    }
    lm_status status = respell(n, w, (lm_view){ text.data, *head }, &alone, e);
    if (status == LM_OK && alone.failed)
        status = lm_fail_memory(e, "a text", *head);
    for (size_t i = 0; status == LM_OK && i < alone.size && at < all.size; i += size) {
        lm_utf8_decode(all.data + at, &size);
        at += size;
        lm_utf8_decode(alone.data + i, &size);
    }
    lm_text_free(&alone);
    *head = at;
    return status;
}

lm_status lm_normalize(const lm_normalizers *n, lm_normalize_work *w, lm_regex_work *r, lm_view text,
                       size_t *head, lm_view *out, lm_error *e)
{
    size_t from_first = head ? *head : 0;

    for (unsigned i = 0, turn = 0; i < n->n; i++) {
        const lm_normalizer *one    = &n->list[i];
        lm_text              *b      = &w->text[turn];
        bool                 nfc    = one->kind == LM_NORMALIZE_NFC;

        if (one->kind == LM_NORMALIZE_STRIP) {
            lm_view kept = strip(one, text);
            size_t  from = (size_t)(kept.data - text.data);
            from_first   = lm_head_within(from_first, from, from + kept.size);
            text         = kept;
            continue;
        }
        if (one->kind >= LM_NORMALIZE_NFC && one->kind <= LM_NORMALIZE_NFKD &&
            all_below(text, nfc ? 0x300 : 0x80))
            continue;
        if (text.size == 0)
            continue;
        lm_text_clear(b);
        switch (one->kind) {
        case LM_NORMALIZE_PREPEND:
            lm_text_add_view(b, one->text);
            lm_text_add_view(b, text);
            from_first += from_first ? one->text.size : 0;
            break;
        case LM_NORMALIZE_REPLACE: LM_TRY(replace(one, w, r, text, &from_first, b, e)); break;
        default:
            LM_TRY(respell(one, w, text, b, e));
            LM_TRY(respelled_head(one, w, text, &from_first, lm_text_view(b), e));
        }
        if (!lm_text_reserve(b, 0) || b->failed)
            return lm_fail_memory(e, "a text", text.size);
        text = lm_text_view(b);
        turn ^= 1;
    }
    if (head)
        *head = from_first;
    *out = text;
    return LM_OK;
}
