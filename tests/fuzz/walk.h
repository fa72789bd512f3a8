/* walk.h - use everything that a container guarantees once it is open. */
#ifndef LM_TEST_WALK_H
#define LM_TEST_WALK_H

#include "formats/container.h"
#include "fuzz.h"

static volatile uint64_t walked;

static inline void walk_value(const lm_meta_value *v, unsigned depth)
{
    lm_meta_value element;
    lm_view       key;

    PROMISE(depth < 80);
    if (v->kind == LM_META_STRING)
        for (size_t i = 0; i < v->s.size; i++)
            walked += (uint8_t)v->s.data[i];
    if (v->kind == LM_META_ARRAY) {
        for (uint64_t i = 0; i < v->a.n; i++) {
            PROMISE(lm_meta_at(v, i, &element));
            walk_value(&element, depth + 1);
        }
        PROMISE(!lm_meta_at(v, v->a.n, &element));
    }
    if (v->kind == LM_META_OBJECT)
        for (uint64_t i = 0; i < v->a.n; i++) {
            PROMISE(lm_meta_member(v, i, &key, &element));
            walk_value(&element, depth + 1);
        }
}

static inline void walk_meta(const lm_meta *m)
{
    lm_meta_value v;
    lm_view       key;

    for (size_t i = 0; i < lm_meta_count(m); i++) {
        char     name[128];
        lm_error e;
        uint64_t u;
        double   f;
        PROMISE(lm_meta_entry(m, i, &key, &v));
        walk_value(&v, 0);
        if (key.size >= sizeof name || memchr(key.data, 0, key.size) || memchr(key.data, '/', key.size))
            continue;
        memcpy(name, key.data, key.size);
        name[key.size] = 0;
        PROMISE(lm_meta_get(m, name, &v));
        PROMISE(lm_meta_u64(m, name, 3, 5, &u, &e) != LM_OK || (u >= 3 && u <= 5));
        PROMISE(lm_meta_f64(m, name, 3, 5, &f, &e) != LM_OK || (f >= 3 && f <= 5));
    }
}

/* Every tensor lies in its file, can be found, and can be unpacked at both ends. */
static inline void walk_tensors(const lm_container *c)
{
    static float out[256];

    for (size_t i = 0; i < lm_container_n_tensors(c); i++) {
        const lm_tensor_info *t = lm_container_tensor(c, i);
        const lm_filemap     *f = lm_container_file(c, t->part);
        const lm_dtype_info  *d = lm_dtype_of(t->type);
        PROMISE(lm_container_find(c, t->name) == t);
        PROMISE(t->offset <= f->size && t->bytes <= f->size - t->offset && t->n_dims <= LM_MAX_DIMS);
        PROMISE(t->elements / d->block * d->bytes == t->bytes);
        if (t->bytes)
            walked += ((const uint8_t *)lm_container_data(c, t))[t->bytes - 1];
        if (d->unpack && t->elements) {
            lm_container_unpack(c, t, 0, d->block, out);
            lm_container_unpack(c, t, t->elements - d->block, d->block, out);
        }
    }
}

/* Opening must return a container, or an error of one line about a bad model. */
static inline void check_open(lm_status s, const lm_error *e)
{
    char text[1200];

    if (s == LM_OK)
        return;
    PROMISE(s == LM_BAD_MODEL || s == LM_UNSUPPORTED);
    PROMISE(e->code == s && *e->message && *e->file);
    PROMISE(!strpbrk(lm_error_text(e, text, sizeof text), "\n\r\t\x1b"));
}

typedef lm_status open_fn(const char *path, const lm_container_options *o, lm_container **out, lm_error *e);

/* Open a file of these bytes and, if that succeeds, use everything that it guarantees. */
static inline void walk_file(open_fn *open, const uint8_t *data, size_t size)
{
    /* so that a sanitizer detects reads past the last byte */
    static const lm_container_options in_memory = { .no_mmap = true };
    lm_container *c;
    lm_error      e = { 0 };
    int           fd;
    const char   *path = memory_file(data, size, &fd);
    lm_status     s = open(path, &in_memory, &c, &e);

    check_open(s, &e);
    if (s == LM_OK) {
        walk_meta(lm_container_meta(c));
        walk_tensors(c);
        lm_container_close(c);
    }
    close(fd);
}

#endif
