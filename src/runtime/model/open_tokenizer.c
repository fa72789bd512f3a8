/* open_tokenizer.c - open tokenizers from GGUF keys or from the files of a folder. */
#include "runtime/model/open_tokenizer.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/os/filemap.h"
#include "formats/endkeys.h"
#include "lamina/preset.h"
#include "text/tokenizer_files.h"
#include "text/vocab_spec.h"

#define KEYS "tokenizer.ggml."

/* ---- GGUF ---- */
/* Arrays of the specification while it is filled; the strings stay in the file. */
typedef struct gguf_lists { lm_view *tokens, *merges; float *scores; int32_t *types; } gguf_lists;

static void free_lists(gguf_lists *l)
{
    lm_free(l->tokens);
    lm_free(l->merges);
    lm_free(l->scores);
    lm_free(l->types);
}

static lm_status broken(const lm_meta *m, const char *key, lm_error *e, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static lm_status broken(const lm_meta *m, const char *key, lm_error *e, const char *format, ...)
{
    char    text[200];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    lm_fail(e, LM_BAD_MODEL, key, LM_NO_OFFSET, "%s", text);
    lm_fail_in(e, lm_meta_file(m));
    return LM_BAD_MODEL;
}

static lm_status wrong_element(const lm_meta *m, const char *key, uint64_t i, const lm_meta_value *v,
                               const char *expected, lm_error *e)
{
    return broken(m, key, e, "element %llu is %s, expected %s", (unsigned long long)i,
                  lm_meta_kind_name(v->kind), expected);
}

static lm_status strings(const lm_meta *m, const char *key, uint64_t max, lm_view **out, uint32_t *n,
                         lm_error *e)
{
    lm_meta_value array, v;

    LM_TRY(lm_meta_array(m, key, max, &array, e));
    *out = lm_alloc((array.a.n + 1) * sizeof **out);
    if (!*out)
        return lm_fail_memory(e, key, array.a.n * sizeof **out);
    for (uint64_t i = 0; i < array.a.n; i++) {
        if (!lm_meta_at(&array, i, &v) || v.kind != LM_META_STRING)
            return wrong_element(m, key, i, &v, "a string", e);
        (*out)[i] = v.s;
    }
    *n = (uint32_t)array.a.n;
    return LM_OK;
}

/* Find an array of numbers, one per token. */
static lm_status numbers(const lm_meta *m, const char *key, uint32_t n, lm_meta_value *array, lm_error *e)
{
    LM_TRY(lm_meta_array(m, key, LM_MAX_VOCAB, array, e));
    if (array->a.n == n)
        return LM_OK;
    return broken(m, key, e, "%llu elements, but there are %u tokens", (unsigned long long)array->a.n, n);
}

static lm_status scores(const lm_meta *m, uint32_t n, float **out, lm_error *e)
{
    const char   *key = KEYS "scores";
    lm_meta_value array, v;

    LM_TRY(numbers(m, key, n, &array, e));
    *out = lm_alloc(((size_t)n + 1) * sizeof **out);
    if (!*out)
        return lm_fail_memory(e, key, n * sizeof **out);
    for (uint32_t i = 0; i < n; i++) {
        if (!lm_meta_at(&array, i, &v) || v.kind != LM_META_FLOAT)
            return wrong_element(m, key, i, &v, "a float", e);
        (*out)[i] = (float)v.f;
    }
    return LM_OK;
}

static lm_status types(const lm_meta *m, uint32_t n, int32_t **out, lm_error *e)
{
    const char   *key = KEYS "token_type";
    lm_meta_value array, v;

    LM_TRY(numbers(m, key, n, &array, e));
    *out = lm_alloc(((size_t)n + 1) * sizeof **out);
    if (!*out)
        return lm_fail_memory(e, key, n * sizeof **out);
    for (uint32_t i = 0; i < n; i++) {
        if (!lm_meta_at(&array, i, &v) || (v.kind != LM_META_UINT && v.kind != LM_META_INT))
            return wrong_element(m, key, i, &v, "an integer", e);
        (*out)[i] = v.kind == LM_META_UINT && v.u <= INT32_MAX ? (int32_t)v.u : -1;
    }
    return LM_OK;
}

/* Read a special token's id; -1 if the key is absent. */
static lm_status special_id(const lm_meta *m, const char *name, uint32_t n, int64_t *out, lm_error *e)
{
    char     key[96];
    uint32_t id;

    snprintf(key, sizeof key, KEYS "%s_token_id", name);
    *out = -1;
    if (!lm_meta_has(m, key))
        return LM_OK;
    /* "no such token" is written as -1, which is 2^32 - 1 in the key's type */
    lm_meta_value v;
    if (lm_meta_get(m, key, &v) && v.kind == LM_META_UINT && v.u == UINT32_MAX)
        return LM_OK;
    LM_TRY(lm_meta_u32(m, key, 0, n - 1, &id, e));
    *out = id;
    return LM_OK;
}

/* Find the next key of a special token's id, starting at entry *i; false past the last. */
static bool next_id(const lm_meta *m, size_t *i, char key[96], lm_meta_value *v)
{
    lm_view name;

    while (lm_meta_entry(m, (*i)++, &name, v))
        if (lm_view_starts(name, LM_VIEW(KEYS)) && lm_view_ends(name, LM_VIEW("_token_id")) &&
            name.size < 96) {
            snprintf(key, 96, "%.*s", (int)name.size, name.data);
            return true;
        }
    return false;
}

/* Check the ids of all special tokens, including those that are not used: padding, separators. */
static lm_status check_ids(const lm_meta *m, lm_error *e)
{
    char          key[96];
    lm_meta_value v;
    uint32_t      id;

    for (size_t i = 0; next_id(m, &i, key, &v);)
        LM_TRY(lm_meta_u32(m, key, 0, UINT32_MAX, &id, e));
    return LM_OK;
}

/* Warn of ids outside the vocabulary. special_id has rejected those of tokens that are used; llama.cpp
 * ignores the others, and existing files contain them. */
static void warn_of_ids(const lm_meta *m, uint32_t n, lm_tokenizer *t)
{
    char          key[96];
    lm_meta_value v;

    for (size_t i = 0; next_id(m, &i, key, &v);)
        if (v.kind == LM_META_UINT && v.u >= n && v.u != UINT32_MAX)
            lm_tokenizer_warn(t, "%s: %llu is outside the vocabulary of %u", key, (unsigned long long)v.u, n);
}

/* Read the fill-in-the-middle tokens from their current keys, else from older ones. Ids outside the
 * vocabulary are skipped, with a warning from warn_of_ids. */
static void read_middle(const lm_meta *m, uint32_t n, lm_tokenizer *t)
{
    static const char *const names[][2] = {
        [LM_MIDDLE_PREFIX] = { "fim_pre", "prefix" },     [LM_MIDDLE_SUFFIX] = { "fim_suf", "suffix" },
        [LM_MIDDLE_MIDDLE] = { "fim_mid", "middle" },     [LM_MIDDLE_REPOSITORY] = { "fim_rep", "fim_rep" },
        [LM_MIDDLE_FILE]   = { "fim_sep", "fim_sep" },
    };
    char          key[96];
    lm_meta_value v;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (size_t k = 0; k < 2 && t->middle[i] < 0; k++) {
            snprintf(key, sizeof key, KEYS "%s_token_id", names[i][k]);
            if (lm_meta_get(m, key, &v) && v.kind == LM_META_UINT && v.u < n)
                t->middle[i] = (lm_token)v.u;
        }
}

static lm_status flag(const lm_meta *m, const char *name, int *out, lm_error *e)
{
    char key[96];
    bool yes;

    snprintf(key, sizeof key, KEYS "%s", name);
    *out = -1;
    if (!lm_meta_has(m, key))
        return LM_OK;
    LM_TRY(lm_meta_bool(m, key, &yes, e));
    *out = yes;
    return LM_OK;
}

/* Copy a name: strings in GGUF are not terminated. */
static lm_status name(const lm_meta *m, const char *key, char *out, size_t size, lm_error *e)
{
    lm_view v;

    LM_TRY(lm_meta_string(m, key, &v, e));
    if (v.size >= size)
        return broken(m, key, e, "a name of %zu bytes", v.size);
    memcpy(out, v.data, v.size);
    out[v.size] = '\0';
    return LM_OK;
}

/* Reject lists whose lengths do not match, before anything as large is allocated. */
static lm_status check_lengths(const lm_meta *m, lm_error *e)
{
    static const char *const each[] = { KEYS "scores", KEYS "token_type" };
    lm_meta_value            tokens, array;

    LM_TRY(lm_meta_array(m, KEYS "tokens", LM_MAX_VOCAB, &tokens, e));
    if (tokens.a.n == 0)
        return broken(m, KEYS "tokens", e, "there are none");
    for (size_t i = 0; i < 2; i++)
        if (lm_meta_has(m, each[i]))
            LM_TRY(numbers(m, each[i], (uint32_t)tokens.a.n, &array, e));
    return LM_OK;
}

/* Check the number of merges. Every merge splits a token in two: there are no more than places to split, even
 * if each is named twice. */
static lm_status check_merges(const lm_meta *m, const lm_view *tokens, uint32_t n, lm_error *e)
{
    lm_meta_value merges;
    uint64_t      bytes = 0;

    LM_TRY(lm_meta_array(m, KEYS "merges", UINT32_MAX / 8, &merges, e));
    for (uint32_t i = 0; i < n; i++)
        bytes += tokens[i].size;
    if (merges.a.n <= 2 * bytes)
        return LM_OK;
    return broken(m, KEYS "merges", e, "%llu elements, but the tokens have %llu bytes in all",
                  (unsigned long long)merges.a.n, (unsigned long long)bytes);
}

enum { MAX_NAME = 128 };

static lm_status read_gguf(const lm_meta *m, gguf_lists *l, char model[MAX_NAME], char pre[MAX_NAME],
                           lm_end_keys *ends, lm_vocab_spec *s, lm_error *e)
{
    LM_TRY(name(m, KEYS "model", model, MAX_NAME, e));
    if (lm_meta_has(m, KEYS "pre"))
        LM_TRY(name(m, KEYS "pre", pre, MAX_NAME, e));
    LM_TRY(check_lengths(m, e));
    LM_TRY(strings(m, KEYS "tokens", LM_MAX_VOCAB, &l->tokens, &s->n, e));
    if (lm_meta_has(m, KEYS "merges")) {
        LM_TRY(check_merges(m, l->tokens, s->n, e));
        LM_TRY(strings(m, KEYS "merges", UINT32_MAX / 8, &l->merges, &s->n_merges, e));
    }
    if (lm_meta_has(m, KEYS "scores"))
        LM_TRY(scores(m, s->n, &l->scores, e));
    if (lm_meta_has(m, KEYS "token_type"))
        LM_TRY(types(m, s->n, &l->types, e));
    LM_TRY(special_id(m, "bos", s->n, &s->bos, e));
    LM_TRY(special_id(m, "eos", s->n, &s->eos, e));
    LM_TRY(special_id(m, "unknown", s->n, &s->unknown, e));
    LM_TRY(lm_end_keys_read(m, s->n, ends, e));
    LM_TRY(check_ids(m, e));
    LM_TRY(flag(m, "add_bos_token", &s->add_bos, e));
    LM_TRY(flag(m, "add_eos_token", &s->add_eos, e));
    LM_TRY(flag(m, "add_space_prefix", &s->add_space_prefix, e));
    s->model  = model;
    s->pre    = pre;
    s->tokens = l->tokens;
    s->merges = l->merges;
    s->scores = l->scores;
    s->types  = l->types;
    lm_vocab_spec_ends(s, ends->ids, ends->n, ends->turn, ends->call);
    s->where  = KEYS;
    return LM_OK;
}

static lm_status from_gguf(const lm_meta *m, const lm_tokenizer_options *o, lm_tokenizer **out, lm_error *e)
{
    gguf_lists    l     = { 0 };
    lm_vocab_spec s     = { 0 };
    char          model[MAX_NAME] = "", pre[MAX_NAME] = "";
    lm_end_keys   ends;

    lm_status status = read_gguf(m, &l, model, pre, &ends, &s, e);
    if (status == LM_OK) {
        status = lm_tokenizer_from_spec(&s, o, out, e);
        if (status == LM_OK) {
            warn_of_ids(m, s.n, *out);
            read_middle(m, s.n, *out);
        } else
            lm_fail_in(e, lm_meta_file(m));
    }
    free_lists(&l);
    return status;
}

/* ---- folders ---- */
/* Reads a file of a folder by name: through a container, which owns it, or directly. */
typedef lm_status (*file_fn)(void *arg, const char *name, lm_view *out, lm_error *e);

static lm_status either(file_fn file, void *arg, const char *name, const char *other, lm_view *out,
                        lm_error *e)
{
    LM_TRY(file(arg, name, out, e));
    return out->data ? LM_OK : file(arg, other, out, e);
}

static lm_status from_folder(const char *path, file_fn file, void *arg, const lm_tokenizer_options *o,
                             lm_tokenizer **out, lm_error *e)
{
    lm_tokenizer_files f = { .folder = path };

    LM_TRY(file(arg, "tokenizer.json", &f.tokenizer, e));
    if (!f.tokenizer.data) {
        LM_TRY(either(file, arg, "vocab.json", "encoder.json", &f.vocab, e));
        LM_TRY(either(file, arg, "merges.txt", "vocab.bpe", &f.merges, e));
        LM_TRY(file(arg, "added_tokens.json", &f.added, e));
    }
    LM_TRY(file(arg, "tokenizer_config.json", &f.config, e));
    LM_TRY(file(arg, "special_tokens_map.json", &f.special_map, e));
    LM_TRY(file(arg, "generation_config.json", &f.generation, e));
    LM_TRY(file(arg, "config.json", &f.model, e));
    return lm_tokenizer_from_files(&f, o, out, e);
}

static lm_status file_of_container(void *arg, const char *name, lm_view *out, lm_error *e)
{
    return lm_container_text(arg, name, out, e);
}

/* The files of a folder that is read without a container. */
typedef struct folder { const char *path; char *data[8]; unsigned n; } folder;

static lm_status file_of_folder(void *arg, const char *name, lm_view *out, lm_error *e)
{
    folder *f = arg;
    lm_text  path = { 0 };

    lm_text_printf(&path, "%s/%s", f->path, name);
    lm_status status = path.failed ? lm_fail_memory(e, "a path", path.size) : LM_OK;
    *out             = (lm_view){ 0 };
    if (status == LM_OK && lm_path_is_file(path.data)) {
        status = lm_file_read(path.data, LM_MAX_TOKENIZER_JSON, &f->data[f->n], &out->size, e);
        if (status == LM_OK)
            out->data = f->data[f->n++];
    }
    lm_text_free(&path);
    return status;
}

static lm_status open_folder(const char *path, const lm_tokenizer_options *o, lm_tokenizer **out, lm_error *e)
{
    folder    f      = { .path = path };
    lm_status status = from_folder(path, file_of_folder, &f, o, out, e);

    for (unsigned i = 0; i < f.n; i++)
        lm_free(f.data[i]);
    return status;
}

/* ---- entry points ---- */
static bool has_vocabulary(const lm_meta *m)
{
    lm_meta_value v;

    return lm_meta_get(m, KEYS "model", &v) && !(v.kind == LM_META_STRING && lm_view_is(v.s, "no_vocab"));
}

lm_status lm_tokenizer_from_container(lm_container *c, const lm_tokenizer_options *o, lm_tokenizer **out,
                                      lm_error *e)
{
    const lm_meta *m = lm_container_meta(c);

    *out = NULL;
    if (lm_container_kind_of(c) != LM_GGUF)
        return from_folder(lm_container_path(c), file_of_container, c, o, out, e);
    return has_vocabulary(m) ? from_gguf(m, o, out, e) : LM_OK;
}

static lm_status open_gguf(const char *path, const lm_tokenizer_options *o, lm_tokenizer **out, lm_error *e)
{
    lm_container *c;

    LM_TRY(lm_container_open(path, &(lm_container_options){ .structure_only = true }, &c, e));
    lm_status status = lm_tokenizer_from_container(c, o, out, e);
    lm_container_close(c);
    return status;
}

/* Open a tokenizer.json under any name; if it is named tokenizer.json, the files next to it are used as
 * well. */
static lm_status open_json(const char *path, const lm_tokenizer_options *o, lm_tokenizer **out, lm_error *e)
{
    const char        *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    lm_tokenizer_files f     = { .folder = path };
    char              *data, *parent;

    if (strcmp(base, "tokenizer.json") == 0) {
        parent = slash == path ? lm_strdup("/") : slash ? lm_strdup(path) : lm_strdup(".");
        if (!parent)
            return lm_fail_memory(e, "a path", strlen(path));
        if (slash > path)
            parent[slash - path] = '\0';
        lm_status status = open_folder(parent, o, out, e);
        if (status != LM_OK && e && strcmp(e->file, parent) == 0)
            snprintf(e->file, sizeof e->file, "%s", path);
        lm_free(parent);
        return status;
    }
    LM_TRY(lm_file_read(path, LM_MAX_TOKENIZER_JSON, &data, &f.tokenizer.size, e));
    f.tokenizer.data = data;
    lm_status status = lm_tokenizer_from_files(&f, o, out, e);
    lm_free(data);
    return status;
}

lm_status lm_tokenizer_open(const char *path, const lm_tokenizer_options *o, lm_tokenizer **out, lm_error *e)
{
    LM_REQUIRE(e, path && out);
    LM_CHECK_RESERVED(e, o);
    lm_view       name = lm_view_of(path);
    lm_tokenizer *t    = NULL;

    if (strncmp(path, LM_PRESET_PREFIX, strlen(LM_PRESET_PREFIX)) == 0)
        return lm_fail(e, LM_USAGE, path + strlen(LM_PRESET_PREFIX), LM_NO_OFFSET,
                       "a preset has no tokenizer");
    if (lm_path_is_folder(path))
        LM_TRY(open_folder(path, o, &t, e));
    else if (lm_view_ends(name, LM_VIEW(".json")))
        LM_TRY(open_json(path, o, &t, e));
    else
        LM_TRY(open_gguf(path, o, &t, e));
    if (!t) {
        lm_fail(e, LM_BAD_MODEL, NULL, LM_NO_OFFSET, "no tokenizer found");
        lm_fail_in(e, path);
        return LM_BAD_MODEL;
    }
    *out = t;
    return LM_OK;
}
