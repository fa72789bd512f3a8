/* autograd.c - gradients of every family compared with torch's, through transformers and peft:
 * tests/golden/train/, made by tools/oracle/gradients.py. The tests train an adapter on every linear layer
 * and, for some families, every weight. */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "formats/safetensors.h"
#include "program/adapt.h"
#include "runtime/model/model.h"
#include "train/learner.h"

enum { MAX_TARGETS = 512, MAX_ROWS = 256, MAX_TEXTS = 16 };
#define TOLERANCE 2e-5

static const char *root(void)
{
    const char *tests = getenv("LAMINA_TESTS");

    return tests ? tests : "tests";
}

static float *numbers(const lm_container *c, const char *name, uint64_t *n)
{
    const lm_tensor_info *t = lm_container_find(c, name);
    float                *x;

    if (!t)
        return NULL;
    *n = t->elements;
    x  = malloc((t->elements + 1) * sizeof *x);
    lm_container_unpack(c, t, 0, t->elements, x);
    return x;
}

static const char *meta_text(const lm_container *c, const char *key, char *out, size_t size)
{
    lm_view v = { 0 };

    assert_int_equal(lm_meta_string(lm_container_meta(c), key, &v, NULL), LM_OK);
    snprintf(out, size, "%.*s", (int)v.size, v.data);
    return out;
}

/* The rows of a file: ids [B][T], labels [B][T]; the text of each row ends with its last label. */
typedef struct rows {
    int32_t       tokens[MAX_ROWS], labels[MAX_ROWS];
    lm_train_text texts[MAX_TEXTS];
    uint32_t      n_texts, n, labelled;
} rows;

static void read_rows(const lm_container *c, rows *r)
{
    const lm_tensor_info *t = lm_container_find(c, "input_ids");
    const int64_t *ids = lm_container_data(c, t),
                  *labels = lm_container_data(c, lm_container_find(c, "labels"));
    uint64_t              width = t->dims[1];

    *r = (rows){ 0 };
    for (uint64_t b = 0; b < t->dims[0]; b++) {
        uint64_t length = 0;
        for (uint64_t i = 0; i < width; i++)
            length = labels[b * width + i] != -100 ? i + 1 : length;
        r->texts[r->n_texts++] = (lm_train_text){ r->n, (uint32_t)length, b };
        for (uint64_t i = 0; i < length; i++) {
            int64_t label           = i + 1 < length ? labels[b * width + i + 1] : -100;
            r->tokens[r->n]         = (int32_t)ids[b * width + i];
            r->labels[r->n++]       = (int32_t)label;
            r->labelled += label != -100;
        }
    }
}

/* max |a - b| / max |b|; `turned`: b is [cols][rows] of a. */
static double error_of(const float *a, const float *b, uint64_t rows_of, uint64_t cols, bool turned)
{
    double off = 0, max = 0;

    for (uint64_t r = 0; r < rows_of; r++)
        for (uint64_t i = 0; i < cols; i++) {
            double y = (double)(turned ? b[i * rows_of + r] : b[r * cols + i]);
            off      = fmax(off, fabs((double)a[r * cols + i] - y));
            max     = fmax(max, fabs(y));
        }
    return max > 0 ? off / max : off;
}

/* Return the program with the adapters of the file: their modules and ranks. */
static lm_program *adapted(const lm_program *p, const lm_container *c, bool *wanted)
{
    static lm_adapt_target targets[MAX_TARGETS];
    static const char      end[] = ".lora_A.weight";
    lm_adapt_set           set = { NULL, targets, 0 };
    lm_program            *out = NULL;
    lm_error               e   = { 0 };
    char                   text[600];

    for (size_t i = 0; i < lm_container_n_tensors(c); i++) {
        const lm_tensor_info *t = lm_container_tensor(c, i);
        size_t                n = strlen(t->name);
        if (n < sizeof end || strncmp(t->name, "grad.", 5) == 0 ||
            strcmp(t->name + n - sizeof end + 1, end) != 0)
            continue;
        snprintf(text, sizeof text, "%.*s", (int)(n - sizeof end + 1), t->name);
        uint32_t rank    = (uint32_t)t->dims[0];
        targets[set.n++] = (lm_adapt_target){ .node = lm_adapt_node(p, text),
                                              .rank = rank,
                                              .scale = 4.0f / (float)rank };
        if (targets[set.n - 1].node == LM_NONE)
            fail_msg("%s: no such module", text);
    }
    assert_true(set.n > 0);
    if (lm_program_adapt(p, &set, 1, &out, &e) != LM_OK)
        fail_msg("%s", lm_error_text(&e, text, sizeof text));
    for (uint32_t w = 0; w < out->n_weights; w++)
        wanted[w] = w >= p->n_weights;
    return out;
}

static void put_adapter(lm_learner *l, const lm_container *c)
{
    for (uint32_t k = 0; k < l->n_trained; k++) {
        uint64_t n = 0;
        float   *x = numbers(c, l->program->weights[l->trained[k].weight].path, &n);
        assert_non_null(x);
        assert_int_equal(n, l->trained[k].elements);
        memcpy(l->trained[k].value, x, n * sizeof *x);
        free(x);
    }
}

/* Check one file. Returns the error of the worst tensor. */
static double check(const char *path, const char *name, uint32_t *tensors)
{
    lm_container    *c = NULL;
    lm_model        *m = NULL;
    lm_model_options mo = lm_model_defaults();
    lm_error         e = { 0 };
    char             text[600], where[700];
    rows             r;
    bool             full = strstr(name, ".full.") != NULL;
    double           worst = 0;

    assert_int_equal(lm_container_open(path, NULL, &c, NULL), LM_OK);
    snprintf(where, sizeof where, "%s/golden/%s", root(), meta_text(c, "case", text, sizeof text));
    mo.adaptable = true;
    if (lm_model_open(where, &mo, &m, &e) != LM_OK)
        fail_msg("%s: %s", where, lm_error_text(&e, text, sizeof text));
    bool       *wanted = calloc(m->program->n_weights + 2 * MAX_TARGETS, sizeof *wanted);
    lm_program *own    = full ? NULL : adapted(m->program, c, wanted);
    for (uint32_t w = 0; full && w < m->program->n_weights; w++) {
        snprintf(text, sizeof text, "grad.%s", m->program->weights[w].path);
        wanted[w] = lm_container_find(c, text) != NULL;
    }
    lm_learner        *l = NULL;
    lm_learner_options o = { .rows = MAX_ROWS, .longest = 64, .threads = 2, .compute = LM_COMPUTE_F32 };
    if (lm_learner_new(m, own ? own : m->program, wanted, &o, &l, &e) != LM_OK)
        fail_msg("%s: %s", name, lm_error_text(&e, text, sizeof text));
    if (!full)
        put_adapter(l, c);
    read_rows(c, &r);
    lm_learner_begin(l, r.labelled);
    lm_learner_rows(l, r.tokens, r.labels, r.texts, r.n_texts);
    lm_learner_end(l);
    uint64_t n    = 0;
    float   *loss = numbers(c, "loss", &n);
    assert_true(fabs(l->loss / r.labelled - (double)*loss) <= 1e-5);
    free(loss);
    const char *bad = "";
    for (uint32_t k = 0; k < l->n_trained; k++) {
        const lm_weight *w = &l->program->weights[l->trained[k].weight];
        snprintf(text, sizeof text, "grad.%s", w->path);
        float *truth = numbers(c, text, &n);
        if (!truth)
            fail_msg("%s: %s is not there", name, text);
        assert_int_equal(n, w->elements);
        bool     heads = w->kind == LM_HEADS, turned = heads ? w->joint.transposed : w->transposed;
        uint64_t each = w->elements / (heads ? w->dims[0] : 1), rows_of = heads ? w->dims[1] : w->dims[0];
        double   off  = 0;
        for (uint64_t at = 0; at < n; at += each)
            off = fmax(off, error_of(l->trained[k].gradient + at, truth + at, rows_of, each / rows_of,
                                     turned));
        /* softmax is invariant to a bias of the keys, so that gradient is only rounding error */
        float  max = 0;
        for (uint64_t i = 0; i < n; i++)
            max = fmaxf(max, fabsf(truth[i]));
        if (off > worst && max > 1e-6f)
            worst = off, bad = w->path;
        free(truth);
    }
    size_t of_file = 0;
    for (size_t i = 0; i < lm_container_n_tensors(c); i++)
        of_file += strncmp(lm_container_tensor(c, i)->name, "grad.", 5) == 0;
    printf("  %-26s %3u of %3zu tensors, loss %.6f, worst %.1e  %s\n", name, l->n_trained, of_file,
           l->loss / r.labelled, worst, bad);
    assert_int_equal(of_file, l->n_trained);
    *tensors += l->n_trained;
    lm_learner_free(l);
    lm_program_free(own);
    free(wanted);
    lm_model_close(m);
    lm_container_close(c);
    return worst;
}

static void gradients_agree(void **state)
{
    char           folder[600], path[900];
    struct dirent *f;
    uint32_t       tensors = 0, files = 0;
    double         worst = 0;

    (void)state;
    snprintf(folder, sizeof folder, "%s/golden/train", root());
    DIR *d = opendir(folder);
    assert_non_null(d);
    while ((f = readdir(d))) {
        if (!strstr(f->d_name, ".lora.safetensors") && !strstr(f->d_name, ".full.safetensors"))
            continue;
        snprintf(path, sizeof path, "%s/%.255s", folder, f->d_name);
        double off = check(path, f->d_name, &tensors);
        if (off > TOLERANCE)
            print_error("%s: %.2g\n", f->d_name, off);
        worst = fmax(worst, off);
        files++;
    }
    closedir(d);
    printf("%u files, %u tensors, worst %.1e\n", files, tensors, worst);
    assert_true(files >= 40 && worst <= TOLERANCE);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(gradients_agree) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
