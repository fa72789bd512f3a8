/* gguf_edit.h - a GGUF file with one key removed or set to another value, written by separate code: tests of
 * the reader do not use the library's writer. A file that cannot be read or written ends the test. */
#ifndef TESTS_BAD_GGUF_EDIT_H
#define TESTS_BAD_GGUF_EDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A type and bytes as in the file. */
typedef struct gguf_value {
    uint32_t type;
    uint8_t *data;
    size_t   size;
} gguf_value;

typedef struct gguf_edit {
    uint8_t *file;
    size_t   size, tensors, tensors_end, data;       /* offsets of the tensor table, its end and the tensors'
                                                        bytes */
    size_t   n;
    struct { char name[128]; gguf_value value; } *keys;      /* values point into the file */
} gguf_edit;

void              gguf_edit_read(const char *path, gguf_edit *out);
void              gguf_edit_free(gguf_edit *f);
const gguf_value *gguf_edit_find(const gguf_edit *f, const char *key);       /* NULL: no such key */

/* Write the file to `path` with `key` set to `v`, or without the key if `v` is NULL. */
void gguf_edit_write(const gguf_edit *f, const char *key, const gguf_value *v, const char *path);

/* Make the i-th changed value. Returns false past the last. `how`: description of the change, 64 bytes. */
bool     gguf_value_change(const gguf_value *v, unsigned i, gguf_value *out, char *how);
void     gguf_value_free(gguf_value *v);
/* the same number, possibly in another type */
bool     gguf_value_same(const gguf_value *a, const gguf_value *b);
uint64_t gguf_value_hash(const gguf_value *v);

#endif
