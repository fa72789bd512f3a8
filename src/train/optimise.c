/* optimise.c - AdamW (arXiv 1711.05101) as in PyTorch's single-tensor implementation. */
#include "train/optimise.h"

#include <math.h>

#define PI 3.14159265358979323846

enum { BLOCK = 4096 };

double lm_gradient_norm(const lm_learner *l)
{
    double total = 0;

    for (uint32_t i = 0; i < l->n_trained; i++) {
        const lm_trained *t   = &l->trained[i];
        double            sum = 0;
        for (uint64_t from = 0; from < t->elements; from += BLOCK) {
            uint64_t to    = t->elements - from < BLOCK ? t->elements : from + BLOCK;
            double   block = 0;
            for (uint64_t k = from; k < to; k++)
                block += (double)t->gradient[k] * (double)t->gradient[k];
            sum += block;
        }
        total += sum;
    }
    return sqrt(total);
}

/* A tensor with the constants of its update. */
typedef struct update {
    const lm_trained *t;
    float             factor;            /* for clipping */
    float             decay, lerp, beta2, rest2, root, epsilon, step;
} update;

static void scale(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const update *u = arg;

    (void)worker;
    for (uint64_t i = from; i < to; i++)
        u->t->gradient[i] *= u->factor;
}

void lm_clip_gradients(lm_learner *l, double norm, double clip)
{
    double factor = clip / (norm + 1e-6);

    if (!(clip > 0))
        return;
    for (uint32_t i = 0; i < l->n_trained; i++) {
        update u = { .t = &l->trained[i], .factor = (float)(factor < 1 ? factor : 1) };
        lm_train_parallel(l, scale, &u, u.t->elements, BLOCK);
    }
}

static void step(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const update *u = arg;
    float        *p = u->t->value, *m = u->t->m, *v = u->t->v, *g = u->t->gradient;

    (void)worker;
    for (uint64_t i = from; i < to; i++) {
        p[i] *= u->decay;
        m[i] = fmaf(g[i] - m[i], u->lerp, m[i]);
        v[i] = fmaf(u->rest2 * g[i], g[i], v[i] * u->beta2);
        p[i] += u->step * m[i] / (sqrtf(v[i]) / u->root + u->epsilon);
    }
}

void lm_adamw_step(lm_learner *l, const lm_adamw *a, uint64_t number, double rate)
{
    double first = 1 - pow(a->beta1, (double)number), second = sqrt(1 - pow(a->beta2, (double)number));

    for (uint32_t i = 0; i < l->n_trained; i++) {
        update u = {
            .t = &l->trained[i],
            .decay = (float)(1 - rate * a->weight_decay),
            .lerp = (float)(1 - a->beta1),
            .beta2 = (float)a->beta2,
            .rest2 = (float)(1 - a->beta2),
            .root = (float)second,
            .epsilon = (float)a->epsilon,
            .step = (float)(-(rate / first)),
        };
        lm_train_parallel(l, step, &u, u.t->elements, BLOCK);
    }
}

double lm_rate_factor(lm_train_schedule schedule, uint32_t done, uint32_t steps, uint32_t warmup,
                      double floor)
{
    double left, share;

    if (done < warmup)
        return (double)(done + 1) / (double)warmup;
    if (schedule == LM_TRAIN_CONSTANT || steps <= warmup)
        return 1;
    share = (double)(done - warmup) / (double)(steps - warmup);
    share = share > 1 ? 1 : share;
    left  = schedule == LM_TRAIN_LINEAR ? 1 - share : (1 + cos(PI * share)) / 2;
    return floor + (1 - floor) * left;
}
