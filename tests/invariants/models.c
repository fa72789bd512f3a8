/* models.c - finding and opening the models in tests/golden. */
#include "models.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_there(const char *folder, const char *name, char *path, size_t size)
{
    snprintf(path, size, "%s/%s", folder, name);
    return access(path, R_OK) == 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const golden_model *)a)->name, ((const golden_model *)b)->name);
}

static size_t add(golden_model *out, size_t n, size_t max, const char *family, const char *name,
                  const char *folder)
{
    char path[560];

    if (n < max && is_there(folder, "config.json", path, sizeof path)) {
        snprintf(out[n].path, sizeof out[n].path, "%s", folder);
        snprintf(out[n].folder, sizeof out[n].folder, "%s", folder);
        snprintf(out[n++].name, sizeof out->name, "%.60s/%.55s", family, name);
    }
    if (n < max && is_there(folder, "model.gguf", path, sizeof path)) {
        snprintf(out[n].path, sizeof out[n].path, "%.511s", path);
        snprintf(out[n].folder, sizeof out[n].folder, "%s", folder);
        snprintf(out[n++].name, sizeof out->name, "%.60s/%.55s gguf", family, name);
    }
    return n;
}

size_t golden_models(golden_model *out, size_t max)
{
    const char    *root = getenv("LAMINA_TESTS");
    char           top[400], family[480], folder[512];
    struct dirent *f, *c;
    size_t         n = 0;

    snprintf(top, sizeof top, "%s/golden", root ? root : "tests");
    DIR *families = opendir(top);
    while (families && (f = readdir(families))) {
        snprintf(family, sizeof family, "%.200s/%.250s", top, f->d_name);
        DIR *cases = f->d_name[0] == '.' ? NULL : opendir(family);
        while (cases && (c = readdir(cases))) {
            if (c->d_name[0] == '.')
                continue;
            snprintf(folder, sizeof folder, "%.300s/%.200s", family, c->d_name);
            n = add(out, n, max, f->d_name, c->d_name, folder);
        }
        if (cases)
            closedir(cases);
    }
    if (families)
        closedir(families);
    if (n == 0) {
        fprintf(stderr, "no golden models below %s\n", top);
        exit(1);
    }
    qsort(out, n, sizeof *out, by_name);
    return n;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

size_t golden_files(const golden_model *m, char (*out)[512], size_t max)
{
    DIR           *d = opendir(m->folder);
    struct dirent *f;
    size_t         n = 0;

    while (d && n < max && (f = readdir(d)))
        if (strncmp(f->d_name, "golden", 6) == 0 && strstr(f->d_name, ".safetensors"))
            snprintf(out[n++], sizeof *out, "%.380s/%.120s", m->folder, f->d_name);
    if (d)
        closedir(d);
    qsort(out, n, sizeof *out, by_text);
    return n;
}

static lm_model *open_at(const char *path, int64_t window)
{
    lm_model_options o = { .sliding_window = window };
    lm_model        *m = NULL;
    lm_error         e = { 0 };
    char             line[1024];

    if (lm_model_open(path, &o, &m, &e) != LM_OK) {
        fprintf(stderr, "%s\n", lm_error_text(&e, line, sizeof line));
        exit(1);
    }
    return m;
}

lm_model *open_golden_model(const char *name, int64_t window)
{
    const char *root = getenv("LAMINA_TESTS");
    char        path[600];

    snprintf(path, sizeof path, "%.400s/golden/%.100s", root ? root : "tests", name);
    return open_at(path, window);
}

lm_model *open_demo_model(void)
{
    const char *root = getenv("LAMINA_ASSETS");
    char        path[600];

    snprintf(path, sizeof path, "%.400s/smollm2-135m-instruct-q4_1.gguf", root ? root : "build/assets");
    return open_at(path, 0);
}
