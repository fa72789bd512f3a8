/* foldertensors.c - join tensors that GGUF stores separately into those of checkpoints, and split those that
 * GGUF joins. */
#include "export/tensors/foldertensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "export/tensors/pieces_of.h"
#include "tensor/blocks.h"

enum { MAX_SOURCES = 4 };

typedef enum recipe_kind {
    ROWS,                            /* consecutive matrices, or one of them; possibly joined from pieces */
    TRANSPOSED,                          /* [in][out] */
    HEADS,                           /* lm_joint */
    INTERLEAVED,                         /* lm_interleaved */
    CODES, EXPONENTS,                /* MXFP4: four-bit codes, and their exponents */
} recipe_kind;

typedef struct tensor_recipe {
    recipe_kind kind;
    uint32_t weight;                 /* in the folder's program */
    uint64_t k;                      /* with `one`: the matrix of ROWS */
    bool     one;
    uint32_t n;                      /* number of weights of the file's program that it consists of */
    uint32_t sources[MAX_SOURCES], weights[MAX_SOURCES];  /* numbers in the file's and in the folder's
                                                             program */
    uint64_t firsts[MAX_SOURCES], rows[MAX_SOURCES];      /* row ranges of the pieces of ROWS */
    lm_row_order order;              /* of the joined pieces; columns: of all */
} tensor_recipe;

struct lm_folder_tensors {
    const lm_program  *stored, *folder;
    lm_matrices       *matrices;
    const lm_config   *const *configs;
    const lm_family   *family;
    const lm_dtype    *type;
    lm_arena          *arena;
    lm_map            *known;        /* GGUF name to weight of the file's program */
    lm_moved          *list;
    tensor_recipe     *recipes;
    size_t             n, capacity;
    lm_dtype           main;
    bool               codes;
};

/* ---- list of tensors ---- */

static lm_status add(lm_folder_tensors *t, const char *name, tensor_recipe recipe, uint32_t n_dims,
                     const uint64_t *dims, uint64_t cols, lm_error *e)
{
    if (t->n == t->capacity) {
        size_t    capacity = t->capacity ? 2 * t->capacity : 512;
        lm_moved *list = lm_arena_new(t->arena, capacity, lm_moved);
        tensor_recipe     *more = lm_arena_new(t->arena, capacity, tensor_recipe);
        if (!list || !more)
            return lm_fail_memory(e, "tensors", capacity * sizeof *list);
        if (t->n) {
            memcpy(list, t->list, t->n * sizeof *list);
            memcpy(more, t->recipes, t->n * sizeof *more);
        }
        t->list = list;
        t->recipes  = more;
        t->capacity = capacity;
    }
    char        other[256];
    const char *published = lm_published_name(t->family, name, other, sizeof other);
    lm_moved    m = { .name = lm_arena_strdup(t->arena, published),
                      .n_dims = n_dims,
                      .elements = 1,
                      .cols = cols };
    if (!m.name)
        return lm_fail_memory(e, "tensors", strlen(name));
    for (uint32_t i = 0; i < n_dims; i++) {
        m.dims[i] = dims[i];
        m.elements *= dims[i];
    }
    m.rows = m.elements / cols;
    m.from = recipe.kind == CODES || recipe.kind == EXPONENTS
                 ? LM_U8
                 : lm_matrices_type(t->matrices, recipe.sources[0]);
    t->list[t->n] = m;
    t->recipes[t->n++] = recipe;
    return LM_OK;
}

/* Find the weights of the file that make up a weight of the folder. */
static lm_status find_sources(lm_folder_tensors *t, uint32_t weight, tensor_recipe *recipe, lm_error *e)
{
    const lm_weight *w = &t->folder->weights[weight];
    lm_piece_of      pieces[LM_MAX_PIECES];
    uint64_t         hit;

    lm_row_order order = lm_row_order_of(t->folder, weight, t->configs[1], t->configs[0]);

    if (w->gguf && lm_map_get(t->known, lm_view_of(w->gguf), &hit)) {
        lm_matrices_set_order(t->matrices, (uint32_t)hit, order);
        recipe->order.layout = order.layout && order.layout->columns ? order.layout : NULL;
        recipe->sources[recipe->n] = (uint32_t)hit;
        recipe->weights[recipe->n] = weight;
        recipe->rows[recipe->n++]  = lm_matrices_rows(t->matrices, (uint32_t)hit);
        return LM_OK;
    }
    recipe->order = order;
    uint32_t n    = w->gguf ? 0 : lm_pieces_of(t->folder, t->family, weight, t->arena, pieces);
    for (uint32_t i = 0; i < n && i < MAX_SOURCES; i++) {
        if (!lm_map_get(t->known, lm_view_of(pieces[i].gguf), &hit))
            return lm_fail(e, LM_BAD_MODEL, pieces[i].gguf, LM_NO_OFFSET, "missing from the file");
        recipe->sources[recipe->n] = (uint32_t)hit;
        recipe->weights[recipe->n] = weight;
        recipe->firsts[recipe->n]  = pieces[i].first;
        recipe->rows[recipe->n++]  = pieces[i].rows;
    }
    return n ? LM_OK
             : lm_fail(e, LM_UNSUPPORTED, w->path, LM_NO_OFFSET, "no tensor of the file has this weight");
}

/* Find the sources of all weights of the folder's program that share a tensor with this one. */
static lm_status find_partners(lm_folder_tensors *t, const lm_weight *w, tensor_recipe *recipe, lm_error *e)
{
    for (uint32_t i = 0; i < t->folder->n_weights && recipe->n < MAX_SOURCES; i++) {
        const lm_weight *x = &t->folder->weights[i];
        bool joint = w->kind == LM_HEADS && x->kind == LM_HEADS && strcmp(x->joint.path, w->joint.path) == 0;
        bool interleaved = w->interleaved.path && x->interleaved.path &&
                           strcmp(x->interleaved.path, w->interleaved.path) == 0;
        if (joint || interleaved)
            LM_TRY(find_sources(t, i, recipe, e));
    }
    return LM_OK;
}

static lm_status add_interleaved(lm_folder_tensors *t, uint32_t i, lm_error *e)
{
    const lm_weight *w    = &t->folder->weights[i];
    uint64_t         of   = w->interleaved.of, in = w->n_dims == 3 ? w->dims[2] : 1;
    tensor_recipe             recipe  = { .kind = INTERLEAVED, .weight = i };

    if (w->interleaved.first)
        return LM_OK;
    LM_TRY(find_partners(t, w, &recipe, e));
    bool codes = w->interleaved.codes && lm_matrices_type(t->matrices, recipe.sources[0]) == LM_MXFP4 &&
                 !t->type;
    if (codes) {
        t->codes = true;
        recipe.kind  = CODES;
        LM_TRY(
            add(t, w->interleaved.codes, recipe, 4, (uint64_t[]){ w->dims[0], of, in / 32, 16 }, in / 2, e));
        recipe.kind = EXPONENTS;
        return add(t, w->interleaved.exponents, recipe, 3, (uint64_t[]){ w->dims[0], of, in / 32 }, in / 32,
                   e);
    }
    if (w->n_dims == 2)
        return add(t, w->interleaved.path, recipe, 2, (uint64_t[]){ w->dims[0], of }, of, e);
    uint64_t rows = w->interleaved.transposed ? in : of, cols = w->interleaved.transposed ? of : in;
    return add(t, w->interleaved.path, recipe, 3, (uint64_t[]){ w->dims[0], rows, cols }, cols, e);
}

static lm_status add_heads(lm_folder_tensors *t, uint32_t i, lm_error *e)
{
    const lm_weight *w    = &t->folder->weights[i];
    uint64_t         cols = w->dims[w->joint.transposed ? 1 : 2];
    tensor_recipe             recipe  = { .kind = HEADS, .weight = i };

    if (w->joint.first)
        return LM_OK;
    LM_TRY(find_partners(t, w, &recipe, e));
    if (w->joint.by_head)
        return add(t, w->joint.path, recipe, 3, (uint64_t[]){ w->dims[0], w->joint.of, cols }, cols, e);
    return add(t, w->joint.path, recipe, 2, (uint64_t[]){ w->dims[0] * w->joint.of, cols }, cols, e);
}

static lm_status add_weight(lm_folder_tensors *t, uint32_t i, lm_error *e)
{
    const lm_weight *w    = &t->folder->weights[i];
    const char      *star = strchr(w->path, '*');
    char             name[256];
    tensor_recipe             recipe = { .kind = ROWS, .weight = i };

    if (w->gguf_only)
        return LM_OK;
    if (w->kind == LM_HEADS)
        return add_heads(t, i, e);
    if (w->interleaved.path)
        return add_interleaved(t, i, e);
    LM_TRY(find_sources(t, i, &recipe, e));
    uint64_t cols = w->n_dims == 1 ? lm_matrices_cols(t->matrices, recipe.sources[0])
                                   : w->dims[w->n_dims - 1];
    uint64_t dims[4];
    uint32_t n = lm_weight_dims(w, false, dims);
    if (w->transposed && w->n_dims == 2) {
        recipe.kind = TRANSPOSED;
        cols        = w->dims[0];
    }
    if (!star)
        return add(t, w->path, recipe, n, dims, cols, e);
    recipe.one = true;
    for (recipe.k = 0; recipe.k < w->dims[0]; recipe.k++) {
        snprintf(name, sizeof name, "%.*s%" PRIu64 "%s", (int)(star - w->path), w->path, recipe.k, star + 1);
        LM_TRY(add(t, name, recipe, w->n_dims - 1, w->dims + 1, cols, e));
    }
    return LM_OK;
}

/* ---- reading rows ---- */

/* Read `n` rows of a weight of the file, or of its transpose, in the stored type or as float32. */
static lm_status take(const lm_folder_tensors *t, uint32_t source, bool transposed, uint64_t k, uint64_t from,
                      uint64_t n, bool floats, void *out, lm_error *e)
{
    const lm_dtype_info *type  = lm_dtype_of(lm_matrices_type(t->matrices, source));
    const uint64_t rows = lm_matrices_rows(t->matrices, source), cols = lm_matrices_cols(t->matrices, source);
    const uint64_t       width = transposed ? rows : cols;
    uint64_t             bytes = 0;

    /* Block types: unpack each row and keep a few of its columns. */
    if (transposed && !lm_matrices_can_turn(t->matrices, source)) {
        float    *row    = lm_alloc(cols * sizeof *row);
        lm_status status = row && floats ? LM_OK : lm_fail_memory(e, "a row", cols);
        for (uint64_t i = 0; status == LM_OK && i < rows; i++) {
            status = take(t, source, false, k, i, 1, true, row, e);
            for (uint64_t c = 0; c < n; c++)
                ((float *)out)[c * rows + i] = row[from + c];
        }
        lm_free(row);
        return status;
    }
    if (!floats || type->type == LM_F32)
        return transposed ? lm_matrices_read_turned(t->matrices, source, k, from, n, out, e)
            : lm_matrices_read(t->matrices, source, k, from, n, out, e);
    if (!lm_dtype_row_bytes(type->type, n * width, &bytes))
        return lm_fail(e, LM_UNSUPPORTED, "rows", LM_NO_OFFSET, "are not a whole number of %s blocks",
                       type->name);
    void     *stored = lm_alloc(bytes + 1);
    lm_status status = stored ? LM_OK : lm_fail_memory(e, "rows", bytes);
    if (status == LM_OK)
        status = transposed ? lm_matrices_read_turned(t->matrices, source, k, from, n, stored, e)
                        : lm_matrices_read(t->matrices, source, k, from, n, stored, e);
    if (status == LM_OK)
        type->unpack(out, stored, n * width);
    lm_free(stored);
    return status;
}

/* Read rows of consecutive whole matrices, or of matrices that are joined from pieces. */
static lm_status take_rows(const lm_folder_tensors *t, const tensor_recipe *h, uint64_t from, uint64_t n,
                           bool floats, uint8_t *out, size_t row_bytes, lm_error *e)
{
    uint64_t each = 0;

    for (uint32_t s = 0; s < h->n; s++)
        each += h->rows[s];
    for (uint64_t done = 0, run; done < n; done += run) {
        uint64_t row = h->one ? from + done : (from + done) % each, k = h->one ? h->k : (from + done) / each;
        uint32_t s   = 0;
        bool     moved = lm_row_order_changes(&h->order);
        row            = moved ? lm_row_of_gguf(&h->order, row) : row;
        while (s + 1 < h->n && (row < h->firsts[s] || row >= h->firsts[s] + h->rows[s]))
            s++;
        run = h->firsts[s] + h->rows[s] - row < n - done ? h->firsts[s] + h->rows[s] - row : n - done;
        run = moved ? 1 : run;
        LM_TRY(take(t, h->sources[s], false, k, row - h->firsts[s], run, floats, out + done * row_bytes, e));
    }
    return LM_OK;
}

static lm_status take_head_row(const lm_folder_tensors *t, const tensor_recipe *h, uint64_t row, bool floats,
                               uint8_t *out, lm_error *e)
{
    for (uint32_t s = 0; s < h->n; s++) {
        const lm_joint *j  = &t->folder->weights[h->weights[s]].joint;
        uint64_t        in = row % j->of;
        if (in >= j->first && in < (uint64_t)j->first + j->n)
            return take(t, h->sources[s], j->transposed, row / j->of, in - j->first, 1, floats, out, e);
    }
    return lm_fail(e, LM_BAD_MODEL, t->folder->weights[h->weight].joint.path, LM_NO_OFFSET,
                   "row %" PRIu64 " is in no tensor of the file", row);
}

/* Return which partner contains row `in` of an expert, and store the row's number there in *row. */
static uint32_t interleaved_row(const lm_folder_tensors *t, const tensor_recipe *h, uint64_t in,
                                uint64_t *row)
{
    for (uint32_t s = 0; s < h->n; s++) {
        const lm_weight *w = &t->folder->weights[h->weights[s]];
        if (in < w->interleaved.first || (in - w->interleaved.first) % w->interleaved.step)
            continue;
        *row = (in - w->interleaved.first) / w->interleaved.step;
        if (*row < w->dims[1])
            return s;
    }
    *row = 0;
    return 0;
}

/* Place the elements of all partners where they belong in a row of `of` elements. */
static lm_status scatter(const lm_folder_tensors *t, const tensor_recipe *h, bool transposed, uint64_t k,
                         uint64_t row, bool floats, uint8_t *out, size_t size, lm_error *e)
{
    for (uint32_t s = 0; s < h->n; s++) {
        const lm_weight *w    = &t->folder->weights[h->weights[s]];
        uint8_t         *part = lm_alloc(w->dims[1] * size);
        lm_status        status = part ? take(t, h->sources[s], transposed, k, row, 1, floats, part, e)
            : lm_fail_memory(e, "a row", w->dims[1]);
        for (uint64_t i = 0; status == LM_OK && i < w->dims[1]; i++)
            memcpy(out + (w->interleaved.first + i * w->interleaved.step) * size, part + i * size, size);
        lm_free(part);
        LM_TRY(status);
    }
    return LM_OK;
}

static lm_status take_interleaved_row(const lm_folder_tensors *t, const tensor_recipe *h, uint64_t row,
                                      bool floats, uint8_t *out, size_t size, lm_error *e)
{
    const lm_weight *w = &t->folder->weights[h->weight];
    uint64_t         of = w->interleaved.of, mine;

    if (w->n_dims == 2)
        return scatter(t, h, false, 0, row, floats, out, size, e);
    if (w->interleaved.transposed)
        return scatter(t, h, true, row / w->dims[2], row % w->dims[2], floats, out, size, e);
    uint32_t s = interleaved_row(t, h, row % of, &mine);
    return take(t, h->sources[s], false, row / of, mine, 1, floats, out, e);
}

/* A GGUF block has codes i and i + 16 in byte i; a checkpoint has codes 2i and 2i + 1. */
static lm_status take_codes_row(const lm_folder_tensors *t, const tensor_recipe *h, uint64_t row,
                                uint8_t *out, lm_error *e)
{
    const lm_weight *w      = &t->folder->weights[h->weight];
    uint64_t         blocks = w->dims[2] / 32, mine;
    uint32_t         s      = interleaved_row(t, h, row % w->interleaved.of, &mine);
    lm_mxfp4        *list   = lm_alloc(blocks * sizeof *list);

    lm_status status = list ? take(t, h->sources[s], false, row / w->interleaved.of, mine, 1, false, list, e)
        : lm_fail_memory(e, "a row", blocks);
    for (uint64_t b = 0; status == LM_OK && b < blocks; b++) {
        if (h->kind == EXPONENTS)
            out[b] = list[b].e;
        for (unsigned i = 0; h->kind == CODES && i < 8; i++) {
            out[b * 16 + i]     = (uint8_t)((list[b].qs[2 * i] & 15) | (list[b].qs[2 * i + 1] & 15) << 4);
            out[b * 16 + i + 8] = (uint8_t)(list[b].qs[2 * i] >> 4 | (list[b].qs[2 * i + 1] >> 4) << 4);
        }
    }
    lm_free(list);
    return status;
}

/* The columns too are then those of a checkpoint: their type has no blocks, or they are unpacked. */
static lm_status take_whole_rows(const lm_folder_tensors *t, const tensor_recipe *h, size_t i, uint64_t from,
                                 uint64_t n, bool floats, uint8_t *out, size_t row_bytes, lm_error *e)
{
    uint64_t cols = t->list[i].cols;

    LM_TRY(take_rows(t, h, from, n, floats, out, row_bytes, e));
    return lm_order_columns(&h->order, false, out, n, cols, row_bytes / cols, e);
}

static lm_status rows(const lm_folder_tensors *t, size_t i, uint64_t from, uint64_t n, bool floats,
                      uint8_t *out, lm_error *e)
{
    const tensor_recipe *h    = &t->recipes[i];
    size_t      size = floats ? sizeof(float) : lm_dtype_of(t->list[i].from)->bytes;
    uint64_t    stored = 0;

    lm_dtype_row_bytes(t->list[i].from, t->list[i].cols, &stored);
    size_t row_bytes = floats ? t->list[i].cols * size : (size_t)stored;
    if (h->kind == TRANSPOSED)
        return take(t, h->sources[0], true, 0, from, n, floats, out, e);
    if (h->kind == ROWS)
        return take_whole_rows(t, h, i, from, n, floats, out, row_bytes, e);
    for (uint64_t r = 0; r < n; r++, out += row_bytes) {
        if (h->kind == HEADS)
            LM_TRY(take_head_row(t, h, from + r, floats, out, e));
        else if (h->kind == INTERLEAVED)
            LM_TRY(take_interleaved_row(t, h, from + r, floats, out, size, e));
        else
            LM_TRY(take_codes_row(t, h, from + r, out, e));
    }
    return LM_OK;
}

static lm_status bytes_of(void *arg, size_t i, uint64_t from, uint64_t n, void *out, lm_error *e)
{
    return rows(arg, i, from, n, false, out, e);
}

static lm_status floats_of(void *arg, size_t i, uint64_t from, uint64_t n, float *out, lm_error *e)
{
    const lm_folder_tensors *t = arg;
    const lm_weight         *w = &t->folder->weights[t->recipes[i].weight];

    LM_TRY(rows(t, i, from, n, true, (uint8_t *)out, e));
    lm_weight_from_stored(w, true, out, n * t->list[i].cols);
    lm_weight_to_stored(w, false, out, n * t->list[i].cols);
    return LM_OK;
}

static void drop(void *arg, size_t i)
{
    const lm_folder_tensors *t = arg;

    if (!t->recipes[i].one)
        for (uint32_t s = 0; s < t->recipes[i].n; s++)
            lm_matrices_drop(t->matrices, t->recipes[i].sources[s]);
}

/* ---- types ---- */

static bool is_float(lm_dtype type)
{
    return type == LM_F32 || type == LM_F16 || type == LM_BF16;
}

/* Set *out if every value is exactly representable in the narrower type. */
static lm_status survives(lm_folder_tensors *t, size_t i, lm_dtype to, bool *out, lm_error *e)
{
    const lm_dtype_info *type = lm_dtype_of(to);
    uint64_t             cols = t->list[i].cols;
    float               *x    = lm_alloc(2 * cols * sizeof *x);
    uint16_t            *packed = lm_alloc(cols * sizeof *packed);
    lm_status            status = x && packed ? LM_OK : lm_fail_memory(e, "a row", cols);

    *out = true;
    for (uint64_t r = 0; status == LM_OK && *out && r < t->list[i].rows; r++) {
        status = floats_of(t, i, r, 1, x, e);
        if (status == LM_OK) {
            type->pack(packed, x, cols);
            type->unpack(x + cols, packed, cols);
            *out = memcmp(x, x + cols, cols * sizeof *x) == 0;
        }
    }
    lm_free(x);
    lm_free(packed);
    return status;
}

/* Return the type of most matrices, by elements. */
static lm_dtype majority_type(const lm_folder_tensors *t)
{
    static const lm_dtype types[3] = { LM_F32, LM_F16, LM_BF16 };
    uint64_t              sums[3]  = { 0 };
    unsigned              best     = 0;

    for (size_t i = 0; i < t->n; i++)
        for (unsigned k = 0; k < 3; k++)
            sums[k] += t->list[i].from == types[k] && t->list[i].n_dims > 1 ? t->list[i].elements : 0;
    for (unsigned k = 1; k < 3; k++)
        best = sums[k] > sums[best] ? k : best;
    return types[best];
}

static bool same_types(const lm_folder_tensors *t, const tensor_recipe *h)
{
    for (uint32_t s = 1; s < h->n; s++)
        if (lm_matrices_type(t->matrices, h->sources[s]) != lm_matrices_type(t->matrices, h->sources[0]))
            return false;
    return true;
}

static lm_status choose(lm_folder_tensors *t, size_t i, lm_error *e)
{
    lm_moved   *m = &t->list[i];
    const tensor_recipe *h = &t->recipes[i];
    bool        narrower = false;

    if (h->kind == CODES || h->kind == EXPONENTS) {
        m->to  = LM_U8;
        m->raw = true;
        return lm_moved_measure(m, e);
    }
    bool listed = t->folder->weights[h->weight].below > 0;

    m->own = !t->type || listed;
    m->to  = listed ? LM_I64 : t->type ? *t->type : is_float(m->from) ? m->from : LM_F32;
    if (!t->type && !listed && m->to == LM_F32 && t->main != LM_F32 && is_float(m->from)) {
        LM_TRY(survives(t, i, t->main, &narrower, e));
        m->to = narrower ? t->main : LM_F32;
    }
    m->raw = m->to == m->from && !lm_weight_differs(&t->folder->weights[h->weight]) && same_types(t, h);
    return lm_moved_measure(m, e);
}

lm_status lm_folder_tensors_new(const lm_program *stored, lm_matrices *matrices, const lm_program *folder,
                                const lm_config *const configs[2], const lm_family *f, const lm_dtype *type,
                                lm_arena *arena, lm_folder_tensors **out, lm_error *e)
{
    lm_folder_tensors *t = lm_arena_new(arena, 1, lm_folder_tensors);

    if (!t)
        return lm_fail_memory(e, "tensors", sizeof *t);
    *t = (lm_folder_tensors){ .stored = stored,
                              .folder = folder,
                              .matrices = matrices,
                              .configs = configs,
                              .family = f,
                              .type = type,
                              .arena = arena,
                              .known = lm_map_new(stored->n_weights + 1) };
    lm_status status = t->known ? LM_OK : lm_fail_memory(e, "tensors", stored->n_weights);
    for (uint32_t i = 0; status == LM_OK && i < stored->n_weights; i++)
        if (stored->weights[i].gguf && !lm_map_add(t->known, lm_view_of(stored->weights[i].gguf), i))
            status = lm_fail_memory(e, "tensors", stored->n_weights);
    for (uint32_t i = 0; status == LM_OK && i < folder->n_weights; i++)
        status = add_weight(t, i, e);
    lm_map_free(t->known);
    t->known = NULL;
    LM_TRY(status);
    t->main = type ? *type : majority_type(t);
    for (size_t i = 0; i < t->n; i++)
        LM_TRY(choose(t, i, e));
    *out = t;
    return LM_OK;
}

lm_moved *lm_folder_tensors_list(lm_folder_tensors *t, size_t *n)
{
    *n = t->n;
    return t->list;
}

lm_row_source lm_folder_tensors_source(lm_folder_tensors *t)
{
    return (lm_row_source){ t, bytes_of, floats_of, drop };
}

lm_dtype lm_folder_tensors_type(const lm_folder_tensors *t)
{
    return t->main;
}

bool lm_folder_tensors_have_codes(const lm_folder_tensors *t)
{
    return t->codes;
}
