/* strip_kernel.h - the part of a kernel on strips that is the same on every level: everything except the
 * product.
 *
 * A level defines `run_WORD` and gives its name, the layout of its activations, the row group of a worker and
 * the scratch that it needs, and its lm_strip_pack; `strips_WORD` is the resulting kernel. */
#ifndef LM_KERNELS_STRIP_KERNEL_H
#define LM_KERNELS_STRIP_KERNEL_H

#include "kernels/byte_strips.h"
#include "kernels/strips.h"

#define LM_STRIP_KERNEL(id, word, level, input, group, scratch, packer) \
    LM_STRIP_FUNCTIONS(id, word, packer)                                \
    LM_STRIP_RECORD(strips, word, level, input, group, scratch, run, NULL)

/* The same in two parts, for a level that has several `run` functions, each with its own kernel
 * `record`_WORD. */
#define LM_STRIP_FUNCTIONS(id, word, packer)                                                       \
    static uint64_t bytes_##word(uint64_t rows, uint64_t cols)                                     \
    {                                                                                              \
        return lm_strip_packed_bytes(lm_strip_of(id), rows, cols);                                 \
    }                                                                                              \
    static void pack_##word(void *dst, const void *w, uint64_t rows, uint64_t cols, uint64_t from, \
                            uint64_t to)                                                           \
    {                                                                                              \
        packer(lm_strip_of(id), dst, w, rows, cols, from, to);                                     \
    }                                                                                              \
    static void row_##word(float *dst, const void *w, uint64_t rows, uint64_t cols, uint64_t row)  \
    {                                                                                              \
        (void)rows;                                                                                \
        lm_strip_row(lm_strip_of(id), dst, w, cols, row);                                          \
    }
#define LM_STRIP_RECORD(record, word, level, input, group, scratch, runs, stored) \
    static const lm_matmul record##_##word = {                                    \
        .name = #word " strips " level,                                           \
        .x = input,                                                               \
        .arithmetic = LM_ARITHMETIC_INT8,                                         \
        .row_group = group,                                                       \
        .scratch_bytes = scratch,                                                 \
        .packed_bytes = bytes_##word,                                             \
        .pack = pack_##word,                                                      \
        .run = runs##_##word,                                                     \
        .run_stored = stored,                                                     \
        .row = row_##word,                                                        \
    };

/* The same for the types of byte_strips.h, which keep the layout of the file. unpack_of(id) returns its
 * lm_byte_unpack, rows_of(id) its lm_byte_rows or NULL; `product` multiplies strips of bytes. own(cols) is
 * the scratch that it needs in bytes; scratch(cols), the total. */
#define LM_BYTE_KERNEL(id, word, level, input, unpack_of, rows_of, product, own, scratch)         \
    static void run_##word(const lm_matmul_args *a)                                               \
    {                                                                                             \
        lm_byte_strips_run(a, unpack_of(id), rows_of(id), product, own(a->cols));                 \
    }                                                                                             \
    static void row_##word(float *dst, const void *w, uint64_t rows, uint64_t cols, uint64_t row) \
    {                                                                                             \
        (void)rows;                                                                               \
        lm_dtype_of(id)->unpack(dst, lm_stored_row(w, lm_dtype_of(id), cols, row), cols);         \
    }                                                                                             \
    static const lm_matmul strips_##word = {                                                      \
        .name = #word " bytes " level,                                                            \
        .x = input,                                                                               \
        .arithmetic = LM_ARITHMETIC_INT8,                                                         \
        .row_group = LM_BYTE_STRIPS * LM_BYTE_ROWS,                                               \
        .scratch_bytes = scratch,                                                                 \
        .run = run_##word,                                                                        \
        .row = row_##word,                                                                        \
    };

#endif
