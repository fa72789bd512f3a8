/* hub.c - find models in the Hugging Face cache: models--ORG--NAME/{refs,snapshots/COMMIT}. */
#include "formats/hub.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/os/filemap.h"

enum { MAX_WORD = 96, MAX_FILES = 4096, NAMES = 200 };

typedef struct hub_id {
    char *org;                       /* NULL: none */
    char *name;
    char *type;                      /* NULL: none */
} hub_id;

/* ---- names, which must not lead out of the cache ---- */

static bool plain_word(const char *s)
{
    size_t n = strlen(s);

    if (!n || n > MAX_WORD || s[0] == '.' || s[0] == '-' || strstr(s, "..") || strstr(s, "--"))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", s[i]))
            return false;
    return true;
}

static lm_status read_id(lm_arena *a, const char *text, hub_id *out, lm_error *e)
{
    hub_id id = { 0 };
    char  *colon, *slash;

    if (!(id.name = lm_arena_strdup(a, text)))
        return lm_fail_memory(e, "a model id", strlen(text));
    if ((colon = strchr(id.name, ':'))) {
        *colon  = 0;
        id.type = colon + 1;
    }
    if ((slash = strchr(id.name, '/'))) {
        *slash  = 0;
        id.org  = id.name;
        id.name = slash + 1;
    }
    if (!plain_word(id.name) || (id.org && !plain_word(id.org)) || (id.type && !plain_word(id.type)))
        return lm_fail(e, LM_USAGE, text, LM_NO_OFFSET, "not a model id: expected org/name or org/name:TYPE");
    *out = id;
    return LM_OK;
}

static bool is_commit(const char *s)
{
    return strlen(s) == 40 && strspn(s, "0123456789abcdef") == 40;
}

/* ---- cache folders ---- */

static lm_status cache_folder(lm_arena *a, char **out, lm_error *e)
{
    static const struct {
        const char *variable, *below;
    } places[] = {
        { "HF_HUB_CACHE", "" },
        { "HF_HOME", "/hub" },
        { "XDG_CACHE_HOME", "/huggingface/hub" },
        { "HOME", "/.cache/huggingface/hub" },
    };

    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *v = getenv(places[i].variable);
        if (!v || !*v)
            continue;
        *out = lm_arena_printf(a, "%s%s", v, places[i].below);
        return *out ? LM_OK : lm_fail_memory(e, "a path", strlen(v));
    }
    return lm_fail(e, LM_NOT_FOUND, "HOME", LM_NO_OFFSET, "not set; no cache to search");
}

lm_status lm_hub_cache(char **out, lm_error *e)
{
    lm_arena  a      = { 0 };
    char     *folder = NULL, *copy = NULL;
    lm_status status = cache_folder(&a, &folder, e);

    if (status == LM_OK && !(copy = lm_strdup(folder)))
        status = lm_fail_memory(e, "a path", strlen(folder));
    lm_arena_free(&a);
    if (status == LM_OK)
        *out = copy;
    return status;
}

static lm_status absent(const char *id, const char *folder, lm_error *e)
{
    lm_fail(e, LM_NOT_FOUND, id, LM_NO_OFFSET, "not in the cache");
    lm_fail_hint(e, "`pull` %s downloads it", id);
    lm_fail_in(e, folder);
    return LM_NOT_FOUND;
}

/* Read the commit of a branch or tag. */
static lm_status read_ref(lm_arena *a, const char *id, const char *repo, const char *revision, char **out,
                          lm_error *e)
{
    char  *path = lm_arena_printf(a, "%s/refs/%s", repo, revision), *text, *commit;
    size_t n, skip;

    if (!path)
        return lm_fail_memory(e, "a path", strlen(repo));
    if (!lm_path_is_file(path))
        return absent(id, repo, e);
    LM_TRY(lm_file_read(path, 256, &text, &n, e));
    skip   = strspn(text, " \t\r\n");
    commit = lm_arena_strndup(a, text + skip, strcspn(text + skip, " \t\r\n"));
    lm_free(text);
    if (!commit)
        return lm_fail_memory(e, "a path", n);
    if (!is_commit(commit)) {
        lm_fail(e, LM_BAD_MODEL, NULL, LM_NO_OFFSET, "not a commit of 40 hexadecimal digits");
        lm_fail_in(e, path);
        return LM_BAD_MODEL;
    }
    *out = commit;
    return LM_OK;
}

/* ---- the GGUF files of a snapshot ---- */

typedef struct file_list {
    lm_arena *arena;
    char     *names[MAX_FILES];
    size_t    n;
} file_list;

/* Return whether a file is a model by itself: not a later part, not an image projector. */
static bool is_model_file(const char *name)
{
    size_t      n = strlen(name);
    const char *part = strstr(name, "-of-");

    if (n < 5 || strcmp(name + n - 5, ".gguf") || !strncmp(name, "mmproj", 6))
        return false;
    return !part || part - name < 5 || !memcmp(part - 5, "00001", 5) || strspn(part - 5, "0123456789") != 5;
}

static lm_status list_files(file_list *l, const char *folder, bool below, lm_error *e)
{
    DIR           *d = opendir(folder);
    struct dirent *entry;
    lm_status      status = LM_OK;

    while (d && status == LM_OK && (entry = readdir(d))) {
        char *path;
        if (entry->d_name[0] == '.')
            continue;
        if (!(path = lm_arena_printf(l->arena, "%s/%s", folder, entry->d_name)))
            status = lm_fail_memory(e, "a path", strlen(folder));
        else if (below && lm_path_is_folder(path))
            status = list_files(l, path, false, e);
        else if (is_model_file(entry->d_name) && l->n < MAX_FILES)
            l->names[l->n++] = path;
    }
    if (d)
        closedir(d);
    return status;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Return whether a file has a type: "…-Q4_K_M.gguf" has q4_k_m but not q4_k, because the word must end
 * there. */
static bool has_type(const char *path, const char *type)
{
    const char *name = strrchr(path, '/') + 1;
    size_t      n = strlen(type);

    for (const char *p = name; *p; p++) {
        bool starts = p == name || strchr("-._", p[-1]);
        if (starts && !strncasecmp(p, type, n) && (!p[n] || strchr("-.", p[n])))
            return true;
    }
    return false;
}

static char *only_of_type(const file_list *l, const char *type, size_t *found)
{
    char *first = NULL;

    *found = 0;
    for (size_t i = 0; i < l->n; i++)
        if (has_type(l->names[i], type) && !(*found)++)
            first = l->names[i];
    return first;
}

/* Return whether the repository of a snapshot has files that huggingface_hub did not finish. */
static bool has_incomplete(const char *folder)
{
    static const char end[] = ".incomplete";
    char              path[4096];
    int               n = snprintf(path, sizeof path, "%s/../../blobs", folder);
    DIR              *blobs = n > 0 && (size_t)n < sizeof path ? opendir(path) : NULL;
    bool              any = false;

    for (struct dirent *f; !any && blobs && (f = readdir(blobs));) {
        size_t size = strlen(f->d_name);
        any = size > sizeof end && strcmp(f->d_name + size + 1 - sizeof end, end) == 0;
    }
    if (blobs)
        closedir(blobs);
    return any;
}

/* Write the names of files, without their folders. */
static const char *names_of(const file_list *l, char out[NAMES])
{
    size_t at = 0;

    for (size_t i = 0; i < l->n && at < NAMES; i++) {
        const char *slash = strrchr(l->names[i], '/');
        at += (size_t)snprintf(out + at, NAMES - at, "%s%s", i ? ", " : "", slash ? slash + 1 : l->names[i]);
    }
    if (at >= NAMES)
        memcpy(out + NAMES - 5, " ...", 5);
    return out;
}

static lm_status pick_gguf(lm_arena *a, const char *text, const hub_id *id, const char *folder, bool whole,
                           char **out, lm_error *e)
{
    file_list  *l = lm_arena_new(a, 1, file_list);
    size_t      found;
    struct stat st;

    if (!l)
        return lm_fail_memory(e, "a list of files", sizeof *l);
    l->arena = a;
    LM_TRY(list_files(l, folder, true, e));
    qsort(l->names, l->n, sizeof *l->names, compare_names);
    *out = only_of_type(l, id->type ? id->type : "Q4_K_M", &found);      /* the default of llama.cpp */
    if (!found && !id->type && l->n == 1) {
        *out  = l->names[0];
        found = 1;
    }
    if (!l->n && has_incomplete(folder))
        lm_fail(e, LM_NOT_FOUND, text, LM_NO_OFFSET, "its download was interrupted: download it again");
    else if (!l->n)
        lm_fail(e, LM_NOT_FOUND, text, LM_NO_OFFSET,
                whole ? "its snapshot has no GGUF files, so no type to choose"
                      : "its snapshot has neither safetensors nor GGUF files");
    else if (!found && id->type)
        lm_fail(e, LM_NOT_FOUND, text, LM_NO_OFFSET, "none of its %zu GGUF files has this type: %s", l->n,
                names_of(l, (char[NAMES]){ 0 }));
    else if (!found || found > 1)
        lm_fail(e, LM_NOT_FOUND, text, LM_NO_OFFSET,
                "it has %zu GGUF files: name one with :TYPE, or by its path: %s", l->n,
                names_of(l, (char[NAMES]){ 0 }));
    else if (stat(*out, &st)) {
        lm_fail(e, LM_BAD_MODEL, text, LM_NO_OFFSET, "a link to a missing file; the download is incomplete");
        lm_fail_in(e, *out);
        return LM_BAD_MODEL;
    } else {
        return LM_OK;
    }
    lm_fail_in(e, folder);
    return LM_NOT_FOUND;
}

/* Set *out to whether the folder contains the name, even as a broken link. */
static lm_status listed(lm_arena *a, const char *folder, const char *name, bool *out, lm_error *e)
{
    char       *path = lm_arena_printf(a, "%s/%s", folder, name);
    struct stat st;

    if (!path)
        return lm_fail_memory(e, "a path", strlen(folder));
    *out = !lstat(path, &st);
    return LM_OK;
}

/* Set *out to whether the folder is the model: it has a config.json with safetensors next to it. */
static lm_status is_folder_model(lm_arena *a, const char *folder, bool *out, lm_error *e)
{
    bool config = false, single = false, index = false;

    LM_TRY(listed(a, folder, "config.json", &config, e));
    LM_TRY(listed(a, folder, "model.safetensors", &single, e));
    LM_TRY(listed(a, folder, "model.safetensors.index.json", &index, e));
    *out = config && (single || index);
    return LM_OK;
}

static lm_status find_snapshot(lm_arena *a, const char *text, const hub_id *id, const char *revision,
                               char **out, lm_error *e)
{
    char *cache = NULL, *repo, *commit = NULL;

    LM_TRY(cache_folder(a, &cache, e));
    repo = lm_arena_printf(a, "%s/models--%s%s%s", cache, id->org ? id->org : "", id->org ? "--" : "",
                           id->name);
    if (!repo)
        return lm_fail_memory(e, "a path", strlen(cache));
    if (!lm_path_is_folder(repo))
        return absent(text, repo, e);
    if (is_commit(revision))
        commit = lm_arena_strdup(a, revision);
    else
        LM_TRY(read_ref(a, text, repo, revision, &commit, e));
    if (!commit || !(*out = lm_arena_printf(a, "%s/snapshots/%s", repo, commit)))
        return lm_fail_memory(e, "a path", strlen(repo));
    return lm_path_is_folder(*out) ? LM_OK : absent(text, *out, e);
}

lm_status lm_hub_resolve(const char *text, const char *revision, char **out, lm_error *e)
{
    lm_arena  a = { 0 };
    lm_status status;
    hub_id    id = { 0 };
    char     *path = NULL, *copy;
    bool      whole = false;

    if (!revision)
        revision = "main";
    if (!plain_word(revision))
        LM_TRY_GOTO(status, lm_fail(e, LM_USAGE, revision, LM_NO_OFFSET, "not the name of a revision"), done);
    LM_TRY_GOTO(status, read_id(&a, text, &id, e), done);
    LM_TRY_GOTO(status, find_snapshot(&a, text, &id, revision, &path, e), done);
    LM_TRY_GOTO(status, is_folder_model(&a, path, &whole, e), done);
    if (id.type || !whole)
        LM_TRY_GOTO(status, pick_gguf(&a, text, &id, path, whole, &path, e), done);
    if (!(copy = lm_strdup(path)))
        LM_TRY_GOTO(status, lm_fail_memory(e, "a path", strlen(path)), done);
    *out = copy;

done:
    lm_arena_free(&a);
    return status;
}

/* ---- listing ---- */

typedef struct hub_listing {
    lm_arena *arena;
    bool    (*each)(void *arg, const char *id, const char *path);
    void     *arg;
    bool      more;
} hub_listing;

/* Return the word that names the type in "model-Q4_K_M.gguf" or "model.Q4_K_M-00001-of-00002.gguf"; NULL:
 * there is none. */
static char *type_of(lm_arena *a, const char *path)
{
    const char *name = strrchr(path, '/') + 1, *part = strstr(name, "-00001-of-");
    char       *stem = lm_arena_strndup(a, name, part ? (size_t)(part - name) : strlen(name) - 5), *word;

    if (!stem)
        return NULL;
    for (word = stem + strlen(stem); word > stem && !strchr("-.", word[-1]); word--)
        ;
    return word > stem && plain_word(word) ? word : NULL;
}

static lm_status list_gguf(hub_listing *h, const char *id, const char *folder, lm_error *e)
{
    file_list *l = lm_arena_new(h->arena, 1, file_list);
    size_t     found;

    if (!l)
        return lm_fail_memory(e, "a list of files", sizeof *l);
    l->arena = h->arena;
    LM_TRY(list_files(l, folder, true, e));
    qsort(l->names, l->n, sizeof *l->names, compare_names);
    for (size_t i = 0; i < l->n && h->more; i++) {
        const char *type  = l->n > 1 ? type_of(h->arena, l->names[i]) : NULL;
        char *whole = type ? lm_arena_printf(h->arena, "%s:%s", id, type) : lm_arena_strdup(h->arena, id);
        if (!whole)
            return lm_fail_memory(e, "a model id", strlen(id));
        if (l->n == 1 || (type && only_of_type(l, type, &found) && found == 1))
            h->more = h->each(h->arg, whole, l->names[i]);
    }
    return LM_OK;
}

/* List the models of a repository. `entry`: a folder of the cache, "models--org--name". */
static lm_status list_repository(hub_listing *h, const char *cache, const char *entry, lm_error *e)
{
    const char *name = strstr(entry + 8, "--");
    hub_id      id   = { 0 };
    char       *folder = NULL;
    bool        whole  = false;

    char *text = name ? lm_arena_printf(h->arena, "%.*s/%s", (int)(name - entry - 8), entry + 8, name + 2)
                      : lm_arena_strdup(h->arena, entry + 8);
    if (!text)
        return lm_fail_memory(e, "a model id", strlen(cache));
    if (read_id(h->arena, text, &id, NULL) != LM_OK ||
        find_snapshot(h->arena, text, &id, "main", &folder, NULL) != LM_OK)
        return LM_OK;
    LM_TRY(is_folder_model(h->arena, folder, &whole, e));
    if (!whole)
        return list_gguf(h, text, folder, e);
    h->more = h->each(h->arg, text, folder);
    return LM_OK;
}

static lm_status list_cache(hub_listing *h, lm_error *e)
{
    char      *cache = NULL;
    file_list *l     = lm_arena_new(h->arena, 1, file_list);

    if (!l)
        return lm_fail_memory(e, "a list of files", sizeof *l);
    if (cache_folder(h->arena, &cache, NULL) != LM_OK)
        return LM_OK;
    DIR *dir = opendir(cache);
    for (struct dirent *d; dir && l->n < MAX_FILES && (d = readdir(dir));)
        if (strncmp(d->d_name, "models--", 8) == 0 &&
            !(l->names[l->n++] = lm_arena_strdup(h->arena, d->d_name)))
            break;
    if (dir)
        closedir(dir);
    if (l->n && !l->names[l->n - 1])
        return lm_fail_memory(e, "a list of files", l->n);
    qsort(l->names, l->n, sizeof *l->names, compare_names);
    for (size_t i = 0; i < l->n && h->more; i++)
        LM_TRY(list_repository(h, cache, l->names[i], e));
    return LM_OK;
}

lm_status lm_hub_list(bool (*each)(void *arg, const char *id, const char *path), void *arg, lm_error *e)
{
    lm_arena    a      = { 0 };
    hub_listing h      = { .arena = &a, .each = each, .arg = arg, .more = true };
    lm_status   status = list_cache(&h, e);

    lm_arena_free(&a);
    return status;
}
