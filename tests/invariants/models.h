/* models.h - all golden models, which are the folders of tests/golden that contain one, and the demo
 * model. */
#ifndef TESTS_INVARIANTS_MODELS_H
#define TESTS_INVARIANTS_MODELS_H

#include <stddef.h>
#include <stdint.h>

#include "lamina/model.h"

/* Sanitizers make these tests ten times slower, so only one case in EVERY runs with them. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { EVERY = 6 };
#else
enum { EVERY = 1 };
#endif

typedef struct golden_model {
    char path[512];              /* the argument of lm_model_open: the folder, or its model.gguf */
    char name[128];              /* "llama/gqa gguf" */
    char folder[512];
} golden_model;

/* List at most `max` golden models, sorted by name. Returns their number; fails the test if there is
 * none. */
size_t golden_models(golden_model *out, size_t max);

/* List the full paths of the golden files in a model's folder, sorted. Returns their number. */
size_t golden_files(const golden_model *m, char (*out)[512], size_t max);

/* Open a golden such as "llama/gqa" with another sliding window (0: its own). Fails the test if it cannot be
 * opened. */
lm_model *open_golden_model(const char *name, int64_t window);
lm_model *open_demo_model(void);

#endif
