/* gguf_mutator.c - random bytes fail at the magic number; this mutator parses the file leniently and changes
 * what it finds. */
#include "gguf_mutator.h"

#include "fuzz.h"

enum { MAX_FIELDS = 4096, MAX_ENTRIES = 512 };

typedef struct field {
    size_t at, width;                    /* a little-endian integer, or a float */
} field;

typedef struct entry {
    size_t from, to;                     /* a key with its value, or an entry of the tensor table */
} entry;

typedef struct layout {
    const uint8_t *data;
    size_t         size, at;
    field          fields[MAX_FIELDS];
    size_t         n_fields;
    field          texts[MAX_FIELDS];    /* bytes of strings */
    size_t         n_texts;
    entry          keys[MAX_ENTRIES], tensors[MAX_ENTRIES];
    size_t         n_keys, n_tensors;
} layout;

static uint64_t get(const uint8_t *p, size_t width)
{
    uint64_t v = 0;
    for (size_t i = width; i-- > 0;)
        v = v << 8 | p[i];
    return v;
}

static void set(uint8_t *p, size_t width, uint64_t v)
{
    for (size_t i = 0; i < width; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

static bool number(layout *l, size_t width, uint64_t *v)
{
    if (l->size - l->at < width)
        return false;
    *v = get(l->data + l->at, width);
    if (l->n_fields < MAX_FIELDS)
        l->fields[l->n_fields++] = (field){ l->at, width };
    l->at += width;
    return true;
}

static bool string(layout *l)
{
    uint64_t n;

    if (!number(l, 8, &n) || n > l->size - l->at)
        return false;
    if (n && l->n_texts < MAX_FIELDS)
        l->texts[l->n_texts++] = (field){ l->at, n };
    l->at += n;
    return true;
}

static const uint8_t widths[13] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };

static bool value(layout *l, uint64_t type)
{
    uint64_t element, n, v;

    if (type == 8)
        return string(l);
    if (type != 9)
        return type < 13 && number(l, widths[type], &v);
    if (!number(l, 4, &element) || !number(l, 8, &n) || element >= 13 || element == 9)
        return false;
    for (uint64_t i = 0; i < n; i++) {
        if (element == 8 ? !string(l) : l->n_fields < MAX_FIELDS / 2 && !number(l, widths[element], &v))
            return false;
        if (element != 8 && l->n_fields >= MAX_FIELDS / 2) {
            if (n - i > (l->size - l->at) / widths[element])
                return false;
            l->at += (n - i) * widths[element];
            break;
        }
    }
    return true;
}

static bool one_key(layout *l)
{
    uint64_t type;
    return string(l) && number(l, 4, &type) && value(l, type);
}

static bool one_tensor(layout *l)
{
    uint64_t dims, v;

    if (!string(l) || !number(l, 4, &dims) || dims > 8)
        return false;
    for (uint64_t i = 0; i < dims; i++)
        if (!number(l, 8, &v))
            return false;
    return number(l, 4, &v) && number(l, 8, &v);
}

/* Parse the file as far as it is valid. */
static void read_layout(layout *l, const uint8_t *data, size_t size)
{
    uint64_t v, n_tensors, n_keys;

    memset(l, 0, sizeof *l);
    l->data = data;
    l->size = size;
    if (size < 24)
        return;
    l->at = 4;
    number(l, 4, &v);
    number(l, 8, &n_tensors);
    number(l, 8, &n_keys);
    for (uint64_t i = 0; i < n_keys; i++) {
        entry e = { l->at, 0 };
        if (!one_key(l))
            return;
        e.to = l->at;
        if (l->n_keys < MAX_ENTRIES)
            l->keys[l->n_keys++] = e;
    }
    for (uint64_t i = 0; i < n_tensors; i++) {
        entry e = { l->at, 0 };
        if (!one_tensor(l))
            return;
        e.to = l->at;
        if (l->n_tensors < MAX_ENTRIES)
            l->tensors[l->n_tensors++] = e;
    }
}

/* Replace `out` bytes at `at` by the `n` bytes of `in`. Returns the new size, or `size` if that exceeds
 * `max`. */
static size_t splice(uint8_t *data, size_t size, size_t max, size_t at, size_t out, const uint8_t *in,
                     size_t n)
{
    if (size - out + n > max)
        return size;
    memmove(data + at + n, data + at + out, size - at - out);
    if (n)
        memcpy(data + at, in, n);
    return size - out + n;
}

/* Copy, drop or swap a whole entry, usually with the count corrected. */
static size_t change_entries(const layout *l, uint8_t *data, size_t size, size_t max, unsigned *seed)
{
    bool         tensors = l->n_tensors && (below(seed, 2) || !l->n_keys);
    const entry *list = tensors ? l->tensors : l->keys;
    size_t       n = tensors ? l->n_tensors : l->n_keys, count_at = tensors ? 8 : 16;
    uint64_t     count = get(data + count_at, 8);
    entry        e, to;
    uint8_t      copy[4096];
    size_t       length, grown;

    if (!n)
        return size;
    e      = list[below(seed, n)];
    to     = list[below(seed, n)];
    length = e.to - e.from;
    if (length > sizeof copy)
        return size;
    memcpy(copy, data + e.from, length);
    if (below(seed, 2)) {
        grown = splice(data, size, max, to.from, 0, copy, length);
        count += grown != size;
    } else {
        grown = splice(data, size, max, e.from, length, NULL, 0);
        count--;
    }
    if (below(seed, 8))
        set(data + count_at, 8, count);
    return grown;
}

/* Change a string together with its length. */
static size_t change_text(const layout *l, uint8_t *data, size_t size, size_t max, unsigned *seed)
{
    field   t = l->texts[below(seed, l->n_texts)];
    uint8_t text[512];
    size_t  n = t.width < sizeof text / 2 ? t.width : sizeof text / 2;

    memcpy(text, data + t.at, n);
    n = LLVMFuzzerMutate(text, n, sizeof text);
    if (t.at < 8 || size - t.width + n > max)
        return size;
    set(data + t.at - 8, 8, n);
    return splice(data, size, max, t.at, t.width, text, n);
}

static size_t change_one(uint8_t *data, size_t size, size_t max, unsigned *seed)
{
    static layout l;

    read_layout(&l, data, size);
    switch (below(seed, 8)) {
    case 0:
        return change_entries(&l, data, size, max, seed);
    case 1:
        return l.n_texts ? change_text(&l, data, size, max, seed) : size;
    case 2:
        return size - below(seed, size < 64 ? size : 64);                     /* truncate */
    case 3:
        return LLVMFuzzerMutate(data, size, max);
    default:
        if (l.n_fields) {
            field f = l.fields[below(seed, l.n_fields)];
            set(data + f.at, f.width, edge(seed, get(data + f.at, f.width), size));
        }
        return size;
    }
}

size_t gguf_mutate(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    static const uint8_t min[24] = "GGUF\3\0\0\0";

    if (size < 24 && max_size >= 24) {
        memcpy(data, min, 24);
        size = 24;
    }
    for (size_t n = 1 + below(&seed, 3); n && size; n--)
        size = change_one(data, size, max_size, &seed);
    return size;
}
