/* mutated_keys.c - every key of every golden GGUF file: missing, of another type, zero, negative, huge, no number. Each leads
 * to an error or a run. A key that many goldens of a family share is changed once for each value. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models.h"
#include "mutants.h"

#define MOST 1024

enum { T_U8, T_I8, T_U16, T_I16, T_U32, T_I32, T_F32, T_BOOL, T_STRING, T_ARRAY, T_U64, T_I64, T_F64, TYPES };

static const unsigned sizes[TYPES] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
static mutant_count   count;

typedef struct file {
    const char *path, *name;     /* where it is tried; of which golden */
    uint8_t    *data;
    size_t      size;
    char        key[128];
} file;

static uint64_t number_at(const file *f, size_t at, unsigned bytes)
{
    uint64_t v = 0;

    if (at + bytes > f->size) {
        fprintf(stderr, "%s: ends early\n", f->name);
        exit(1);
    }
    memcpy(&v, f->data + at, bytes);
    return v;
}

static void try_file(const file *f, const char *how)
{
    char  what[400];
    FILE *out = fopen(f->path, "wb");

    if (!out || fwrite(f->data, 1, f->size, out) != f->size) {
        perror(f->path);
        exit(1);
    }
    fclose(out);
    snprintf(what, sizeof what, "%s: %s: %s", f->name, f->key, how);
    mutant_run(f->path, what, &count);
}

/* `bytes` of the file for the time of one try. */
static void try_bytes(const file *f, size_t at, const void *bytes, unsigned n, const char *how)
{
    uint8_t kept[8];

    memcpy(kept, f->data + at, n);
    memcpy(f->data + at, bytes, n);
    try_file(f, how);
    memcpy(f->data + at, kept, n);
}

/* Four bytes under the types that have four: the type is at `type`, the value at `at`. */
static void try_words(const file *f, size_t type, size_t at)
{
    static const struct {
        uint32_t    bits;
        const char *name;
    } words[] = {
        { 0, "0" },                { 1, "1" },                  { 3, "3" },         { 0x80000000u, "2^31" }, { 0xffffffffu, "-1" },
        { 0x7fc00000u, "NaN" },    { 0x7f800000u, "infinity" }, { 0xbf800000u, "-1.0" }, { 0x7f7fffffu, "3e38" }, { 0x3f000000u, "0.5" },
    };
    uint32_t kept = (uint32_t)number_at(f, type, 4);
    char     how[64];

    for (uint32_t t = T_U32; t <= T_F32; t++) {
        memcpy(f->data + type, &t, 4);
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
            snprintf(how, sizeof how, "type %u, bits of %s", t, words[i].name);
            try_bytes(f, at, &words[i].bits, 4, how);
        }
    }
    memcpy(f->data + type, &kept, 4);
}

static void change(const file *f, size_t key_end, size_t at)
{
    uint32_t type = (uint32_t)number_at(f, at, 4);

    try_bytes(f, key_end - 1, "~", 1, "missing");
    if (type < TYPES && sizes[type] == 4)
        try_words(f, at, at + 4);
    else if (type == T_BOOL)
        for (uint8_t v = 0; v < 3; v++)
            try_bytes(f, at + 4, &v, 1, v == 0 ? "false" : v == 1 ? "true" : "neither");
    else if (type == T_STRING && number_at(f, at + 4, 8) > 0)
        try_bytes(f, at + 12, "~", 1, "another word");
    else if (type == T_ARRAY && number_at(f, at + 8, 8) > 0 && number_at(f, at + 4, 4) >= T_U32 && number_at(f, at + 4, 4) <= T_F32)
        try_words(f, at + 4, at + 16);
    try_bytes(f, at, &(uint32_t){ type == T_BOOL ? T_U8 : type == T_STRING ? T_ARRAY : T_U32 }, 4, "another type");
}

static size_t past(const file *f, size_t at, uint32_t type)
{
    if (type == T_STRING)
        return at + 8 + number_at(f, at, 8);
    if (type != T_ARRAY)
        return at + sizes[type < TYPES ? type : 0];
    uint32_t inner = (uint32_t)number_at(f, at, 4);
    uint64_t n     = number_at(f, at + 4, 8);
    at += 12;
    for (uint64_t i = 0; i < n; i++)
        at = past(f, at, inner);
    return at;
}

/* Keys of the tokenizer are changed by its own tests. */
static void walk(file *f)
{
    uint64_t n  = number_at(f, 16, 8);
    size_t   at = 24;
    char     memo[400];

    for (uint64_t i = 0; i < n; i++) {
        size_t size = number_at(f, at, 8), end = at + 8 + size;
        snprintf(f->key, sizeof f->key, "%.*s", (int)(size < 100 ? size : 100), (const char *)f->data + at + 8);
        size_t next = past(f, end + 4, (uint32_t)number_at(f, end, 4));
        snprintf(memo, sizeof memo, "%.*s %s %016llx", (int)strcspn(f->name, "/"), f->name, f->key,
                 (unsigned long long)number_at(f, end + 4, next - end - 4 < 8 ? (unsigned)(next - end - 4) : 8));
        if (strncmp(f->key, "tokenizer.", 10) != 0 && mutant_is_new(memo))
            change(f, end, end);
        at = next;
    }
}

static void read_file(const char *path, file *f)
{
    FILE *in = fopen(path, "rb");

    if (!in || fseek(in, 0, SEEK_END) != 0) {
        perror(path);
        exit(1);
    }
    f->size = (size_t)ftell(in);
    f->data = malloc(f->size);
    rewind(in);
    if (!f->data || fread(f->data, 1, f->size, in) != f->size) {
        perror(path);
        exit(1);
    }
    fclose(in);
}

int main(void)
{
    static golden_model models[MOST];
    size_t              n = golden_models(models, MOST), files = 0;
    char                path[128];

    snprintf(path, sizeof path, "%s/model.gguf", mutant_begin());
    for (size_t i = 0; i < n; i++) {
        if (strcmp(models[i].path, models[i].folder) == 0)
            continue;
        file   f   = { .path = path, .name = models[i].name, .key = "nothing changed" };
        size_t ran = count.ran;
        read_file(models[i].path, &f);
        try_file(&f, "as it is");
        if (count.ran == ran) {
            fprintf(stderr, "%s: does not run as it is\n", models[i].name);
            return 1;
        }
        walk(&f);
        free(f.data);
        files++;
    }
    mutant_end();
    printf("count: mutated keys %zu of %zu files, %zu refused, %zu ran\n", count.refused + count.ran, files, count.refused, count.ran);
    return files && count.refused && count.ran ? 0 : 1;
}
