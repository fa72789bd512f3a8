/* names_sse41.h - the names at this level of what the files of AVX2 define. */
#ifndef LM_KERNELS_NAMES_SSE41_H
#define LM_KERNELS_NAMES_SSE41_H

#define lm_act_rows_avx2               lm_act_rows_sse41
#define lm_activation_q8_avx2          lm_activation_q8_sse41
#define lm_attention_head_avx2         lm_attention_head_sse41
#define lm_attention_head_bytes_avx2   lm_attention_head_bytes_sse41
#define lm_attention_kernels_init_avx2 lm_attention_kernels_init_sse41
#define lm_attention_keys_avx2         lm_attention_keys_sse41
#define lm_attention_pages_init_avx2   lm_attention_pages_init_sse41
#define lm_attention_turn_avx2         lm_attention_turn_sse41
#define lm_attention_values_avx2       lm_attention_values_sse41
#define lm_byte_books_avx2             lm_byte_books_sse41
#define lm_byte_books_fill_avx2        lm_byte_books_fill_sse41
#define lm_byte_unpack_avx2            lm_byte_unpack_sse41
#define lm_exact_init_avx2             lm_exact_init_sse41
#define lm_float_strips_bytes          lm_float_strips_bytes_sse41
#define lm_float_strips_pack           lm_float_strips_pack_sse41
#define lm_float_strips_row            lm_float_strips_row_sse41
#define lm_floats_init_avx2            lm_floats_init_sse41
#define lm_kernels_init_avx2           lm_kernels_init_sse41
#define lm_probes_init_avx2            lm_probes_init_sse41
#define lm_row_kernels_init_avx2       lm_row_kernels_init_sse41
#define lm_strip_pack_avx2             lm_strip_pack                      /* plain C */
#define lm_strips_init_avx2            lm_strips_init_sse41
#define lm_strips_run_256              lm_strips_run_sse41
#define lm_strips_scratch_256          lm_strips_scratch_sse41
#define lm_unpack_avx2                 lm_unpack_sse41

#endif
