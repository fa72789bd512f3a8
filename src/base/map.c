/* map.c - open addressing, linear probing, at most two thirds full. */
#include "base/map.h"

#include <sodium.h>
#include <string.h>

#include "base/alloc.h"

typedef struct slot {
    lm_view  key;                /* data NULL: empty */
    uint64_t value, hash;
} slot;

struct lm_map {
    slot         *slots;
    size_t        capacity, size;
    bool          failed;
    unsigned char key[crypto_shorthash_KEYBYTES];
};

static uint64_t hash_of(const lm_map *m, lm_view key)
{
    uint64_t h;

    crypto_shorthash((unsigned char *)&h, (const unsigned char *)(key.data ? key.data : ""), key.size,
                     m->key);
    return h;
}

lm_map *lm_map_new(size_t expected)
{
    lm_map *m        = lm_alloc_zero(1, sizeof *m);
    size_t  capacity = 16;

    if (!m)
        return NULL;
    while (capacity / 3 * 2 <= expected && capacity < SIZE_MAX / 4)
        capacity *= 2;
    m->slots    = lm_alloc_zero(capacity, sizeof *m->slots);
    m->capacity = capacity;
    if (!m->slots || sodium_init() < 0) {
        lm_map_free(m);
        return NULL;
    }
    crypto_shorthash_keygen(m->key);
    return m;
}

void lm_map_free(lm_map *m)
{
    if (!m)
        return;
    lm_free(m->slots);
    lm_free(m);
}

/* Return the slot of a key, or the empty one where it belongs. */
static slot *find(const lm_map *m, lm_view key, uint64_t hash)
{
    size_t i = (size_t)hash & (m->capacity - 1);

    while (m->slots[i].key.data && !(m->slots[i].hash == hash && lm_view_equal(m->slots[i].key, key)))
        i = (i + 1) & (m->capacity - 1);
    return &m->slots[i];
}

static bool grow(lm_map *m)
{
    size_t old      = m->capacity;
    slot  *before   = m->slots;
    slot  *after    = lm_alloc_zero(old * 2, sizeof *after);

    if (!after) {
        m->failed = true;
        return false;
    }
    m->slots    = after;
    m->capacity = old * 2;
    for (size_t i = 0; i < old; i++)
        if (before[i].key.data)
            *find(m, before[i].key, before[i].hash) = before[i];
    lm_free(before);
    return true;
}

static bool insert(lm_map *m, lm_view key, uint64_t value, bool replace)
{
    if (!key.data)
        key.data = "";
    uint64_t hash = hash_of(m, key);
    slot    *s    = find(m, key, hash);

    if (s->key.data) {
        if (replace)
            s->value = value;
        return replace;
    }
    if (m->size + 1 > m->capacity / 3 * 2) {
        if (!grow(m))
            return false;
        s = find(m, key, hash);
    }
    *s = (slot){ key, value, hash };
    m->size++;
    return true;
}

bool lm_map_add(lm_map *m, lm_view key, uint64_t value)
{
    return insert(m, key, value, false);
}

bool lm_map_set(lm_map *m, lm_view key, uint64_t value)
{
    return insert(m, key, value, true);
}

bool lm_map_get(const lm_map *m, lm_view key, uint64_t *value)
{
    const slot *s = find(m, key, hash_of(m, key));

    if (!s->key.data)
        return false;
    *value = s->value;
    return true;
}

bool lm_map_failed(const lm_map *m)
{
    return m->failed;
}
