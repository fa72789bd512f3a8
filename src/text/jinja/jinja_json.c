/* jinja_json.c - convert values from JSON (jansson) and to JSON (Python's json.dumps). */
#include "text/jinja/jinja.h"

#include <math.h>
#include <string.h>

/* ---- from JSON ---- */

/* Return whether a value is a role. Templates write roles into control tokens ('<|' + role + '|>'), so a role
 * that is a plain word is not content; otherwise such a token would be taken for text. */
static bool is_role(const char *key, const json_t *value)
{
    if (strcmp(key, "role") != 0 || !json_is_string(value) || json_string_length(value) > 32)
        return false;
    const char *s = json_string_value(value);
    for (size_t i = 0; i < json_string_length(value); i++)
        if (!((s[i] | 0x20) >= 'a' && (s[i] | 0x20) <= 'z') && s[i] != '_' && s[i] != '-')
            return false;
    return true;
}

static bool dict_from_json(jinja *m, const json_t *j, bool content, unsigned depth, jval *out)
{
    jdict *d = lm_jinja_new(m, 1, jdict);
    json_t *object = (json_t *)j;                  /* jansson iterates only over a non-const object */
    size_t n = json_object_size(j);

    if (!d)
        return false;
    d->pairs = lm_jinja_new(m, n ? n : 1, jpair);
    d->capacity = n;
    if (!d->pairs)
        return false;
    for (void *i = json_object_iter(object); i; i = json_object_iter_next(object, i)) {
        const char *name = json_object_iter_key(i);
        const json_t *value = json_object_iter_value(i);
        jpair *p = &d->pairs[d->n++];
        const jstr *key = lm_jstr_copy(m, name, strlen(name), content);
        if (!key || !lm_jinja_from_json(m, value, content && !is_role(name, value), depth + 1, &p->value))
            return false;
        p->key = lm_jv_of_str(key);
    }
    *out = lm_jv_of_dict(d);
    return true;
}

static bool list_from_json(jinja *m, const json_t *j, bool content, unsigned depth, jval *out)
{
    size_t n = json_array_size(j);
    jlist *l = lm_jinja_new(m, 1, jlist);
    jval *items = lm_jinja_new(m, n ? n : 1, jval);

    if (!l || !items)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!lm_jinja_from_json(m, json_array_get(j, i), content, depth + 1, &items[i]))
            return false;
    *l = (jlist){ .items = items, .n = n };
    *out = lm_jv_of_list(l);
    return true;
}

/* Python's integers are unbounded: one beyond 64 bits is stored as its digits. */
static bool number_from_json(jinja *m, double x, jval *out)
{
    const lm_wide_number *wide = lm_wide_find(&m->wide, x);
    jstr *digits;

    *out = lm_jv_float(x);
    if (!wide || !lm_wide_is_integer(wide))
        return true;
    digits = lm_jinja_new(m, 1, jstr);
    if (!digits)
        return false;
    *digits = (jstr){ .data = wide->text, .n = wide->n };
    *out = (jval){ .type = J_BIG, .s = digits };
    return true;
}

bool lm_jinja_from_json(jinja *m, const json_t *j, bool content, unsigned depth, jval *out)
{
    if (depth > J_MAX_DATA)
        return lm_jinja_fail(m, LM_LIMIT, "variables nested deeper than %d", J_MAX_DATA);
    switch (json_typeof(j)) {
    case JSON_OBJECT:
        return dict_from_json(m, j, content, depth, out);
    case JSON_ARRAY:
        return list_from_json(m, j, content, depth, out);
    case JSON_STRING: {
        const jstr *s = lm_jstr_copy(m, json_string_value(j), json_string_length(j), content);
        *out = lm_jv_of_str(s);
        return s != NULL;
    }
    case JSON_INTEGER:
        *out = lm_jv_int(json_integer_value(j));
        return true;
    case JSON_REAL:
        return number_from_json(m, json_real_value(j), out);
    case JSON_TRUE: case JSON_FALSE:
        *out = lm_jv_bool(json_is_true(j));
        return true;
    case JSON_NULL:
        break;
    }
    *out = lm_jv_none();
    return true;
}

/* ---- to JSON ---- */

static void put_string(jinja *m, jbuild *b, const jstr *s, bool ascii)
{
    static const char named[] = "\"\"\\\\\nn\rr\tt\bb\ff";
    size_t done = 0, n;

    lm_jb_puts(m, b, "\"");
    for (size_t i = 0; i < s->n && m->status == LM_OK; i += n) {
        int32_t c = lm_cp_at(s->data, i, &n);
        char escape[16];
        int length = 0;

        for (size_t k = 0; c < 0x80 && k + 1 < sizeof named; k += 2)
            if (named[k] == (char)c)
                length = snprintf(escape, sizeof escape, "\\%c", named[k + 1]);
        if (!length && (c < 0x20 || (ascii && c > 0x7E && c < 0x10000)))
            length = snprintf(escape, sizeof escape, "\\u%04x", (unsigned)c);
        else if (!length && ascii && c >= 0x10000)
            length = snprintf(escape, sizeof escape, "\\u%04x\\u%04x",
                              0xD800u + (((unsigned)c - 0x10000) >> 10),
                              0xDC00u + (((unsigned)c - 0x10000) & 0x3FF));
        if (!length)
            continue;
        lm_jb_slice(m, b, s, done, i);
        lm_jb_add(m, b, escape, (size_t)length, lm_jstr_content_at(s, i));
        done = i + n;
    }
    lm_jb_slice(m, b, s, done, s->n);
    lm_jb_puts(m, b, "\"");
}

static void put_line(jinja *m, jbuild *b, const jdumps *how, unsigned depth)
{
    if (!how->indent)
        return;
    lm_jb_puts(m, b, "\n");
    for (unsigned i = 0; i < depth; i++)
        lm_jb_str(m, b, how->indent);
}

static bool put_json(jinja *m, jbuild *b, jval v, const jdumps *how, unsigned depth);

static void put_number(jinja *m, jbuild *b, jval v)
{
    char text[LM_FLOAT_TEXT];
    size_t n = lm_float_text(v.f, text);
    if (isnan(v.f))
        lm_jb_puts(m, b, "NaN");
    else if (isinf(v.f))
        lm_jb_puts(m, b, v.f < 0 ? "-Infinity" : "Infinity");
    else
        lm_jb_add(m, b, text, n, false);
}

static bool put_key(jinja *m, jbuild *b, jval key, const jdumps *how)
{
    if (key.type == J_STR) {
        put_string(m, b, key.s, how->ensure_ascii);
        return m->status == LM_OK;
    }
    if (key.type != J_NONE && key.type != J_BIG && !lm_jv_is_number(key))
        return lm_jinja_type_error(m, "keys must be str, int, float, bool or None, not", key);
    lm_jb_puts(m, b, "\"");
    if (!put_json(m, b, key, how, 0))
        return false;
    lm_jb_puts(m, b, "\"");
    return true;
}

/* Sort pairs by key. A merge sort, because an insertion sort would be quadratic. */
static bool sort_pairs(jinja *m, jpair *pairs, jpair *scratch, size_t n)
{
    if (n < 2)
        return true;
    size_t half = n / 2, i = 0, j = half, k = 0;
    if (!sort_pairs(m, pairs, scratch, half) || !sort_pairs(m, pairs + half, scratch, n - half))
        return false;
    while (i < half || j < n) {
        int order = i == half ? 1 : -1;
        if (i < half && j < n && !lm_jv_less(m, pairs[j].key, pairs[i].key, "<", &order))
            return false;
        if (i < half && j < n)
            order = order == -1 ? 1 : -1;
        scratch[k++] = order == 1 ? pairs[j++] : pairs[i++];
    }
    memcpy(pairs, scratch, n * sizeof *pairs);
    return true;
}

static bool put_object(jinja *m, jbuild *b, const jdict *d, const jdumps *how, unsigned depth)
{
    const jpair *pairs = d->pairs;

    if (how->sort_keys && d->n > 1) {
        jpair *sorted = lm_jinja_new(m, 2 * d->n, jpair);
        if (!sorted)
            return false;
        memcpy(sorted, pairs, d->n * sizeof *sorted);
        if (!sort_pairs(m, sorted, sorted + d->n, d->n))
            return false;
        pairs = sorted;
    }
    lm_jb_puts(m, b, "{");
    for (size_t i = 0; i < d->n; i++) {
        if (i)
            lm_jb_str(m, b, how->item);
        put_line(m, b, how, depth + 1);
        if (!put_key(m, b, pairs[i].key, how))
            return false;
        lm_jb_str(m, b, how->key);
        if (!put_json(m, b, pairs[i].value, how, depth + 1))
            return false;
    }
    if (d->n)
        put_line(m, b, how, depth);
    lm_jb_puts(m, b, "}");
    return true;
}

static bool put_json(jinja *m, jbuild *b, jval v, const jdumps *how, unsigned depth)
{
    if (!lm_jinja_spend(m, 1))
        return false;
    if (depth > J_MAX_DATA)
        return lm_jinja_fail(m, LM_LIMIT, "values nested deeper than %d", J_MAX_DATA);
    switch (v.type) {
    case J_NONE:
        lm_jb_puts(m, b, "null");
        break;
    case J_BOOL:
        lm_jb_puts(m, b, v.b ? "true" : "false");
        break;
    case J_INT: case J_BIG:
        lm_jb_value(m, b, v);
        break;
    case J_FLOAT:
        put_number(m, b, v);
        break;
    case J_STR:
        put_string(m, b, v.s, how->ensure_ascii);
        break;
    case J_LIST: case J_TUPLE:
        lm_jb_puts(m, b, "[");
        for (size_t i = 0; i < v.l->n; i++) {
            if (i)
                lm_jb_str(m, b, how->item);
            put_line(m, b, how, depth + 1);
            if (!put_json(m, b, v.l->items[i], how, depth + 1))
                return false;
        }
        if (v.l->n)
            put_line(m, b, how, depth);
        lm_jb_puts(m, b, "]");
        break;
    case J_DICT:
        return put_object(m, b, v.d, how, depth);
    default:
        return lm_jinja_fail(m, LM_FAILED, "object of type %s is not JSON serializable", lm_jv_type_name(v));
    }
    return m->status == LM_OK;
}

bool lm_jinja_dumps(jinja *m, jval v, const jdumps *how, jval *out)
{
    jbuild b = { 0 };

    if (!put_json(m, &b, v, how, 0))
        return false;
    if ((v.type == J_LIST || v.type == J_TUPLE || v.type == J_DICT) && lm_jv_has_content(m, v, 0))
        lm_jb_mark(m, &b, 0);
    return lm_jb_done(m, &b, false, out);
}
