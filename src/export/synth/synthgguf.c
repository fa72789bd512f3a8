/* synthgguf.c - write a model with random weights as one GGUF file. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "arch/typemix.h"
#include "base/map.h"
#include "export/keys/ggufkeys.h"
#include "export/keys/program_difference.h"
#include "export/tensors/pieces_of.h"
#include "export/tensors/rotary.h"
#include "export/synth/synthesis.h"
#include "export/vocabulary/vocabulary.h"

/* ---- keys ---- */

static lm_status make_number(void *arg, uint32_t weight, float *out, lm_error *e)
{
    (void)e;
    lm_made_number(arg, weight, out);
    return LM_OK;
}

static lm_status add_keys(lm_synthesis *s, lm_gguf_writer *w, const lm_file_type *type, lm_error *e)
{
    char        description[96];
    const char *arch = lm_gguf_arch_of(s->family);

    if (!arch)
        return lm_fail(e, LM_UNSUPPORTED, s->family->name, LM_NO_OFFSET,
                       "this family cannot be stored in GGUF; write a folder instead");
    snprintf(description, sizeof description, "random weights, seed %llu: made by lamina synth",
             (unsigned long long)s->o->seed);
    lm_gguf_add_string(w, "general.architecture", lm_view_of(arch));
    lm_gguf_add_string(w, "general.type", LM_VIEW("model"));
    lm_gguf_add_string(w, "general.name", lm_view_of(s->name));
    lm_gguf_add_string(w, "general.description", lm_view_of(description));
    lm_gguf_add_u32(w, "general.file_type", type->id);
    lm_gguf_add_u32(w, "general.quantization_version", 2);
    LM_TRY(lm_add_gguf_keys(w, s->family, &s->config, s->program, e));
    LM_TRY(lm_add_listed_numbers(w, s->program, make_number, s, e));
    if (s->o->tokenizer)
        return lm_copy_vocabulary(w, s->o->tokenizer, s->program->n_vocab, e);
    lm_invented v;
    LM_TRY(lm_invent_for(s->meta, s->program->n_vocab, &s->arena, &v, e));
    lm_add_invented(w, &v);
    return LM_OK;
}

/* ---- tensors ---- */

/* Add the tensors that GGUF has instead of a fused matrix. */
static lm_status add_pieces(lm_synthesis *s, uint32_t i, lm_type_chooser *types, lm_error *e)
{
    lm_piece_of pieces[LM_MAX_PIECES];
    uint32_t    n = lm_pieces_of(s->program, s->family, i, &s->arena, pieces);

    if (!n)
        return lm_fail(e, LM_UNSUPPORTED, s->program->weights[i].path, LM_NO_OFFSET,
                       "GGUF has no name for this tensor: write a folder");
    for (uint32_t k = 0; k < n; k++) {
        lm_made_tensor *t = lm_add_made(s, pieces[k].gguf);
        if (!t)
            return lm_fail_memory(e, "tensors", 0);
        lm_fill_made(s, i, true, t);
        t->weight    = i;
        t->first_row = pieces[k].first;
        t->dims[0]   = pieces[k].rows;
        t->elements = t->part = pieces[k].rows * t->cols;
        t->type      = lm_choose_type(types, t->name, t->n_dims, t->dims);
    }
    return LM_OK;
}

static lm_status add_weight(lm_synthesis *s, uint32_t i, lm_type_chooser *types, lm_error *e)
{
    const lm_weight *w = &s->program->weights[i];

    bool joint = w->kind == LM_HEADS && s->family->joint_latent;
    if (w->gguf_key || (joint && w->joint.first))
        return LM_OK;
    if (!w->gguf)
        return add_pieces(s, i, types, e);
    lm_made_tensor *t = lm_add_made(s, joint ? w->joint.gguf : w->gguf);
    if (!t)
        return lm_fail_memory(e, "tensors", 0);
    lm_fill_made(s, i, true, t);
    if (joint)
        lm_fill_joint(w, t);
    t->weight      = i;
    t->exponential = w->exponential;
    t->folded      = w->n_folds ? w : NULL;
    LM_TRY(lm_weight_fold(w, 0, NULL, 0, e));            /* is there a form? */
    t->type        = w->below ? LM_I32 : lm_choose_type(types, t->name, t->n_dims, t->dims);
    return LM_OK;
}

static lm_status add_values(lm_synthesis *s, const char *name, const float *values, uint64_t n, lm_error *e)
{
    lm_made_tensor *t = lm_add_made(s, name);

    if (!t)
        return lm_fail_memory(e, "tensors", n);
    t->n_dims  = 1;
    t->dims[0] = t->elements = t->part = n;
    t->cols    = n;
    t->values  = values;
    t->weight  = LM_NONE;
    return LM_OK;
}

static lm_status add_rotary(lm_synthesis *s, lm_error *e)
{
    lm_rotary_tensors r;

    LM_TRY(lm_rotary_tensors_of(&s->config, s->program, &s->arena, &r, e));
    for (uint32_t i = 0; i < r.n; i++)
        LM_TRY(add_values(s, r.names[i], r.values[i], r.size, e));
    return LM_OK;
}

static lm_status list_tensors(lm_synthesis *s, const lm_file_type *type, lm_error *e)
{
    const lm_program *p     = s->program;
    const lm_config  *c     = &s->config;
    lm_type_chooser   types = {
        .type = type,
        .pure = s->o->pure,
        .coarse = s->family->coarse_mixture,
        .tied = c->tied,
        .big = lm_mixture_is_big(lm_gguf_arch_of(s->family), c->n_layers, lm_first_heads(c), c->n_kv_heads),
        .n_layers = c->n_layers,
        .n_heads = lm_first_heads(c),
        .n_kv_heads = lm_first_kv_heads(s->family, c),
        .n_experts  = c->route.n_experts,
    };

    for (uint32_t i = 0; i < p->n_weights; i++)
        types.n_values += p->weights[i].gguf && lm_holds_values(p->weights[i].gguf);
    LM_TRY(add_rotary(s, e));
    for (uint32_t i = 0; i < p->n_weights; i++)
        LM_TRY(add_weight(s, i, &types, e));
    return LM_OK;
}

/* ---- preview ---- */

/* Read the keys back as a configuration, which must be the same; otherwise GGUF cannot represent it. */
static lm_status read_back(const lm_synthesis *s, const lm_gguf_writer *w, lm_config *out, lm_error *e)
{
    lm_container *seen;

    LM_TRY(lm_gguf_preview(w, &seen, e));
    lm_status status = lm_read_back(seen, s->family, s->program, &s->config, out, e);
    lm_container_close(seen);
    return status;
}

static void order_rows(lm_synthesis *s, const lm_config *stored)
{
    for (size_t i = 0; i < s->n_tensors; i++)
        if (s->tensors[i].weight != LM_NONE)
            s->tensors[i].order = lm_row_order_of(s->program, s->tensors[i].weight, &s->config, stored);
}

/* ---- output file ---- */

static lm_status sink(void *file, const void *data, size_t n, lm_error *e)
{
    return lm_gguf_write(file, data, n, e);
}

static lm_status write_file(lm_synthesis *s, lm_gguf_writer *w, const char *path, lm_error *e)
{
    const lm_file_type *type;
    lm_config          *stored = lm_arena_new(&s->arena, 1, lm_config);

    if (!stored)
        return lm_fail_memory(e, "a configuration", sizeof *stored);
    LM_TRY(lm_file_type_named(s->o->type ? s->o->type : "f16", &type, e));
    s->type = type->name;
    LM_TRY(add_keys(s, w, type, e));
    LM_TRY(list_tensors(s, type, e));
    for (size_t i = 0; i < s->n_tensors; i++)
        lm_gguf_add_tensor(w, s->tensors[i].name, s->tensors[i].type, s->tensors[i].n_dims,
                           s->tensors[i].dims);
    LM_TRY(read_back(s, w, stored, e));
    order_rows(s, stored);
    LM_TRY(lm_prepare_synthesis(s, e));
    LM_TRY(lm_check_space(path, s->bytes, e));
    LM_TRY(lm_gguf_begin(w, e));
    for (size_t i = 0; i < s->n_tensors; i++)
        LM_TRY(lm_make_tensor(s, &s->tensors[i], sink, w, e));
    return LM_OK;
}

lm_status lm_synth_gguf(lm_synthesis *s, const char *path, lm_error *e)
{
    lm_gguf_writer *w;
    struct stat     st;

    LM_TRY(lm_gguf_create(path, &w, e));
    lm_status status = write_file(s, w, path, e);
    if (status != LM_OK) {
        lm_gguf_abort(w);
        return status;
    }
    LM_TRY(lm_gguf_commit(w, e));
    s->files = 1;
    if (stat(path, &st) == 0)
        s->written = (uint64_t)st.st_size;
    return LM_OK;
}
