/* fingerprint.c - a hash that detects another model of the same shape, at a cost that does not grow with the
 * weights. */
#include "runtime/model/fingerprint.h"

#include <inttypes.h>
#include <string.h>

#include "base/os/filemap.h"

enum { SAMPLE = 256 };                   /* bytes hashed at the beginning, in the middle and at the end of
                                            every tensor */

typedef struct job {
    const lm_model *m;
    lm_blake2b      hash;
} job;

static void add_number(lm_blake2b *h, uint64_t x)
{
    uint8_t bytes[8];

    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(x >> 8 * i);
    lm_blake2b_add(h, bytes, sizeof bytes);
}

/* Return where the weights begin in a file, after its metadata and tensor directory. */
static uint64_t head_of(const lm_container *c, size_t file)
{
    uint64_t head = lm_container_file(c, file)->size;

    for (size_t i = 0; i < lm_container_n_tensors(c); i++) {
        const lm_tensor_info *t = lm_container_tensor(c, i);
        if (t->part == file && t->offset < head)
            head = t->offset;
    }
    return head;
}

static void add_tensor(lm_blake2b *h, const lm_container *c, const lm_tensor_info *t)
{
    const uint8_t *data = lm_container_data(c, t);

    if (t->bytes <= 3 * SAMPLE) {
        lm_blake2b_add(h, data, t->bytes);
        return;
    }
    lm_blake2b_add(h, data, SAMPLE);
    lm_blake2b_add(h, data + t->bytes / 2 / SAMPLE * SAMPLE, SAMPLE);
    lm_blake2b_add(h, data + t->bytes - SAMPLE, SAMPLE);
}

static lm_status add_files(void *arg)
{
    job                *j = arg;
    const lm_container *c = j->m->container;

    for (size_t i = 0; i < lm_container_n_files(c); i++) {
        const lm_filemap *f = lm_container_file(c, i);
        add_number(&j->hash, f->size);
        lm_blake2b_add(&j->hash, f->data, head_of(c, i));
    }
    for (size_t i = 0; i < lm_container_n_tensors(c); i++)
        add_tensor(&j->hash, c, lm_container_tensor(c, i));
    return LM_OK;
}

lm_status lm_model_fingerprint(const lm_model *m, char out[65], lm_error *e)
{
    LM_REQUIRE(e, m && out);
    job j = { .m = m };

    if (!m->tensors) {
        lm_fail(e, LM_USAGE, NULL, LM_NO_OFFSET, "this model has no weights and no fingerprint");
        return lm_fail_in(e, m->source);
    }
    lm_blake2b_begin(&j.hash);
    add_number(&j.hash, m->config_text.size);
    lm_blake2b_add(&j.hash, m->config_text.data, m->config_text.size);
    LM_TRY(lm_filemap_guard(add_files, &j, m->source, e));
    lm_blake2b_hex(&j.hash, out);
    return LM_OK;
}

char *lm_model_overrides(lm_arena *arena, const lm_model_options *o)
{
    lm_text b = { 0 };

    if (o->rope_scaling)
        lm_text_printf(&b, "rope_scaling %s ", o->rope_scaling);
    if (o->rope_freq_base > 0)
        lm_text_printf(&b, "rope_freq_base %a ", o->rope_freq_base);
    if (o->rope_freq_scale > 0)
        lm_text_printf(&b, "rope_freq_scale %a ", o->rope_freq_scale);
    if (o->yarn_orig_ctx)
        lm_text_printf(&b, "yarn_orig_ctx %" PRIu32 " ", o->yarn_orig_ctx);
    if (o->sliding_window)
        lm_text_printf(&b, "sliding_window %" PRId64 " ", o->sliding_window);
    if (o->mla && strcmp(o->mla, "naive") == 0)
        lm_text_add_str(&b, "mla naive ");
    char *out = b.failed ? NULL : lm_arena_strndup(arena, b.data ? b.data : "", b.size ? b.size - 1 : 0);
    lm_text_free(&b);
    return out;
}
