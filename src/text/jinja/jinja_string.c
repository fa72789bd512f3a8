/* jinja_string.c - strings that record which of their bytes are content. */
#include "text/jinja/jinja.h"

#include <string.h>

/* A buffer that several strings may share. Appending to the string that ends where the buffer does needs no
 * copy, so building a text piece by piece is linear. A merge may lengthen a mark that earlier strings see
 * too; they clamp it to their end. */
struct jshared {
    char    *data;
    size_t   n, capacity;
    lm_span *marks;
    size_t   n_marks, mark_capacity;
};

static const lm_span whole = { 0, SIZE_MAX };

/* ---- construction ---- */

const jstr *lm_jstr_new(jinja *m, const char *data, size_t n, bool content)
{
    jstr *s = lm_jinja_new(m, 1, jstr);
    if (!s)
        return NULL;
    *s = (jstr){ .data = data, .n = n };
    if (content && n) {
        s->marks = &whole;
        s->n_marks = 1;
    }
    return s;
}

const jstr *lm_jstr_copy(jinja *m, const char *data, size_t n, bool content)
{
    char *copy = lm_jinja_alloc(m, n + 1);
    if (!copy)
        return NULL;
    memcpy(copy, data, n);
    return lm_jstr_new(m, copy, n, content);
}

bool lm_jv_text(jinja *m, const char *c_string, jval *out)
{
    const jstr *s = lm_jstr_new(m, c_string, strlen(c_string), false);
    *out = lm_jv_of_str(s);
    return s != NULL;
}

/* Return the index of the first mark that ends after byte `at`. */
static size_t first_mark(const jstr *s, size_t at)
{
    size_t low = 0, high = s->n_marks;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (s->marks[mid].to > at)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

bool lm_jstr_content_at(const jstr *s, size_t byte)
{
    size_t i = first_mark(s, byte);
    return i < s->n_marks && s->marks[i].from <= byte;
}

bool lm_jstr_is_content(const jstr *s) { return s->n_marks && s->marks[0].from < s->n; }

const jstr *lm_jstr_slice(jinja *m, const jstr *s, size_t from, size_t to)
{
    if (from == 0 && to == s->n)
        return s;
    jstr *r = lm_jinja_new(m, 1, jstr);
    if (!r)
        return NULL;
    *r = (jstr){ .data = s->data + from, .n = to > from ? to - from : 0, .safe = s->safe };

    size_t i = first_mark(s, from), end = i;
    while (end < s->n_marks && s->marks[end].from < to)
        end++;
    if (!r->n || i == end)
        return r;
    if (s->marks[i].from <= from && s->marks[i].to >= to) {
        r->marks = &whole;
        r->n_marks = 1;
        return r;
    }
    lm_span *marks = lm_jinja_new(m, end - i, lm_span);
    if (!marks || !lm_jinja_spend(m, (end - i) / 64))
        return NULL;
    for (size_t k = i; k < end; k++)
        marks[k - i] = (lm_span){ s->marks[k].from > from ? s->marks[k].from - from : 0,
                                  (s->marks[k].to < to ? s->marks[k].to : to) - from };
    r->marks = marks;
    r->n_marks = end - i;
    return r;
}

const jstr *lm_jstr_plain(jinja *m, const jstr *s)
{
    if (!s || !s->safe)
        return s;
    jstr *r = lm_jinja_new(m, 1, jstr);
    if (r) {
        *r = *s;
        r->safe = false;
    }
    return r;
}

static bool grow_shared(jinja *m, struct jshared *b, size_t more, size_t more_marks)
{
    if (b->capacity - b->n < more) {
        size_t capacity = 2 * (b->n + more);
        char *data = lm_jinja_alloc(m, capacity);
        if (!data)
            return false;
        if (b->n)
            memcpy(data, b->data, b->n);
        b->data = data;
        b->capacity = capacity;
    }
    if (b->mark_capacity - b->n_marks < more_marks) {
        size_t capacity = 2 * (b->n_marks + more_marks);
        lm_span *marks = lm_jinja_new(m, capacity, lm_span);
        if (!marks)
            return false;
        if (b->n_marks)
            memcpy(marks, b->marks, b->n_marks * sizeof *marks);
        b->marks = marks;
        b->mark_capacity = capacity;
    }
    return true;
}

static bool append_shared(jinja *m, struct jshared *b, const jstr *s)
{
    if (!lm_jinja_spend(m, s->n / 256 + s->n_marks / 64) || !grow_shared(m, b, s->n, s->n_marks))
        return false;
    for (size_t i = 0; i < s->n_marks && s->marks[i].from < s->n; i++) {
        lm_span k = { b->n + s->marks[i].from, b->n + (s->marks[i].to < s->n ? s->marks[i].to : s->n) };
        if (b->n_marks && b->marks[b->n_marks - 1].to >= k.from)
            b->marks[b->n_marks - 1].to = k.to;
        else
            b->marks[b->n_marks++] = k;
    }
    if (s->n)
        memcpy(b->data + b->n, s->data, s->n);
    b->n += s->n;
    return true;
}

const jstr *lm_jstr_concat(jinja *m, const jstr *a, const jstr *b)
{
    struct jshared *shared = a->shared;

    if (a->safe != b->safe && (!lm_jstr_escape(m, a, &a) || !lm_jstr_escape(m, b, &b)))
        return NULL;
    if (!b->n)
        return a;
    if (!a->n)
        return b;
    if (a->n + b->n > J_MAX_TEXT) {
        lm_jinja_fail(m, LM_LIMIT, "a string of more than %d bytes", J_MAX_TEXT);
        return NULL;
    }
    if (!shared || a->data != shared->data || a->n != shared->n || a->n_marks != shared->n_marks) {
        shared = lm_jinja_new(m, 1, struct jshared);
        if (!shared || !append_shared(m, shared, a))
            return NULL;
    }
    if (!append_shared(m, shared, b))
        return NULL;
    jstr *r = lm_jinja_new(m, 1, jstr);
    if (!r)
        return NULL;
    *r = (jstr){ .data = shared->data, .n = shared->n, .marks = shared->marks, .n_marks = shared->n_marks,
                 .shared = shared, .safe = a->safe };
    return r;
}

/* ---- building ---- */

static bool build_room(jinja *m, jbuild *b, size_t more)
{
    if (m->status != LM_OK)
        return false;
    if (more > J_MAX_TEXT || b->n + more > J_MAX_TEXT)
        return lm_jinja_fail(m, LM_LIMIT, "a text of more than %d bytes", J_MAX_TEXT);
    if (b->capacity - b->n < more + 1) {
        size_t capacity = b->capacity ? 2 * (b->n + more) : more < 48 ? 64 : more + 16;
        char *data = lm_jinja_alloc(m, capacity);
        if (!data)
            return false;
        if (b->n)
            memcpy(data, b->data, b->n);
        b->data = data;
        b->capacity = capacity;
    }
    return true;
}

static bool build_mark(jinja *m, jbuild *b, size_t from, size_t to)
{
    if (b->n_marks && b->marks[b->n_marks - 1].to >= from) {
        b->marks[b->n_marks - 1].to = to;
        return true;
    }
    if (b->n_marks == b->mark_capacity) {
        size_t capacity = b->mark_capacity ? 2 * b->mark_capacity : 4;
        lm_span *marks = lm_jinja_new(m, capacity, lm_span);
        if (!marks)
            return false;
        if (b->n_marks)
            memcpy(marks, b->marks, b->n_marks * sizeof *marks);
        b->marks = marks;
        b->mark_capacity = capacity;
    }
    b->marks[b->n_marks++] = (lm_span){ from, to };
    return true;
}

void lm_jb_add(jinja *m, jbuild *b, const char *data, size_t n, bool content)
{
    if (!n || !lm_jinja_spend(m, n / 256) || !build_room(m, b, n) ||
        (content && !build_mark(m, b, b->n, b->n + n)))
        return;
    memcpy(b->data + b->n, data, n);
    b->n += n;
}

void lm_jb_mark(jinja *m, jbuild *b, size_t from)
{
    while (b->n_marks && b->marks[b->n_marks - 1].from >= from)
        b->n_marks--;
    if (b->n > from)
        build_mark(m, b, from, b->n);
}

void lm_jb_puts(jinja *m, jbuild *b, const char *literal)
{
    lm_jb_add(m, b, literal, strlen(literal), false);
}

void lm_jb_char(jinja *m, jbuild *b, int32_t code_point, bool content)
{
    char bytes[4];
    lm_jb_add(m, b, bytes, lm_utf8_encode((uint32_t)code_point, bytes), content);
}

void lm_jb_slice(jinja *m, jbuild *b, const jstr *s, size_t from, size_t to)
{
    if (to <= from || !lm_jinja_spend(m, (to - from) / 256) || !build_room(m, b, to - from))
        return;
    for (size_t i = first_mark(s, from); i < s->n_marks && s->marks[i].from < to; i++) {
        size_t start = s->marks[i].from > from ? s->marks[i].from : from;
        size_t end = s->marks[i].to < to ? s->marks[i].to : to;
        if (!build_mark(m, b, b->n + start - from, b->n + end - from))
            return;
    }
    memcpy(b->data + b->n, s->data + from, to - from);
    b->n += to - from;
}

void lm_jb_str(jinja *m, jbuild *b, const jstr *s) { lm_jb_slice(m, b, s, 0, s->n); }

bool lm_jb_done(jinja *m, jbuild *b, bool safe, jval *out)
{
    jstr *s = m->status == LM_OK ? lm_jinja_new(m, 1, jstr) : NULL;
    if (!s)
        return false;
    *s = (jstr){
        .data = b->data ? b->data : "", .n = b->n, .marks = b->marks, .n_marks = b->n_marks, .safe = safe
    };
    *out = lm_jv_of_str(s);
    return true;
}

/* ---- comparison and search ---- */

bool lm_jstr_equal(const jstr *a, const jstr *b)
{
    return a->n == b->n && (!a->n || memcmp(a->data, b->data, a->n) == 0);
}

bool lm_jstr_is(const jstr *s, const char *c) { return s->n == strlen(c) && memcmp(s->data, c, s->n) == 0; }

int lm_jstr_compare(const jstr *a, const jstr *b)
{
    size_t n = a->n < b->n ? a->n : b->n;
    int order = n ? memcmp(a->data, b->data, n) : 0;     /* the order of UTF-8 is that of code points */
    if (order)
        return order < 0 ? -1 : 1;
    return a->n == b->n ? 0 : a->n < b->n ? -1 : 1;
}

size_t lm_jstr_length(const jstr *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += ((unsigned char)s->data[i] & 0xC0) != 0x80;
    return n;
}

size_t lm_jstr_offset(const jstr *s, size_t index)
{
    size_t i = 0;
    while (i < s->n && index--) {
        i++;
        while (i < s->n && ((unsigned char)s->data[i] & 0xC0) == 0x80)
            i++;
    }
    return i;
}

size_t lm_jstr_find(const jstr *s, const jstr *needle, size_t from, size_t to)
{
    if (from > to || to - from < needle->n)
        return SIZE_MAX;
    if (!needle->n)
        return from;
    const char *p = memmem(s->data + from, to - from, needle->data, needle->n);
    return p ? (size_t)(p - s->data) : SIZE_MAX;
}

size_t lm_jstr_rfind(const jstr *s, const jstr *needle, size_t from, size_t to)
{
    if (from > to || to - from < needle->n)
        return SIZE_MAX;
    for (size_t i = to - needle->n + 1; i-- > from;)
        if (!needle->n || memcmp(s->data + i, needle->data, needle->n) == 0)
            return i;
    return SIZE_MAX;
}

bool lm_jstr_escape(jinja *m, const jstr *s, const jstr **out)
{
    static const struct { char c; const char *entity; } entities[] = {
        { '&', "&amp;" }, { '>', "&gt;" }, { '<', "&lt;" }, { '\'', "&#39;" }, { '"', "&#34;" },
    };
    jbuild b = { 0 };
    size_t done = 0;
    jval v;

    if (s->safe) {
        *out = s;
        return true;
    }
    for (size_t i = 0; i < s->n; i++) {
        for (size_t k = 0; k < 5; k++) {
            if (s->data[i] != entities[k].c)
                continue;
            lm_jb_slice(m, &b, s, done, i);
            lm_jb_add(m, &b, entities[k].entity, strlen(entities[k].entity), lm_jstr_content_at(s, i));
            done = i + 1;
            break;
        }
    }
    lm_jb_slice(m, &b, s, done, s->n);
    if (!lm_jb_done(m, &b, true, &v))
        return false;
    *out = v.s;
    return true;
}
