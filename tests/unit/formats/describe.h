/* describe.h - a container as text, in the form of tests/golden/formats/ (tools/oracle/containers.py), and
 * temporary files. */
#ifndef LM_TEST_DESCRIBE_H
#define LM_TEST_DESCRIBE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../status.h"
#include "../temporary.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/str.h"
#include "formats/container.h"

static inline const char *golden_path(const char *name)
{
    static char path[8][4096];
    static int  next;
    const char *tests = getenv("LAMINA_TESTS");

    next = (next + 1) % 8;
    snprintf(path[next], sizeof path[next], "%s/golden/%s", tests ? tests : "tests", name);
    return path[next];
}

/* Create a new folder. Its name is valid for eight calls. */
static inline const char *fresh_folder(void)
{
    static char path[8][256];
    static int  next;

    next = (next + 1) % 8;
    temporary_path(path[next], "test-XXXXXX");
    if (!mkdtemp(path[next]))
        fail_msg("no temporary folder");
    return path[next];
}

static inline void remove_folder(const char *path)
{
    char command[256];

    snprintf(command, sizeof command, "rm -rf '%s'", path);
    if (system(command))
        fail_msg("%s stays behind", path);
}

static inline char *in_folder(const char *folder, const char *name)
{
    static char path[16][4096];
    static int  next;

    next = (next + 1) % 16;
    snprintf(path[next], sizeof path[next], "%s/%s", folder, name);
    return path[next];
}

static inline void write_file(const char *path, const void *data, size_t n)
{
    unlink(path);                        /* when a truncated file is written again, some file systems wait for
                                            the disk */
    FILE *f = fopen(path, "wb");

    if (!f || fwrite(data, 1, n, f) != n || fclose(f))
        fail_msg("%s cannot be written", path);
}

static inline void write_text(const char *path, const char *text)
{
    write_file(path, text, strlen(text));
}

static inline char *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *data = calloc(1, 1 << 20);

    if (!f)
        fail_msg("%s cannot be read", path);
    *n = fread(data, 1, (1 << 20) - 1, f);
    fclose(f);
    return data;
}

/* Make the first, second, … allocation of `work` fail until it succeeds: each time it returns an error or
 * success, and leaks nothing. */
static inline void assert_survives_no_memory(lm_status (*work)(lm_error *e))
{
    uint64_t  before = lm_alloc_statistics().live_bytes, n = 1;
    lm_status s = LM_NO_MEMORY;

    for (; s != LM_OK; n++) {
        lm_error e = { 0 };
        lm_alloc_fail_at(n);
        s = work(&e);
        lm_alloc_fail_at(0);
        assert_true(s == LM_OK || (s == LM_NO_MEMORY && e.code == s));
        assert_int_equal(lm_alloc_statistics().live_bytes, before);
    }
    assert_true(n > 3);
}

/* ---- text ---- */

static inline void put_hex(lm_text *b, lm_view v)
{
    for (size_t i = 0; i < v.size; i++)
        lm_text_printf(b, "%02x", (unsigned char)v.data[i]);
}

static inline void put_name(lm_text *b, lm_view v)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._";

    for (size_t i = 0; i < v.size; i++)
        if (!strchr(plain, v.data[i]) || !v.data[i]) {
            lm_text_add_char(b, 'x');
            put_hex(b, v);
            return;
        }
    lm_text_add_view(b, v);
}

static inline void put_value(lm_text *b, const lm_meta_value *v)
{
    lm_meta_value element;

    switch (v->kind) {
    case LM_META_NULL:
        lm_text_add_str(b, "null");
        break;
    case LM_META_BOOL:
        lm_text_printf(b, "bool %d", v->b);
        break;
    case LM_META_INT:
        lm_text_printf(b, "int %lld", (long long)v->i);
        break;
    case LM_META_UINT:
        lm_text_printf(b, "uint %llu", (unsigned long long)v->u);
        break;
    case LM_META_FLOAT:
        lm_text_printf(b, "float %.17g", v->f);
        break;
    case LM_META_STRING:
        lm_text_add_str(b, "string ");
        put_hex(b, v->s);
        if (!v->s.size)
            lm_text_add_char(b, '-');
        break;
    case LM_META_ARRAY:
        lm_text_printf(b, "array %llu", (unsigned long long)v->a.n);
        for (uint64_t i = 0; lm_meta_at(v, i, &element); i++) {
            lm_text_add_char(b, ' ');
            put_value(b, &element);
        }
        break;
    case LM_META_OBJECT:
        lm_text_printf(b, "object %llu", (unsigned long long)v->a.n);
        break;
    }
}

static inline void put_keys(lm_text *b, const lm_meta *m)
{
    lm_meta_value v;
    lm_view       key;

    for (size_t i = 0; lm_meta_entry(m, i, &key, &v); i++) {
        lm_text_add_str(b, "key ");
        put_name(b, key);
        lm_text_add_char(b, ' ');
        put_value(b, &v);
        lm_text_add_char(b, '\n');
    }
}

static inline void put_tensor(lm_text *b, const lm_container *c, const lm_tensor_info *t)
{
    lm_text_add_str(b, "tensor ");
    put_name(b, lm_view_of(t->name));
    lm_text_printf(b, " %s [", lm_dtype_of(t->type)->name);
    for (uint32_t i = 0; i < t->n_dims; i++)
        lm_text_printf(b, "%s%llu", i ? "," : "", (unsigned long long)t->dims[i]);
    lm_text_printf(b, "] %s\n", lm_sha256_bytes(lm_container_data(c, t), (size_t)t->bytes).hex);
}

static inline int by_tensor_name(const void *a, const void *b)
{
    return strcmp((*(const lm_tensor_info *const *)a)->name, (*(const lm_tensor_info *const *)b)->name);
}

/* GGUF in file order; safetensors sorted by name. */
static inline lm_text describe(const lm_container *c, bool keys)
{
    size_t                 n = lm_container_n_tensors(c);
    const lm_tensor_info **list = calloc(n + 1, sizeof *list);
    lm_text                 b = { 0 };

    if (keys)
        put_keys(&b, lm_container_meta(c));
    for (size_t i = 0; i < n; i++)
        list[i] = lm_container_tensor(c, i);
    if (lm_container_kind_of(c) == LM_SAFETENSORS)
        qsort(list, n, sizeof *list, by_tensor_name);
    for (size_t i = 0; i < n; i++)
        put_tensor(&b, c, list[i]);
    free(list);
    return b;
}

/* Check that the description of `c` equals the file GOLDEN.txt. */
static inline void assert_described(const lm_container *c, const char *golden)
{
    char   name[256];
    size_t n;

    snprintf(name, sizeof name, "%s.txt", golden);
    char  *want = read_file(golden_path(name), &n);
    lm_text got = describe(c, true);

    assert_string_equal(got.data, want);
    lm_text_free(&got);
    free(want);
}

#endif
