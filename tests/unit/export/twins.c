/* The same seed makes the same network in both containers: every golden's configuration is made twice and
 * run. This detects wrong keys, names, orders of rows, factors of the rotary embedding and tensors that are
 * stored differently. */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/hash.h"
#include "lamina/lamina.h"
#include "../temporary.h"

static char root[256];
static int  wrong;

enum { ROWS = 7 };

static void inside(char out[512], const char *name)
{
    snprintf(out, 512, "%s/%s", root, name);
}

/* Return the logits of all positions of one prompt; the caller frees them. */
static float *logits_of(const char *path, size_t *n)
{
    lm_model         *m = NULL;
    lm_engine        *g = NULL;
    lm_error          e = { .offset = LM_NO_OFFSET };
    lm_row            rows[ROWS];
    lm_model_info     info;
    lm_engine_options o = {
        .context = 16, .max_logits = ROWS, .kv = LM_KV_F32, .compute = LM_COMPUTE_F32, .threads = 1
    };

    if (lm_model_open(path, NULL, &m, &e) != LM_OK || lm_engine_new(m, &o, &g, &e) != LM_OK)
        fail_msg("%s: %s: %s", path, e.where, e.message);
    lm_model_describe(m, &info);
    for (uint32_t i = 0; i < ROWS; i++)
        rows[i] = (lm_row){ .token = (lm_token)((i * 37 + 5) % info.n_vocab), .position = i, .logits = true };
    assert_int_equal(lm_engine_step(g, rows, ROWS, &e), LM_OK);
    *n         = info.n_vocab;
    float *out = malloc(ROWS * *n * sizeof *out);
    assert_non_null(out);
    for (size_t i = 0; i < ROWS; i++)
        memcpy(out + i * *n, lm_engine_logits(g, i), *n * sizeof *out);
    lm_engine_free(g);
    lm_model_close(m);
    return out;
}

/* Return the mean probability of the most probable token. */
static double certainty(const float *logits, size_t n)
{
    double mean = 0;

    for (size_t r = 0; r < ROWS; r++) {
        double max = -INFINITY, sum = 0;
        for (size_t i = 0; i < n; i++)
            max = fmax(max, (double)logits[r * n + i]);
        for (size_t i = 0; i < n; i++)
            sum += exp((double)logits[r * n + i] - max);
        mean += 1 / sum / ROWS;
    }
    return mean;
}

/* Check that the logits of both containers agree, and that they vary enough for a difference to show. */
static void compare(const char *name, const char *folder, const char *file)
{
    size_t n, k;
    float *a = logits_of(folder, &n), *b = logits_of(file, &k);
    double max = 0, size = 0, sum = 0, squares = 0;

    assert_int_equal(n, k);
    for (size_t i = 0; i < ROWS * n; i++) {
        max = fmax(max, fabs((double)a[i] - (double)b[i]));
        size = fmax(size, fabs((double)a[i]));
        sum += (double)a[i];
        squares += (double)a[i] * (double)a[i];
    }
    double count = (double)(ROWS * n), deviation = sqrt(squares / count - sum / count * (sum / count));
    if (!(max <= 1e-4 * size) || !isfinite(size))
        wrong++, print_error("%s: the containers differ by %g of %g\n", name, max, size);
    if (!(deviation > 0.01 * size && deviation > 1e-3))
        wrong++, print_error("%s: logits deviate by %g, the largest is %g\n", name, deviation, size);
    if (certainty(a, n) > 0.9)
        wrong++, print_error("%s: the best token has probability %g\n", name, certainty(a, n));
    free(a);
    free(b);
}

/* Compare both containers of one golden. Returns 1: compared; 0: it has no config.json, GGUF cannot represent
 * it, or it failed. */
static int twin(const char *family, const char *name)
{
    char             config[1024], folder[512], file[512];
    struct stat      st;
    lm_error         e = { .offset = LM_NO_OFFSET };
    lm_synth_options o = { .type = "f32", .threads = 1, .seed = 7, .overwrite = true };

    snprintf(config, sizeof config, "%s/golden/%.200s/%.200s/config.json", getenv("LAMINA_TESTS"), family,
             name);
    if (stat(config, &st) != 0)
        return 0;
    inside(folder, "folder");
    inside(file, "file.gguf");
    lm_status status = lm_synth(config, file, &o, NULL, &e);
    if (status == LM_UNSUPPORTED)
        print_message("%s/%s: %s\n", family, name, e.message);
    if ((status != LM_OK && status != LM_UNSUPPORTED) || lm_synth(config, folder, &o, NULL, &e) != LM_OK) {
        wrong++, print_error("%s: %s: %s\n", config, e.where, e.message);
        return 0;
    }
    size_t n;
    free(logits_of(folder, &n));
    if (status == LM_OK)
        compare(config, folder, file);
    return status == LM_OK;
}

static void the_same_network(void **state)
{
    char golden[512];
    int  made = 0;

    (void)state;
    snprintf(golden, sizeof golden, "%s/golden", getenv("LAMINA_TESTS"));
    DIR *families = opendir(golden);
    assert_non_null(families);
    for (struct dirent *f; (f = readdir(families));) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", golden, f->d_name);
        DIR *cases = f->d_name[0] == '.' ? NULL : opendir(path);
        for (struct dirent *c; cases && (c = readdir(cases));)
            if (c->d_name[0] != '.')
                made += twin(f->d_name, c->d_name);
        if (cases)
            closedir(cases);
    }
    closedir(families);
    assert_int_equal(wrong, 0);
    assert_true(made >= 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_same_network) };

    temporary_path(root, "twins-XXXXXX");
    assert_non_null(mkdtemp(root));
    int  failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[600];
    snprintf(command, sizeof command, "rm -r '%s'", root);
    return failed + (system(command) != 0);
}
