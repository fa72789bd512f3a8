/* foldertensors.h - present the weights of a GGUF file as the tensors of a checkpoint: names, shapes, and
 * values row by row. */
#ifndef LM_EXPORT_FOLDERTENSORS_H
#define LM_EXPORT_FOLDERTENSORS_H

#include "export/tensors/stored_matrices.h"
#include "export/tensors/moving.h"

typedef struct lm_folder_tensors lm_folder_tensors;

/* Create the list of tensors. `stored`: the file's program and matrices; `folder`: the program of the
 * corresponding config.json; `configs`: of the file and of the folder. All must outlive the list. With `type`
 * NULL float tensors keep their stored types, but F32 tensors get the type of most matrices if that is
 * lossless; quantised tensors become F32, and four-bit codes are not converted. */
lm_status lm_folder_tensors_new(const lm_program *stored, lm_matrices *matrices, const lm_program *folder,
                                const lm_config *const configs[2], const lm_family *f, const lm_dtype *type,
                                lm_arena *arena, lm_folder_tensors **out, lm_error *e);

lm_moved     *lm_folder_tensors_list(lm_folder_tensors *t, size_t *n);
lm_row_source lm_folder_tensors_source(lm_folder_tensors *t);
/* The type of most matrices; whether some are four-bit codes. */
lm_dtype      lm_folder_tensors_type(const lm_folder_tensors *t);
bool          lm_folder_tensors_have_codes(const lm_folder_tensors *t);

#endif
