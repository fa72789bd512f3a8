/* cache_remove.c - remove and check snapshots of the cache. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hub/beneath.h"
#include "hub/cache_scan.h"

/* Get the folder of a snapshot's model: "…/snapshots/COMMIT" without its last two components. */
static void repository_of(const hub_cached_revision *k, char out[4096])
{
    snprintf(out, 4096, "%.*s", (int)(strlen(k->folder) - strlen("/snapshots/") - 40), k->folder);
}

/* ---- removing ---- */

/* Remove the contents of a folder, then the folder; links are removed, not followed. */
static bool remove_below(int at, const char *name)
{
    int            fd  = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR           *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct stat    st;
    bool           all = dir != NULL;

    if (!dir && fd >= 0)
        close(fd);
    for (struct dirent *d; dir && (d = readdir(dir));) {
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        if (fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
            all &= remove_below(dirfd(dir), d->d_name);
        else
            all &= unlinkat(dirfd(dir), d->d_name, 0) == 0;
    }
    if (dir)
        closedir(dir);
    return all && unlinkat(at, name, AT_REMOVEDIR) == 0;
}

/* Fail if another process is downloading a blob of this model. */
static lm_status refuse_busy(const hub_cache_info *s, const hub_cached_revision *k, lm_error *e)
{
    char           folder[4096], path[4400], repository[4096];
    struct dirent *d;
    bool           busy = false;

    repository_of(k, repository);
    snprintf(folder, sizeof folder, "%s/.locks%s", s->cache, strrchr(repository, '/'));
    DIR *dir = opendir(folder);
    while (dir && !busy && (d = readdir(dir))) {
        if (d->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, d->d_name);
        int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        busy   = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
        if (fd >= 0)
            close(fd);
    }
    if (dir)
        closedir(dir);
    return busy ? lm_fail(e, LM_USAGE, k->id, LM_NO_OFFSET, "another process fetches it now") : LM_OK;
}

static bool is_removed(const hub_cache_info *s, const char *id, const char *commit, const char *path)
{
    for (size_t i = 0; i < s->n; i++) {
        const hub_cached_revision *k = &s->kept[i];
        for (size_t j = 0; strcmp(k->id, id) == 0 && strcmp(k->commit, commit) == 0 && j < k->n; j++)
            if (strcmp(k->files[j].path, path) == 0)
                return true;
    }
    return false;
}

/* Return whether a remaining file needs this blob. */
static bool is_needed(const hub_cache_info *all, const hub_cache_info *s, const char *id, const char *blob)
{
    for (size_t i = 0; i < all->n; i++) {
        const hub_cached_revision *k = &all->kept[i];
        for (size_t j = 0; strcmp(k->id, id) == 0 && j < k->n; j++)
            if (strcmp(k->files[j].blob, blob) == 0 && !is_removed(s, id, k->commit, k->files[j].path))
                return true;
    }
    return false;
}

static bool stays(const hub_cache_info *all, const hub_cache_info *s, const char *id, const char *commit)
{
    for (size_t i = 0; i < all->n; i++) {
        const hub_cached_revision *k = &all->kept[i];
        for (size_t j = 0; strcmp(k->id, id) == 0 && (!commit || strcmp(k->commit, commit) == 0) && j < k->n;
             j++)
            if (!is_removed(s, id, k->commit, k->files[j].path))
                return true;
    }
    return false;
}

static bool counted_before(const hub_cache_info *s, size_t i, size_t j)
{
    const char *blob = s->kept[i].files[j].blob;

    for (size_t a = 0; a <= i; a++)
        for (size_t b = 0; strcmp(s->kept[a].id, s->kept[i].id) == 0 && b < (a == i ? j : s->kept[a].n); b++)
            if (*blob && strcmp(s->kept[a].files[b].blob, blob) == 0)
                return true;
    return false;
}

static lm_status remove_file(const hub_cache_info *s, const char *path, lm_error *e)
{
    return hub_unlink_beneath(s->cache, path) ? LM_OK : lm_fail_errno(e, path, "cannot be removed");
}

static lm_status remove_files(const hub_cache_info *all, const hub_cache_info *s,
                              const hub_cached_revision *k, lm_error *e)
{
    char repository[4096], path[8192];

    repository_of(k, repository);
    for (size_t j = 0; j < k->n; j++) {
        const hub_cached_file *f = &k->files[j];
        snprintf(path, sizeof path, "%s/%s", k->folder, f->path);
        LM_TRY(remove_file(s, path, e));
        if (!*f->blob || is_needed(all, s, k->id, f->blob))
            continue;
        snprintf(path, sizeof path, "%s/blobs/%s", repository, f->blob);
        LM_TRY(remove_file(s, path, e));
    }
    return LM_OK;
}

static lm_status remove_names(const hub_cache_info *s, const hub_cached_revision *k, lm_error *e)
{
    char repository[4096], path[4700];

    repository_of(k, repository);
    for (const char *at = k->revisions; *at; at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");
        snprintf(path, sizeof path, "%s/refs/%.*s", repository, (int)n, at);
        at += n;
        LM_TRY(remove_file(s, path, e));
    }
    return LM_OK;
}

/* Remove a snapshot: revision names first, so that no process opens a partly removed snapshot. */
static lm_status remove_snapshot(const hub_cache_info *all, const hub_cache_info *s,
                                 const hub_cached_revision *k, lm_error *e)
{
    char repository[4096], *folder = k->folder;
    bool gone = !stays(all, s, k->id, k->commit);

    repository_of(k, repository);
    if (gone)
        LM_TRY(remove_names(s, k, e));
    LM_TRY(remove_files(all, s, k, e));
    if (!stays(all, s, k->id, NULL))
        folder = repository;                     /* including what interrupted pulls have left there */
    else if (!gone)
        return LM_OK;
    const char *name;
    int         at = hub_open_beneath(s->cache, folder, false, &name);
    bool        removed = at >= 0 && (remove_below(at, name) || errno == ENOENT);
    if (at >= 0)
        close(at);
    return removed ? LM_OK : lm_fail_errno(e, folder, "cannot be removed");
}

lm_status hub_cache_remove(const hub_cache_info *s, bool dry_run, uint64_t *freed, lm_error *e)
{
    hub_cache_info all;

    *freed           = 0;
    lm_status status = hub_cache_scan(NULL, &all, e);
    for (size_t i = 0; i < s->n && status == LM_OK; i++) {
        const hub_cached_revision *k = &s->kept[i];
        status                       = dry_run ? LM_OK : refuse_busy(s, k, e);
        for (size_t j = 0; j < k->n; j++)
            if (!*k->files[j].blob ||
                (!counted_before(s, i, j) && !is_needed(&all, s, k->id, k->files[j].blob)))
                *freed += k->files[j].size;
    }
    for (size_t i = 0; i < s->n && status == LM_OK && !dry_run; i++)
        status = remove_snapshot(&all, s, &s->kept[i], e);
    hub_cache_free(&all);
    return status;
}

/* ---- checking ---- */

static lm_status add_flaw(hub_checking *c, const hub_cached_revision *k, const hub_cached_file *f,
                          const char *problem, lm_error *e)
{
    hub_flaw *grown = realloc(c->flaws, (c->n_flaws + 1) * sizeof *grown);

    if (!grown)
        return lm_fail(e, LM_NO_MEMORY, k->id, LM_NO_OFFSET, "a list of files");
    c->flaws    = grown;
    hub_flaw *x = &c->flaws[c->n_flaws++];
    *x          = (hub_flaw){ .of = k, .path = f->path, .problem = problem };
    memcpy(x->blob, f->blob, sizeof x->blob);
    return LM_OK;
}

/* Return whether a path is inside the cache: blobs may be links into a store within the cache, but not
 * outside of it. */
static bool is_inside(const hub_cache_info *s, const char *path)
{
    char  *cache = realpath(s->cache, NULL), *real = realpath(path, NULL);
    size_t n      = cache ? strlen(cache) : 0;
    bool   inside = cache && real && strncmp(cache, real, n) == 0 && real[n] == '/';

    free(cache);
    free(real);
    return inside;
}

static lm_status check_file(const hub_cache_info *s, hub_checking *c, const hub_cached_revision *k,
                            const hub_cached_file *f, lm_error *e)
{
    char repository[4096], path[4300];
    bool same = false;

    if (!f->here)
        return add_flaw(c, k, f, "missing", e);
    if (!*f->blob) {
        c->unknown++;
        return LM_OK;
    }
    repository_of(k, repository);
    snprintf(path, sizeof path, "%s/blobs/%s", repository, f->blob);
    int fd = is_inside(s, path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return add_flaw(c, k, f, "missing", e);
    lm_status status = hub_check_hash(fd, path, f->blob, c->stop, &same, e);
    close(fd);
    LM_TRY(status);
    c->checked++;
    if (same)
        return LM_OK;
    LM_TRY(add_flaw(c, k, f, "damaged", e));
    if (!c->repair)
        return LM_OK;
    LM_TRY(refuse_busy(s, k, e));
    LM_TRY(remove_file(s, path, e));
    c->flaws[c->n_flaws - 1].removed = true;
    return LM_OK;
}

lm_status hub_cache_check(const hub_cache_info *s, hub_checking *c, lm_error *e)
{
    uint64_t all = 0, done = 0;

    for (size_t i = 0; i < s->n; i++)
        all += s->kept[i].bytes;
    for (size_t i = 0; i < s->n; i++)
        for (size_t j = 0; j < s->kept[i].n; j++) {
            const hub_cached_file *f = &s->kept[i].files[j];
            if (!counted_before(s, i, j)) {
                LM_TRY(check_file(s, c, &s->kept[i], f, e));
                c->bytes += *f->blob && f->here ? f->size : 0;
            }
            done += f->size;
            if (c->progress)
                c->progress(c->progress_arg, all ? (double)done / (double)all : 1);
        }
    return LM_OK;
}
