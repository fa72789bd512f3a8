/* ggufmeta.c - the keys of a GGUF file as metadata.
 *
 * Values stay where they are in the file's bytes. An array of strings has no index in the file, so the
 * position of every 16th string is recorded while the array is checked: an element is found in at most 15
 * steps, and the positions take at most 1/32 of the array. */
#include "formats/ggufmeta.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/map.h"

enum { STRIDE = 16 };

typedef struct gguf_key {
    lm_view         name;
    uint32_t        type;
    uint32_t        element;         /* arrays */
    uint64_t        n;               /* arrays */
    size_t          start;           /* offset of the key */
    size_t          value;           /* offset of the value; arrays: of the first element */
    size_t          end;
    const uint32_t *marks;           /* arrays of strings: where strings 0, 16, 32 … begin */
} gguf_key;

typedef struct gguf_meta {
    lm_meta   base;
    lm_arena  arena;
    uint8_t  *bytes;
    size_t    size;
    gguf_key *keys;
    size_t    n, capacity;
    lm_map   *index;
} gguf_meta;

static const uint8_t type_bytes[GGUF_TYPES] = {
    [GGUF_U8] = 1,  [GGUF_I8] = 1,  [GGUF_U16] = 2, [GGUF_I16] = 2,  [GGUF_U32] = 4, [GGUF_I32] = 4,
    [GGUF_F32] = 4, [GGUF_BOOL] = 1, [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8,
};

/* ---- checking ---- */

static lm_status skip_string(lm_cursor *c, const char *key, lm_error *e)
{
    lm_view v;
    return lm_cursor_string(c, key, GGUF_MAX_STRING, &v, e);
}

/* Check that booleans are 0 or 1: readers that test for "not 0" and readers that test the lowest bit would
 * differ on others. */
static lm_status check_booleans(lm_view bytes, const char *key, size_t at, lm_error *e)
{
    for (size_t i = 0; i < bytes.size; i++)
        if ((unsigned char)bytes.data[i] > 1)
            return lm_fail(e, LM_BAD_MODEL, key, (int64_t)(at + i),
                           "a boolean of %u, which is neither 0 nor 1", (unsigned char)bytes.data[i]);
    return LM_OK;
}

static lm_status skip_array(lm_cursor *c, const char *key, lm_error *e)
{
    uint32_t element;
    uint64_t n;
    size_t   at = c->at;
    lm_view  v;

    LM_TRY(lm_cursor_u32(c, key, &element, e));
    LM_TRY(lm_cursor_u64(c, key, &n, e));
    if (element == GGUF_ARRAY)
        return lm_fail(e, LM_BAD_MODEL, key, (int64_t)at, "an array of arrays");
    if (element >= GGUF_TYPES)
        return lm_fail(e, LM_BAD_MODEL, key, (int64_t)at, "array elements of unknown type %" PRIu32, element);
    if (n > lm_cursor_left(c) / (element == GGUF_STRING ? 8 : type_bytes[element]))
        return lm_fail(e, LM_BAD_MODEL, key, (int64_t)at,
                       "an array of %" PRIu64 " elements, only %zu bytes are left", n, lm_cursor_left(c));
    if (element != GGUF_STRING) {
        LM_TRY(lm_cursor_view(c, key, n * type_bytes[element], &v, e));
        return element == GGUF_BOOL ? check_booleans(v, key, at + 12, e) : LM_OK;
    }
    for (uint64_t i = 0; i < n; i++)
        LM_TRY(skip_string(c, key, e));
    return LM_OK;
}

lm_status lm_gguf_skip_value(lm_cursor *c, uint32_t type, const char *key, lm_error *e)
{
    lm_view v;
    size_t  at = c->at;

    if (type >= GGUF_TYPES)
        return lm_fail(e, LM_BAD_MODEL, key, (int64_t)c->at, "unknown value type %" PRIu32, type);
    if (type == GGUF_STRING)
        return skip_string(c, key, e);
    if (type == GGUF_ARRAY)
        return skip_array(c, key, e);
    LM_TRY(lm_cursor_view(c, key, type_bytes[type], &v, e));
    return type == GGUF_BOOL ? check_booleans(v, key, at, e) : LM_OK;
}

lm_status lm_gguf_key_name(lm_cursor *c, lm_view *out, lm_error *e)
{
    int64_t at = (int64_t)c->at;

    LM_TRY(lm_cursor_string(c, "metadata key", GGUF_MAX_KEY, out, e));
    if (!out->size)
        return lm_fail(e, LM_BAD_MODEL, "metadata", at, "an empty key");
    for (size_t i = 0; i < out->size; i++)
        if (out->data[i] <= 0x20 || out->data[i] >= 0x7f)
            return lm_fail(e, LM_BAD_MODEL, "metadata", at, "byte 0x%02x in a key",
                           (unsigned char)out->data[i]);
    return LM_OK;
}

/* ---- reading ---- */

static uint64_t little_endian(const uint8_t *p, size_t n)
{
    uint64_t v = 0;

    for (size_t i = n; i-- > 0;)
        v = v << 8 | p[i];
    return v;
}

/* Return the length of the string at p. Written out, so that compilers make one load of it. */
static size_t string_size(const uint8_t *p)
{
    return (size_t)((uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24 |
                    (uint64_t)p[4] << 32 | (uint64_t)p[5] << 40 | (uint64_t)p[6] << 48 |
                    (uint64_t)p[7] << 56);
}

/* Record where every 16th string begins. The array has been checked. */
static lm_status mark_strings(gguf_meta *m, gguf_key *k, lm_error *e)
{
    size_t    n = (size_t)(k->n + STRIDE - 1) / STRIDE, at = k->value;
    uint32_t *marks;

    if (!n)
        return LM_OK;
    if (!(marks = lm_arena_new(&m->arena, n, uint32_t)))
        return lm_fail_memory(e, "metadata", n * sizeof *marks);
    for (uint64_t i = 0; i < k->n; i++) {
        if (i % STRIDE == 0)
            marks[i / STRIDE] = (uint32_t)at;
        at += 8 + string_size(m->bytes + at);
    }
    k->marks = marks;
    return LM_OK;
}

static lm_status read_key(gguf_meta *m, lm_cursor *c, lm_error *e)
{
    gguf_key k = { .start = c->at };
    char     name[161];

    LM_TRY(lm_gguf_key_name(c, &k.name, e));
    snprintf(name, sizeof name, "%.*s", (int)(k.name.size < 160 ? k.name.size : 160), k.name.data);
    LM_TRY(lm_cursor_u32(c, name, &k.type, e));
    k.value = c->at;
    LM_TRY(lm_gguf_skip_value(c, k.type, name, e));
    k.end = c->at;
    if (k.type == GGUF_ARRAY) {
        k.element = (uint32_t)little_endian(m->bytes + k.value, 4);
        k.n       = little_endian(m->bytes + k.value + 4, 8);
        k.value += 12;
        if (k.element == GGUF_STRING)
            LM_TRY(mark_strings(m, &k, e));
    }

    if (m->n == m->capacity) {
        size_t    capacity = m->capacity ? m->capacity * 2 : 64;
        gguf_key *grown = lm_realloc(m->keys, capacity * sizeof *grown);
        if (!grown)
            return lm_fail_memory(e, "metadata", capacity * sizeof *grown);
        m->keys     = grown;
        m->capacity = capacity;
    }
    if (!lm_map_add(m->index, k.name, m->n))
        return lm_map_failed(m->index)
                   ? lm_fail_memory(e, "metadata", m->n)
                   : lm_fail(e, LM_BAD_MODEL, name, (int64_t)k.start, "the key appears twice");
    m->keys[m->n++] = k;
    return LM_OK;
}

static void gguf_free(lm_meta *base)
{
    gguf_meta *m = (gguf_meta *)base;

    lm_map_free(m->index);
    lm_free(m->keys);
    lm_free(m->bytes);
    lm_arena_free(&m->arena);
    lm_free(m);
}

static const lm_meta_source gguf_source;

lm_status lm_gguf_read_keys(lm_cursor *c, uint8_t *bytes, uint64_t n, const char *file, lm_meta **out,
                            lm_error *e)
{
    lm_status  status = LM_OK;
    gguf_meta *m = lm_alloc_zero(1, sizeof *m);

    if (!m) {
        lm_free(bytes);
        return lm_fail_memory(e, "metadata", sizeof *m);
    }
    m->base.source = &gguf_source;
    m->bytes       = bytes;
    m->size        = c->size;
    m->base.file   = lm_arena_strdup(&m->arena, file);
    m->index       = lm_map_new(64);
    if (!m->base.file || !m->index)
        LM_TRY_GOTO(status, lm_fail_memory(e, "metadata", sizeof *m), done);
    for (uint64_t i = 0; i < n; i++)
        LM_TRY_GOTO(status, read_key(m, c, e), done);
    *out = &m->base;
    return LM_OK;

done:
    gguf_free(&m->base);
    return status;
}

/* ---- access ---- */

static lm_meta_value signed_value(int64_t i)
{
    return i < 0 ? (lm_meta_value){ .kind = LM_META_INT, .i = i }
                 : (lm_meta_value){ .kind = LM_META_UINT, .u = (uint64_t)i };
}

static double float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

static double double_of(uint64_t bits)
{
    double f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static lm_meta_value scalar(const uint8_t *p, uint32_t type)
{
    uint64_t u = little_endian(p, type == GGUF_STRING ? 8 : type_bytes[type]);

    switch (type) {
    case GGUF_I8:     return signed_value((int8_t)u);
    case GGUF_I16:    return signed_value((int16_t)u);
    case GGUF_I32:    return signed_value((int32_t)u);
    case GGUF_I64:    return signed_value((int64_t)u);
    case GGUF_F32:    return (lm_meta_value){ .kind = LM_META_FLOAT, .f = float_of((uint32_t)u) };
    case GGUF_F64:    return (lm_meta_value){ .kind = LM_META_FLOAT, .f = double_of(u) };
    case GGUF_BOOL:   return (lm_meta_value){ .kind = LM_META_BOOL, .b = u != 0 };
    case GGUF_STRING:
        return (lm_meta_value){ .kind = LM_META_STRING, .s = { (const char *)p + 8, (size_t)u } };
    default:          return (lm_meta_value){ .kind = LM_META_UINT, .u = u };
    }
}

static lm_meta_value value_of(const gguf_meta *m, const gguf_key *k)
{
    lm_meta_value v = { .kind = LM_META_ARRAY };

    if (k->type != GGUF_ARRAY)
        return scalar(m->bytes + k->value, k->type);
    v.a.n       = k->n;
    v.a.impl    = k;
    v.a.owner   = &m->base;
    v.a.element = k->element;
    return v;
}

static const gguf_key *find(const lm_meta *base, const char *key)
{
    const gguf_meta *m = (const gguf_meta *)base;
    uint64_t         i;

    return lm_map_get(m->index, lm_view_of(key), &i) ? &m->keys[i] : NULL;
}

static bool gguf_get(const lm_meta *m, const char *key, lm_meta_value *out)
{
    const gguf_key *k = find(m, key);

    if (k)
        *out = value_of((const gguf_meta *)m, k);
    return k != NULL;
}

static bool gguf_at(const lm_meta_value *array, uint64_t i, lm_meta_value *out)
{
    const gguf_meta *m = (const gguf_meta *)array->a.owner;
    const gguf_key  *k = array->a.impl;
    const uint8_t   *p = m->bytes + k->value;

    if (k->element == GGUF_STRING) {
        p = m->bytes + k->marks[i / STRIDE];
        for (uint64_t left = i % STRIDE; left; left--)
            p += 8 + string_size(p);
    } else {
        p += i * type_bytes[k->element];
    }
    *out = scalar(p, k->element);
    return true;
}

static size_t gguf_count(const lm_meta *m)
{
    return ((const gguf_meta *)m)->n;
}

static bool gguf_entry(const lm_meta *base, size_t i, lm_view *key, lm_meta_value *out)
{
    const gguf_meta *m = (const gguf_meta *)base;

    if (i >= m->n)
        return false;
    *key = m->keys[i].name;
    *out = value_of(m, &m->keys[i]);
    return true;
}

static bool gguf_member(const lm_meta_value *object, uint64_t i, lm_view *key, lm_meta_value *out)
{
    (void)object, (void)i, (void)key, (void)out;
    return false;                    /* GGUF has no objects */
}

static const lm_meta_source gguf_source = {
    gguf_get, gguf_at, gguf_count, gguf_entry, gguf_member, gguf_free
};

bool lm_gguf_is_meta(const lm_meta *m)
{
    return m->source == &gguf_source;
}

lm_view lm_gguf_raw_entry(const lm_meta *base, size_t i)
{
    const gguf_meta *m = (const gguf_meta *)base;

    if (!lm_gguf_is_meta(base) || i >= m->n)
        return (lm_view){ NULL, 0 };
    return (lm_view){ (const char *)m->bytes + m->keys[i].start, m->keys[i].end - m->keys[i].start };
}

uint32_t lm_gguf_type_of(const lm_meta *m, const char *key)
{
    const gguf_key *k = lm_gguf_is_meta(m) ? find(m, key) : NULL;

    return k ? k->type : GGUF_TYPES;
}

size_t lm_gguf_floats_at(const lm_meta *m, const char *key, uint64_t *n)
{
    const gguf_key *k = lm_gguf_is_meta(m) ? find(m, key) : NULL;

    if (!k || k->type != GGUF_ARRAY || k->element != GGUF_F32)
        return 0;
    *n = k->n;
    return k->value;
}
