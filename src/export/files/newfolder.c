/* newfolder.c - create a folder under a temporary name next to its final one, and rename it when it is
 * complete. */
#include "export/files/newfolder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/filemap.h"
#include "base/jsontext.h"
#include "base/os/temporary.h"
#include "formats/safetensors.h"

/* ---- checks ---- */

/* Match a name; '#' matches a digit. */
static bool matches(const char *name, const char *pattern)
{
    while (*pattern && (*pattern == '#' ? *name >= '0' && *name <= '9' : *name == *pattern))
        name++, pattern++;
    return !*pattern && !*name;
}

/* Return whether a folder created here may contain this file. */
static bool is_ours(const char *name)
{
    static const char *const patterns[] = {
        "model.safetensors", "model.safetensors.index.json", "model-#####-of-#####.safetensors", "README.md",
    };

    for (size_t k = 0; k < sizeof patterns / sizeof *patterns; k++)
        if (matches(name, patterns[k]))
            return true;
    for (const char *const *text = lm_folder_texts; *text; text++)
        if (strcmp(name, *text) == 0)
            return true;
    return false;
}

static bool is_weights(const char *name)
{
    return lm_view_ends(lm_view_of(name), LM_VIEW(".safetensors"));
}

/* Return whether the header of a weight file shows that it was created by the same command. */
static bool is_marked(const lm_new_folder *f, const char *path)
{
    lm_container *c = NULL;
    lm_view       maker;

    if (!path || lm_safetensors_open(path, NULL, &c, NULL) != LM_OK)
        return false;
    bool marked = lm_meta_string(lm_container_meta(c), LM_MADE_BY, &maker, NULL) == LM_OK &&
                  lm_view_is(maker, f->maker);
    lm_container_close(c);
    return marked;
}

/* Return the name of a file that was not created here, or "". Published models have the same file names, so
 * the weights must prove it. */
static lm_status first_unknown(lm_new_folder *f, const char *path, char out[256], lm_error *e)
{
    DIR           *dir    = opendir(path);
    bool           proven = false, strange = false, any = false;
    struct dirent *d;

    if (!dir)
        return lm_fail_errno(e, path, "cannot be read, so it is not replaced");
    out[0] = '\0';
    while (!strange && (errno = 0, d = readdir(dir))) {
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        any = true;
        snprintf(out, 256, "%s", d->d_name);
        strange = !is_ours(out) ||
                  (is_weights(out) && !is_marked(f, lm_arena_printf(f->arena, "%s/%s", path, out)));
        proven |= is_weights(out);
    }
    lm_status status = strange || errno == 0
                           ? LM_OK
                           : lm_fail_errno(e, path, "cannot be read, so it is not replaced");
    closedir(dir);
    if (!strange && (proven || !any))
        out[0] = '\0';
    return status;
}

static lm_status check_old(lm_new_folder *f, const char *path, lm_error *e)
{
    char unknown[256];

    if (lm_path_is_dangling(path))
        return lm_fail_errno(e, path, "is a link that leads nowhere");
    if (access(path, F_OK) != 0)
        return LM_OK;
    if (!lm_path_is_folder(path)) {
        lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET,
                "is a file, not a folder; end the name in .gguf to write a GGUF file");
        return lm_fail_in(e, path);
    }
    LM_TRY(first_unknown(f, path, unknown, e));
    if (!*unknown)
        return LM_OK;
    lm_fail(e, LM_USAGE, unknown, LM_NO_OFFSET, "was not created by %s; the folder is not replaced",
            strrchr(f->maker, ' ') + 1);
    return lm_fail_in(e, path);
}

/* Return an unused name next to `path` that is not cleaned up: the folder that gets it belongs to the
 * user. */
static lm_status name_aside(lm_new_folder *f, const char *path, char **out, lm_error *e)
{
    uint64_t random;

    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return lm_fail_errno(e, path, "no random number");
    *out = lm_arena_printf(f->arena, "%s.%016" PRIx64, path, random);
    return *out ? LM_OK : lm_fail_memory(e, path, 0);
}

/* Exchange two folders with renames, between which the name is briefly unused: for file systems without
 * atomic exchange (NFS, 9p). */
static int exchange(const char *made, const char *path, const char *aside)
{
    if (rename(path, aside) != 0)
        return -1;
    if (rename(made, path) == 0)
        return rename(aside, made);
    int why = errno;
    rename(aside, path);
    errno = why;
    return -1;
}

/* Give the new folder its name. An old folder is deleted after it has been replaced. */
static lm_status put_in_place(lm_new_folder *f, const char *made, const char *path, lm_error *e)
{
    bool  old = access(path, F_OK) == 0;
    int   rc  = renameat2(AT_FDCWD, made, AT_FDCWD, path, old ? RENAME_EXCHANGE : RENAME_NOREPLACE);
    char *aside;

    if (rc != 0 && (errno == EINVAL || errno == ENOSYS)) {
        LM_TRY(name_aside(f, path, &aside, e));
        rc = old ? exchange(made, path, aside) : rename(made, path);
    }
    if (rc != 0)
        return lm_fail_errno(e, path, "cannot be put in place");
    lm_sync_parent(path);
    if (old)
        lm_remove_folder(made);
    return LM_OK;
}

lm_status lm_new_folder_check(lm_new_folder *f, const char *path, const char *maker, lm_arena *arena,
                              lm_error *e)
{
    size_t n = strlen(path);
    char  *name = lm_arena_strdup(arena, path);

    *f = (lm_new_folder){ .arena = arena, .maker = maker, .lock = -1 };
    if (!name)
        return lm_fail_memory(e, path, n);
    while (n > 1 && name[n - 1] == '/')
        name[--n] = '\0';
    if (!realpath(name, f->path))                        /* a symbolic link stays; its target is replaced */
        snprintf(f->path, sizeof f->path, "%s", name);
    return check_old(f, f->path, e);
}

lm_status lm_new_folder_begin(lm_new_folder *f, const char *path, const char *maker, lm_arena *arena,
                              lm_error *e)
{
    LM_TRY(lm_new_folder_check(f, path, maker, arena, e));
    f->lock = lm_temporary_folder(f->path, f->made);
    return f->lock < 0 ? lm_fail_errno(e, f->path, "cannot be made") : LM_OK;
}

lm_status lm_new_folder_commit(lm_new_folder *f, lm_error *e)
{
    LM_TRY(put_in_place(f, f->made, f->path, e));
    f->made[0] = '\0';
    return LM_OK;
}

void lm_new_folder_end(lm_new_folder *f)
{
    if (f->lock < 0)
        return;
    if (f->made[0])
        lm_remove_folder(f->made);
    close(f->lock);
    f->lock = -1;
}

const char *lm_new_folder_path(lm_new_folder *f, const char *name, lm_error *e)
{
    const char *path = lm_arena_printf(f->arena, "%s/%s", f->made, name);

    if (!path)
        lm_fail_memory(e, name, 0);
    return path;
}

/* ---- small files ---- */

lm_status lm_new_folder_text(lm_new_folder *f, const char *name, const char *text, size_t n, lm_error *e)
{
    const char *path = lm_new_folder_path(f, name, e);

    return path ? lm_file_write(path, text, n, e) : LM_NO_MEMORY;
}

/* Takes the reference. */
lm_status lm_new_folder_json(lm_new_folder *f, const char *name, json_t *document, lm_error *e)
{
    lm_text text = { 0 };
    bool   good = document && lm_json_print_exact(document, JSON_INDENT(2), &text);

    json_decref(document);
    lm_status status = good ? lm_new_folder_text(f, name, text.data, text.size, e)
                            : lm_fail_memory(e, name, text.size);
    lm_text_free(&text);
    return status;
}
