/* cut.c - copy rows and columns out of stored matrices. */
#include "runtime/model/cut.h"

#include <string.h>

void lm_cut_matrix(const lm_weight *w, lm_dtype type, const uint8_t *stored, bool transposed, uint8_t *out)
{
    const lm_cut        *c = w->cut;
    const lm_dtype_info *t = lm_dtype_of(type);
    uint64_t             rows = c->whole[w->n_dims - 2], cols = c->whole[w->n_dims - 1];
    uint64_t row = cols / t->block * t->bytes, skip = c->cols.first / t->block * t->bytes,
             n = c->cols.n / t->block * t->bytes;

    for (uint32_t i = 0; i < c->n_rows; i++)
        for (uint64_t r = c->rows[i].first; r < c->rows[i].first + c->rows[i].n; r++, out += n) {
            if (!transposed) {
                memcpy(out, stored + r * row + skip, n);
                continue;
            }
            for (uint64_t k = 0; k < c->cols.n; k++)
                memcpy(out + k * t->bytes, stored + ((c->cols.first + k) * rows + r) * t->bytes, t->bytes);
        }
}

uint64_t lm_cut_whole(const lm_weight *w)
{
    uint64_t n = 1;

    for (uint32_t i = 0; i < w->n_dims; i++)
        n *= w->cut->whole[i];
    return n;
}

void lm_cut_floats(const lm_weight *w, const float *whole, float *out)
{
    const lm_cut *c    = w->cut;
    uint64_t      cols = w->n_dims == 1 ? 1 : c->whole[w->n_dims - 1];

    for (uint32_t i = 0; i < c->n_rows; i++)
        for (uint64_t r = c->rows[i].first; r < c->rows[i].first + c->rows[i].n; r++, out += c->cols.n)
            memcpy(out, whole + r * cols + c->cols.first, c->cols.n * sizeof *out);
}
