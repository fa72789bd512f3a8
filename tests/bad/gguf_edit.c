#include "gguf_edit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { T_U8, T_I8, T_U16, T_I16, T_U32, T_I32, T_F32, T_BOOL, T_STRING, T_ARRAY, T_U64, T_I64, T_F64, TYPES };

static const uint8_t sizes[TYPES] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };

static void fail(const char *path, const char *what)
{
    fprintf(stderr, "%s: %s\n", path, what);
    exit(1);
}

static void *room(size_t n)
{
    void *p = malloc(n ? n : 1);

    if (!p)
        fail("memory", "there is none");
    return p;
}

static uint64_t number(const uint8_t *at, unsigned bytes)
{
    uint64_t v = 0;

    memcpy(&v, at, bytes);
    return v;
}

/* ---- the file ---- */

static size_t size_of(const uint8_t *at, uint32_t type)
{
    if (type == T_STRING)
        return 8 + number(at, 8);
    if (type != T_ARRAY)
        return sizes[type];
    uint32_t inner = (uint32_t)number(at, 4);
    size_t   size  = 12;
    for (uint64_t i = 0, n = number(at + 4, 8); i < n; i++)
        size += size_of(at + size, inner);
    return size;
}

static size_t aligned(size_t n)
{
    return (n + 31) / 32 * 32;
}

void gguf_edit_read(const char *path, gguf_edit *out)
{
    FILE *in = fopen(path, "rb");

    if (!in || fseek(in, 0, SEEK_END) != 0)
        fail(path, "not read");
    out->size = (size_t)ftell(in);
    out->file = room(out->size);
    rewind(in);
    if (fread(out->file, 1, out->size, in) != out->size)
        fail(path, "not read");
    fclose(in);
    out->n    = number(out->file + 16, 8);
    out->keys = room(out->n * sizeof *out->keys);
    size_t at = 24;
    for (size_t i = 0; i < out->n; i++) {
        size_t name = number(out->file + at, 8);
        snprintf(out->keys[i].name, sizeof out->keys[i].name, "%.*s", (int)name,
                 (const char *)out->file + at + 8);
        at += 8 + name;
        gguf_value *v = &out->keys[i].value;
        v->type = (uint32_t)number(out->file + at, 4);
        v->data = out->file + at + 4;
        v->size = size_of(v->data, v->type);
        at += 4 + v->size;
    }
    out->tensors = at;
    for (uint64_t i = 0, n = number(out->file + 8, 8); i < n; i++) {
        at += 8 + number(out->file + at, 8);
        at += 4 + 8 * number(out->file + at, 4) + 12;
    }
    out->tensors_end = at;
    out->data        = aligned(at);
}

void gguf_edit_free(gguf_edit *f)
{
    free(f->file);
    free(f->keys);
}

const gguf_value *gguf_edit_find(const gguf_edit *f, const char *key)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->keys[i].name, key) == 0)
            return &f->keys[i].value;
    return NULL;
}

void gguf_edit_write(const gguf_edit *f, const char *key, const gguf_value *v, const char *path)
{
    unlink(path);                        /* when a truncated file is written again, some file systems wait for
                                            the disk */
    FILE    *out   = fopen(path, "wb");
    uint64_t n     = f->n - (gguf_edit_find(f, key) && !v);
    size_t   at    = 24;
    bool     whole = out && fwrite(f->file, 1, 16, out) == 16 && fwrite(&n, 8, 1, out) == 1;

    for (size_t i = 0; whole && i < f->n; i++) {
        const gguf_value *own = &f->keys[i].value, *put = strcmp(f->keys[i].name, key) == 0 ? v : own;
        uint64_t          length = strlen(f->keys[i].name);
        if (!put)
            continue;
        whole = fwrite(&length, 8, 1, out) == 1 && fwrite(f->keys[i].name, 1, length, out) == length &&
                fwrite(&put->type, 4, 1, out) == 1 && fwrite(put->data, 1, put->size, out) == put->size;
        at += 12 + length + put->size;
    }
    static const uint8_t zeros[32];
    size_t table = f->tensors_end - f->tensors, gap = aligned(at + table) - at - table,
           rest = f->size - f->data;
    whole = whole && fwrite(f->file + f->tensors, 1, table, out) == table &&
            fwrite(zeros, 1, gap, out) == gap && fwrite(f->file + f->data, 1, rest, out) == rest;
    if (!whole || fclose(out) != 0)
        fail(path, "not written");
}

/* ---- values ---- */

static bool is_number(uint32_t type)
{
    return type < TYPES && sizes[type] && type != T_BOOL;
}

static double value_of(const uint8_t *at, uint32_t type)
{
    uint64_t u = number(at, sizes[type]);
    unsigned gone = 64 - 8u * sizes[type];
    float    f;
    double   d;

    switch (type) {
    case T_I8: case T_I16: case T_I32: case T_I64:
        return (double)((int64_t)(u << gone) >> gone);
    case T_F32:
        memcpy(&f, at, 4);
        return (double)f;
    case T_F64:
        memcpy(&d, at, 8);
        return d;
    default:
        return (double)u;
    }
}

static void put_number(uint8_t *at, uint32_t type, double v)
{
    float    f = (float)v;
    uint64_t u = v < 0 ? (uint64_t)(int64_t)v : (uint64_t)v;

    if (type == T_F32)
        memcpy(at, &f, 4);
    else if (type == T_F64)
        memcpy(at, &v, 8);
    else
        memcpy(at, &u, sizes[type]);
}

static gguf_value scalar(uint32_t type, double v)
{
    gguf_value out = { .type = type, .data = room(sizes[type]), .size = sizes[type] };

    put_number(out.data, type, v);
    return out;
}

static gguf_value string(const char *text)
{
    uint64_t   n   = strlen(text);
    gguf_value out = { .type = T_STRING, .data = room(8 + n), .size = 8 + n };

    memcpy(out.data, &n, 8);
    memcpy(out.data + 8, text, n);
    return out;
}

static gguf_value copy(const gguf_value *v)
{
    gguf_value out = { .type = v->type, .data = room(v->size), .size = v->size };

    memcpy(out.data, v->data, v->size);
    return out;
}

/* Return an array with the first `n` elements, or, if it has fewer, all of them and the first once more. */
static gguf_value of_length(const gguf_value *v, uint64_t n)
{
    uint32_t   inner = (uint32_t)number(v->data, 4);
    uint64_t   has   = number(v->data + 4, 8);
    size_t     first = has ? size_of(v->data + 12, inner) : 0, size = 12;
    gguf_value out   = { .type = T_ARRAY, .data = room(v->size + first) };

    memcpy(out.data, v->data, v->size);
    memcpy(out.data + 4, &n, 8);
    for (uint64_t i = 0; i < n && i < has; i++)
        size += size_of(v->data + size, inner);
    if (n > has) {
        memcpy(out.data + size, v->data + 12, first);
        size += first;
    }
    out.size = size;
    return out;
}

/* Return an array with the first element replaced by `e`. */
static gguf_value with_first(const gguf_value *v, const gguf_value *e)
{
    size_t     first = size_of(v->data + 12, (uint32_t)number(v->data, 4));
    gguf_value out = { .type = T_ARRAY,
                       .data = room(v->size - first + e->size),
                       .size = v->size - first + e->size };

    memcpy(out.data, v->data, 12);
    memcpy(out.data + 12, e->data, e->size);
    memcpy(out.data + 12 + e->size, v->data + 12 + first, v->size - 12 - first);
    return out;
}

static bool number_change(const gguf_value *v, unsigned i, gguf_value *out, char *how)
{
    double                now    = value_of(v->data, v->type);
    bool                  real   = v->type == T_F32 || v->type == T_F64;
    const double more[] = { 0, -1, now + 1, real ? now * 1.5 : now - 1, 1, 3, 0x1p31, 0x1p32 - 1,
                            3e38, (double)NAN, INFINITY };
    const unsigned        n      = real ? 11 : 8;
    static const uint32_t other[] = { T_F32, T_U32, T_I64 };

    if (i < n) {
        *out = scalar(v->type, more[i]);
        snprintf(how, 64, "%g", more[i]);
        return true;
    }
    if (i < n + 3) {
        uint32_t type = other[i - n];
        *out = scalar(type, now + 2);
        snprintf(how, 64, "%g as type %u", now + 2, type);
        return true;
    }
    if (i == n + 3) {
        *out = string("x");
        snprintf(how, 64, "a string");
    }
    return i == n + 3;
}

static bool bool_change(const gguf_value *v, unsigned i, gguf_value *out, char *how)
{
    const char *const names[] = { "the other", "neither 0 nor 1", "a number", "a string" };

    if (i > 3)
        return false;
    *out = i == 3 ? string("x") : scalar(i == 2 ? T_U32 : T_U8, i == 1 ? 2 : !v->data[0]);
    out->type = i < 2 ? T_BOOL : out->type;
    snprintf(how, 64, "%s", names[i]);
    return true;
}

static bool string_change(const gguf_value *v, unsigned i, gguf_value *out, char *how)
{
    const char *const names[] = { "empty",    "another word", "its beginning is another",
                                  "no UTF-8", "a number",     "an array" };
    static uint8_t    none[12] = { T_STRING };

    if (i > 5)
        return false;
    snprintf(how, 64, "%s", names[i]);
    *out = i == 0   ? string("")
           : i == 1 ? string("another")
           : i == 2 ? copy(v)
           : i == 3 ? string("\xff\xfe")
                    : scalar(T_U32, 7);
    if (i == 2 && out->size > 8)
        out->data[8] = '~';
    if (i == 5) {
        gguf_value_free(out);
        *out = copy(&(gguf_value){ .type = T_ARRAY, .data = none, .size = 12 });
    }
    return true;
}

static bool array_change(const gguf_value *v, unsigned i, gguf_value *out, char *how)
{
    uint32_t   inner = (uint32_t)number(v->data, 4);
    uint64_t   n     = number(v->data + 4, 8);
    gguf_value first = { .type = inner, .data = v->data + 12 }, element;
    bool       more;

    switch (i) {
    case 0:
        *out = of_length(v, 0);
        snprintf(how, 64, "no elements");
        return true;
    case 1:
        *out = of_length(v, n + 1);
        snprintf(how, 64, "one element more");
        return n > 0;
    case 2:
        *out = of_length(v, n ? n - 1 : 0);
        snprintf(how, 64, "one element less");
        return true;
    case 3:
        *out = scalar(T_U32, 1);
        snprintf(how, 64, "one number");
        return true;
    default:
        if (!n)
            return false;
        first.size = size_of(first.data, inner);
        do                                   /* of the same type, because the other elements keep theirs */
            more = gguf_value_change(&first, i++ - 4, &element, how);
        while (more && element.type != inner && (gguf_value_free(&element), true));
        if (!more)
            return false;
        *out = with_first(v, &element);
        gguf_value_free(&element);
        memmove(how + 7, how, 56);
        memcpy(how, "first: ", 7);
        return true;
    }
}

bool gguf_value_change(const gguf_value *v, unsigned i, gguf_value *out, char *how)
{
    if (v->type == T_BOOL)
        return bool_change(v, i, out, how);
    if (v->type == T_STRING)
        return string_change(v, i, out, how);
    return v->type == T_ARRAY ? array_change(v, i, out, how) : number_change(v, i, out, how);
}

void gguf_value_free(gguf_value *v)
{
    free(v->data);
    v->data = NULL;
}

bool gguf_value_same(const gguf_value *a, const gguf_value *b)
{
    if (is_number(a->type) && is_number(b->type))
        return value_of(a->data, a->type) == value_of(b->data, b->type);
    return a->type == b->type && a->size == b->size && memcmp(a->data, b->data, a->size) == 0;
}

uint64_t gguf_value_hash(const gguf_value *v)
{
    uint64_t h = 14695981039346656037u + v->type;

    for (size_t i = 0; i < v->size; i++)
        h = (h ^ v->data[i]) * 1099511628211u;
    return h;
}
