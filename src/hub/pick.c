/* pick.c - list the files of a repository and select the required ones. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "hub/pull.h"

enum { MAX_FILES = 20000, MAX_LISTING = 4 << 20 };

/* ---- names ---- */

static bool is_word(const char *s, size_t n)
{
    if (!n || n > 96 || s[0] == '.' || s[0] == '-' || s[n - 1] == '.' || s[n - 1] == '-')
        return false;
    for (size_t i = 0; i < n; i++)
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", s[i]) ||
            (i && s[i] == s[i - 1] && (s[i] == '.' || s[i] == '-')))
            return false;
    return true;
}

/* Return whether a path stays inside its base folder on every file system. */
static bool is_safe(const char *path)
{
    size_t n = strlen(path);

    if (!n || n > 1024)
        return false;
    for (const char *at = path; at;) {
        size_t k = strcspn(at, "/");
        if (!k || k > 255 || (k == 1 && at[0] == '.') || (k == 2 && at[0] == '.' && at[1] == '.'))
            return false;
        at = at[k] ? at + k + 1 : NULL;
    }
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)path[i] < 32 || path[i] == 127 || path[i] == '\\' || path[i] == ':')
            return false;
    return true;
}

/* Copy `n` bytes of a text. One that does not fit is refused: cut, it would name something else. */
static lm_status keep(const char *what, const char *text, size_t n, size_t size, char *out, lm_error *e)
{
    if (n >= size)
        return lm_fail(e, LM_USAGE, what, LM_NO_OFFSET, "%zu bytes; at most %zu", n, size - 1);
    memcpy(out, text, n);
    out[n] = '\0';
    return LM_OK;
}

lm_status hub_read_name(hub_pull *p, const char *name, const char *revision, lm_error *e)
{
    size_t      n     = strcspn(name, ":@");
    const char *slash = memchr(name, '/', n);
    size_t      org   = slash ? (size_t)(slash - name) : 0;
    const char *after = name[n] ? name + n + 1 : "";

    if (!slash || !is_word(name, org) || !is_word(slash + 1, n - org - 1) ||
        (n > 4 && strncmp(name + n - 4, ".git", 4) == 0))
        return lm_fail(e, LM_USAGE, name, LM_NO_OFFSET,
                       "not a model: expected org/name, org/name:TYPE or org/name@REVISION");
    if (name[n] == '@' && revision)
        return lm_fail(e, LM_USAGE, name, LM_NO_OFFSET, "two revisions");
    LM_TRY(keep("name", name, n, sizeof p->id, p->id, e));
    LM_TRY(keep("file", after, name[n] == ':' ? strlen(after) : 0, sizeof p->type, p->type, e));
    const char *chosen = name[n] == '@' ? after : revision ? revision : "main";
    LM_TRY(keep("revision", chosen, strlen(chosen), sizeof p->revision, p->revision, e));
    if ((name[n] && !*after) || (*p->type && !is_safe(p->type)) || !is_safe(p->revision))
        return lm_fail(e, LM_USAGE, name, LM_NO_OFFSET, "not a type, file or revision");
    return LM_OK;
}

bool hub_is_name(const char *name)
{
    hub_pull p = { 0 };

    return hub_read_name(&p, name, NULL, NULL) == LM_OK;
}

/* ---- list of files ---- */

/* Percent-encode a string. `slashes`: also encode '/'. */
static void quote(const char *s, bool slashes, char out[4096])
{
    size_t at = 0;

    for (; *s && at < 4090; s++) {
        bool plain = strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-~", *s) ||
                     (*s == '/' && !slashes);
        at += (size_t)snprintf(out + at, 4, plain ? "%c" : "%%%02X", (unsigned char)*s);
    }
    out[at] = '\0';
}

static bool is_hash(const char *s, size_t n)
{
    return s && strlen(s) == n && strspn(s, "0123456789abcdef") == n;
}

static lm_status take(hub_pull *p, const json_t *entry, lm_error *e)
{
    const json_t *lfs  = json_object_get(entry, "lfs"), *size = json_object_get(lfs ? lfs : entry, "size");
    const char *type = json_string_value(json_object_get(entry, "type")),
               *path = json_string_value(json_object_get(entry, "path"));
    const char   *hash = json_string_value(json_object_get(lfs ? lfs : entry, "oid"));

    if (type && strcmp(type, "directory") == 0)
        return LM_OK;
    if (lfs && hash && strncmp(hash, "sha256:", 7) == 0)
        hash += 7;
    if (!path || !is_safe(path))
        return lm_fail(e, LM_IO, p->id, LM_NO_OFFSET, "the hub lists a file with a name that is not safe");
    if (!json_is_integer(size) || json_integer_value(size) < 0 || !is_hash(hash, lfs ? 64 : 40))
        return lm_fail(e, LM_IO, path, LM_NO_OFFSET, "the hub does not say its size and hash");
    if (p->n == MAX_FILES)
        return lm_fail(e, LM_LIMIT, p->id, LM_NO_OFFSET, "more than %d files", MAX_FILES);
    if (p->n == p->capacity) {
        size_t    capacity  = p->capacity ? 2 * p->capacity : 64;
        hub_file *grown = realloc(p->files, capacity * sizeof *grown);
        if (!grown)
            return lm_fail(e, LM_NO_MEMORY, p->id, LM_NO_OFFSET, "a list of files");
        p->files = grown;
        p->capacity  = capacity;
    }
    hub_file *f = &p->files[p->n++];
    memset(f, 0, sizeof *f);
    snprintf(f->path, sizeof f->path, "%s", path);
    snprintf(f->hash, sizeof f->hash, "%s", hash);
    f->size = (uint64_t)json_integer_value(size);
    return LM_OK;
}

static lm_status ask(hub_pull *p, const char *url, json_t **out, hub_answer *a, lm_error *e)
{
    lm_text   text   = { 0 };
    lm_status status = hub_get_text(&p->net, url, MAX_LISTING, &text, a, e);

    *out = status == LM_OK ? json_loadb(text.data ? text.data : "", text.size, 0, NULL) : NULL;
    lm_text_free(&text);
    if (status == LM_OK && !*out)
        return lm_fail(e, LM_IO, p->net.endpoint, LM_NO_OFFSET, "did not answer as a hub does");
    return status;
}

static lm_status find_commit(hub_pull *p, lm_error *e)
{
    char        quoted[4096], url[6000];
    json_t     *model;
    hub_answer  a;

    quote(p->revision, true, quoted);
    snprintf(url, sizeof url, "%s/api/models/%s/revision/%s", p->net.endpoint, p->id, quoted);
    LM_TRY(ask(p, url, &model, &a, e));
    const char *sha = json_string_value(json_object_get(model, "sha"));
    bool        good = is_hash(sha, 40);
    if (good)
        snprintf(p->commit, sizeof p->commit, "%s", sha);
    json_decref(model);
    return good ? LM_OK : lm_fail(e, LM_IO, p->net.endpoint, LM_NO_OFFSET, "did not answer as a hub does");
}

lm_status hub_list_files(hub_pull *p, lm_error *e)
{
    char          url[6000];
    json_t       *page;
    const json_t *entry;
    hub_answer    a;
    size_t        i;

    LM_TRY(find_commit(p, e));
    snprintf(url, sizeof url, "%s/api/models/%s/tree/%s?recursive=true", p->net.endpoint, p->id, p->commit);
    for (unsigned pages = 0; *url; pages++) {
        LM_TRY(ask(p, url, &page, &a, e));
        lm_status status = json_is_array(page) ? LM_OK
                                               : lm_fail(e, LM_IO, p->net.endpoint, LM_NO_OFFSET,
                                                         "did not answer as a hub does");
        json_array_foreach(page, i, entry)
            if (status == LM_OK)
                status = take(p, entry, e);
        json_decref(page);
        LM_TRY(status);
        if (*a.next && (pages == 1000 || !hub_same_origin(a.next, p->net.endpoint)))
            return lm_fail(e, LM_IO, p->net.endpoint, LM_NO_OFFSET,
                           "the list of files continues at another address");
        snprintf(url, sizeof url, "%s", a.next);
    }
    return LM_OK;
}

/* ---- selection ---- */

static const char *base(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static bool ends(const char *s, const char *tail)
{
    size_t n = strlen(s), k = strlen(tail);

    return n >= k && strcasecmp(s + n - k, tail) == 0;
}

/* For "…-00002-of-00003.gguf", return the length of what precedes; 0: not a part. */
static size_t part_of(const char *path)
{
    size_t n = strlen(path);
    if (n < 21 || !ends(path, ".gguf"))
        return 0;
    const char *tail = path + n - 20;
    bool part = tail[0] == '-' && strspn(tail + 1, "0123456789") == 5 && strncmp(tail + 6, "-of-", 4) == 0 &&
                strspn(tail + 10, "0123456789") == 5;
    return part ? n - 20 : 0;
}

static size_t stem_of(const char *path)
{
    return part_of(path) ? part_of(path) : strlen(path) - 5;
}

/* Return whether the name ends in the type, preceded by '-', '.', '_' or '/'. */
static bool has_type(const char *path, const char *type)
{
    size_t n = stem_of(path), k = strlen(type);

    return n > k && strncasecmp(path + n - k, type, k) == 0 && strchr("-._/", path[n - k - 1]);
}

bool hub_has_type(const char *path, const char *type)
{
    if (ends(type, ".gguf"))
        return strcmp(path, type) == 0;
    return ends(path, ".gguf") && strlen(path) > 5 && has_type(path, type);
}

/* Return whether a file is a model: not a projector, an importance matrix or a draft model. */
static bool is_gguf(const char *path)
{
    static const char *const others[] = { "mmproj", "imatrix", "mtp-", "eagle3-", "dflash-", "dspark-" };

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strstr(base(path), others[i]))
            return false;
    return ends(path, ".gguf") && strlen(path) > 5;
}

bool hub_is_first(const char *path)
{
    return !part_of(path) || strncmp(path + part_of(path), "-00001-", 7) == 0;
}

/* Select all parts of the file with this first part; LM_IO: one is missing. */
static lm_status want_parts(hub_pull *p, const char *first, lm_error *e)
{
    size_t   stem = part_of(first);
    unsigned of = 1, found = 0;

    if (stem)
        of = (unsigned)strtoul(first + stem + 10, NULL, 10);         /* five digits */
    for (size_t i = 0; i < p->n; i++) {
        const char *path = p->files[i].path;
        bool same = stem ? part_of(path) == stem && strncmp(path, first, stem) == 0 &&
                               strcmp(path + stem + 6, first + stem + 6) == 0
                         : strcmp(path, first) == 0;
        p->files[i].wanted |= same;
        found += same;
    }
    snprintf(p->path, sizeof p->path, "%s", first);
    return found == of
               ? LM_OK
               : lm_fail(e, LM_IO, first, LM_NO_OFFSET, "the repository has %u of its %u parts", found, of);
}

static lm_status ambiguous(const hub_pull *p, const char *type, lm_error *e)
{
    char   list[180] = "";
    size_t at = 0, n = 0;

    bool any = false;

    for (size_t i = 0; i < p->n; i++)
        any |= is_gguf(p->files[i].path) && has_type(p->files[i].path, type);
    for (size_t i = 0; i < p->n; i++)
        if (is_gguf(p->files[i].path) && hub_is_first(p->files[i].path) &&
            (!any || has_type(p->files[i].path, type))) {
            if (at < sizeof list)
                at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", n ? ", " : "", p->files[i].path);
            n++;
        }
    if (!n)
        return lm_fail(e, LM_NOT_FOUND, p->id, LM_NO_OFFSET, "no GGUF file of the type %s", type);
    if (*type && !any)
        return lm_fail(e, LM_NOT_FOUND, p->id, LM_NO_OFFSET, "no GGUF file of the type %s among %zu: %s%s",
                       type, n, list, at >= sizeof list ? " ..." : "");
    return lm_fail(e, LM_NOT_FOUND, p->id, LM_NO_OFFSET,
                   "%zu GGUF files to choose from with :TYPE or :FILE: %s%s", n, list,
                   at >= sizeof list ? " ..." : "");
}

static lm_status pick_gguf(hub_pull *p, lm_error *e)
{
    const char *type = *p->type ? p->type : "Q4_K_M", *only = NULL, *typed = NULL;
    size_t      n = 0, of_type = 0;

    for (size_t i = 0; i < p->n; i++) {
        const char *path = p->files[i].path;
        if (ends(type, ".gguf") && strcmp(path, type) == 0)
            return want_parts(p, path, e);
        if (!is_gguf(path) || !hub_is_first(path))
            continue;
        n++;
        only = path;
        if (has_type(path, type)) {
            of_type++;
            typed = path;
        }
    }
    if (of_type == 1)
        return want_parts(p, typed, e);
    if (n == 1 && !*p->type)
        return want_parts(p, only, e);
    return ambiguous(p, of_type > 1 || *p->type ? type : "", e);
}

bool hub_is_index(const char *path)
{
    return strcmp(path, "model.safetensors.index.json") == 0;
}

static bool is_small_part(const char *path)
{
    static const char *const names[] = {
        "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
        "merges.txt", "tokenizer.model", "tekken.json", "chat_template.jinja", "chat_template.json", "preprocessor_config.json", "README.md",
        "model.safetensors.index.json",
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(path, names[i]) == 0)
            return true;
    bool templates = strncmp(path, "additional_chat_templates/", 26) == 0 && ends(path, ".jinja");
    return templates || (strncmp(path, "LICENSE", 7) == 0 && !strchr(path, '/'));
}

lm_status hub_pick(hub_pull *p, lm_error *e)
{
    bool config = false, single = false, index = false;

    for (size_t i = 0; i < p->n; i++) {
        config |= strcmp(p->files[i].path, "config.json") == 0;
        single |= strcmp(p->files[i].path, "model.safetensors") == 0;
        index |= hub_is_index(p->files[i].path);
    }
    if (*p->type || !config || (!single && !index))
        return pick_gguf(p, e);
    for (size_t i = 0; i < p->n; i++)
        p->files[i].wanted = is_small_part(p->files[i].path) ||
                             (!index && strcmp(p->files[i].path, "model.safetensors") == 0);
    p->path[0] = '\0';
    return LM_OK;
}

static int by_path(const void *a, const void *b)
{
    return strcmp((*(hub_file *const *)a)->path, (*(hub_file *const *)b)->path);
}

static int name_to_path(const void *name, const void *file)
{
    return strcmp(name, (*(hub_file *const *)file)->path);
}

/* Select the shards that an index lists. */
lm_status hub_pick_shards(hub_pull *p, const char *index, size_t n, lm_error *e)
{
    json_t     *whole = json_loadb(index, n, 0, NULL), *map = json_object_get(whole, "weight_map"), *file;
    const char *tensor;
    lm_status status = json_is_object(map) ? LM_OK
                                           : lm_fail(e, LM_IO, "model.safetensors.index.json", LM_NO_OFFSET,
                                                     "names no files");

    /* looked up by bisection: an index may list every tensor of 20,000 files */
    hub_file  **sorted = malloc((p->n + 1) * sizeof *sorted);
    if (!sorted && status == LM_OK)
        status = lm_fail(e, LM_NO_MEMORY, p->id, LM_NO_OFFSET, "a list of files");
    for (size_t i = 0; sorted && i < p->n; i++)
        sorted[i] = &p->files[i];
    if (sorted && p->n)
        qsort(sorted, p->n, sizeof *sorted, by_path);
    json_object_foreach(map, tensor, file) {
        const char *name  = json_string_value(file);
        hub_file  **found = name && sorted ? bsearch(name, sorted, p->n, sizeof *sorted, name_to_path) : NULL;
        if (status != LM_OK)
            break;
        if (found)
            (*found)->wanted = true;
        else
            status = lm_fail(e, LM_IO, "model.safetensors.index.json", LM_NO_OFFSET,
                             "names a file that the repository lacks");
    }
    free(sorted);
    json_decref(whole);
    return status;
}
