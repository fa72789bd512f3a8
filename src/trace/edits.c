/* edits.c - parse interventions. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "formats/container.h"
#include "trace/tracer.h"

enum { MAX_EDITS = 65536, MAX_PATH = 512 };

typedef struct reading {
    const lm_program *p;
    lm_trace_edits   *out;
    const char       *text;          /* of the current intervention */
    char              path[MAX_PATH], file[4096];
} reading;

static lm_status bad(const reading *r, lm_error *e, const char *why)
{
    return lm_fail(e, LM_USAGE, r->text, LM_NO_OFFSET, "%s", why);
}

static lm_status no_path(const reading *r, lm_error *e, const char *why)
{
    bad(r, e, why);
    return lm_trace_hint(r->p, r->path, e);
}

static lm_status add(reading *r, const lm_edit *x, lm_error *e)
{
    if (r->out->n >= MAX_EDITS)
        return bad(r, e, "too many values are changed");
    if (r->out->n % 64 == 0) {
        lm_edit *more = lm_realloc(r->out->list, (r->out->n + 64) * sizeof *more);
        if (!more)
            return lm_fail_memory(e, "interventions", r->out->n);
        r->out->list = more;
    }
    r->out->list[r->out->n++] = *x;
    return LM_OK;
}

/* Return whether a pattern matches the operation itself or an enclosing module within its layer. */
static bool is_around(const lm_program *p, const char *pattern, const lm_node *n)
{
    if (lm_trace_matches(pattern, n->path))
        return true;
    for (uint32_t m = n->module; m != LM_NONE && p->modules[m].layer == n->layer; m = p->modules[m].parent)
        if (lm_trace_matches(pattern, p->modules[m].path))
            return true;
    return false;
}

/* ---- scaling ---- */

static lm_status scale_values(reading *r, float factor, lm_error *e)
{
    bool some = false;

    for (uint32_t i = 0; i < r->p->n_nodes; i++) {
        lm_value    v    = r->p->nodes[i].out;
        const char *path = lm_trace_meant(r->p, r->path, v);
        if (!path)
            continue;
        some = true;
        LM_TRY(add(r,
                   &(lm_edit){ .value = v,
                               .kind = LM_EDIT_SCALE,
                               .to = r->p->values[v].width,
                               .factor = factor,
                               .last = UINT32_MAX },
                   e));
    }
    return some ? LM_OK : no_path(r, e, "no value has this path");
}

/* A unit of an operation, written "#head3": how many it has, and which values they are. */
typedef struct edit_unit {
    const char  *word;
    uint32_t   (*count)(const lm_program *p, const lm_node *n);      /* 0: the operation has none */
    lm_edit_kind kind;
    const char  *missing;
} edit_unit;

static uint32_t count_heads(const lm_program *p, const lm_node *n)
{
    (void)p;
    return n->code == LM_OP_ATTENTION ? n->attention.spec.n_heads : 0;
}

static uint32_t count_neurons(const lm_program *p, const lm_node *n)
{
    return n->code == LM_OP_GLU || n->code == LM_OP_ACT ? p->values[n->out].width : 0;
}

static uint32_t count_experts(const lm_program *p, const lm_node *n)
{
    (void)p;
    return n->code == LM_OP_ROUTE ? n->route.spec.n_experts : 0;
}

static const edit_unit units[] = {
    { "head", count_heads, LM_EDIT_SCALE, "no attention has this path" },
    { "neuron", count_neurons, LM_EDIT_SCALE, "no MLP whose neurons can be changed has this path" },
    { "expert", count_experts, LM_EDIT_EXPERT, "no mixture of experts has this path" },
};

static lm_status scale_unit(reading *r, const edit_unit *x, uint32_t index, float factor, lm_error *e)
{
    bool some = false;

    for (uint32_t i = 0; i < r->p->n_nodes; i++) {
        const lm_node *n = &r->p->nodes[i];
        uint32_t       count = x->count(r->p, n), each;
        if (!count || !is_around(r->p, r->path, n))
            continue;
        if (index >= count)
            return lm_fail(e, LM_USAGE, r->text, LM_NO_OFFSET, "%s %u of %u, counted from 0", x->word, index,
                           count);
        each = x->kind == LM_EDIT_EXPERT ? 1 : r->p->values[n->out].width / count;
        some = true;
        LM_TRY(add(r,
                   &(lm_edit){ .value = n->out,
                               .kind = x->kind,
                               .from = index * each,
                               .to = (index + 1) * each,
                               .factor = factor,
                               .last = UINT32_MAX },
                   e));
    }
    return some ? LM_OK : no_path(r, e, x->missing);
}

/* Parse a whole number after `word`, up to the end. */
static bool numbered(const char *part, const char *word, uint32_t *out)
{
    size_t n = strlen(word), digits = 0;
    uint64_t x = 0;

    if (strncmp(part, word, n) != 0)
        return false;
    for (part += n; part[digits] >= '0' && part[digits] <= '9' && digits < 9; digits++)
        x = x * 10 + (uint64_t)(part[digits] - '0');
    *out = (uint32_t)x;
    return digits && !part[digits];
}

static bool factor_of(const char *text, float *out)
{
    char  *end;
    double x = lm_read_double(text, &end);

    if (end == text || *end || !isfinite((double)(float)x))
        return false;
    *out = (float)x;
    return true;
}

#define MAX_FACTOR 1e6F

static lm_status read_scale(reading *r, const char *equals, lm_error *e)
{
    char    *mark = strchr(r->path, '#');
    uint32_t n;
    float    factor;

    if (!factor_of(equals + 1, &factor))
        return bad(r, e, "a number is expected after '='");
    if (fabsf(factor) > MAX_FACTOR)
        return bad(r, e, "the factor must be between -1e6 and 1e6: larger values overflow");
    if (!mark)
        return scale_values(r, factor, e);
    *mark = '\0';
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (numbered(mark + 1, units[i].word, &n))
            return scale_unit(r, &units[i], n, factor, e);
    return bad(r, e, "headN, neuronN or expertN is expected after '#'");
}

/* ---- vectors from files ---- */

/* Load a row of a float tensor into memory owned by the edits. */
static lm_status load_row(reading *r, const lm_container *c, const lm_tensor_info *t, uint64_t row,
                          uint32_t width, const float **out, lm_error *e)
{
    uint64_t rows = t->n_dims > 1 ? t->elements / width : 1;
    uint64_t cols = t->dims[t->n_dims ? t->n_dims - 1 : 0];
    float   *x    = lm_arena_new(&r->out->arena, width, float);

    if (t->elements % width || !rows || cols != width) {
        lm_fail(e, LM_USAGE, t->name, LM_NO_OFFSET, "has %llu numbers in a row; the value has %u",
                (unsigned long long)cols, width);
        return lm_fail_in(e, r->file);
    }
    if (row >= rows) {
        lm_fail(e, LM_USAGE, t->name, LM_NO_OFFSET, "row %llu of %llu", (unsigned long long)row,
                (unsigned long long)rows);
        return lm_fail_in(e, r->file);
    }
    if (lm_dtype_of(t->type)->block != 1 || !lm_dtype_of(t->type)->unpack) {
        lm_fail(e, LM_UNSUPPORTED, t->name, LM_NO_OFFSET, "numbers of type %s", lm_dtype_of(t->type)->name);
        return lm_fail_in(e, r->file);
    }
    if (!x)
        return lm_fail_memory(e, "a vector", width);
    lm_container_unpack(c, t, row * width, width, x);
    for (uint32_t i = 0; i < width; i++)
        if (!isfinite((double)x[i])) {
            lm_fail(e, LM_USAGE, t->name, LM_NO_OFFSET, "has numbers that are not finite");
            return lm_fail_in(e, r->file);
        }
    *out = x;
    return LM_OK;
}

static lm_status add_vector(reading *r, const lm_container *c, const lm_tensor_info *t, lm_value v,
                            float factor, lm_error *e)
{
    lm_edit x = {
        .value = v, .kind = LM_EDIT_ADD, .to = r->p->values[v].width, .factor = factor, .last = UINT32_MAX
    };

    LM_TRY(load_row(r, c, t, 0, x.to, &x.vector, e));
    return add(r, &x, e);
}

static const lm_tensor_info *direction_of(const lm_container *c, int32_t layer)
{
    char name[32];

    snprintf(name, sizeof name, "direction.%d", layer);
    return lm_container_find(c, name);
}

/* Add each direction to the output of its layer, like llama.cpp. */
static lm_status add_directions(reading *r, const lm_container *c, float factor, lm_error *e)
{
    bool some = false;

    for (uint32_t l = 0; l < r->p->n_layers; l++) {
        const lm_tensor_info *t    = direction_of(c, (int32_t)l);
        const char           *path = lm_trace_layer_path(r->p, (int32_t)l);
        lm_value              v    = path ? lm_program_value(r->p, path) : LM_NONE;
        if (!t || v == LM_NONE)
            continue;
        some = true;
        LM_TRY(add_vector(r, c, t, v, factor, e));
    }
    if (some)
        return LM_OK;
    lm_fail(e, LM_BAD_MODEL, r->text, LM_NO_OFFSET,
            "has no direction for a layer of this model (direction.1 …)");
    return lm_fail_in(e, r->file);
}

static lm_status add_to_values(reading *r, const lm_container *c, float factor, lm_error *e)
{
    bool some = false;

    for (uint32_t i = 0; i < r->p->n_nodes; i++) {
        lm_value    v    = r->p->nodes[i].out;
        const char *path = lm_trace_meant(r->p, r->path, v);
        if (!path)
            continue;
        const lm_tensor_info *t = lm_container_find(c, path);
        t = t ? t : direction_of(c, r->p->nodes[i].layer);
        if (!t) {
            lm_fail(e, LM_USAGE, path, LM_NO_OFFSET, "has no vector");
            return lm_fail_in(e, r->file);
        }
        some = true;
        LM_TRY(add_vector(r, c, t, v, factor, e));
    }
    return some ? LM_OK : no_path(r, e, "no value has this path");
}

static lm_status read_add(reading *r, const char *plus, lm_error *e)
{
    lm_container *c     = NULL;
    const char   *colon = strrchr(plus, ':');
    float         factor = 1;

    bool scaled = colon && factor_of(colon + 1, &factor);
    snprintf(r->file, sizeof r->file, "%.*s", scaled ? (int)(colon - plus - 1) : (int)strlen(plus + 1),
             plus + 1);
    if (!r->file[0])
        return bad(r, e, "a file is expected after '+'");
    LM_TRY(lm_container_open(r->file, NULL, &c, e));
    lm_status status = r->path[0] ? add_to_values(r, c, factor, e) : add_directions(r, c, factor, e);
    lm_container_close(c);
    return status;
}

static lm_status patch_values(reading *r, const lm_container *c, uint32_t at, uint32_t row, lm_error *e)
{
    bool some = false;

    for (uint32_t i = 0; i < r->p->n_nodes; i++) {
        lm_value    v    = r->p->nodes[i].out;
        const char *path = lm_trace_meant(r->p, r->path, v);
        if (!path)
            continue;
        const lm_tensor_info *t = lm_container_find(c, path);
        lm_edit x = { .value = v, .kind = LM_EDIT_SET, .to = r->p->values[v].width, .first = at, .last = at };
        if (!t) {
            lm_fail(e, LM_USAGE, path, LM_NO_OFFSET, "is not in the file");
            return lm_fail_in(e, r->file);
        }
        some = true;
        LM_TRY(load_row(r, c, t, row, x.to, &x.vector, e));
        LM_TRY(add(r, &x, e));
    }
    return some ? LM_OK : no_path(r, e, "no value has this path");
}

static lm_status read_patch(reading *r, const char *at, lm_error *e)
{
    const char   *equals = strchr(at, '=');
    char          number[16] = "", other[16] = "";
    lm_container *c = NULL;
    uint32_t      position, row;

    if (!equals || equals - at - 1 >= (ptrdiff_t)sizeof number)
        return bad(r, e, "PATH@POSITION=FILE is expected");
    snprintf(number, sizeof number, "%.*s", (int)(equals - at - 1), at + 1);
    if (!numbered(number, "", &position))
        return bad(r, e, "a position is expected after '@'");
    const char *mark = strrchr(equals, '@');
    row = position;
    if (mark && strlen(mark + 1) < sizeof other) {
        snprintf(other, sizeof other, "%s", mark + 1);
        if (!numbered(other, "", &row))
            mark = NULL, row = position;         /* the @ is part of the file name */
    } else {
        mark = NULL;
    }
    snprintf(r->file, sizeof r->file, "%.*s", mark ? (int)(mark - equals - 1) : (int)strlen(equals + 1),
             equals + 1);
    LM_TRY(lm_container_open(r->file, NULL, &c, e));
    lm_status status = patch_values(r, c, position, row, e);
    lm_container_close(c);
    return status;
}

static lm_status read_one(reading *r, lm_error *e)
{
    size_t      n    = strcspn(r->text, "=+@");
    const char *mark = r->text + n;

    if (!*mark)
        return bad(r, e, "expected PATH=FACTOR, PATH+FILE or PATH@POSITION=FILE");
    if (n >= sizeof r->path)
        return bad(r, e, "the path is too long");
    memcpy(r->path, r->text, n);
    r->path[n] = '\0';
    if (!n && *mark != '+')
        return bad(r, e, "a path is expected");
    return *mark == '='   ? read_scale(r, mark, e)
           : *mark == '+' ? read_add(r, mark, e)
                          : read_patch(r, mark, e);
}

lm_status lm_trace_read_edits(const lm_program *p, const char *const *texts, lm_trace_edits *out, lm_error *e)
{
    reading r = { .p = p, .out = out };

    for (size_t i = 0; texts && texts[i]; i++) {
        r.text = texts[i];
        LM_TRY(read_one(&r, e));
    }
    return LM_OK;
}
