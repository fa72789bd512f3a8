/* init_neon.c - enter the kernels of NEON into the tables. */
#include "kernels/arm/levels_arm.h"
#include "kernels/q8_rows.h"

static void pack(void *dst, const float *x, uint64_t cols)
{
    lm_q8_pack(dst, x, cols, false);
}

static void pack_fine(void *dst, const float *x, uint64_t cols)
{
    lm_q8_pack(dst, x, cols, true);
}

const lm_activation lm_activation_q8_arm = {
    .name = "q8 rows", .bytes = lm_q8_bytes, .pack = pack, .pack_fine = pack_fine,
    .pack_rounded = lm_q8_pack_rounded
};

void lm_kernels_init_neon(lm_kernels *k)
{
    lm_exact_init_neon(k);
    lm_strips_init_neon(k);
    if (k->cpu & LM_CPU_DOTPROD)
        lm_strips_init_dotprod(k);
    if ((k->cpu & LM_CPU_DOTPROD) && (k->cpu & LM_CPU_I8MM))
        lm_strips_init_i8mm(k);
}
