/* container.h - a model on disk: metadata and named tensors, from GGUF or from a Hugging Face folder.
 *
 * Everything is checked on opening: names, shapes, types, offsets, overlaps. After that every tensor lies
 * inside its file, and later code never checks again. Shapes are listed outermost dimension first, as PyTorch
 * prints them; a matrix is [out, in] with `in` contiguous in both kinds of container. */
#ifndef LM_FORMATS_CONTAINER_H
#define LM_FORMATS_CONTAINER_H

#include "base/error.h"
#include "base/os/filemap.h"
#include "formats/meta.h"
#include "tensor/dtype.h"

#define LM_MAX_DIMS 8

typedef enum lm_container_kind { LM_GGUF, LM_SAFETENSORS } lm_container_kind;

typedef struct lm_tensor_info {
    const char *name;                /* owned by the container */
    lm_dtype    type;
    uint32_t    n_dims;              /* safetensors allow 0 */
    uint64_t    dims[LM_MAX_DIMS];   /* outermost first; all 1 past n_dims */
    uint64_t    elements;
    uint64_t    bytes;
    uint64_t    offset;              /* in its file */
    uint32_t    part;                /* which file of a split model */
    const void *made;                /* its bytes, made from those of the file; NULL: those of the file */
} lm_tensor_info;

typedef struct lm_container lm_container;

typedef struct lm_container_options {
    bool no_mmap;                    /* read the files into memory */
    bool (*progress)(void *arg, double fraction);    /* called while a file is read so; false: stop,
                                                        LM_CANCELLED. May be NULL */
    void *progress_arg;
    bool structure_only;             /* accept a folder without weights, or only a config.json; no weights are
                                        read */
} lm_container_options;

/* LM_UNSUPPORTED: the first bytes of a file are those of a file that is mistaken for one, as a Git LFS
 * pointer. */
lm_status lm_container_refuse_foreign(const char *path, const uint8_t *head, size_t n, lm_error *e);

/* Open a container. `path`: a .gguf file (any part of a split one), a .safetensors file, or a folder with
 * config.json. `o` may be NULL. LM_NOT_FOUND: the path does not exist. LM_IO: it cannot be read.
 * LM_BAD_MODEL, LM_UNSUPPORTED: the file is broken, or of an unsupported kind. */
lm_status lm_container_open(const char *path, const lm_container_options *o, lm_container **out, lm_error *e);
/* Open a GGUF file that is already open and not split. The container takes ownership of `file`, which is
 * closed on failure. */
lm_status lm_container_open_file(lm_filemap *file, const lm_container_options *o, lm_container **out,
                                 lm_error *e);
void      lm_container_close(lm_container *c);

lm_container_kind lm_container_kind_of(const lm_container *c);
const char       *lm_container_path(const lm_container *c);

/* Return what was unusual when it was opened; NULL: nothing. */
const char *lm_container_warning(const lm_container *c);

/* Return the metadata. GGUF: all keys. Folder: config.json (LM_SAFETENSORS files alone: the header's
 * __metadata__). Never NULL. */
const lm_meta *lm_container_meta(const lm_container *c);

/* Get a further JSON file of the folder ("generation_config.json", "tokenizer_config.json"), parsed once;
 * NULL with LM_OK if the folder has none (and for GGUF). Owned by the container. Not thread-safe. */
lm_status lm_container_json(lm_container *c, const char *name, const lm_meta **out, lm_error *e);

/* Get the bytes of any file of the folder ("chat_template.jinja", "tokenizer.json"), read once and followed
 * by a NUL; a view with data NULL if the folder has none (and for GGUF). `name` is a plain file name. Not
 * thread-safe. */
lm_status lm_container_text(lm_container *c, const char *name, lm_view *out, lm_error *e);

/* The text files of a Hugging Face folder that belong to a model, ended by NULL; the first is config.json.
 * Licences and model cards are not among them. */
extern const char *const lm_folder_texts[];

/* Present matrices that are packed, four rows of 2-bit codes in bytes, each with a tensor `…_scale`, as
 * matrices of -1, 0 and 1: TQ2_0 if rows are whole blocks, else BF16. `online`: round matrices of floats to
 * such, too. Once, before tensors are used. */
lm_status lm_container_ternary(lm_container *c, bool online, lm_error *e);

size_t                lm_container_n_tensors(const lm_container *c);
const lm_tensor_info *lm_container_tensor(const lm_container *c, size_t i);      /* in file order */
/* Also finds numbers that GGUF files store in lists of their metadata, one for each layer: entry 3 of
 * "xielu.beta" is "blk.3.xielu.beta". */
const lm_tensor_info *lm_container_find(const lm_container *c, const char *name);

/* Return the tensor's bytes, valid while the container is open. Those of safetensors may be unaligned. */
const void *lm_container_data(const lm_container *c, const lm_tensor_info *t);
const char *lm_container_file_of(const lm_container *c, const lm_tensor_info *t);

size_t            lm_container_n_files(const lm_container *c);
const lm_filemap *lm_container_file(const lm_container *c, size_t i);

/* Unpack elements [from, from + n) to float32; both multiples of the type's block. The type must have an
 * unpacker. */
void lm_container_unpack(const lm_container *c, const lm_tensor_info *t, uint64_t from, uint64_t n,
                         float *out);

#endif
