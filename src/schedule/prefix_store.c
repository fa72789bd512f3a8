/* prefix_store.c - prefixes in files of lm_engine_save, one per leaf of the tree, named SALT-TOKENS.prefix
 * after two hashes. The name is checked against the contents. A damaged file is removed; a file of another
 * model or build is ignored. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/os/logline.h"
#include "runtime/engine/save.h"
#include "schedule/schedule.h"

enum {
    SALT_DIGITS = 16,
    TOKEN_DIGITS = 32,
    NAME = SALT_DIGITS + 1 + TOKEN_DIGITS,
    LEAST_PAGES = 2,
    IN_FILE = 1,
    OWN_FILE = 2
};

#define ENDING ".prefix"

/* Limits at the end of a schedule, when its owner waits: maximum bytes to write, and seconds after which no
 * file is begun. */
#define LAST_BYTES   (UINT64_C(256) << 20)
#define LAST_SECONDS 3.0

typedef struct stored_file {
    char    name[NAME + sizeof ENDING];
    int64_t when;
    int64_t bytes;
} stored_file;

static void name_of(uint64_t salt, const lm_token *ids, size_t n, char out[NAME + sizeof ENDING])
{
    char       hex[2 * LM_BLAKE2B_BYTES + 1];
    lm_blake2b h;

    lm_blake2b_begin(&h);
    lm_blake2b_add(&h, ids, n * sizeof *ids);
    lm_blake2b_hex(&h, hex);
    snprintf(out, NAME + sizeof ENDING, "%016llx-%.*s%s", (unsigned long long)salt, TOKEN_DIGITS, hex,
             ENDING);
}

static void path_of(const lm_schedule *s, const char *name, lm_text *out)
{
    lm_text_clear(out);
    lm_text_printf(out, "%s/%s", s->o.prefix_store, name);
}

/* ---- writing ---- */

/* Remove the files of the node's ancestors: its own file contains them. */
static void remove_shorter(lm_schedule *s, lm_prefix *node, lm_text *path)
{
    char        name[NAME + sizeof ENDING];
    struct stat st;

    for (lm_prefix *x = node->parent; x; x = x->parent) {
        if (x->stored == OWN_FILE) {
            name_of(x->salt, s->scratch, ((size_t)x->depth + 1) * LM_PAGE, name);
            path_of(s, name, path);
            if (!path->failed && stat(path->data, &st) == 0 && unlink(path->data) == 0)
                s->stored_bytes -= (uint64_t)st.st_size < s->stored_bytes ? (uint64_t)st.st_size
                                                                          : s->stored_bytes;
        }
        x->stored = IN_FILE;
    }
}

/* Set the file's time by its order of use. The most recently used prefixes are written first, but the files
 * used longest ago are removed first: so each file is made older than the one written before it. */
static void stamp(lm_schedule *s, const char *path)
{
    struct timespec t[2] = { { .tv_nsec = UTIME_OMIT } };

    if (!s->rest_files++)
        clock_gettime(CLOCK_REALTIME, &s->rest_began);
    t[1] = s->rest_began;
    t[1].tv_sec -= (time_t)(s->rest_files / 1000);
    t[1].tv_nsec -= (long)(s->rest_files % 1000) * 1000000;
    if (t[1].tv_nsec < 0) {
        t[1].tv_sec--;
        t[1].tv_nsec += 1000000000;
    }
    utimensat(AT_FDCWD, path, t, 0);
}

static lm_status write_node(lm_schedule *s, lm_prefix *node, uint32_t slot, uint64_t *written, lm_error *e)
{
    char        name[NAME + sizeof ENDING];
    lm_text     path = { 0 };
    size_t      n    = lm_prefixes_tokens(node, s->scratch);
    struct stat st;

    name_of(node->salt, s->scratch, n, name);
    path_of(s, name, &path);
    lm_status status = path.failed ? lm_fail_memory(e, "the prefix store", path.size) : LM_OK;
    if (status == LM_OK) {
        lm_prefixes_share(&s->prefixes, node, slot, (uint32_t)n);
        status = lm_engine_save(s->g, slot, s->scratch, n, path.data, e);
        lm_engine_truncate(s->g, slot, 0, NULL);
    }
    if (status == LM_OK)
        stamp(s, path.data);
    if (status == LM_OK && stat(path.data, &st) == 0)
        s->stored_bytes += *written = (uint64_t)st.st_size;
    if (status == LM_OK)
        remove_shorter(s, node, &path);
    lm_text_free(&path);
    return status;
}

static bool worth_storing(const lm_schedule *s, const lm_prefix *x)
{
    return !x->stored && !x->child && x->depth + 1 >= LEAST_PAGES &&
           ((size_t)x->depth + 1) * LM_PAGE <= lm_engine_context(s->g) && lm_prefixes_whole(&s->prefixes, x);
}

static lm_prefix *next_to_store(const lm_schedule *s)
{
    const lm_prefix_list *lists[] = { &s->prefixes.again, &s->prefixes.once };

    for (int l = 0; l < 2; l++)
        for (lm_prefix *x = lists[l]->newest; x; x = x->older)
            if (worth_storing(s, x))
                return x;
    return NULL;
}

static void remove_oldest(lm_schedule *s);

/* Write one prefix. Returns false if there is none to write, or no free slot. *written: bytes of the file; 0:
 * writing failed. */
static bool store_one(lm_schedule *s, uint64_t *written)
{
    lm_prefix *node = s->o.prefix_store ? next_to_store(s) : NULL;
    uint32_t   slot = node ? lm_slot_find_free(s) : UINT32_MAX;
    lm_error   e;
    char       line[1024];

    *written = 0;
    if (slot == UINT32_MAX)
        return false;
    lm_slot_clear(s, slot);
    if (write_node(s, node, slot, written, &e) != LM_OK) {
        lm_log_line(&s->o.log, LM_LOG_WARNING, "prefix store: %s", lm_error_text(&e, line, sizeof line));
        node->stored = IN_FILE;                          /* do not try again */
        return true;
    }
    node->stored = OWN_FILE;
    lm_count(&s->counts.stored, 1);
    return true;
}

bool lm_store_one(lm_schedule *s)
{
    uint64_t written;

    if (s->rest_bytes >= s->o.store_bytes || !store_one(s, &written))
        return false;                                    /* more files would only displace those just
                                                            written */
    s->rest_bytes += written;
    remove_oldest(s);
    return true;
}

void lm_store_last(lm_schedule *s)
{
    uint64_t room = s->o.store_bytes > s->rest_bytes ? s->o.store_bytes - s->rest_bytes : 0, written;
    uint64_t max = room < LAST_BYTES ? room : LAST_BYTES;
    double   until = lm_clock_seconds() + LAST_SECONDS;

    for (uint64_t all = 0; all < max && lm_clock_seconds() < until && store_one(s, &written) && written;)
        all += written;
    remove_oldest(s);
}

/* ---- existing files ---- */

static bool is_name(const char *name)
{
    return strlen(name) == NAME + sizeof ENDING - 1 && strcmp(name + NAME, ENDING) == 0 &&
           name[SALT_DIGITS] == '-' && strspn(name, "0123456789abcdef") == SALT_DIGITS &&
           strspn(name + SALT_DIGITS + 1, "0123456789abcdef") == TOKEN_DIGITS;
}

static int newest_first(const void *a, const void *b)
{
    int64_t x = ((const stored_file *)a)->when, y = ((const stored_file *)b)->when;

    return x < y ? 1 : x > y ? -1 : strcmp(((const stored_file *)a)->name, ((const stored_file *)b)->name);
}

/* List the files of the store, newest first; *n: their number. NULL: none, or no memory. */
static stored_file *list_files(const lm_schedule *s, size_t *n)
{
    stored_file   *all = NULL, *grown;
    size_t         max = 0;
    lm_text        path = { 0 };
    struct dirent *d;
    struct stat    st;
    DIR           *folder = opendir(s->o.prefix_store);

    *n = 0;
    while (folder && (d = readdir(folder))) {
        if (!is_name(d->d_name))
            continue;
        path_of(s, d->d_name, &path);
        if (path.failed || stat(path.data, &st) != 0 || !S_ISREG(st.st_mode))
            continue;
        if (*n == max) {
            max  = max ? 2 * max : 64;
            grown = lm_realloc(all, max * sizeof *all);
            if (!grown)
                break;
            all = grown;
        }
        all[*n] = (stored_file){ .when = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec,
                                 .bytes = st.st_size };
        memcpy(all[(*n)++].name, d->d_name, NAME + sizeof ENDING);
    }
    if (folder)
        closedir(folder);
    lm_text_free(&path);
    if (all)
        qsort(all, *n, sizeof *all, newest_first);
    return all;
}

static void remove_oldest(lm_schedule *s)
{
    size_t       n;
    stored_file *all;
    uint64_t     kept = 0;
    lm_text      path = { 0 };

    if (s->stored_bytes <= s->o.store_bytes)
        return;
    all = list_files(s, &n);
    for (size_t i = 0; i < n; i++) {
        kept += (uint64_t)all[i].bytes;
        if (kept <= s->o.store_bytes)
            continue;
        path_of(s, all[i].name, &path);
        if (!path.failed && unlink(path.data) == 0)
            kept -= (uint64_t)all[i].bytes;
    }
    s->stored_bytes = kept;
    lm_text_free(&path);
    lm_free(all);
}

/* ---- reading ---- */

static uint64_t salt_in(const char *name)
{
    uint64_t x = 0;

    for (int i = 0; i < SALT_DIGITS; i++)
        x = x << 4 | (uint64_t)(name[i] <= '9' ? name[i] - '0' : name[i] - 'a' + 10);
    return x;
}

static lm_status read_file(lm_schedule *s, const stored_file *f, const char *path, lm_error *e)
{
    char      name[NAME + sizeof ENDING];
    lm_tokens ids    = { 0 };
    uint64_t  salt   = salt_in(f->name);
    lm_status status = lm_restore_adapted(s->g, 0, path, &ids, e);

    if (status == LM_OK) {
        name_of(salt, ids.ids, ids.n, name);
        if (strcmp(name, f->name) != 0) {
            lm_fail(e, LM_BAD_MODEL, NULL, LM_NO_OFFSET, "its name is of other tokens");
            status = lm_fail_in(e, path);
        }
    }
    if (status == LM_OK) {
        lm_prefix *x = lm_keep_tokens(s, 0, salt, ids.ids, ids.n);
        for (bool own = true; x; x = x->parent, own = false)
            x->stored = own ? OWN_FILE : IN_FILE;
        lm_count(&s->counts.restored, 1);
    }
    lm_engine_truncate(s->g, 0, 0, NULL);
    lm_tokens_free(&ids);
    return status;
}

lm_status lm_store_open(lm_schedule *s, lm_error *e)
{
    size_t       n;
    stored_file *all;
    lm_text      path = { 0 };
    lm_error     why;
    char         line[1024];

    if (!s->o.prefix_store)
        return LM_OK;
    if (mkdir(s->o.prefix_store, 0700) != 0 && errno != EEXIST)
        return lm_fail_errno(e, s->o.prefix_store, "cannot be made");
    if (access(s->o.prefix_store, R_OK | W_OK | X_OK) != 0)
        return lm_fail_errno(e, s->o.prefix_store, "cannot be written to");
    all = list_files(s, &n);
    for (size_t i = 0; i < n; i++) {
        path_of(s, all[i].name, &path);
        s->stored_bytes += (uint64_t)all[i].bytes;
        if (path.failed || s->prefixes.n_nodes - s->prefixes.once.n - s->prefixes.again.n == 0)
            continue;
        lm_status status = read_file(s, &all[i], path.data, &why);
        if (status == LM_OK)
            continue;
        lm_log_line(&s->o.log, LM_LOG_WARNING, "prefix store: %s", lm_error_text(&why, line, sizeof line));
        if (status == LM_BAD_MODEL)
            unlink(path.data);
        if (status == LM_LIMIT)
            break;
    }
    lm_text_free(&path);
    lm_free(all);
    return LM_OK;
}
