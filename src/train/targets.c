/* targets.c - which modules get an adapter, and the initial values of its weights. */
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/nearest.h"
#include "base/rng.h"
#include "runtime/engine/adapter.h"
#include "runtime/model/model.h"
#include "text/regex.h"
#include "train/run.h"

double lm_train_scale(const lm_train_options *o)
{
    return o->rslora ? o->alpha / sqrt((double)o->rank) : o->alpha / (double)o->rank;
}

/* Return whether "all" includes an operation: products except the head and the router; no look-ups. */
static bool is_candidate(const lm_program *p, uint32_t node, lm_adapt_shape *shape)
{
    const lm_node *n = &p->nodes[node];

    if ((n->code != LM_OP_LINEAR && n->code != LM_OP_HEAD_LINEAR) || node == lm_program_head(p) ||
        !lm_adapt_possible(p, node, shape))
        return false;
    return true;
}

static bool in_attention(const char *module)
{
    return strstr(module, "attn") || strstr(module, "attention");
}

static bool ends_in(const char *path, const char *name)
{
    size_t n = strlen(path), k = strlen(name);

    return n >= k && strcmp(path + n - k, name) == 0 && (n == k || path[n - k - 1] == '.');
}

typedef struct target {
    const char   *text;
    lm_regex     *pattern;               /* NULL: the name of a group */
    lm_regex_work work;
    uint32_t      hits;
} target;

static lm_status matches(target *t, const lm_program *p, uint32_t node, const char *module, bool *out,
                         lm_error *e)
{
    lm_match match = { 0 };

    if (t->pattern) {                    /* a path, or its end after a dot */
        LM_TRY(lm_regex_begin(&t->work, strlen(module), e));
        LM_TRY(lm_regex_find(t->pattern, &t->work, lm_view_of(module), 0, &match, e));
        *out = match.found || ends_in(module, t->text);
    } else if (strcmp(t->text, "all") == 0 || strcmp(t->text, "all-linear") == 0) {
        *out = !lm_only_chooses(p, p->nodes[node].out, true);
    } else if (strcmp(t->text, "attention") == 0) {
        *out = in_attention(module) && !lm_only_chooses(p, p->nodes[node].out, true);
    } else if (strcmp(t->text, "mlp") == 0) {
        *out = !in_attention(module) && !lm_only_chooses(p, p->nodes[node].out, true);
    } else {
        *out = ends_in(module, t->text);
    }
    return LM_OK;
}

static lm_status open_target(target *t, const char *text, lm_error *e)
{
    static const char *const words[] = { "all", "all-linear", "attention", "mlp" };
    lm_text                  pattern = { 0 };

    *t = (target){ .text = text };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(text, words[i]) == 0)
            return LM_OK;
    lm_text_printf(&pattern, "(?:\\A|\\.)(?:%s)\\z", text);
    lm_status status = pattern.failed ? lm_fail_memory(e, "target", 0)
                                      : lm_regex_new(lm_text_view(&pattern), text, &t->pattern, e);
    lm_text_free(&pattern);
    return status == LM_UNSUPPORTED ? LM_USAGE : status;
}

/* The hint has the last names of the layers: q_proj, down_proj. */
static lm_status no_layer(const lm_program *p, const char *text, lm_error *e)
{
    lm_near_names names = { 0 };

    for (uint32_t node = 0; node < p->n_nodes; node++) {
        lm_adapt_shape shape;
        if (!is_candidate(p, node, &shape))
            continue;
        const char *dot = strrchr(shape.module, '.'), *last = dot ? dot + 1 : shape.module;
        lm_near_names_add(&names, last, strlen(last));
    }
    lm_fail(e, LM_USAGE, text, LM_NO_OFFSET, "no linear layer of this model is meant by it");
    return lm_near_names_hint(&names, text, e);
}

static lm_status choose_with(lm_train_run *r, target *targets, size_t n, lm_error *e)
{
    const lm_program *p = r->model->program;

    for (uint32_t node = 0; node < p->n_nodes; node++) {
        lm_adapt_shape shape;
        bool           any = false, hit;
        if (!is_candidate(p, node, &shape))
            continue;
        for (size_t i = 0; i < n; i++) {
            LM_TRY(matches(&targets[i], p, node, shape.module, &hit, e));
            targets[i].hits += hit;
            any |= hit;
        }
        if (!any)
            continue;
        r->modules[r->n_targets]   = shape.module;
        r->targets[r->n_targets++] = (lm_adapt_target){ .node = node,
                                                        .rank = r->o->rank,
                                                        .scale = (float)lm_train_scale(r->o) };
        r->result->modules++;
    }
    for (size_t i = 0; i < n; i++)
        if (!targets[i].hits)
            return no_layer(p, targets[i].text, e);
    return LM_OK;
}

lm_status lm_train_choose(lm_train_run *r, lm_error *e)
{
    static const char *const all[] = { "all" };
    const char *const       *texts = r->o->n_targets ? r->o->targets : all;
    size_t                   n     = r->o->n_targets ? r->o->n_targets : 1, opened = 0;
    target                  *list  = lm_arena_new(&r->arena, n, target);
    lm_status                status = LM_OK;

    r->targets = lm_arena_new(&r->arena, r->model->program->n_nodes + 1, lm_adapt_target);
    r->modules = lm_arena_new(&r->arena, r->model->program->n_nodes + 1, const char *);
    if (!list || !r->targets || !r->modules)
        return lm_fail_memory(e, "targets", n);
    for (; status == LM_OK && opened < n; opened++)
        status = open_target(&list[opened], texts[opened], e);
    if (status == LM_OK)
        status = choose_with(r, list, n, e);
    for (size_t i = 0; i < opened; i++) {
        lm_regex_free(list[i].pattern);
        lm_regex_work_free(&list[i].work);
    }
    return status;
}

/* Select every parameter that has a gradient, for full training. A router's correction only affects the
 * selection, so it has none. */
static void want_all(const lm_program *p, bool *wanted)
{
    for (uint32_t i = 0; i < p->n_nodes; i++)
        for (uint32_t k = 0; k < LM_MAX_WEIGHTS; k++) {
            uint32_t w = p->nodes[i].weights[k];
            if (w != LM_NONE && p->nodes[i].code != LM_OP_ROUTE && !p->weights[w].constant)
                wanted[w] = true;
        }
}

/* A whole model can only be written if each weight is one tensor of a folder. */
lm_status lm_train_check_full(const lm_train_run *r, lm_error *e)
{
    const lm_program *p = r->model->program;

    for (uint32_t w = 0; w < p->n_weights; w++)
        if (r->wanted[w] && (p->weights[w].kind == LM_EXPERTS || p->weights[w].kind == LM_HEADS) &&
            !r->o->gradients)
            return lm_fail(e, LM_UNSUPPORTED, p->weights[w].path, LM_NO_OFFSET,
                           "models with experts, latents or matrices of heads can only be trained with adapters");
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i].code == LM_OP_LINEAR && p->nodes[i].weights[2] != LM_NONE)
            return lm_fail(e, LM_UNSUPPORTED, p->nodes[i].path, LM_NO_OFFSET,
                           "matrices of -1, 0 and 1 are not trained: train an adapter");
    if (r->model->container && lm_container_kind_of(r->model->container) == LM_GGUF && !r->o->gradients)
        return lm_fail(e, LM_UNSUPPORTED, "full training", LM_NO_OFFSET,
                       "needs a folder of a model in safetensors, not a GGUF file");
    return LM_OK;
}

lm_status lm_train_prepare(lm_train_run *r, lm_error *e)
{
    const lm_program *p = r->model->program;

    r->program = p;
    if (!r->o->full) {
        lm_adapt_set set = { NULL, NULL, 0 };
        LM_TRY(lm_train_choose(r, e));
        set.targets = r->targets;
        set.n       = r->n_targets;
        LM_TRY(lm_program_adapt(p, &set, 1, &r->adapted, e));
        r->program = r->adapted;
    }
    r->wanted = lm_arena_new(&r->arena, r->program->n_weights + 1, bool);
    if (!r->wanted)
        return lm_fail_memory(e, "training", 0);
    for (uint32_t w = p->n_weights; w < r->program->n_weights; w++)
        r->wanted[w] = true;
    if (r->o->full)
        want_all(p, r->wanted);
    for (uint32_t w = 0; w < r->program->n_weights; w++)
        r->result->numbers += r->wanted[w] ? r->program->weights[w].elements : 0;
    return LM_OK;
}

void lm_train_first_values(lm_train_run *r)
{
    for (uint32_t i = 0; r->adapted && i < r->learner->n_trained; i++) {
        lm_trained      *t = &r->learner->trained[i];
        const lm_weight *w = &r->program->weights[t->weight];
        lm_sha256        h = lm_sha256_bytes(w->path, strlen(w->path));
        uint64_t         stream = 0;
        double           bound  = 1 / sqrt((double)w->dims[1]);
        for (size_t k = 0; k < 16; k++)
            stream = stream << 4 | (uint64_t)lm_hex_digit(h.hex[k]);
        bool is_a = strstr(w->path, ".lora_A.") != NULL;
        for (uint64_t k = 0; k < t->elements; k++)
            t->value[k] = is_a ? (float)((2 * lm_rng_uniform(r->o->seed, stream, k) - 1) * bound) : 0.0f;
    }
}

static const lm_adapter_part *part_of(const lm_adapter *a, uint32_t node)
{
    for (uint32_t i = 0; i < a->n_parts; i++)
        if (a->parts[i].node == node)
            return &a->parts[i];
    return NULL;
}

/* Check that an adapter to start from has exactly the modules of the run, with the same rank and scale. */
static lm_status check_start(const lm_train_run *r, const lm_adapter *a, lm_error *e)
{
    for (uint32_t i = 0; i < r->n_targets; i++) {
        const lm_adapt_target *t = &r->targets[i];
        const lm_adapter_part *p = part_of(a, t->node);
        if (!p)
            return lm_fail(e, LM_USAGE, r->modules[i], LM_NO_OFFSET,
                           "is trained, but not a module of the adapter");
        if (p->rank != t->rank || fabsf(p->scale - t->scale) > 1e-6f * t->scale)
            return lm_fail(e, LM_USAGE, r->modules[i], LM_NO_OFFSET,
                           "has rank %u and scale %g in the adapter, %u and %g in this run", p->rank,
                           (double)p->scale, t->rank, (double)t->scale);
        if (p->bias)
            return lm_fail(e, LM_UNSUPPORTED, r->modules[i], LM_NO_OFFSET,
                           "the adapter has a bias, which is not trained");
    }
    for (uint32_t k = 0; k < a->n_parts; k++) {
        bool any = false;
        for (uint32_t i = 0; i < r->n_targets; i++)
            any |= r->targets[i].node == a->parts[k].node;
        if (!any)
            return lm_fail(e, LM_USAGE, a->parts[k].module, LM_NO_OFFSET,
                           "is a module of the adapter, but not trained");
    }
    return LM_OK;
}

static void copy_start(lm_train_run *r, const lm_adapter *a)
{
    for (uint32_t i = 0; i < r->n_targets; i++) {
        const lm_adapter_part *p      = part_of(a, r->targets[i].node);
        lm_adapt_weights       w      = lm_adapt_weights_of(r->program, r->modules[i], NULL);
        const lm_weight       *of     = r->program->weights;
        memcpy(lm_trained_value(r->learner, w.a), p->a, of[w.a].elements * sizeof(float));
        memcpy(lm_trained_value(r->learner, w.b), p->b, of[w.b].elements * sizeof(float));
    }
}

lm_status lm_train_begin_from(lm_train_run *r, lm_error *e)
{
    lm_adapter *a = NULL;

    if (!r->o->init_from)
        return LM_OK;
    LM_TRY(lm_adapter_open(r->model, r->o->init_from, &a, e));
    lm_status status = check_start(r, a, e);
    if (status != LM_OK)
        lm_fail_in(e, r->o->init_from);
    else if (r->learner)
        copy_start(r, a);
    memcpy(r->start_hash, a->hash, sizeof r->start_hash);
    lm_adapter_close(a);
    return status;
}
