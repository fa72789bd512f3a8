/* restore.c - restore a sequence from a file; its layout: save.c. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "lamina/sequence.h"
#include "runtime/engine/adapter.h"
#include "runtime/engine/kv.h"
#include "runtime/engine/save.h"

enum { CHUNK = 64 << 10 };

static const char *const bindings[LM_SAVE_BINDINGS] = {
    [LM_SAVE_MODEL] = "model",        [LM_SAVE_OPTIONS] = "model options",  [LM_SAVE_ARITHMETIC] = "arithmetic",
    [LM_SAVE_INSTRUCTIONS] = "instruction set", [LM_SAVE_CACHE] = "type of cache", [LM_SAVE_PAGES] = "layout of pages",
    [LM_SAVE_LAMINA] = "version of lamina",
};

struct lm_restoring {
    int         fd;
    lm_engine  *g;
    uint32_t    sequence;
    bool        holds;                   /* the sequence has its pages */
    const char *path;
    int64_t     at;
    lm_blake2b  hash;
    lm_saved    text;
    bool        adopts;                  /* the sequence takes the adapters of the file */
    float      *adapters;                /* [g->n_adapters]: scales in the file */
    uint32_t   *first;                   /* [groups]: first page in the file */
    uint8_t     chunk[CHUNK];
};

typedef struct lm_restoring reader;

static lm_status damaged(const reader *r, const char *what, lm_error *e)
{
    lm_fail(e, LM_BAD_MODEL, what, r->at, "the saved sequence is damaged");
    return lm_fail_in(e, r->path);
}

/* Read the next n bytes; at the end of the file fewer: *got. */
static lm_status fill(reader *r, void *out, size_t n, size_t *got, lm_error *e)
{
    for (*got = 0; *got < n;) {
        ssize_t k = read(r->fd, (char *)out + *got, n - *got);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return lm_fail_errno(e, r->path, "cannot be read");
        if (k == 0)
            break;
        *got += (size_t)k;
    }
    return LM_OK;
}

static lm_status get(reader *r, const char *what, void *out, size_t n, lm_error *e)
{
    size_t got;

    LM_TRY(fill(r, out, n, &got, e));
    if (got < n) {
        lm_fail(e, LM_BAD_MODEL, what, r->at + (int64_t)got, "the saved sequence ends early");
        return lm_fail_in(e, r->path);
    }
    lm_blake2b_add(&r->hash, out, n);
    r->at += (int64_t)n;
    return LM_OK;
}

static lm_status get_magic(reader *r, lm_error *e)
{
    char     found[sizeof lm_save_magic];
    uint32_t version;
    size_t   got;

    LM_TRY(fill(r, found, sizeof found, &got, e));
    if (got < sizeof found || memcmp(found, lm_save_magic, sizeof lm_save_magic) != 0) {
        lm_fail(e, LM_BAD_MODEL, NULL, LM_NO_OFFSET, "is not a saved sequence");
        return lm_fail_in(e, r->path);
    }
    lm_blake2b_add(&r->hash, found, sizeof found);
    r->at = sizeof found;
    LM_TRY(get(r, "version", &version, sizeof version, e));
    if (version != LM_SAVE_VERSION) {
        lm_fail(e, LM_UNSUPPORTED, "version", r->at, "%u; this program reads %u", version, LM_SAVE_VERSION);
        return lm_fail_in(e, r->path);
    }
    return LM_OK;
}

static lm_status get_string(reader *r, const char *what, char text[LM_SAVE_STRING + 1], lm_error *e)
{
    uint64_t n;

    LM_TRY(get(r, what, &n, sizeof n, e));
    if (n > LM_SAVE_STRING)
        return damaged(r, what, e);
    LM_TRY(get(r, what, text, n, e));
    text[n] = '\0';
    return strlen(text) == n ? LM_OK : damaged(r, what, e);
}

static lm_status check_binding(reader *r, const char *what, const char *ours, lm_error *e)
{
    char text[LM_SAVE_STRING + 1];

    LM_TRY(get_string(r, what, text, e));
    if (strcmp(text, ours) == 0)
        return LM_OK;
    lm_fail(e, LM_DIFFERS, what, LM_NO_OFFSET, "\"%.100s\" in the file, \"%.100s\" here", text, ours);
    return lm_fail_in(e, r->path);
}

/* Read the adapters, which must be those of the sequence unless it takes the file's. */
static lm_status get_adapters(reader *r, const lm_engine *g, uint32_t sequence, lm_error *e)
{
    char         text[LM_SAVE_STRING + 1];
    const float *ours = lm_engine_adapters_of(g, sequence);

    LM_TRY(get_string(r, "adapters", text, e));
    if (!(r->adapters = lm_alloc_zero(g->n_adapters + 1, sizeof *r->adapters)))
        return lm_fail_memory(e, "sequence", g->n_adapters * sizeof *r->adapters);
    lm_status status = lm_engine_adapters_read(g, text, r->adapters, e);
    for (uint32_t k = 0; status == LM_OK && !r->adopts && k < g->n_adapters; k++)
        if (r->adapters[k] != ours[k])
            status = lm_fail(e, LM_DIFFERS, "adapters", LM_NO_OFFSET,
                             "%s at scale %g in the file, at %g here", g->adapters[k]->info.name,
                             (double)r->adapters[k], (double)ours[k]);
    return status == LM_OK ? LM_OK : lm_fail_in(e, r->path);
}

/* Read the counts and the state. The last sampled token may be one beyond the context size: it is never
 * processed. */
static lm_status get_numbers(reader *r, const lm_engine *g, lm_error *e)
{
    uint32_t  context = g->plan->options.context;
    lm_saved *t = &r->text;

    LM_TRY(get(r, "positions", &t->n_held, sizeof t->n_held, e));
    LM_TRY(get(r, "tokens", &t->n, sizeof t->n, e));
    LM_TRY(get(r, "prompt", &t->n_prompt, sizeof t->n_prompt, e));
    LM_TRY(get(r, "stop", &t->stop, sizeof t->stop, e));
    LM_TRY(get(r, "mirostat", &t->mirostat, sizeof t->mirostat, e));
    if (t->n_held > t->n || t->n_prompt > t->n || t->stop > LM_STOP_CANCELLED)
        return damaged(r, "positions", e);
    if (t->n_held <= context && t->n_prompt <= context && t->n <= (uint64_t)context + 1)
        return LM_OK;
    lm_fail(e, LM_LIMIT, "positions", LM_NO_OFFSET, "%u; the context has %u", t->n, context);
    return lm_fail_in(e, r->path);
}

static lm_status get_head(reader *r, const lm_engine *g, const lm_text *b, uint32_t sequence, lm_error *e)
{
    LM_TRY(get_magic(r, e));
    for (size_t i = 0; i < LM_SAVE_BINDINGS; i++)
        LM_TRY(check_binding(r, bindings[i], lm_text_string(b, i), e));
    LM_TRY(get_adapters(r, g, sequence, e));
    LM_TRY(get_numbers(r, g, e));
    r->first    = lm_alloc_zero(g->plan->n_groups + 1, sizeof *r->first);
    r->text.ids = lm_alloc_zero((size_t)r->text.n + 1, sizeof *r->text.ids);
    if (!r->first || !r->text.ids)
        return lm_fail_memory(e, "sequence", r->text.n * sizeof *r->text.ids);
    LM_TRY(get(r, "pages", r->first, g->plan->n_groups * sizeof *r->first, e));
    for (uint32_t i = 0; i < g->plan->n_groups; i++)
        if (r->first[i] > lm_kv_first_seen(g, i, r->text.n_held))
            return damaged(r, "pages", e);
    LM_TRY(get(r, "tokens", r->text.ids, r->text.n * sizeof *r->text.ids, e));
    for (uint32_t i = 0; i < r->text.n; i++)
        if (r->text.ids[i] < 0 || (uint32_t)r->text.ids[i] >= g->program->n_vocab)
            return damaged(r, "tokens", e);
    return LM_OK;
}

/* Skip a page that this engine does not keep. */
static lm_status pass_over(reader *r, uint64_t bytes, lm_error *e)
{
    for (uint64_t n; bytes; bytes -= n) {
        n = bytes < CHUNK ? bytes : CHUNK;
        LM_TRY(get(r, "pages", r->chunk, n, e));
    }
    return LM_OK;
}

/* Return the first page of a group in the file that this engine keeps. */
static uint32_t first_kept(const reader *r, uint32_t group)
{
    uint32_t passed = lm_kv_passed(r->g, group, r->text.n_held);

    return r->first[group] > passed ? r->first[group] : passed;
}

static lm_status get_pages(reader *r, uint32_t group, lm_error *e)
{
    uint64_t bytes = r->g->plan->groups[group].page_bytes;
    uint32_t first = first_kept(r, group);

    for (uint32_t i = r->first[group]; i < lm_save_pages(r->text.n_held); i++)
        if (i < first)
            LM_TRY(pass_over(r, bytes, e));
        else
            LM_TRY(get(r, "pages", lm_kv_page(r->g, group, r->sequence, i), bytes, e));
    return LM_OK;
}

static lm_status get_digest(reader *r, lm_error *e)
{
    uint8_t    ours[LM_BLAKE2B_BYTES], theirs[LM_BLAKE2B_BYTES + 1];
    size_t     got;
    lm_blake2b all = r->hash;

    lm_blake2b_end(&all, ours);
    LM_TRY(get(r, "checksum", theirs, LM_BLAKE2B_BYTES, e));
    if (memcmp(ours, theirs, sizeof ours) != 0)
        return damaged(r, "checksum", e);
    LM_TRY(fill(r, theirs, 1, &got, e));
    return got ? damaged(r, "end", e) : LM_OK;
}

/* Open a regular file. *fd is -1 if it cannot be opened; a file that is not regular stays open for the caller
 * to close. */
static lm_status open_regular(const char *path, int *fd, lm_error *e)
{
    struct stat st;

    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0)
        return lm_fail_errno(e, path, "cannot be opened");
    if (fstat(*fd, &st) == 0 && S_ISREG(st.st_mode))
        return LM_OK;
    lm_fail(e, LM_IO, NULL, LM_NO_OFFSET, "is not a regular file");
    return lm_fail_in(e, path);
}

/* ---- in parts ---- */

lm_status lm_restore_open(lm_engine *g, uint32_t sequence, const char *path, bool adopts, lm_restoring **out,
                          lm_error *e)
{
    lm_text    b = { 0 };
    lm_status status;

    LM_TRY(lm_save_check_slot(g, sequence, e));
    reader *r = lm_alloc_zero(1, sizeof *r);
    if (!r)
        return lm_fail_memory(e, "sequence", sizeof *r);
    r->g        = g;
    r->sequence = sequence;
    r->path     = path;
    r->adopts   = adopts;
    lm_blake2b_begin(&r->hash);
    status = open_regular(path, &r->fd, e);
    if (status == LM_OK)
        status = lm_save_bindings(g, &b, e);
    if (status == LM_OK && (status = get_head(r, g, &b, sequence, e)) != LM_OK)
        lm_fail_in(e, path);
    lm_text_free(&b);
    if (status == LM_OK)
        *out = r;
    else
        lm_restore_drop(r);
    return status;
}

lm_status lm_restore_allocate(lm_restoring *r, lm_error *e)
{
    lm_status status = LM_OK;

    if (r->g->seq_length[r->sequence])
        return lm_fail(e, LM_USAGE, "sequence", LM_NO_OFFSET, "only an empty one can be restored");
    for (uint32_t i = 0; status == LM_OK && i < r->g->plan->n_groups; i++)
        status = lm_kv_allocate(r->g, i, r->sequence, first_kept(r, i), r->text.n_held, e);
    if (status != LM_OK) {
        lm_kv_release(r->g, r->sequence, 0);
        return lm_fail_in(e, r->path);
    }
    r->holds = true;
    return LM_OK;
}

lm_status lm_restore_pages(lm_restoring *r, lm_error *e)
{
    lm_status status = LM_OK;

    for (uint32_t i = 0; status == LM_OK && i < r->g->plan->n_groups; i++)
        status = get_pages(r, i, e);
    if (status == LM_OK)
        status = get_digest(r, e);
    return status == LM_OK ? LM_OK : lm_fail_in(e, r->path);
}

lm_status lm_restore_end(lm_restoring *r, lm_saved *out, lm_error *e)
{
    *out = r->text;
    r->g->seq_length[r->sequence] = out->n_held;
    r->text.ids = NULL;
    r->holds    = false;
    return r->adopts ? lm_engine_set_adapters(r->g, r->sequence, r->adapters, e) : LM_OK;
}

void lm_restore_drop(lm_restoring *r)
{
    if (!r)
        return;
    if (r->holds)
        lm_kv_release(r->g, r->sequence, 0);
    if (r->fd >= 0)
        close(r->fd);
    lm_free(r->text.ids);
    lm_free(r->adapters);
    lm_free(r->first);
    lm_free(r);
}

/* ---- at once ---- */

static lm_status restore(lm_engine *g, uint32_t sequence, const char *path, bool adopts, lm_saved *out,
                         lm_error *e)
{
    lm_restoring *r = NULL;

    LM_TRY(lm_save_check_slot(g, sequence, e));
    if (g->seq_length[sequence])
        return lm_fail(e, LM_USAGE, "sequence", LM_NO_OFFSET, "only an empty one can be restored");
    lm_status status = lm_restore_open(g, sequence, path, adopts, &r, e);
    if (status == LM_OK)
        status = lm_restore_allocate(r, e);
    if (status == LM_OK)
        status = lm_restore_pages(r, e);
    if (status == LM_OK)
        status = lm_restore_end(r, out, e);
    lm_restore_drop(r);
    return status;
}

lm_status lm_restore_text(lm_engine *g, uint32_t sequence, const char *path, lm_saved *out, lm_error *e)
{
    return restore(g, sequence, path, false, out, e);
}

static lm_status restore_tokens(lm_engine *g, uint32_t sequence, const char *path, bool adopts,
                                lm_tokens *tokens, lm_error *e)
{
    lm_saved t;

    LM_TRY(restore(g, sequence, path, adopts, &t, e));
    lm_status status = lm_tokens_append(tokens, t.ids, t.n_held, e);
    if (status != LM_OK)
        lm_engine_truncate(g, sequence, 0, NULL);
    lm_free(t.ids);
    return status;
}

lm_status lm_engine_restore(lm_engine *g, uint32_t sequence, const char *path, lm_tokens *tokens, lm_error *e)
{
    LM_REQUIRE(e, g && path && tokens);
    return restore_tokens(g, sequence, path, false, tokens, e);
}

lm_status lm_restore_adapted(lm_engine *g, uint32_t sequence, const char *path, lm_tokens *tokens,
                             lm_error *e)
{
    return restore_tokens(g, sequence, path, true, tokens, e);
}
