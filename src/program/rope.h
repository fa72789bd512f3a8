/* rope.h - rotary position embedding: frequencies and their scaling. RoFormer, arXiv 2104.09864. */
#ifndef LM_PROGRAM_ROPE_H
#define LM_PROGRAM_ROPE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum lm_rope_type {
    LM_ROPE_DEFAULT,
    LM_ROPE_LINEAR,              /* positions divided by factor */
    LM_ROPE_DYNAMIC,             /* NTK: the base grows with the length of the forward pass */
    LM_ROPE_LLAMA3,              /* low frequencies divided, high ones unchanged, a ramp in between */
    LM_ROPE_YARN,                /* arXiv 2309.00071 */
    LM_ROPE_LONGROPE,            /* arXiv 2402.13753: a factor per frequency, with separate lists for short
                                    and long contexts */
    LM_ROPE_PROPORTIONAL,        /* only the first pairs of a head rotate, as fast as if all did */
} lm_rope_type;

#define LM_ROPE_NEVER 1e30f      /* GGUF's divisor of a pair that does not rotate */

/* The pairing of lanes. It depends on the container: see docs/dev/families.md. */
typedef enum lm_rope_pairing {
    LM_ROPE_HALF,                /* lane i with lane i + dim/2 (Hugging Face rotate_half) */
    LM_ROPE_PAIR,                /* lane 2i with lane 2i + 1 */
} lm_rope_pairing;

typedef struct lm_rope_spec {
    uint32_t        dim;                     /* rotated lanes per head, even */
    double          base;
    lm_rope_pairing pairing;
    bool            permuted;                /* the container stores q and k rows in this pairing, the
                                                original in the other */
    bool            gguf_permutes;           /* GGUF files of the family do so, whatever container this is */
    lm_rope_type    type;
    double          factor;                  /* 1 if unused */
    uint32_t        original_context;        /* trained positions; 0 if unused */
    uint32_t        max_context;             /* max_position_embeddings, for dynamic and longrope */
    double          low_freq_factor, high_freq_factor;               /* llama3 */
    double          beta_fast, beta_slow;                            /* yarn */
    bool            truncate;                                        /* yarn: whole-number bounds */
    double          mscale, mscale_all_dim;                          /* yarn; 0: absent */
    double          attention_factor;                                /* yarn, longrope; 0: derived */
    double          share;                                           /* proportional: of the pairs */
    bool            backwards;               /* angles are negative */
    bool            last;                    /* the last lanes of a head rotate, not the first */
    uint32_t        rate;                    /* > 0: positions are rounded down to a multiple of this */
    /* longrope [dim/2], copied by the program; NULL: stored ones */
    const float    *short_factors, *long_factors;
    bool            stored_divisors;         /* GGUF stores the scaling as a tensor of divisors,
                                                rope_freqs.weight */
    bool            stored_factors;          /* GGUF stores longrope's lists as
                                                rope_factors_long/short.weight */
} lm_rope_spec;

/* Return whether the frequencies depend on the length of the sequence at the end of the forward pass. */
bool lm_rope_depends_on_length(const lm_rope_spec *s);

/* Return whether a forward pass that ends at `length` positions uses the long list of longrope. */
bool lm_rope_is_long(const lm_rope_spec *s, uint32_t length);

/* Compute inv [dim/2]: the angle of lane pair i at position p is p * inv[i]. Return the factor that
 * multiplies cosines and sines.
 *   length    positions in the sequence at the end of the forward pass (dynamic, longrope)
 *   divisors  [dim/2] that divide the result (GGUF rope_freqs), or NULL
 *   factors   [dim/2] longrope's list in place of the spec's, or NULL */
float lm_rope_frequencies(const lm_rope_spec *s, uint32_t length, const float *divisors, const float *factors,
                          float *inv);

/* Return the number of pairs of a head that rotate. */
uint32_t lm_rope_pairs(const lm_rope_spec *s);

/* "llama3" */
const char *lm_rope_type_name(lm_rope_type t);

#endif
