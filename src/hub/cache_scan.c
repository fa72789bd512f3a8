/* cache_scan.c - list the snapshots of the cache. */
#include "hub/cache_scan.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FILES = 20000, DEPTH = 16 };

static bool is_commit(const char *s)
{
    return strlen(s) == 40 && strspn(s, "0123456789abcdef") == 40;
}

static bool is_blob(const char *s)
{
    size_t n = strlen(s);

    return (n == 40 || n == 64) && strspn(s, "0123456789abcdef") == n;
}

/* ---- files of one snapshot ---- */

static lm_status add_file(hub_cached_revision *k, const char *path, const char *relative,
                          const struct stat *link, lm_error *e)
{
    struct stat    st;
    char           target[512];
    hub_cached_file *grown = k->n < MAX_FILES ? realloc(k->files, (k->n + 1) * sizeof *grown) : NULL;

    if (!grown)
        return lm_fail(e, LM_NO_MEMORY, k->id, LM_NO_OFFSET, "a list of files");
    k->files           = grown;
    hub_cached_file *f = &k->files[k->n];
    *f                 = (hub_cached_file){ .path = strdup(relative) };
    if (!f->path)
        return lm_fail(e, LM_NO_MEMORY, k->id, LM_NO_OFFSET, "a list of files");
    k->n++;
    if (S_ISLNK(link->st_mode)) {
        ssize_t     n    = readlink(path, target, sizeof target - 1);
        const char *base = n > 0 ? (target[n] = '\0', strrchr(target, '/')) : NULL;
        size_t      dots = n > 0 ? strspn(target, "./") : 0;
        /* "../../blobs/HASH" only: links to other places are not files of this model */
        if (base && is_blob(base + 1) && strncmp(target + dots, "blobs/", 6) == 0 &&
            target + dots + 5 == base)
            snprintf(f->blob, sizeof f->blob, "%s", base + 1);
        else
            return LM_OK;
    }
    f->here = stat(path, &st) == 0 && S_ISREG(st.st_mode);
    f->size = f->here ? (uint64_t)st.st_size : 0;
    k->bytes += f->size;
    return LM_OK;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int not_dots(const struct dirent *d)
{
    return strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0;
}

static void free_names(struct dirent **names, int n)
{
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
}

static lm_status walk(hub_cached_revision *k, const char *relative, int depth, lm_error *e)
{
    char            folder[4096], path[4096 + 256], below[4096];
    struct dirent **names = NULL;
    struct stat     st;
    lm_status       status = LM_OK;

    snprintf(folder, sizeof folder, "%s%s%s", k->folder, *relative ? "/" : "", relative);
    int n = scandir(folder, &names, not_dots, by_name);
    for (int i = 0; i < n && status == LM_OK; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        if ((size_t)snprintf(below, sizeof below, "%s%s%s", relative, *relative ? "/" : "",
                             names[i]->d_name) >= sizeof below ||
            lstat(path, &st) != 0)
            continue;
        if (S_ISDIR(st.st_mode) && depth < DEPTH)
            status = walk(k, below, depth + 1, e);
        else if (S_ISLNK(st.st_mode) || S_ISREG(st.st_mode))
            status = add_file(k, path, below, &st, e);
    }
    if (n >= 0)
        free_names(names, n);
    return status;
}

/* ---- names of revisions ---- */

static void find_revisions(hub_cached_revision *k, const char *folder, const char *name, int depth,
                           lm_text *out)
{
    char            path[4096], below[512], commit[41] = "";
    struct dirent **names = NULL;
    struct stat     st;

    int n = scandir(folder, &names, not_dots, by_name);
    for (int i = 0; i < n; i++) {
        if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name) >= sizeof path ||
            (size_t)snprintf(below, sizeof below, "%s%s%s", name, *name ? "/" : "", names[i]->d_name) >=
                sizeof below ||
            lstat(path, &st) != 0)
            continue;
        if (S_ISDIR(st.st_mode) && depth < 4)
            find_revisions(k, path, below, depth + 1, out);
        FILE *f = S_ISREG(st.st_mode) && st.st_size < 256 ? fopen(path, "r") : NULL;
        if (!f)
            continue;
        commit[fread(commit, 1, 40, f)] = '\0';
        fclose(f);
        if (strcmp(commit, k->commit) == 0)
            lm_text_printf(out, "%s%s", out->size ? " " : "", below);
    }
    if (n >= 0)
        free_names(names, n);
}

/* ---- all snapshots ---- */

static lm_status add_snapshot(hub_cache_info *s, const char *id, const char *repository, const char *commit,
                              lm_error *e)
{
    char      path[4096], refs[4096];
    lm_text   revisions        = { 0 };
    hub_cached_revision *grown = realloc(s->kept, (s->n + 1) * sizeof *grown);

    if (!grown)
        return lm_fail(e, LM_NO_MEMORY, id, LM_NO_OFFSET, "a list of models");
    s->kept                = grown;
    hub_cached_revision *k = &s->kept[s->n++];
    *k                     = (hub_cached_revision){ 0 };
    snprintf(k->id, sizeof k->id, "%s", id);
    memcpy(k->commit, commit, sizeof k->commit);                         /* forty digits: is_commit */
    snprintf(path, sizeof path, "%s/snapshots/%s", repository, commit);
    snprintf(refs, sizeof refs, "%s/refs", repository);
    k->folder = strdup(path);
    find_revisions(k, refs, "", 0, &revisions);
    k->revisions = strdup(revisions.data ? revisions.data : "");
    lm_text_free(&revisions);
    if (!k->folder || !k->revisions)
        return lm_fail(e, LM_NO_MEMORY, id, LM_NO_OFFSET, "a list of models");
    return walk(k, "", 0, e);
}

static lm_status add_repository(hub_cache_info *s, const char *entry, lm_error *e)
{
    char            id[200], repository[2400], path[2500];
    struct dirent **names = NULL;
    struct stat     st;
    lm_status       status = LM_OK;
    const char     *org    = entry + strlen("models--"), *name = strstr(org, "--");

    if (!name || (size_t)snprintf(id, sizeof id, "%.*s/%s", (int)(name - org), org, name + 2) >= sizeof id)
        return LM_OK;
    snprintf(repository, sizeof repository, "%s/%s", s->cache, entry);
    if (lstat(repository, &st) != 0 || !S_ISDIR(st.st_mode))
        return LM_OK;
    snprintf(path, sizeof path, "%s/snapshots", repository);
    if (lstat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        return LM_OK;                    /* a link, whose files are not those of the cache */
    int n = scandir(path, &names, not_dots, by_name);
    for (int i = 0; i < n && status == LM_OK; i++) {
        char snapshot[2600];
        snprintf(snapshot, sizeof snapshot, "%s/%.40s", path, names[i]->d_name);
        if (!is_commit(names[i]->d_name) || lstat(snapshot, &st) != 0 || !S_ISDIR(st.st_mode))
            continue;
        status = add_snapshot(s, id, repository, names[i]->d_name, e);
    }
    if (n >= 0)
        free_names(names, n);
    return status;
}

static void free_kept(hub_cached_revision *k)
{
    for (size_t i = 0; i < k->n; i++)
        free(k->files[i].path);
    free(k->files);
    free(k->folder);
    free(k->revisions);
}

static bool has_revision(const hub_cached_revision *k, const char *revision)
{
    size_t n = strlen(revision);

    if (strcmp(revision, k->commit) == 0)
        return true;
    for (const char *at = k->revisions; (at = strstr(at, revision)); at++)
        if ((at == k->revisions || at[-1] == ' ') && (!at[n] || at[n] == ' '))
            return true;
    return false;
}

/* Keep only the files of one type. */
static void keep_type(hub_cached_revision *k, const char *type)
{
    size_t left = 0;

    k->bytes = 0;
    for (size_t i = 0; i < k->n; i++) {
        hub_cached_file f = k->files[i];
        if (!hub_has_type(f.path, type)) {
            free(f.path);
            continue;
        }
        k->files[left++] = f;
        k->bytes += f.size;
    }
    k->n = left;
}

static void choose(hub_cache_info *s, const hub_pull *requested, bool revision)
{
    size_t left = 0;

    for (size_t i = 0; i < s->n; i++) {
        hub_cached_revision *k = &s->kept[i];
        bool ours = strcasecmp(k->id, requested->id) == 0 &&
                    (!revision || has_revision(k, requested->revision));
        if (ours && *requested->type)
            keep_type(k, requested->type);
        if (!ours || (*requested->type && !k->n))
            free_kept(k);
        else
            s->kept[left++] = *k;
    }
    s->n = left;
}

lm_status hub_cache_scan(const char *name, hub_cache_info *out, lm_error *e)
{
    struct dirent **names     = NULL;
    lm_status       status    = LM_OK;
    hub_pull        requested = { 0 };

    *out = (hub_cache_info){ 0 };
    LM_TRY(hub_read_name(&requested, name ? name : "org/name", NULL, e));
    LM_TRY(hub_find_cache(&requested, e));
    snprintf(out->cache, sizeof out->cache, "%s", requested.cache);
    int n = scandir(out->cache, &names, not_dots, by_name);
    for (int i = 0; i < n && status == LM_OK; i++)
        if (strncmp(names[i]->d_name, "models--", 8) == 0)
            status = add_repository(out, names[i]->d_name, e);
    if (n >= 0)
        free_names(names, n);
    if (status == LM_OK && name)
        choose(out, &requested, strchr(name, '@') != NULL);
    if (status == LM_OK && name && !out->n) {
        lm_fail(e, LM_NOT_FOUND, name, LM_NO_OFFSET, "not in the cache");
        return lm_fail_in(e, out->cache);
    }
    return status;
}

void hub_cache_free(hub_cache_info *s)
{
    for (size_t i = 0; i < s->n; i++)
        free_kept(&s->kept[i]);
    free(s->kept);
    *s = (hub_cache_info){ 0 };
}
