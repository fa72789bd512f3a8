/* saved_state.c - the state of a run: saved, restored, and locked while it is in use. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "base/hash.h"
#include "base/os/filemap.h"
#include "formats/safetensors.h"
#include "runtime/model/model.h"
#include "train/run.h"

enum { PATH = 4096, PROGRESS = 5 };

lm_status lm_train_signature(const lm_train_run *r, lm_text *out, lm_error *e)
{
    const lm_train_options *o = r->o;
    char                    print[65];

    LM_TRY(lm_model_fingerprint(r->model, print, e));
    lm_text_printf(out, "model %s\ndata %s\nvalidation %s\n", print, r->data.hash, r->rest.hash);
    lm_text_printf(out, "arithmetic %d %s\nfull %d\n", (int)o->compute, lm_engine_cpu(r->learner->engine),
                   o->full);
    if (!o->full)
        lm_text_printf(out, "rank %u\nalpha %.17g\ndropout %.17g\nrslora %d\n", o->rank, o->alpha, o->dropout,
                       o->rslora);
    for (uint32_t i = 0; i < r->n_targets; i++)
        lm_text_printf(out, "target %s\n", r->modules[i]);
    for (size_t i = 0; o->init_from && i < sizeof r->start_hash; i++)
        lm_text_printf(out, i ? "%02x" : "begun from %02x", r->start_hash[i]);
    if (o->init_from)
        lm_text_add_char(out, '\n');
    lm_text_printf(out, "rate %.17g %.17g\nschedule %d\nwarmup %.17g\nsteps %u\n", o->rate, o->rate_end,
                   (int)o->schedule, o->warmup, r->steps);
    lm_text_printf(out, "decay %.17g\nclip %.17g\nbeta %.17g %.17g\nepsilon %.17g\n", o->weight_decay,
                   o->clip, o->beta1, o->beta2, o->epsilon);
    lm_text_printf(out, "batch %u of %u\naccumulate %u\npacking %d\ncut %d\nanswers %d\nsplit %d\n", r->batch,
                   r->context, o->accumulate, !o->no_packing, o->cut, (int)o->train_on, (int)o->split);
    lm_text_printf(out, "seed %" PRIu64 "\n", o->seed);
    return out->failed ? lm_fail_memory(e, "training state", 0) : LM_OK;
}

static void state_path(const char *folder, char path[PATH])
{
    snprintf(path, PATH, "%.3900s/state/state.safetensors", folder);
}

bool lm_train_has_state(const char *folder)
{
    char path[PATH];

    state_path(folder, path);
    return lm_path_is_file(path);
}

bool lm_train_has_run(const char *folder)
{
    char path[PATH];

    snprintf(path, sizeof path, "%.3900s/log.jsonl", folder);
    return lm_train_has_state(folder) || lm_path_is_file(path);
}

/* The folder itself is locked, so that nothing is left when the process ends. */
lm_status lm_train_lock(lm_train_run *r, lm_error *e)
{
    r->lock = open(r->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (r->lock < 0)
        return lm_fail_errno(e, r->folder, "cannot be opened");
    if (flock(r->lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return LM_OK;                    /* or the file system has no locks */
    lm_fail(e, LM_USAGE, "folder", LM_NO_OFFSET, "another process is training in it");
    return lm_fail_in(e, r->folder);
}

/* Hash what a state holds: the signature, the progress, and the values in the order of the file. */
static void checksum(const lm_train_run *r, const char *signature, size_t n, const double progress[PROGRESS],
                     char hex[2 * LM_BLAKE2B_BYTES + 1])
{
    lm_blake2b h;

    lm_blake2b_begin(&h);
    lm_blake2b_add(&h, signature, n);
    lm_blake2b_add(&h, progress, PROGRESS * sizeof *progress);
    for (uint32_t i = 0; i < r->learner->n_trained; i++) {
        const lm_trained *t = &r->learner->trained[i];
        const float      *parts[] = { t->value, t->m, t->v };
        for (size_t k = 0; k < 3; k++)
            lm_blake2b_add(&h, parts[k], t->elements * sizeof(float));
    }
    lm_blake2b_hex(&h, hex);
}

/* Save value, mean and square of each trained weight, in this order. */
lm_status lm_train_save_state(const lm_train_run *r, lm_error *e)
{
    static const char *const kinds[] = { "value", "mean", "square" };
    lm_safetensors_writer   *w = NULL;
    double progress[PROGRESS] = { r->done, r->best_step, r->best, r->smoothed, r->result->loss_first };
    uint64_t                 n          = PROGRESS;
    char                     path[PATH], name[540], sum[2 * LM_BLAKE2B_BYTES + 1];
    lm_text                  signature = { 0 };
    lm_status                status;

    snprintf(path, sizeof path, "%.3900s/state", r->folder);
    LM_TRY(lm_train_make_folder(path, e));
    LM_TRY(lm_train_signature(r, &signature, e));
    state_path(r->folder, path);
    status = lm_safetensors_create(path, &w, e);
    if (status != LM_OK) {
        lm_text_free(&signature);
        return status;
    }
    checksum(r, signature.data, signature.size, progress, sum);
    lm_safetensors_add_meta(w, "signature", signature.data);
    lm_safetensors_add_meta(w, "checksum", sum);
    lm_text_free(&signature);
    lm_safetensors_add_tensor(w, "progress", LM_F64, 1, &n);
    for (uint32_t i = 0; i < r->learner->n_trained; i++)
        for (size_t k = 0; k < 3; k++) {
            const lm_weight *x = &r->program->weights[r->learner->trained[i].weight];
            snprintf(name, sizeof name, "%.500s.%s", x->path, kinds[k]);
            lm_safetensors_add_tensor(w, name, LM_F32, x->n_dims, x->dims);
        }
    status = lm_safetensors_begin(w, e);
    if (status == LM_OK)
        status = lm_safetensors_write(w, progress, sizeof progress, e);
    for (uint32_t i = 0; status == LM_OK && i < r->learner->n_trained; i++) {
        const lm_trained *t = &r->learner->trained[i];
        const float      *parts[] = { t->value, t->m, t->v };
        for (size_t k = 0; status == LM_OK && k < 3; k++)
            status = lm_safetensors_write(w, parts[k], t->elements * sizeof(float), e);
    }
    if (status == LM_OK)
        return lm_safetensors_commit(w, e);
    lm_safetensors_abort(w);
    return status;
}

/* Report the first line that differs, in both versions. */
static lm_status compare(const char *there, size_t n, const char *here, const char *path, lm_error *e)
{
    size_t at = 0, line = 0;

    while (at < n && here[at] && there[at] == here[at]) {
        line = there[at] == '\n' ? at + 1 : line;
        at++;
    }
    if (at == n && !here[at])
        return LM_OK;
    int a = (int)strcspn(there + line, "\n"), b = (int)strcspn(here + line, "\n");
    lm_fail(e, LM_USAGE, "resume", LM_NO_OFFSET, "the existing run has \"%.*s\", this one \"%.*s\"",
            a > 90 ? 90 : a, there + line, b > 90 ? 90 : b, here + line);
    return lm_fail_in(e, path);
}

static lm_status restore_tensors(lm_train_run *r, const lm_container *c, lm_error *e)
{
    static const char *const kinds[] = { "value", "mean", "square" };
    char                     name[540];

    for (uint32_t i = 0; i < r->learner->n_trained; i++) {
        lm_trained *t = &r->learner->trained[i];
        float      *parts[] = { t->value, t->m, t->v };
        for (size_t k = 0; k < 3; k++) {
            snprintf(name, sizeof name, "%.500s.%s", r->program->weights[t->weight].path, kinds[k]);
            const lm_tensor_info *x = lm_container_find(c, name);
            if (!x || x->type != LM_F32 || x->elements != t->elements)
                return lm_fail(e, LM_BAD_MODEL, name, LM_NO_OFFSET, "is missing, or has another shape");
            lm_container_unpack(c, x, 0, x->elements, parts[k]);
        }
    }
    return LM_OK;
}

lm_status lm_train_restore(lm_train_run *r, lm_error *e)
{
    lm_container *c = NULL;
    char          path[PATH];
    double        progress[PROGRESS];
    lm_view       there = { 0 }, sum = { 0 };
    lm_text       here  = { 0 };
    lm_status     status;

    state_path(r->folder, path);
    LM_TRY(lm_container_open(path, NULL, &c, e));
    LM_TRY_GOTO(status, lm_meta_string(lm_container_meta(c), "signature", &there, e), done);
    LM_TRY_GOTO(status, lm_meta_string(lm_container_meta(c), "checksum", &sum, e), done);
    LM_TRY_GOTO(status, lm_train_signature(r, &here, e), done);
    LM_TRY_GOTO(status, compare(there.data, there.size, here.data, path, e), done);
    const lm_tensor_info *t = lm_container_find(c, "progress");
    if (!t || t->type != LM_F64 || t->elements != PROGRESS) {
        lm_fail(e, LM_BAD_MODEL, "progress", LM_NO_OFFSET, "is missing");
        status = lm_fail_in(e, path);
        goto done;
    }
    memcpy(progress, lm_container_data(c, t), sizeof progress);
    if (!(progress[0] >= 0 && progress[0] <= r->steps && progress[1] >= 0 && progress[1] <= progress[0])) {
        lm_fail(e, LM_BAD_MODEL, "progress", LM_NO_OFFSET, "is of no run");
        status = lm_fail_in(e, path);
        goto done;
    }
    r->done               = (uint32_t)progress[0];
    r->best_step          = (uint32_t)progress[1];
    r->best               = progress[2];
    r->smoothed           = progress[3];
    r->result->loss_first = progress[4];
    LM_TRY_GOTO(status, restore_tensors(r, c, e), done);
    char now[2 * LM_BLAKE2B_BYTES + 1];
    checksum(r, there.data, there.size, progress, now);
    if (sum.size != strlen(now) || memcmp(sum.data, now, sum.size) != 0) {
        lm_fail(e, LM_BAD_MODEL, "checksum", LM_NO_OFFSET, "does not match: the state was changed or damaged");
        lm_fail_hint(e, "train in another folder; `init_from` begins with a saved adapter");
        status = lm_fail_in(e, path);
    }
done:
    lm_text_free(&here);
    lm_container_close(c);
    return status;
}
