/* place.c - store blobs, links and revision names in the cache. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/number.h"
#include "hub/beneath.h"
#include "hub/pull.h"

/* ---- folders ---- */

/* Open the folder of a file of the cache; create it if it is missing. */
static lm_status open_folder(const hub_pull *p, const char *path, int *folder, const char **name, lm_error *e)
{
    *folder = hub_open_beneath(p->cache, path, true, name);
    if (*folder >= 0)
        return LM_OK;
    if (errno == ENOTDIR)
        return lm_fail(e, LM_IO, path, LM_NO_OFFSET, "a folder above it is a link, which is not followed");
    return lm_fail_errno(e, path, "its folder cannot be made");
}

lm_status hub_find_cache(hub_pull *p, lm_error *e)
{
    static const struct { const char *variable, *below; } places[] = {
        { "HF_HUB_CACHE", "" }, { "HUGGINGFACE_HUB_CACHE", "" }, { "HF_HOME", "/hub" }, { "XDG_CACHE_HOME", "/huggingface/hub" },
        { "HOME", "/.cache/huggingface/hub" },
    };
    char flat[200];

    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *v = getenv(places[i].variable);
        if (!v || !*v)
            continue;
        if ((size_t)snprintf(p->cache, sizeof p->cache, "%s%s", v, places[i].below) >= sizeof p->cache)
            return lm_fail(e, LM_USAGE, places[i].variable, LM_NO_OFFSET, "too long for a path");
        snprintf(flat, sizeof flat, "%s", p->id);
        char *slash = strchr(flat, '/');
        *slash      = '\0';
        snprintf(p->repository, sizeof p->repository, "%s/models--%s--%s", p->cache, flat, slash + 1);
        return LM_OK;
    }
    return lm_fail(e, LM_NOT_FOUND, "HOME", LM_NO_OFFSET, "not set; no cache to write to");
}

void hub_blob_path(const hub_pull *p, const hub_file *f, char out[4096])
{
    snprintf(out, 4096, "%s/blobs/%s", p->repository, f->hash);
}

/* ---- state of the cache ---- */

lm_status hub_look(hub_pull *p, lm_error *e)
{
    char           path[4096];
    struct stat    st;
    struct statvfs disk;

    p->bytes = p->missing = 0;
    for (size_t i = 0; i < p->n; i++) {
        hub_file *f = &p->files[i];
        if (!f->wanted)
            continue;
        hub_blob_path(p, f, path);
        f->here = stat(path, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == f->size;
        p->bytes += f->size;
        p->missing += f->here ? 0 : f->size;
    }
    snprintf(path, sizeof path, "%s", p->cache);
    for (char *slash; statvfs(path, &disk) != 0; *slash = '\0')
        if (!(slash = strrchr(path, '/')) || slash == path)
            return LM_OK;
    if (p->dry_run || (double)disk.f_bavail * (double)disk.f_frsize >= (double)p->missing)
        return LM_OK;
    return lm_fail(e, LM_IO, p->cache, LM_NO_OFFSET, "%s needed, %s free",
                   lm_size_text((char[LM_SIZE_TEXT]){ 0 }, p->missing),
                   lm_size_text((char[LM_SIZE_TEXT]){ 0 }, (uint64_t)disk.f_bavail * disk.f_frsize));
}

/* ---- blobs ---- */

typedef struct landing {
    hub_pull *p;
    hub_file *f;
    int       fd;
    int64_t   at;
    bool      begun;
    lm_error *e;
} landing;

/* Check which part of the file the server sends: the requested part, or all of it. */
static bool begin(landing *l, const hub_answer *a)
{
    l->begun = true;
    if (a->status == 200 && l->at > 0) {
        l->p->done -= (uint64_t)l->at;
        l->at = 0;
        if (ftruncate(l->fd, 0) != 0)
            return lm_fail_errno(l->e, l->f->path, "cannot be written"), false;
    }
    if (a->status == 206 && (a->from != l->at || (a->total >= 0 && (uint64_t)a->total != l->f->size))) {
        lm_fail(l->e, LM_IO, l->f->path, LM_NO_OFFSET,
                "the server sent a different part of the file than requested");
        return false;
    }
    return true;
}

static bool land(void *arg, const hub_answer *a, const void *data, size_t n)
{
    landing *l = arg;

    if (!l->begun && !begin(l, a))
        return false;
    if ((uint64_t)l->at + n > l->f->size) {
        lm_fail(l->e, LM_IO, l->f->path, LM_NO_OFFSET,
                "the server sent more than the %llu bytes that the file has", (unsigned long long)l->f->size);
        return false;
    }
    for (size_t done = 0; done < n;) {
        ssize_t k = pwrite(l->fd, (const char *)data + done, n - done, (off_t)l->at);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0) {
            lm_fail_errno(l->e, l->f->path, "cannot be written");
            return false;
        }
        done += (size_t)k;
        l->at += k;
        l->p->done += (uint64_t)k;
    }
    return true;
}

void hub_file_url(const hub_pull *p, const hub_file *f, char out[6000])
{
    char   quoted[4096];
    size_t at = 0;

    for (const char *c = f->path; *c && at < sizeof quoted - 4; c++)
        at += (size_t)snprintf(quoted + at, 4,
                               strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-~/",
                                      *c)
                                   ? "%c"
                                   : "%%%02X",
                               (unsigned char)*c);
    quoted[at] = '\0';
    snprintf(out, 6000, "%s/%s/resolve/%s/%s", p->net.endpoint, p->id, p->commit, quoted);
}

/* Download from the end of the existing bytes to the full size. Broken connections are resumed as long as
 * they make progress. */
static lm_status fill(hub_pull *p, hub_file *f, int fd, lm_error *e)
{
    char        url[6000];
    struct stat st;

    hub_file_url(p, f, url);
    if (fstat(fd, &st) != 0)
        return lm_fail_errno(e, f->path, "cannot be read");
    int64_t have = st.st_size;
    if ((uint64_t)have > f->size) {
        if (ftruncate(fd, 0) != 0)
            return lm_fail_errno(e, f->path, "cannot be written");
        have = 0;
    }
    p->done += (uint64_t)have;
    int64_t furthest = have;         /* a hub that ignores ranges begins again each time: no progress */
    for (int tries = 0; (uint64_t)have < f->size; tries++) {
        hub_answer a   = { 0 };
        lm_error   why = { 0 };
        landing    l   = { p, f, fd, have, false, &why };
        lm_status  status = hub_get(&p->net, url, have, land, &l, &a, &why);
        bool       more = l.at > furthest;
        have            = l.at;
        furthest        = more ? have : furthest;
        if (status == LM_OK && (uint64_t)have < f->size)
            status = lm_fail(&why, LM_IO, f->path, LM_NO_OFFSET,
                             "the connection ended after %lld of %llu bytes", (long long)have,
                             (unsigned long long)f->size);
        tries = more ? 0 : tries;
        if (status != LM_OK && (status != LM_IO || (!more && tries >= 2) || (uint64_t)have > f->size)) {
            if (e)
                *e = why;
            return status;
        }
    }
    return LM_OK;
}

/* Download until the hash is correct; a second time from the start, because an older incomplete file may be
 * wrong. */
static lm_status fetch_checked(hub_pull *p, hub_file *f, int fd, const char *temp, bool *same, lm_error *e)
{
    *same = false;
    for (int rounds = 0; rounds < 2 && !*same; rounds++) {
        LM_TRY(fill(p, f, fd, e));
        LM_TRY(hub_check_hash(fd, f->path, f->hash, p->net.stop, same, e));
        if (!*same && ftruncate(fd, 0) != 0)
            return lm_fail_errno(e, temp, "cannot be written");
    }
    return LM_OK;
}

static lm_status fetch_locked(hub_pull *p, hub_file *f, int folder, lm_error *e)
{
    char        temp[128];
    struct stat st;
    bool        same;

    if (fstatat(folder, f->hash, &st, 0) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == f->size)
        return LM_OK;                    /* another process was faster */
    snprintf(temp, sizeof temp, "%s.lamina.incomplete", f->hash);
    int fd = openat(folder, temp, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return lm_fail_errno(e, temp, "cannot be written");
    lm_status status = fetch_checked(p, f, fd, temp, &same, e);
    if (status == LM_OK && !same) {
        unlinkat(folder, temp, 0);
        status = lm_fail(e, LM_IO, f->path, LM_NO_OFFSET,
                         "the bytes that the server sends are not those of the hash %.12s...", f->hash);
    }
    if (status == LM_OK && fsync(fd) != 0)
        status = lm_fail_errno(e, temp, "cannot be written");
    if (close(fd) != 0 && status == LM_OK)
        status = lm_fail_errno(e, temp, "cannot be written");
    if (status == LM_OK && renameat(folder, temp, folder, f->hash) != 0)
        status = lm_fail_errno(e, f->hash, "cannot be put in place");
    if (status == LM_OK)
        fsync(folder);
    return status;
}

static bool leads_to(int folder, const char *name, const char *target)
{
    char    is[4096];
    ssize_t n = readlinkat(folder, name, is, sizeof is);

    return n > 0 && (size_t)n == strlen(target) && memcmp(is, target, (size_t)n) == 0;
}

/* Create the link with its final target at once. It never has a temporary name, which a killed process would
 * leave behind. */
static lm_status link_file(const hub_pull *p, const hub_file *f, lm_error *e)
{
    char        path[4096], target[4096] = "";
    const char *name;
    size_t      ups = 0;
    int         folder;

    snprintf(path, sizeof path, "%s/snapshots/%s/%s", p->repository, p->commit, f->path);
    for (const char *c = f->path; *c; c++)
        ups += *c == '/';
    for (size_t i = 0, at = 0; i < ups + 3; i++)
        at += (size_t)snprintf(target + at, sizeof target - at, "%s", i < ups + 2 ? "../" : "blobs/");
    size_t blobs = strlen(target);
    snprintf(target + blobs, sizeof target - blobs, "%s", f->hash);
    LM_TRY(open_folder(p, path, &folder, &name, e));
    int why = symlinkat(target, folder, name) == 0 ? 0 : errno;
    if (why == EEXIST && !leads_to(folder, name, target)) {      /* a link to something else */
        unlinkat(folder, name, 0);
        why = symlinkat(target, folder, name) == 0 ? 0 : errno;
    }
    bool made = !why || leads_to(folder, name, target);          /* or another process was faster */
    close(folder);
    errno = why;
    return made ? LM_OK : lm_fail_errno(e, path, "cannot be put in place");
}

/* Lock a blob against other processes, until the descriptor *lock is closed. A file system without locks does
 * not wait. */
static lm_status lock_file(hub_pull *p, const hub_file *f, int *lock, lm_error *e)
{
    char        path[4300];
    const char *name;
    int         folder;

    snprintf(path, sizeof path, "%s/.locks/%s/%s.lock", p->cache, strrchr(p->repository, '/') + 1, f->hash);
    LM_TRY(open_folder(p, path, &folder, &name, e));
    *lock = openat(folder, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    close(folder);
    if (*lock < 0)
        return lm_fail_errno(e, path, "cannot be made");
    while (flock(*lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        if (hub_stopped(&p->net)) {
            close(*lock);
            return lm_fail(e, LM_CANCELLED, NULL, LM_NO_OFFSET, "interrupted");
        }
        usleep(50000);
    }
    return LM_OK;
}

lm_status hub_fetch_file(hub_pull *p, hub_file *f, lm_error *e)
{
    char        blob[4096];
    const char *name;
    int         folder, lock;

    if (!f->here) {
        hub_blob_path(p, f, blob);
        LM_TRY(open_folder(p, blob, &folder, &name, e));
        lm_status status = lock_file(p, f, &lock, e);
        if (status == LM_OK) {
            status = fetch_locked(p, f, folder, e);
            close(lock);
        }
        close(folder);
        LM_TRY(status);
    }
    f->here = true;
    return link_file(p, f, e);
}

/* ---- revisions ---- */

lm_status hub_write_ref(hub_pull *p, lm_error *e)
{
    char        path[4096], temp[300];
    const char *name;
    int         folder;

    if (strcmp(p->revision, p->commit) == 0)
        return LM_OK;
    snprintf(path, sizeof path, "%s/refs/%s", p->repository, p->revision);
    LM_TRY(open_folder(p, path, &folder, &name, e));
    /* One name, and one writer at a time: the next one replaces what a killed one left. */
    snprintf(temp, sizeof temp, ".%.200s.lamina", name);
    flock(folder, LOCK_EX);
    int  fd   = openat(folder, temp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    bool done = fd >= 0 && hub_write(fd, p->commit, 40) && fsync(fd) == 0;
    if (fd >= 0)
        done = close(fd) == 0 && done;
    done    = done && renameat(folder, temp, folder, name) == 0;
    int why = errno;
    if (!done)
        unlinkat(folder, temp, 0);
    close(folder);
    errno = why;
    return done ? LM_OK : lm_fail_errno(e, path, "cannot be written");
}

lm_status hub_fail_offline(const char *name, lm_error *e)
{
    return lm_fail(e, LM_NOT_FOUND, name, LM_NO_OFFSET,
                   "not in the cache, and HF_HUB_OFFLINE forbids downloading it");
}

lm_status hub_read_ref(hub_pull *p, lm_error *e)
{
    char  path[4096];
    FILE *f;

    if (strlen(p->revision) == 40 && strspn(p->revision, "0123456789abcdef") == 40) {
        memcpy(p->commit, p->revision, sizeof p->commit);
        return LM_OK;
    }
    snprintf(path, sizeof path, "%s/refs/%s", p->repository, p->revision);
    if ((f = fopen(path, "r"))) {
        p->commit[fread(p->commit, 1, 40, f)] = '\0';
        fclose(f);
    }
    if (strlen(p->commit) == 40 && strspn(p->commit, "0123456789abcdef") == 40)
        return LM_OK;
    return hub_fail_offline(p->id, e);
}
