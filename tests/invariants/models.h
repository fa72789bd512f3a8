/* models.h - every golden model: the folders of tests/golden that hold one; the demo model. */
#ifndef TESTS_INVARIANTS_MODELS_H
#define TESTS_INVARIANTS_MODELS_H

#include <stddef.h>
#include <stdint.h>

#include "lamina/model.h"

/* Sanitizers make these tests ten times slower: there one case in so many. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { EVERY = 6 };
#else
enum { EVERY = 1 };
#endif

typedef struct golden_model {
    char path[512];              /* what lm_model_open takes: the folder, or its model.gguf */
    char name[128];              /* "llama/gqa gguf" */
    char folder[512];
} golden_model;

/* All of them, sorted by name; at most `most`. Fails the test when there is none. */
size_t golden_models(golden_model *out, size_t most);

/* The golden files of a model's folder, sorted; full paths. */
size_t golden_files(const golden_model *m, char (*out)[512], size_t most);

/* "llama/gqa", with a sliding window of its own (0: as it is); ends the test when it cannot be opened. */
lm_model *open_golden_model(const char *name, int64_t window);
lm_model *open_demo_model(void);

#endif
