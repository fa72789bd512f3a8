/* jinja_str_search.c - methods of str that search or split: find, strip, split, replace … */
#include "text/jinja/jinja.h"

/* ---- strip ---- */

static bool strips(const jstr *chars, int32_t c)
{
    size_t n;
    if (!chars)
        return lm_cp_is_space(c);
    for (size_t i = 0; i < chars->n; i += n)
        if (lm_cp_at(chars->data, i, &n) == c)
            return true;
    return false;
}

const jstr *lm_jstr_strip(jinja *m, const jstr *s, const jstr *chars, bool left, bool right)
{
    size_t from = 0, to = s->n, n;

    if (!lm_jinja_spend(m, s->n / 256 + (chars ? chars->n / 64 : 0)))
        return NULL;
    while (left && from < to && strips(chars, lm_cp_at(s->data, from, &n)))
        from += n;
    while (right && to > from && strips(chars, lm_cp_before(s->data, to, &n)))
        to -= n;
    return lm_jstr_slice(m, s, from, to);
}

static bool strip(jinja *m, const jargs *a, bool left, bool right, jval *out)
{
    const jstr *chars = NULL;
    if (lm_jarg_given(a, 1) && a->v[1].type != J_NONE && !lm_jarg_str(m, a, 1, "strip arg", &chars))
        return false;
    const jstr *s = lm_jstr_strip(m, a->v[0].s, chars, left, right);
    *out = lm_jv_of_str(s);
    return s != NULL;
}

static bool str_strip(jinja *m, const jargs *a, jval *out) { return strip(m, a, true, true, out); }
static bool str_lstrip(jinja *m, const jargs *a, jval *out) { return strip(m, a, true, false, out); }
static bool str_rstrip(jinja *m, const jargs *a, jval *out) { return strip(m, a, false, true, out); }

/* ---- find ---- */

/* Searching backward compares at every position: spend fuel for the worst case. */
static bool rfind(jinja *m, const jstr *s, const jstr *needle, size_t from, size_t to, size_t *at)
{
    if (from <= to && !lm_jinja_spend(m, ((to - from) / 64 + 1) * (needle->n / 64 + 1)))
        return false;
    *at = lm_jstr_rfind(s, needle, from, to);
    return true;
}

/* Find the bytes between code points v[i] and v[i+1], as str.find interprets them. *valid: start is not past
 * the end or past stop. */
static bool span(jinja *m, const jargs *a, int i, size_t *from, size_t *to, bool *valid)
{
    const jstr *s = a->v[0].s;
    int64_t n = (int64_t)lm_jstr_length(s), start = 0, stop = n;

    if (!lm_jinja_spend(m, s->n / 256))
        return false;
    if (a->v[i].type != J_NONE && !lm_jarg_int(m, a, i, 0, "slice index", &start))
        return false;
    if (a->v[i + 1].type != J_NONE && !lm_jarg_int(m, a, i + 1, n, "slice index", &stop))
        return false;
    start = start < 0 ? (start + n < 0 ? 0 : start + n) : start;
    stop = stop < 0 ? (stop + n < 0 ? 0 : stop + n) : stop > n ? n : stop;
    *valid = start <= n && start <= stop;
    *from = lm_jstr_offset(s, (size_t)(start > n ? n : start));
    *to = lm_jstr_offset(s, (size_t)stop);
    return true;
}

static bool find(jinja *m, const jargs *a, bool last, bool must, jval *out)
{
    const jstr *s = a->v[0].s, *needle;
    size_t from, to, at;
    bool valid;

    if (!lm_jarg_str(m, a, 1, "argument", &needle) || !span(m, a, 2, &from, &to, &valid))
        return false;
    at = valid && !last ? lm_jstr_find(s, needle, from, to) : SIZE_MAX;
    if (valid && last && !rfind(m, s, needle, from, to, &at))
        return false;
    if (at == SIZE_MAX && must)
        return lm_jinja_fail(m, LM_FAILED, "substring not found");
    *out = lm_jv_int(-1);
    if (at != SIZE_MAX)
        *out = lm_jv_int((int64_t)lm_jstr_length(&(jstr){ .data = s->data, .n = at }));
    return true;
}

static bool str_find(jinja *m, const jargs *a, jval *out) { return find(m, a, false, false, out); }
static bool str_rfind(jinja *m, const jargs *a, jval *out) { return find(m, a, true, false, out); }
static bool str_index(jinja *m, const jargs *a, jval *out) { return find(m, a, false, true, out); }
static bool str_rindex(jinja *m, const jargs *a, jval *out) { return find(m, a, true, true, out); }

static bool str_count(jinja *m, const jargs *a, jval *out)
{
    const jstr *s = a->v[0].s, *needle;
    size_t from, to, at;
    int64_t n = 0;
    bool valid;

    if (!lm_jarg_str(m, a, 1, "argument", &needle) || !span(m, a, 2, &from, &to, &valid))
        return false;
    if (valid && !needle->n)
        n = (int64_t)lm_jstr_length(&(jstr){ .data = s->data + from, .n = to - from }) + 1;
    while (valid && needle->n && (at = lm_jstr_find(s, needle, from, to)) != SIZE_MAX) {
        n++;
        from = at + needle->n;
    }
    *out = lm_jv_int(n);
    return true;
}

static bool has_affix(const jstr *s, size_t from, size_t to, const jstr *affix, bool end)
{
    if (to < from || to - from < affix->n)
        return false;
    size_t at = end ? to - affix->n : from;
    return lm_jstr_find(s, affix, at, at + affix->n) == at;
}

static bool affix(jinja *m, const jargs *a, bool end, jval *out)
{
    size_t from, to;
    bool valid, found = false;

    if (!span(m, a, 2, &from, &to, &valid))
        return false;
    if (a->v[1].type == J_TUPLE) {
        for (size_t i = 0; i < a->v[1].l->n; i++) {
            jval v = a->v[1].l->items[i];
            if (v.type != J_STR)
                return lm_jinja_type_error(m, "tuple for startswith or endswith must only contain str, not",
                                           v);
            found = found || (valid && has_affix(a->v[0].s, from, to, v.s, end));
        }
    } else if (a->v[1].type == J_STR) {
        found = valid && has_affix(a->v[0].s, from, to, a->v[1].s, end);
    } else {
        return lm_jinja_fail(m, LM_FAILED, "first arg must be str or a tuple of str, not %s",
                             lm_jv_type_name(a->v[1]));
    }
    *out = lm_jv_bool(found);
    return true;
}

static bool str_startswith(jinja *m, const jargs *a, jval *out) { return affix(m, a, false, out); }
static bool str_endswith(jinja *m, const jargs *a, jval *out) { return affix(m, a, true, out); }

static bool remove_affix(jinja *m, const jargs *a, bool end, jval *out)
{
    const jstr *s = a->v[0].s, *gone;

    if (!lm_jarg_str(m, a, 1, "argument", &gone))
        return false;
    if (has_affix(s, 0, s->n, gone, end))
        s = lm_jstr_slice(m, s, end ? 0 : gone->n, end ? s->n - gone->n : s->n);
    *out = lm_jv_of_str(s);
    return s != NULL;
}

static bool str_removeprefix(jinja *m, const jargs *a, jval *out) { return remove_affix(m, a, false, out); }
static bool str_removesuffix(jinja *m, const jargs *a, jval *out) { return remove_affix(m, a, true, out); }

/* ---- split ---- */

static bool add_piece(jinja *m, jvec *v, const jstr *s, size_t from, size_t to)
{
    const jstr *piece = lm_jstr_slice(m, s, from, to);
    return piece && lm_jvec_add(m, v, lm_jv_of_str(piece));
}

/* Return the end of the run of characters at `at` that are (or are not) white space. */
static size_t run(const jstr *s, size_t at, bool space)
{
    size_t n;
    while (at < s->n && lm_cp_is_space(lm_cp_at(s->data, at, &n)) == space)
        at += n;
    return at;
}

static bool split_words(jinja *m, const jstr *s, int64_t max, jvec *v)
{
    for (size_t at = run(s, 0, true); at < s->n;) {
        size_t end = run(s, at, false);
        if (max >= 0 && (int64_t)v->n == max)
            return add_piece(m, v, s, at, s->n);
        if (!add_piece(m, v, s, at, end))
            return false;
        at = run(s, end, true);
    }
    return true;
}

static bool split_by(jinja *m, const jstr *s, const jstr *sep, int64_t max, jvec *v)
{
    size_t from = 0, at;
    while ((max < 0 || (int64_t)v->n < max) && (at = lm_jstr_find(s, sep, from, s->n)) != SIZE_MAX) {
        if (!add_piece(m, v, s, from, at))
            return false;
        from = at + sep->n;
    }
    return add_piece(m, v, s, from, s->n);
}

/* Split from the end; the pieces are reversed afterwards. */
static bool rsplit(jinja *m, const jstr *s, const jstr *sep, int64_t max, jvec *v)
{
    size_t to = s->n, at;
    const jstr *rest = s;

    while (max < 0 || (int64_t)v->n < max) {
        if (sep) {
            if (!rfind(m, s, sep, 0, to, &at))
                return false;
            if (at == SIZE_MAX)
                break;
            if (!add_piece(m, v, s, at + sep->n, to))
                return false;
            to = at;
            continue;
        }
        rest = lm_jstr_slice(m, s, 0, to);
        rest = rest ? lm_jstr_strip(m, rest, NULL, false, true) : NULL;
        if (!rest)
            return false;
        to = at = rest->n;
        for (size_t n; at > 0 && !lm_cp_is_space(lm_cp_before(s->data, at, &n));)
            at -= n;
        if (at == to)
            break;
        if (!add_piece(m, v, s, at, to))
            return false;
        to = at;
    }
    rest = lm_jstr_slice(m, s, 0, to);
    if (rest && !sep)
        rest = lm_jstr_strip(m, rest, NULL, false, true);
    if (!rest || ((sep || rest->n) && !lm_jvec_add(m, v, lm_jv_of_str(rest))))
        return false;
    for (size_t i = 0; i < v->n / 2; i++) {
        jval swapped = v->items[i];
        v->items[i] = v->items[v->n - 1 - i];
        v->items[v->n - 1 - i] = swapped;
    }
    return true;
}

static bool split(jinja *m, const jargs *a, bool from_right, jval *out)
{
    const jstr *s = a->v[0].s, *sep = NULL;
    int64_t max;
    jvec v = { 0 };

    if (a->v[1].type != J_MISSING && a->v[1].type != J_NONE && !lm_jarg_str(m, a, 1, "separator", &sep))
        return false;
    if (!lm_jarg_int(m, a, 2, -1, "maxsplit", &max) || !lm_jinja_spend(m, s->n / 256))
        return false;
    if (sep && !sep->n)
        return lm_jinja_fail(m, LM_FAILED, "empty separator");
    bool ok = from_right ? rsplit(m, s, sep, max, &v)
              : sep      ? split_by(m, s, sep, max, &v)
                         : split_words(m, s, max, &v);
    return ok && lm_jvec_done(m, &v, J_LIST, out);
}

static bool str_split(jinja *m, const jargs *a, jval *out) { return split(m, a, false, out); }
static bool str_rsplit(jinja *m, const jargs *a, jval *out) { return split(m, a, true, out); }

static bool is_line_end(int32_t c)
{
    return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool lm_jstr_lines(jinja *m, const jstr *s, bool keep_ends, jvec *out)
{
    size_t from = 0, n;

    if (!lm_jinja_spend(m, s->n / 256))
        return false;
    for (size_t i = 0; i < s->n; i += n) {
        int32_t c = lm_cp_at(s->data, i, &n);
        if (!is_line_end(c))
            continue;
        size_t end = i;
        if (c == '\r' && i + 1 < s->n && s->data[i + 1] == '\n')
            n = 2;
        if (!add_piece(m, out, s, from, keep_ends ? end + n : end))
            return false;
        from = i + n;
    }
    return from == s->n || add_piece(m, out, s, from, s->n);
}

static bool str_splitlines(jinja *m, const jargs *a, jval *out)
{
    jvec v = { 0 };
    return lm_jstr_lines(m, a->v[0].s, lm_jarg_truth(a, 1), &v) && lm_jvec_done(m, &v, J_LIST, out);
}

static bool partition(jinja *m, const jargs *a, bool last, jval *out)
{
    const jstr *s = a->v[0].s, *sep;
    jvec v = { 0 };

    if (!lm_jarg_str(m, a, 1, "separator", &sep))
        return false;
    if (!sep->n)
        return lm_jinja_fail(m, LM_FAILED, "empty separator");
    size_t at = lm_jstr_find(s, sep, 0, s->n);
    if (last && !rfind(m, s, sep, 0, s->n, &at))
        return false;
    size_t cut = at == SIZE_MAX ? (last ? 0 : s->n) : at, end = at == SIZE_MAX ? cut : at + sep->n;
    return add_piece(m, &v, s, 0, cut) && add_piece(m, &v, s, cut, end) && add_piece(m, &v, s, end, s->n) &&
           lm_jvec_done(m, &v, J_TUPLE, out);
}

static bool str_partition(jinja *m, const jargs *a, jval *out) { return partition(m, a, false, out); }
static bool str_rpartition(jinja *m, const jargs *a, jval *out) { return partition(m, a, true, out); }

/* ---- replace ---- */

bool lm_jstr_replace(jinja *m, const jstr *s, const jstr *old, const jstr *new, int64_t count, jval *out)
{
    jbuild b = { 0 };
    size_t from = 0, at, n;

    if (!lm_jinja_spend(m, s->n / 256))
        return false;
    if (!old->n) {
        for (size_t i = 0; i <= s->n && count != 0 && m->status == LM_OK; i += n, count--) {
            lm_jb_slice(m, &b, s, from, i);
            lm_jb_str(m, &b, new);
            from = i;
            n = 1;
            if (i < s->n)
                lm_cp_at(s->data, i, &n);
        }
    } else {
        for (; count != 0 && m->status == LM_OK && (at = lm_jstr_find(s, old, from, s->n)) != SIZE_MAX;
             count--) {
            lm_jb_slice(m, &b, s, from, at);
            lm_jb_str(m, &b, new);
            from = at + old->n;
        }
    }
    lm_jb_slice(m, &b, s, from, s->n);
    return lm_jb_done(m, &b, s->safe, out);
}

static bool str_replace(jinja *m, const jargs *a, jval *out)
{
    const jstr *old, *new;
    int64_t count;

    if (!lm_jarg_str(m, a, 1, "replace() argument 1", &old) ||
        !lm_jarg_str(m, a, 2, "replace() argument 2", &new) || !lm_jarg_int(m, a, 3, -1, "count", &count) ||
        (a->v[0].s->safe && !lm_jstr_escape(m, new, &new)))
        return false;
    return lm_jstr_replace(m, a->v[0].s, old, new, count, out);
}

const jbuiltin lm_jinja_str_search_methods[] = {
    { "strip", "self chars? /", str_strip },
    { "lstrip", "self chars? /", str_lstrip },
    { "rstrip", "self chars? /", str_rstrip },
    { "find", "self sub start? end? /", str_find },
    { "rfind", "self sub start? end? /", str_rfind },
    { "index", "self sub start? end? /", str_index },
    { "rindex", "self sub start? end? /", str_rindex },
    { "count", "self sub start? end? /", str_count },
    { "startswith", "self prefix start? end? /", str_startswith },
    { "endswith", "self suffix start? end? /", str_endswith },
    { "removeprefix", "self prefix /", str_removeprefix },
    { "removesuffix", "self suffix /", str_removesuffix },
    { "split", "self sep? maxsplit?", str_split },
    { "rsplit", "self sep? maxsplit?", str_rsplit },
    { "splitlines", "self keepends?", str_splitlines },
    { "partition", "self sep /", str_partition },
    { "rpartition", "self sep /", str_rpartition },
    { "replace", "self old new count? /", str_replace },
    { NULL, NULL, NULL },
};
