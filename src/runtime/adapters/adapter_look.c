/* adapter_look.c - describe an open adapter. */
#include <math.h>

#include "base/alloc.h"
#include "program/adapt.h"
#include "runtime/adapters/adapters.h"

void lm_adapter_describe(const lm_adapter *a, lm_adapter_info *out)
{
    if (out)
        *out = a ? a->info : (lm_adapter_info){ 0 };
}

const char *lm_adapter_warning(const lm_adapter *a, size_t i)
{
    return a ? lm_text_string(&a->warnings, i) : NULL;
}

/* Compute x^T x of x [n][r], or, if `rows`, x x^T of x [r][n]. */
static void gram(const float *x, uint64_t n, uint32_t r, bool rows, double *out)
{
    for (uint32_t i = 0; i < r; i++)
        for (uint32_t k = 0; k <= i; k++) {
            double sum = 0;
            for (uint64_t j = 0; j < n; j++)
                sum += rows ? (double)x[i * n + j] * (double)x[k * n + j]
                            : (double)x[j * r + i] * (double)x[j * r + k];
            out[i * r + k] = out[k * r + i] = sum;
        }
}

/* Return the norm of scale * B A, by |B A|^2 = tr((B^T B)(A A^T)). */
static double norm(const lm_adapter_part *p, const lm_adapt_shape *s)
{
    uint32_t r  = p->rank;
    double  *ga = lm_alloc((size_t)r * r * sizeof *ga), *gb = lm_alloc((size_t)r * r * sizeof *gb), sum = 0;

    if (ga && gb) {
        gram(p->a, s->in, r, !s->table, ga);
        gram(p->b, s->out, r, false, gb);
        for (size_t i = 0; i < (size_t)r * r; i++)
            sum += ga[i] * gb[i];
    }
    lm_free(ga);
    lm_free(gb);
    return sum > 0 ? fabs((double)p->scale) * sqrt(sum) : 0;
}

bool lm_adapter_module_at(const lm_adapter *a, uint32_t i, lm_adapter_module *out)
{
    lm_adapt_shape s;

    if (!a || i >= a->n_parts || !out)
        return false;
    const lm_adapter_part *p = &a->parts[i];
    lm_adapt_possible(a->model->program, p->node, &s);
    *out = (lm_adapter_module){ .module = p->module,
                                .rank = p->rank,
                                .in = (uint32_t)s.in,
                                .out = (uint32_t)s.out,
                                .scale = (double)p->scale,
                                .size = norm(p, &s) };
    return true;
}
