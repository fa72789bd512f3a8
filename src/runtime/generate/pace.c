/* pace.c - costs, acceptance rates and the balance. */
#include "runtime/generate/pace.h"

#define OVERDRAFT 0.02           /* fraction of the time spent */
#define CREDIT    2              /* rounds that may be lost before anything is known */
#define MAX_WON  32              /* maximum gain that is kept, in steps without a draft */
#define LOOK      32             /* rounds with a draft before the cost of one without is measured again */
#define MEMORY    64             /* draft tokens of a kind after which its counts are halved */
#define FIRST     0.6            /* acceptance rate that is assumed at first */
#define PRIOR_DECAY      0.02    /* weight of that assumption in each round without a draft, in draft
                                    tokens */
#define OPTIMISM      0.9        /* factor of estimated costs: numbers never tried are tried eventually */

void lm_pace_start(lm_pace *p, bool always)
{
    *p = (lm_pace){ .always = always };
    for (unsigned k = 0; k < LM_PACE_KINDS; k++) {
        p->kinds[k].accepted = 2 * FIRST;
        p->kinds[k].of       = 2;
    }
}

/* ---- costs ---- */

/* Return the seconds of a step with n draft tokens, interpolated linearly if that number was not measured. */
static double step_cost(const lm_pace *p, uint32_t n)
{
    uint32_t low = n, high = n;
    double   cost;

    if (p->step[n] > 0)
        return p->step[n];
    while (low > 0 && p->step[low] <= 0)
        low--;
    while (high < LM_PACE_MAX && p->step[high] <= 0)
        high++;
    if (p->step[high] > 0)
        cost = p->step[low] + (p->step[high] - p->step[low]) * (n - low) / (high - low);
    else
        cost = p->step[low] + (n - low) * (low ? (p->step[low] - p->step[0]) / low : p->step[0] / 16);
    return OPTIMISM * cost > p->step[0] ? OPTIMISM * cost : p->step[0];
}

/* Return the seconds that drafting a token takes; high for a model until it is measured. */
static double draft_cost(const lm_pace *p, unsigned kind)
{
    if (kind < LM_PACE_LOOKUPS)
        return 0;
    return p->draft > 0 ? p->draft : p->step[0] / 4;
}

static bool affordable(const lm_pace *p, double seconds)
{
    return seconds - p->step[0] <= p->balance + CREDIT * p->step[0] + OVERDRAFT * p->spent;
}

static double chance_of(const lm_pace *p, unsigned kind)
{
    return p->kinds[kind].accepted / p->kinds[kind].of;
}

/* ---- choices ---- */

uint32_t lm_pace_best(const lm_pace *p, const uint8_t *kinds, uint32_t n)
{
    double   tokens = 1, chance = 1, best_rate;
    uint32_t best = 0;

    if (p->always)
        return n;
    if (p->step[0] <= 0 || p->in_a_row >= LOOK)
        return 0;
    best_rate = 1 / p->step[0];
    for (uint32_t i = 1; i <= n; i++) {
        double cost = step_cost(p, i) + i * draft_cost(p, kinds[i - 1]);
        chance *= chance_of(p, kinds[i - 1]);
        tokens += chance;
        if (tokens / cost > best_rate && affordable(p, cost)) {
            best_rate = tokens / cost;
            best      = i;
        }
    }
    return best;
}

bool lm_pace_pays(const lm_pace *p, const uint8_t *kinds, uint32_t n)
{
    double tokens = 1, chance = 1;

    if (p->always)
        return true;
    if (p->step[0] <= 0 || p->in_a_row >= LOOK)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        chance *= chance_of(p, kinds[i]);
        tokens += chance;
    }
    chance *= chance_of(p, kinds[n]);
    double before = step_cost(p, n) + n * draft_cost(p, kinds[n]),
           after = step_cost(p, n + 1) + (n + 1) * draft_cost(p, kinds[n]);
    return (tokens + chance) / after > tokens / before && affordable(p, after);
}

/* ---- results of a round ---- */

static double nearer(double old, double seen)
{
    return old > 0 ? old + (seen - old) / 8 : seen;
}

static void count(lm_pace *p, unsigned kind, double accepted, double of)
{
    p->kinds[kind].accepted += accepted;
    p->kinds[kind].of += of;
    if (p->kinds[kind].of > MEMORY) {
        p->kinds[kind].accepted /= 2;
        p->kinds[kind].of /= 2;
    }
}

void lm_pace_round(lm_pace *p, const uint8_t *kinds, uint32_t n, uint32_t accepted, double drafting,
                   double step)
{
    /* If another process had the processor, its time is not a cost of the step. */
    if (p->step[0] > 0 && step > 2 * step_cost(p, n))
        step = 2 * step_cost(p, n);
    p->spent += drafting + step;
    p->step[n]  = nearer(p->step[n], step);
    p->in_a_row = n ? p->in_a_row + 1 : 0;
    p->balance += n ? (accepted + 1) * p->step[0] - step - drafting : -drafting;
    p->balance = p->balance < MAX_WON * p->step[0] ? p->balance : MAX_WON * p->step[0];
    if (n && kinds[0] >= LM_PACE_LOOKUPS)
        p->draft = nearer(p->draft, drafting / n);
    for (uint32_t i = 0; i < n && i <= accepted; i++)
        count(p, kinds[i], i < accepted, 1);
    /* If nothing was drafted, acceptance rates move towards the assumed one, so that a kind that was bad once
     * is tried again. */
    for (unsigned k = 0; n == 0 && k < LM_PACE_KINDS; k++)
        count(p, k, FIRST * PRIOR_DECAY, PRIOR_DECAY);
}
