/* peek.c - download only the headers of weight files, which describe their contents. */
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hub/beneath.h"
#include "hub/pull.h"

enum { FIRST = 1 << 16, STEP = 1 << 20, MAX_HEADER = 256 << 20, MAX_SMALL = 16 << 20 };

/* ---- headers in pieces ---- */

typedef struct head {
    hub_pull       *p;
    const hub_file *f;
    char            url[6000];
    uint8_t        *data;
    uint64_t        size;
} head;

static lm_status fail(const head *h, const char *what, lm_error *e)
{
    return lm_fail(e, LM_BAD_MODEL, h->f->path, LM_NO_OFFSET, "%s", what);
}

/* Get at least the first `n` bytes of the file. */
static lm_status need(head *h, uint64_t n, lm_error *e)
{
    if (n > h->f->size)
        return fail(h, "the file is too short for its header", e);
    if (n > MAX_HEADER)
        return fail(h, "its header is too large", e);
    if (n <= h->size)
        return LM_OK;
    uint8_t *grown = realloc(h->data, n);
    if (!grown)
        return lm_fail(e, LM_NO_MEMORY, h->f->path, LM_NO_OFFSET, "a header");
    h->data = grown;
    LM_TRY(hub_get_part(&h->p->net, h->url, h->size, n - 1, h->f->size, h->data + h->size, e));
    h->p->done += n - h->size;
    h->size = n;
    return LM_OK;
}

static uint64_t number(const uint8_t *at, int bytes)
{
    uint64_t n = 0;

    for (int i = bytes; i-- > 0;)
        n = n << 8 | at[i];
    return n;
}

/* Get the header of a safetensors file: its length and the JSON. `expected`: its estimated size, so that one
 * request is enough. */
static lm_status read_safetensors(head *h, uint64_t expected, lm_error *e)
{
    LM_TRY(need(h, expected < 8 ? 8 : expected < h->f->size ? expected : h->f->size, e));
    uint64_t n = number(h->data, 8);
    if (n > MAX_HEADER)
        return fail(h, "its header is too large", e);
    LM_TRY(need(h, 8 + n, e));
    h->size = 8 + n;
    return LM_OK;
}

/* ---- GGUF: keys, then tensors ---- */

typedef struct walk { const head *h; uint64_t at; bool more, bad; } walk;

static const uint8_t *skip(walk *w, uint64_t n)
{
    const uint8_t *data = w->h->data + w->at;

    if (w->more || w->bad)
        return NULL;
    if (n > w->h->f->size - w->at)
        w->bad = true;
    else if (n > w->h->size - w->at)
        w->more = true;
    if (w->more || w->bad)
        return NULL;
    w->at += n;
    return data;
}

static uint64_t take(walk *w, int bytes)
{
    const uint8_t *at = skip(w, (uint64_t)bytes);

    return at ? number(at, bytes) : 0;
}

static void skip_value(walk *w, uint64_t type, int depth)
{
    static const uint8_t sizes[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };

    if (type > 12 || depth > 4) {
        w->bad = true;
    } else if (type == 8) {
        skip(w, take(w, 8));
    } else if (type == 9) {
        uint64_t inner = take(w, 4), n = take(w, 8);
        if (w->more || w->bad)
            return;
        if (n > w->h->f->size || inner > 12)
            w->bad = true;
        else if (sizes[inner])
            skip(w, n * sizes[inner]);
        else
            while (n-- && !w->more && !w->bad)
                skip_value(w, inner, depth + 1);
    } else {
        skip(w, sizes[type]);
    }
}

static void walk_header(walk *w)
{
    const uint8_t *magic = skip(w, 4);

    if (magic && memcmp(magic, "GGUF", 4) != 0)
        w->bad = true;
    uint64_t version = take(w, 4), tensors = take(w, 8), keys = take(w, 8);
    if (!w->more && (version < 2 || version > 3 || tensors > w->h->f->size || keys > w->h->f->size))
        w->bad = true;
    while (keys-- && !w->more && !w->bad) {
        skip(w, take(w, 8));
        skip_value(w, take(w, 4), 0);
    }
    while (!w->more && !w->bad && tensors--) {
        skip(w, take(w, 8));
        uint64_t dims = take(w, 4);
        w->bad |= !w->more && dims > 4;
        skip(w, 8 * dims + 4 + 8);
    }
}

static lm_status read_gguf(head *h, lm_error *e)
{
    uint64_t want = FIRST, step = STEP / 4;

    for (;;) {
        LM_TRY(need(h, want < h->f->size ? want : h->f->size, e));
        walk w = { .h = h };
        walk_header(&w);
        if (w.bad)
            return fail(h, "no header of a GGUF file", e);
        if (!w.more) {
            h->size = w.at;
            return LM_OK;
        }
        want = h->size + step;
        step = step < 4 * STEP ? 2 * step : step;
    }
}

/* ---- local files ---- */

/* Save the first bytes in a file of the full size. */
static lm_status save(hub_pull *p, const hub_file *f, const void *data, uint64_t n, lm_error *e)
{
    char path[4096];

    if ((size_t)snprintf(path, sizeof path, "%s/%s", p->heads, f->path) >= sizeof path)
        return lm_fail(e, LM_LIMIT, f->path, LM_NO_OFFSET, "too long for a path");
    for (char *slash = strchr(path + strlen(p->heads) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    int  fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && hub_write(fd, data, n) && ftruncate(fd, (off_t)f->size) == 0;
    lm_status status = ok ? LM_OK : lm_fail_errno(e, path, "cannot be written");
    if (fd >= 0)
        close(fd);
    return status;
}

static bool ends(const char *s, const char *tail)
{
    size_t n = strlen(s), k = strlen(tail);

    return n >= k && strcmp(s + n - k, tail) == 0;
}

/* Estimate the header size of a shard from the names of its tensors: dtype, shape and offsets take about 100
 * bytes each. */
static uint64_t expected_header(const hub_pull *p, const hub_file *f)
{
    json_t     *whole = p->index ? json_loads(p->index, 0, NULL) : NULL, *file;
    uint64_t    bytes = 0;
    const char *tensor;

    json_object_foreach(json_object_get(whole, "weight_map"), tensor, file)
        if (json_string_value(file) && strcmp(json_string_value(file), f->path) == 0)
            bytes += strlen(tensor) + 100;
    json_decref(whole);
    return bytes ? bytes + 64 : FIRST;
}

static lm_status fetch_head(hub_pull *p, hub_file *f, lm_error *e)
{
    head      h      = { .p = p, .f = f };
    lm_status status = LM_OK;

    hub_file_url(p, f, h.url);
    if (ends(f->path, ".gguf"))
        status = read_gguf(&h, e);
    else if (ends(f->path, ".safetensors"))
        status = read_safetensors(&h, expected_header(p, f), e);
    else if (hub_is_index(f->path) && p->index && strlen(p->index) == f->size)
        return save(p, f, p->index, f->size, e);
    else
        status = f->size <= MAX_SMALL ? f->size ? need(&h, f->size, e) : LM_OK : fail(&h, "too large", e);
    if (status == LM_OK)
        status = save(p, f, h.data, h.size, e);
    free(h.data);
    return status;
}

/* Return whether a file describes weights, unlike tokenizers and documentation. */
static bool is_about_weights(const char *path)
{
    return ends(path, ".gguf") || ends(path, ".safetensors") || hub_is_index(path) ||
           strcmp(path, "config.json") == 0 || strcmp(path, "generation_config.json") == 0;
}

lm_status hub_heads_run(hub_pull *p, const char *name, const char *folder, lm_error *e)
{
    char first[sizeof p->path], org[2400];

    LM_TRY(hub_read_name(p, name, NULL, e));
    LM_TRY(hub_find_cache(p, e));
    if (hub_is_offline())
        return hub_fail_offline(p->id, e);
    p->dry_run = true;                       /* does not change the cache */
    LM_TRY(hub_net_read(&p->net, e));
    LM_TRY(hub_list_files(p, e));
    LM_TRY(hub_pick(p, e));
    LM_TRY(hub_read_index(p, e));
    for (size_t i = 0; i < p->n; i++)
        p->files[i].wanted &= is_about_weights(p->files[i].path);
    snprintf(org, sizeof org, "%s/%.*s", folder, (int)strcspn(p->id, "/"), p->id);
    mkdir(org, 0700);
    snprintf(p->heads, sizeof p->heads, "%s/%s", folder, p->id);
    if (mkdir(p->heads, 0700) != 0 && access(p->heads, W_OK) != 0)
        return lm_fail_errno(e, p->heads, "cannot be made");
    memcpy(first, p->path, sizeof first);
    LM_TRY(hub_together(p, fetch_head, e));
    if ((size_t)snprintf(p->path, sizeof p->path, "%s%s%s", p->heads, *first ? "/" : "", first) >=
        sizeof p->path)
        return lm_fail(e, LM_LIMIT, p->id, LM_NO_OFFSET, "too long for a path");
    return LM_OK;
}
