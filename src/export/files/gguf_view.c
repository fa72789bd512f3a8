/* gguf_view.c - present a folder as a GGUF file. */
#include "export/files/gguf_view.h"

#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "export/keys/generalkeys.h"
#include "export/keys/ggufkeys.h"
#include "export/vocabulary/ggufvocab.h"
#include "export/keys/program_difference.h"
#include "export/tensors/pieces_of.h"
#include "export/tensors/rotary.h"

/* ---- tensors ---- */

static lm_status add(lm_gguf_view *c, lm_gguf_tensor_view t, lm_error *e)
{
    for (size_t i = 0; i < c->n; i++)
        if (strcmp(c->tensors[i].name, t.name) == 0)
            return lm_fail(e, LM_UNSUPPORTED, t.name, LM_NO_OFFSET,
                           "two weights of this model have one name in GGUF");
    c->tensors[c->n++] = t;
    return LM_OK;
}

static lm_status add_made(lm_gguf_view *c, const char *name, const float *values, uint64_t n, lm_error *e)
{
    return add(c,
               (lm_gguf_tensor_view){ .name = name,
                             .stored = LM_F32,
                             .type = LM_F32,
                             .n_dims = 1,
                             .dims = { n },
                             .elements = n,
                             .rows = 1,
                             .cols = n,
                             .weight = LM_NONE,
                             .values = values },
               e);
}

/* Add the matrix of all heads as the folder stores it. */
static lm_status add_joint(lm_gguf_view *c, uint32_t i, lm_error *e)
{
    const lm_weight *w    = &c->program->weights[i];
    uint64_t         rows = w->dims[0] * w->joint.of, cols = w->dims[w->joint.transposed ? 1 : 2];

    return add(c,
               (lm_gguf_tensor_view){ .name = w->joint.gguf,
                                      .stored = lm_matrices_type(c->matrices, i),
                                      .n_dims = 2,
                                      .dims = { rows, cols },
                                      .elements = rows * cols,
                                      .rows = rows,
                                      .cols = cols,
                                      .weight = i,
                                      .joint = lm_matrices_joint(c->matrices, i) },
               e);
}

static lm_status add_weight(lm_gguf_view *c, uint32_t i, lm_error *e)
{
    const lm_weight *w = &c->program->weights[i];
    lm_piece_of      pieces[LM_MAX_PIECES];

    if (w->gguf_key || (w->kind == LM_HEADS && c->family->joint_latent && w->joint.first))
        return LM_OK;
    if (w->kind == LM_HEADS && c->family->joint_latent)
        return add_joint(c, i, e);
    if (!w->gguf) {
        uint32_t n = lm_pieces_of(c->program, c->family, i, &c->arena, pieces);
        for (uint32_t k = 0; k < n; k++)
            LM_TRY(add(c,
                       (lm_gguf_tensor_view){ .name = pieces[k].gguf,
                                     .stored = lm_matrices_type(c->matrices, i),
                                     .n_dims = 2,
                                     .dims = { pieces[k].rows, w->dims[1] },
                                     .elements = pieces[k].rows * w->dims[1],
                                     .rows = pieces[k].rows,
                                     .cols = w->dims[1],
                                     .weight = i,
                                     .first = pieces[k].first },
                       e));
        return n ? LM_OK
                 : lm_fail(e, LM_UNSUPPORTED, w->path, LM_NO_OFFSET, "GGUF has no name for this tensor");
    }
    lm_gguf_tensor_view t = { .name = w->gguf,
                     .stored = lm_matrices_type(c->matrices, i),
                     .elements = w->elements,
                     .weight = i };
    t.n_dims = lm_weight_dims(w, true, t.dims);
    t.cols = w->dims[w->n_dims - 1];
    t.rows = w->elements / t.cols;
    return add(c, t, e);
}

static lm_status list_tensors(lm_gguf_view *c, lm_error *e)
{
    lm_rotary_tensors made;

    c->tensors = lm_arena_new(&c->arena, (size_t)c->program->n_weights * LM_MAX_PIECES + 3,
                              lm_gguf_tensor_view);
    if (!c->tensors)
        return lm_fail_memory(e, "tensors", c->program->n_weights * sizeof *c->tensors);
    LM_TRY(lm_rotary_tensors_of(c->config, c->program, &c->arena, &made, e));
    for (uint32_t i = 0; i < made.n; i++)
        LM_TRY(add_made(c, made.names[i], made.values[i], made.size, e));
    for (uint32_t i = 0; i < c->program->n_weights; i++)
        LM_TRY(add_weight(c, i, e));
    return LM_OK;
}

/* ---- tensor types, as in llama.cpp's converter ---- */

static bool contains(const char *name, const char *const *words)
{
    for (; *words; words++)
        if (strstr(name, *words))
            return true;
    return false;
}

/* Return whether a tensor is F32 in every file: vectors, biases, norms, routers, convolutions, position and
 * token-type embeddings. */
static bool stays_f32(const lm_gguf_tensor_view *t)
{
    static const char *const words[] = {
        "ffn_gate_inp", "ffn_gate_tid2eid", "position_embd", "token_types", "ssm_conv1d", "shortconv.conv",
        NULL,
    };
    lm_view                  name = lm_view_of(t->name);

    return t->n_dims <= 1 || !lm_view_ends(name, LM_VIEW(".weight")) ||
           lm_view_ends(name, LM_VIEW("_norm.weight")) || contains(t->name, words);
}

/* Return whether a tensor is a table of whole numbers. */
static bool is_table(const lm_gguf_view *c, const lm_gguf_tensor_view *t)
{
    return !t->values && c->program->weights[t->weight].below > 0;
}

uint32_t lm_gguf_view_choose(lm_gguf_view *c, const lm_dtype *matrices)
{
    static const struct { lm_dtype type; uint32_t id; } ids[] = {
        { LM_F32, 0 }, { LM_F16, 1 }, { LM_Q8_0, 7 }, { LM_BF16, 32 }, { LM_MXFP4, 38 },
    };
    lm_dtype main = LM_F32;

    for (size_t i = 0; i < c->n; i++) {
        lm_gguf_tensor_view *t    = &c->tensors[i];
        bool        wide = t->stored == LM_F16 || t->stored == LM_BF16 || t->stored == LM_F32;
        t->type = is_table(c, t)            ? LM_I32
                  : t->values || stays_f32(t) ? LM_F32
                  : t->stored == LM_MXFP4   ? LM_MXFP4
                  : matrices                ? *matrices
                  : wide                    ? t->stored
                                            : LM_F32;
        if (t->cols % lm_dtype_of(t->type)->block)
            t->type = LM_F16;
        if (t->type == LM_MXFP4 || (main == LM_F32 && !stays_f32(t) && !t->values))
            main = main == LM_MXFP4 ? main : t->type;
    }
    if (matrices && main != LM_MXFP4)
        main = *matrices;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (ids[i].type == main)
            return ids[i].id;
    return 0;
}

/* ---- opening ---- */

static void note_unused(lm_gguf_view *c)
{
    size_t                n     = 0;
    const lm_tensor_info *first = lm_matrices_unused(c->matrices, &n);

    if (n)
        lm_text_printf(&c->notes, "%zu tensor%s that this model does not use, the first is %s: not carried\n",
                       n, n > 1 ? "s" : "", first->name);
}

static lm_status open_folder(lm_gguf_view *c, lm_error *e)
{
    lm_source source = { .kind = LM_SAFETENSORS, .meta = lm_container_meta(c->folder), .tensors = c->folder };

    LM_TRY(lm_describe(&source, &c->family, c->config, &c->program, &c->notes, e));
    if (!lm_gguf_arch_of(c->family)) {
        lm_fail(e, LM_UNSUPPORTED, c->family->name, LM_NO_OFFSET, "this family cannot be stored in GGUF");
        return lm_fail_in(e, lm_container_path(c->folder));
    }
    if (c->config->ternary.class_name) {
        lm_fail(e, LM_UNSUPPORTED, "quantization_config", LM_NO_OFFSET, "rounded rows have no form in GGUF");
        return lm_fail_in(e, lm_container_path(c->folder));
    }
    LM_TRY(lm_matrices_new(c->folder, c->family, c->config, c->program, &c->matrices, e));
    note_unused(c);
    LM_TRY(list_tensors(c, e));
    lm_gguf_view_choose(c, NULL);
    return LM_OK;
}

lm_status lm_gguf_view_open(lm_container *folder, lm_gguf_view **out, lm_error *e)
{
    lm_gguf_view *c = lm_alloc_zero(1, sizeof *c);

    if (c)
        c->folder = folder;
    if (!c || !(c->config = lm_alloc_zero(1, sizeof *c->config))) {
        if (!c)
            lm_container_close(folder);
        lm_gguf_view_close(c);
        return lm_fail_memory(e, "a configuration", sizeof *c->config);
    }
    lm_status status = open_folder(c, e);
    if (status != LM_OK) {
        lm_gguf_view_close(c);
        return status;
    }
    *out = c;
    return LM_OK;
}

void lm_gguf_view_close(lm_gguf_view *c)
{
    if (!c)
        return;
    lm_container_close(c->seen);
    lm_matrices_free(c->matrices);
    lm_program_free(c->program);
    lm_container_close(c->folder);
    lm_free(c->config);
    lm_text_free(&c->notes);
    lm_arena_free(&c->arena);
    lm_free(c);
}

/* ---- preview ---- */

static lm_status read_back(lm_gguf_view *c, lm_error *e)
{
    lm_config *stored = lm_alloc_zero(1, sizeof *stored);

    if (!stored)
        return lm_fail_memory(e, "a configuration", sizeof *stored);
    lm_status status = lm_read_back(c->seen, c->family, c->program, c->config, stored, e);
    for (size_t i = 0; status == LM_OK && i < c->n; i++)
        if (c->tensors[i].weight != LM_NONE)
            c->tensors[i].order = lm_row_order_of(c->program, c->tensors[i].weight, c->config, stored);
    lm_free(stored);
    if (status != LM_OK)
        lm_fail_in(e, lm_container_path(c->folder));
    return status;
}

static lm_status read_number(void *arg, uint32_t weight, float *out, lm_error *e)
{
    const lm_gguf_view *c = arg;
    uint8_t             stored[sizeof(float)];

    LM_TRY(lm_matrices_read(c->matrices, weight, 0, 0, 1, stored, e));
    lm_dtype_of(lm_matrices_type(c->matrices, weight))->unpack(out, stored, 1);
    return LM_OK;
}

static lm_status add_keys(lm_gguf_view *c, lm_gguf_writer *w, const char *name, lm_error *e)
{
    uint64_t parameters = 0;

    for (size_t i = 0; i < c->n; i++)
        parameters += c->tensors[i].values ? 0 : c->tensors[i].elements;
    lm_gguf_add_string(w, "general.architecture", lm_view_of(lm_gguf_arch_of(c->family)));
    lm_gguf_add_u32(w, "general.quantization_version", 2);
    LM_TRY(lm_add_general_keys(w, c->folder, name, parameters, c->config->route.n_experts, c->program,
                               &c->notes, e));
    LM_TRY(lm_add_gguf_keys(w, c->family, c->config, c->program, e));
    LM_TRY(lm_add_listed_numbers(w, c->program, read_number, c, e));
    return lm_add_folder_vocabulary(w, c->folder, c->program->n_vocab, &c->notes, e);
}

lm_status lm_gguf_view_preview(lm_gguf_view *c, const char *name, lm_error *e)
{
    lm_gguf_writer *w;

    lm_container_close(c->seen);
    c->seen = NULL;
    LM_TRY(lm_gguf_create("/dev/null", &w, e));
    lm_status status = add_keys(c, w, name, e);
    for (size_t i = 0; i < c->n; i++)
        lm_gguf_add_tensor(w, c->tensors[i].name, c->tensors[i].type, c->tensors[i].n_dims,
                           c->tensors[i].dims);
    if (status == LM_OK)
        status = lm_gguf_preview(w, &c->seen, e);
    lm_gguf_abort(w);
    return status == LM_OK ? read_back(c, e) : status;
}

/* ---- reading rows ---- */

bool lm_gguf_view_is_raw(const lm_gguf_view *c, size_t i)
{
    const lm_gguf_tensor_view *t = &c->tensors[i];

    return t->type == t->stored && (t->values || (!lm_weight_differs(&c->program->weights[t->weight]) &&
                                                        !c->program->weights[t->weight].n_folds));
}

typedef struct joint_rows {
    const lm_container   *folder;
    const lm_tensor_info *t;
    uint64_t              from, bytes;
    uint8_t              *out;
} joint_rows;

static lm_status copy_joint(void *arg)
{
    const joint_rows *r = arg;

    memcpy(r->out, (const uint8_t *)lm_container_data(r->folder, r->t) + r->from, r->bytes);
    return LM_OK;
}

/* Read consecutive rows of one matrix at a time, or reordered rows one by one. If the elements of a vector
 * are reordered, its elements count as rows. */
static lm_status read_rows(const lm_gguf_view *c, const lm_gguf_tensor_view *t, uint64_t from, uint64_t n,
                           uint8_t *out, lm_error *e)
{
    uint64_t rows = lm_matrices_rows(c->matrices, t->weight), bytes = 0;
    bool     vector = t->n_dims == 1, moved = lm_row_order_changes(&t->order);

    if (vector && moved) {
        size_t   size = lm_dtype_of(t->stored)->bytes;
        uint8_t *whole = lm_alloc(t->cols * size);
        if (!whole)
            return lm_fail_memory(e, t->name, t->cols * size);
        lm_status status = lm_matrices_read(c->matrices, t->weight, 0, 0, 1, whole, e);
        for (uint64_t i = 0; i < t->cols; i++)
            memcpy(out + i * size, whole + lm_row_of_checkpoint(&t->order, i) * size, size);
        lm_free(whole);
        return status;
    }
    if (!lm_dtype_row_bytes(t->stored, t->cols, &bytes))
        return lm_fail(e, LM_UNSUPPORTED, t->name, LM_NO_OFFSET, "a row is not a whole number of %s blocks",
                       lm_dtype_of(t->stored)->name);
    if (t->joint)
        return lm_filemap_guard(copy_joint,
                                &(joint_rows){ c->folder, t->joint, from * bytes, n * bytes, out },
                                lm_container_file_of(c->folder, t->joint), e);
    for (uint64_t done = 0, take; done < n; done += take) {
        uint64_t row = (t->first + from + done) % rows, k = (t->first + from + done) / rows;
        take = moved ? 1 : rows - row < n - done ? rows - row : n - done;
        LM_TRY(lm_matrices_read(c->matrices, t->weight, k, moved ? lm_row_of_checkpoint(&t->order, row) : row,
                                take, out + done * bytes, e));
    }
    if (t->order.layout && t->order.layout->columns && lm_dtype_of(t->stored)->block != 1)
        return lm_fail(e, LM_UNSUPPORTED, t->name, LM_NO_OFFSET, "columns of %s cannot be reordered",
                       lm_dtype_of(t->stored)->name);
    return lm_order_columns(&t->order, true, out, n, t->cols, lm_dtype_of(t->stored)->bytes, e);
}

lm_status lm_gguf_view_bytes(const lm_gguf_view *c, size_t i, uint64_t from, uint64_t n, void *out,
                             lm_error *e)
{
    const lm_gguf_tensor_view *t = &c->tensors[i];

    if (!t->values)
        return read_rows(c, t, from, n, out, e);
    memcpy(out, t->values + from * t->cols, n * t->cols * sizeof *t->values);
    return LM_OK;
}

lm_status lm_gguf_view_floats(const lm_gguf_view *c, size_t i, uint64_t from, uint64_t n, float *out,
                              lm_error *e)
{
    const lm_gguf_tensor_view    *t    = &c->tensors[i];
    const lm_dtype_info *type = lm_dtype_of(t->stored);
    uint64_t             bytes = 0;

    if (t->values || t->stored == LM_F32) {
        LM_TRY(lm_gguf_view_bytes(c, i, from, n, out, e));
    } else {
        if (!lm_dtype_row_bytes(t->stored, n * t->cols, &bytes))
            return lm_fail(e, LM_UNSUPPORTED, t->name, LM_NO_OFFSET,
                           "a row is not a whole number of %s blocks", type->name);
        uint8_t *stored = lm_alloc(bytes + 1);
        if (!stored)
            return lm_fail_memory(e, t->name, bytes);
        lm_status status = read_rows(c, t, from, n, stored, e);
        if (status == LM_OK)
            type->unpack(out, stored, n * t->cols);
        lm_free(stored);
        LM_TRY(status);
    }
    if (!t->values) {
        lm_matrices_values(c->matrices, t->weight, out, n * t->cols);
        lm_weight_to_stored(&c->program->weights[t->weight], true, out, n * t->cols);
        return lm_weight_fold(&c->program->weights[t->weight], (t->first + from) * t->cols, out, n * t->cols,
                              e);
    }
    return LM_OK;
}

void lm_gguf_view_drop(const lm_gguf_view *c, size_t i)
{
    if (!c->tensors[i].values)
        lm_matrices_drop(c->matrices, c->tensors[i].weight);
}
