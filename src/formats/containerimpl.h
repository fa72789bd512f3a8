/* containerimpl.h - the construction of containers: internal to formats/. */
#ifndef LM_FORMATS_CONTAINERIMPL_H
#define LM_FORMATS_CONTAINERIMPL_H

#include "base/arena.h"
#include "base/map.h"
#include "formats/container.h"

#define LM_MAX_FILES     10000u              /* parts of one model */
#define LM_MAX_JSON      (256u << 20)        /* bytes of a JSON file of a folder: the largest tokenizer.json
                                                has 35 MB */
#define LM_JSON_DEPTH    64u
#define LM_MAX_DIM       (UINT64_C(1) << 40)
#define LM_MAX_ELEMENTS  (UINT64_C(1) << 48)

typedef struct lm_json_file {
    struct lm_json_file *next;
    char               *name;
    char               *text;                /* NULL: only parsed, or absent */
    size_t              size;
    lm_meta            *meta;
    bool                read;                /* `text` has been looked up */
    bool                parsed;              /* `meta` has been looked up */
} lm_json_file;

struct lm_container {
    lm_container_kind kind;
    lm_arena          arena;
    char             *path;
    char             *folder;                /* of the JSON files; NULL: none */
    lm_filemap_options reading;              /* how files are read */
    bool              structure_only;
    lm_filemap       *files;
    size_t            n_files, files_capacity;
    lm_tensor_info   *tensors;
    size_t            n_tensors, tensors_capacity;
    size_t            n_keyed;               /* behind them: entries of lists in the metadata, which are
                                                found by name only */
    lm_map           *by_name;
    lm_meta          *meta;
    bool              meta_borrowed;         /* owned by a document */
    lm_json_file     *documents;
    const char       *warning;               /* NULL: nothing is unusual */
};

lm_status lm_container_new(const char *path, lm_container_kind kind, const lm_container_options *o,
                           lm_container **out, lm_error *e);

/* Reserve memory for one more file. */
lm_status lm_container_reserve_file(lm_container *c, lm_error *e);
/* Map one more file; `*part` is its number. */
lm_status lm_container_add_file(lm_container *c, const char *path, uint32_t *part, lm_error *e);
/* Add one tensor, already checked against its file; `t->name` must live as long as the container. */
lm_status lm_container_add_tensor(lm_container *c, const lm_tensor_info *t, lm_error *e);
/* Sort the tensors from `first` on, which are those of one file, by offset into `order` (in the arena). */
lm_status lm_container_by_offset(lm_container *c, size_t first, lm_tensor_info ***order, lm_error *e);
/* Index the names after every tensor has been added. LM_BAD_MODEL: one appears twice. */
lm_status lm_container_seal(lm_container *c, lm_error *e);

/* Reduce a vision-language model to its language model, once the tensors are listed: its tensors get the
 * names that they have in the language model alone, and the document `name` (config.json) becomes that of the
 * language model. */
lm_status lm_container_unnest(lm_container *c, const char *name, lm_error *e);

/* Find or add the document of a file in the folder, by its plain name, without reading the file. */
lm_status lm_container_document(lm_container *c, const char *name, lm_json_file **out, lm_error *e);

/* Compute elements and bytes from type and dims, with checked products and whole blocks in the innermost
 * dimension. `dims` past n_dims become 1. `at`: the offset of the tensor's entry in the file, for
 * messages. */
lm_status lm_tensor_measure(lm_tensor_info *t, int64_t at, lm_error *e);

/* Copy bytes out of a file that may shrink meanwhile. The range must lie inside the file. */
lm_status lm_container_copy(const lm_filemap *f, size_t at, size_t n, void *to, lm_error *e);

/* Check that a name is safe to print: not empty, at most `max` bytes of UTF-8, no control characters. */
lm_status lm_tensor_check_name(lm_view name, size_t max, int64_t offset, lm_error *e);

#endif
