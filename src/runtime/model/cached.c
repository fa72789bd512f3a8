/* cached.c - list the models in the caches. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "formats/hub.h"
#include "lamina/model.h"

enum { MAX = 4096, DEPTH = 3 };

typedef struct listing {
    bool   (*each)(void *arg, const lm_cached_model *model);
    void    *arg;
    bool     more;
} listing;

/* Return the bytes of a file, or of the files in a folder, `depth` levels deep. */
static uint64_t bytes_in(const char *path, int depth)
{
    struct stat st;
    uint64_t    sum = 0;

    if (stat(path, &st) != 0)
        return 0;
    if (!S_ISDIR(st.st_mode))
        return (uint64_t)st.st_size;
    DIR *dir = depth ? opendir(path) : NULL;
    for (struct dirent *d; dir && (d = readdir(dir));) {
        lm_text inner = { 0 };
        if (d->d_name[0] == '.')
            continue;
        lm_text_printf(&inner, "%s/%s", path, d->d_name);
        sum += inner.failed ? 0 : bytes_in(inner.data, depth - 1);
        lm_text_free(&inner);
    }
    if (dir)
        closedir(dir);
    return sum;
}

/* Return the bytes of a model; of a split file, the bytes of all parts. */
static uint64_t bytes_of(const char *path)
{
    const char *part = strstr(path, "-00001-of-");
    uint64_t    sum  = bytes_in(path, DEPTH);
    unsigned    n    = part ? (unsigned)strtoul(part + 10, NULL, 10) : 1;

    for (unsigned i = 2; i <= n && n < MAX; i++) {
        lm_text other = { 0 };
        lm_text_printf(&other, "%.*s-%05u%s", (int)(part - path), path, i, part + 6);
        sum += other.failed ? 0 : bytes_in(other.data, 0);
        lm_text_free(&other);
    }
    return sum;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static lm_status read_names(lm_arena *a, const char *folder, char **names, size_t *n, lm_error *e)
{
    DIR *dir = opendir(folder);

    *n = 0;
    for (struct dirent *d; dir && *n < MAX && (d = readdir(dir));)
        if (d->d_name[0] != '.' && !(names[(*n)++] = lm_arena_strdup(a, d->d_name)))
            break;
    if (dir)
        closedir(dir);
    if (*n && !names[*n - 1])
        return lm_fail_memory(e, "a list of models", *n);
    qsort(names, *n, sizeof *names, compare_names);
    return LM_OK;
}

/* List every entry of models/ that is not hidden. */
static lm_status list_own(listing *l, lm_arena *a, lm_error *e)
{
    lm_text   folder = { 0 };
    char    **names  = lm_arena_new(a, MAX, char *);
    size_t    n      = 0;
    lm_status status = names ? LM_OK : lm_fail_memory(e, "a list of models", MAX);

    if (status != LM_OK || lm_cache_folder(&folder, NULL) != LM_OK)
        return status;                                   /* no location is known: an empty cache */
    lm_text_add_str(&folder, "models");
    status = folder.failed ? lm_fail_memory(e, "a path", folder.size)
                           : read_names(a, folder.data, names, &n, e);
    for (size_t i = 0; status == LM_OK && i < n && l->more; i++) {
        char *path = lm_arena_printf(a, "%s/%s", folder.data, names[i]);
        if (path)
            l->more = l->each(l->arg,
                              &(lm_cached_model){ names[i], path, "lamina", bytes_in(path, DEPTH), { 0 } });
        else
            status = lm_fail_memory(e, "a path", folder.size);
    }
    lm_text_free(&folder);
    return status;
}

static bool list_hub_model(void *arg, const char *id, const char *path)
{
    listing *l = arg;

    return l->each(l->arg, &(lm_cached_model){
                               .name = id, .path = path, .cache = "huggingface", .bytes = bytes_of(path) });
}

lm_status lm_model_cached(bool (*each)(void *arg, const lm_cached_model *model), void *arg, lm_error *e)
{
    LM_REQUIRE(e, each);
    lm_arena  a      = { 0 };
    listing   l      = { each, arg, true };
    lm_status status = list_own(&l, &a, e);

    lm_arena_free(&a);
    if (status != LM_OK || !l.more)
        return status;
    return lm_hub_list(list_hub_model, &l, e);
}
