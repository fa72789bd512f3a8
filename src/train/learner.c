/* learner.c - memory for training, and one training pass: forward, loss, backward. */
#include "train/learner.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/os/available.h"
#include "base/checked.h"
#include "runtime/engine/engine_plan.h"
#include "train/passes.h"

enum { PIECE_BYTES = 48 << 20, LEAST_PIECE = 16 };

/* ---- sizes ---- */

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t line(uint64_t bytes)
{
    return (bytes + 63) & ~UINT64_C(63);
}

/* Compute the scratch memory of one operation. */
static void scratch_of(const lm_learner *l, const lm_plan *plan, const lm_kernels *k, const lm_node *n,
                       uint64_t *shared, uint64_t *worker)
{
    const lm_program *p    = l->program;
    uint64_t          tile = (uint64_t)LM_TILE_FLOATS * sizeof(float), rows = l->options.rows;

    for (uint32_t i = 0; i < LM_MAX_WEIGHTS; i++) {
        const lm_weight *w = n->weights[i] == LM_NONE ? NULL : &p->weights[n->weights[i]];
        if (!w || w->n_dims < 2 || w->kind == LM_VECTOR)
            continue;
        const lm_matmul *m    = lm_matrix_kernel(l, plan, k, n->weights[i]);
        uint64_t cols = w->dims[w->n_dims - 1],
                 groups = n->code == LM_OP_HEAD_LINEAR && !n->heads.shared ? n->heads.n_heads : 1;
        *shared = larger(*shared, larger(tile, 64 * cols * sizeof(float)));
        *shared = larger(*shared,
                         rows * groups * (m->x->pack ? m->x->bytes(cols) : line(cols * sizeof(float))));
        *worker = larger(*worker, lm_stored_scratch(m, cols));
        *worker = larger(*worker, line(cols * sizeof(float)));
    }
    if (n->code == LM_OP_ATTENTION)
        *worker = larger(*worker, lm_text_attention_scratch(l->options.longest, n->attention.spec.k_dim,
                                                            n->attention.spec.v_dim));
    if (n->code == LM_OP_SELECT_KEYS)
        *worker = larger(*worker, l->options.longest * sizeof(float));
    if (n->code == LM_OP_LINEAR_RECURRENCE)
        *worker = larger(*worker, larger(lm_recurrence_scratch(&n->recurrence.spec, l->options.longest),
                                         n->recurrence.spec.k_dim * LM_STATE_COLUMNS * sizeof(float)));
    if (n->code == LM_OP_SELECTIVE_SCAN)
        *worker = larger(*worker, lm_scan_scratch(&n->recurrence.spec, l->options.longest));
    if (n->code == LM_OP_COMPRESS)
        *worker = larger(*worker, 3 * p->values[n->in[0]].width * sizeof(float));
    if (n->code == LM_OP_GATED_RECURRENCE)
        *worker = larger(*worker, lm_gated_scratch(l->options.longest));
    if (lm_row_ops[n->code])
        *worker = larger(*worker,
                         lm_row_ops[n->code]->scratch_rows * p->values[n->out].width * sizeof(float));
    if (n->code == LM_OP_EXPERTS)
        *shared = larger(*shared, tile + lm_mixture_scratch(l, plan, k, n, rows));
}

void lm_train_scratch(const lm_learner *l, const lm_plan *plan, const lm_kernels *k, uint64_t *shared,
                      uint64_t *worker)
{
    *shared = *worker = 64;
    for (uint32_t i = 0; i < l->program->n_nodes; i++)
        scratch_of(l, plan, k, &l->program->nodes[i], shared, worker);
}

static lm_engine_options engine_options(const lm_learner_options *o)
{
    lm_engine_options e = lm_engine_defaults();

    e.context = 1;                       /* its cache is not used */
    e.max_rows = e.max_logits = 1;
    e.threads             = o->threads;
    e.compute             = o->compute;
    e.cpu                 = o->cpu;
    return e;
}

/* Return the number of rows for which the tail computes logits at a time. */
static uint32_t piece_of(const lm_learner *l)
{
    uint64_t rows = PIECE_BYTES / (sizeof(float) * (uint64_t)l->program->n_vocab);

    rows = rows < LEAST_PIECE ? LEAST_PIECE : rows;
    return rows < l->options.rows ? (uint32_t)rows : l->options.rows;
}

/* Return whether a weight is used by both a look-up and a product. */
static bool is_tied(const lm_program *p, uint32_t weight)
{
    bool looked_up = false, multiplied = false;

    for (uint32_t i = 0; i < p->n_nodes; i++) {
        looked_up |= p->nodes[i].code == LM_OP_EMBED && p->nodes[i].weights[0] == weight;
        multiplied |= p->nodes[i].code == LM_OP_LINEAR && p->nodes[i].weights[0] == weight;
    }
    return looked_up && multiplied;
}

/* Return the number of arrays of a trained weight: value and gradient, moments, the part of look-ups. */
static uint32_t arrays_of(const lm_learner *l, const lm_trained *t)
{
    return (l->options.optimise ? 4u : 2u) + (is_tied(l->program, t->weight) ? 1u : 0u);
}

static uint64_t state_bytes(const lm_learner *l)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < l->n_trained; i++)
        bytes += line(l->trained[i].elements * sizeof(float)) * arrays_of(l, &l->trained[i]);
    return bytes;
}

static uint64_t rows_bytes(const lm_learner *l)
{
    return line((uint64_t)l->options.rows * (5 * sizeof(uint32_t) + sizeof(lm_train_text) + sizeof(double)) +
                64);
}

static lm_status describe(lm_learner *l, const bool *wanted, lm_error *e)
{
    const lm_program *p = l->program;

    LM_TRY(lm_program_backward(p, wanted, &l->backward, e));
    l->which   = lm_arena_new(&l->arena, p->n_weights + 1, uint32_t);
    l->trained = lm_arena_new(&l->arena, l->backward->n_trained + 1, lm_trained);
    if (!l->which || !l->trained)
        return lm_fail_memory(e, "training", 0);
    for (uint32_t w = 0; w < p->n_weights; w++) {
        l->which[w] = LM_NONE;
        if (!wanted[w])
            continue;
        l->which[w]                = l->n_trained;
        l->trained[l->n_trained++] = (lm_trained){ .weight = w, .elements = p->weights[w].elements };
    }
    l->state_bytes = state_bytes(l);
    return LM_OK;
}

/* Plan within what remains of the memory limit. */
static lm_status plan(lm_learner *l, const lm_plan *base, const lm_kernels *k, uint64_t base_bytes,
                      lm_error *e)
{
    lm_train_plan_options t = { .rows = l->options.rows,
                                .piece = piece_of(l),
                                .checkpoint = l->options.checkpoint,
                                .workers = base->options.workers };
    uint64_t fixed = base_bytes + l->state_bytes + rows_bytes(l);

    lm_train_scratch(l, base, k, &t.shared, &t.worker);
    if (l->options.limit) {
        if (fixed >= l->options.limit)
            return lm_fail(e, LM_NO_FIT, "training", LM_NO_OFFSET,
                           "weights and what is trained need %" PRIu64 " bytes, %" PRIu64 " are allowed",
                           fixed, l->options.limit);
        t.limit = l->options.limit - fixed;
    }
    return lm_turn_new(l->backward, &t, &l->turn, e);
}

static void begin(lm_learner *l, const lm_model *m, const lm_program *program, const lm_learner_options *o)
{
    *l = (lm_learner){ .model = m, .program = program, .options = *o };
}

lm_status lm_learner_predict(const lm_model *m, const lm_program *program, const bool *wanted,
                             const lm_learner_options *o, lm_learner_memory *out, lm_error *e)
{
    lm_learner        l;
    lm_arena          arena = { 0 };
    lm_kernels        k;
    lm_plan          *base = NULL;
    lm_engine_options eo   = engine_options(o);
    lm_status         status;

    begin(&l, m, program, o);
    lm_engine_subject subject = { .model = m, .options = &eo, .types = o->types };
    LM_TRY_GOTO(status, lm_engine_plan(&subject, &k, &arena, &base, e), done);
    LM_TRY_GOTO(status, describe(&l, wanted, e), done);
    lm_memory b = lm_plan_memory(base);
    LM_TRY_GOTO(status, plan(&l, base, &k, b.total, e), done);
    *out = (lm_learner_memory){
        .base = b.total, .mapped = b.mapped, .state = l.state_bytes, .activations = l.turn->activations,
        .scratch = l.turn->bytes - l.turn->activations + rows_bytes(&l), .checkpointed = l.turn->checkpointed,
    };
    out->total = out->base + out->state + out->activations + out->scratch;
done:
    lm_turn_free(l.turn);
    lm_backward_free(l.backward);
    lm_plan_free(base);
    lm_arena_free(&l.arena);
    lm_arena_free(&arena);
    return status;
}

/* ---- memory ---- */

static lm_status take(uint8_t **out, uint64_t bytes, uint64_t *counted, lm_error *e)
{
    *out = lm_alloc_counted(bytes ? bytes : 64, 64, counted);
    return *out ? LM_OK
                : lm_fail(e, LM_NO_FIT, "training", LM_NO_OFFSET, "cannot allocate %" PRIu64 " bytes", bytes);
}

static void lay_out(lm_learner *l, uint8_t *rows)
{
    uint8_t *at = l->state;
    uint64_t n  = l->options.rows;

    for (uint32_t i = 0; i < l->n_trained; i++) {
        lm_trained *t       = &l->trained[i];
        bool        tied    = is_tied(l->program, t->weight);
        float **parts[] = { &t->value, &t->gradient, tied ? &t->looked_up : &t->m, tied ? &t->m : &t->v,
                            &t->v };
        for (uint32_t k = 0; k < arrays_of(l, t); k++) {
            *parts[k] = (float *)(void *)at;
            at += line(l->trained[i].elements * sizeof(float));
        }
    }
    l->losses    = (double *)(void *)rows;
    l->texts     = (lm_train_text *)(void *)(l->losses + n);
    l->tokens    = (int32_t *)(void *)(l->texts + n);
    l->labels    = l->tokens + n;
    l->positions = (uint32_t *)(void *)(l->labels + n);
    l->lengths   = l->positions + n;
    l->labelled  = l->lengths + n;
}

/* Initialise trained weights of the model with the values of the file. */
static void copy_weights(lm_learner *l)
{
    for (uint32_t i = 0; i < l->n_trained; i++) {
        uint32_t weight = l->trained[i].weight, own = l->which[weight];
        if (weight >= l->model->program->n_weights)
            continue;
        const lm_weight *w = &l->program->weights[weight];
        l->which[weight]   = LM_NONE;
        if (w->kind == LM_VECTOR)
            memcpy(l->trained[i].value, l->engine->weight[weight], w->elements * sizeof(float));
        else
            for (uint64_t k = 0, each = w->elements / lm_weight_matrices(w); k < lm_weight_matrices(w); k++)
                lm_matrix_rows(l, weight, k, 0, w->dims[w->n_dims - 2], l->trained[i].value + k * each);
        l->which[weight] = own;
    }
}

static lm_status make(lm_learner *l, const bool *wanted, lm_error *e)
{
    lm_engine_options eo = engine_options(&l->options);
    uint8_t          *rows = NULL;

    LM_TRY(describe(l, wanted, e));
    LM_TRY(lm_engine_new(l->model, &eo, &l->engine, e));
    LM_TRY(plan(l, l->engine->plan, &l->engine->kernels, l->engine->allocated.total, e));
    if (l->turn->bytes + l->state_bytes > lm_memory_available())
        return lm_fail(e, LM_NO_FIT, "training", LM_NO_OFFSET,
                       "%" PRIu64 " bytes are needed besides the model, %" PRIu64 " are available",
                       l->turn->bytes + l->state_bytes, lm_memory_available());
    lm_gradient_kernels_init(&l->kernels, l->engine->kernels.cpu);
    l->pool = l->engine->pool;
    lm_pool_use(l->pool, lm_pool_threads(l->pool));
    LM_TRY(take(&l->slab, l->turn->bytes, &l->allocated, e));
    LM_TRY(take(&l->state, l->state_bytes, &l->allocated, e));
    l->rows_file_bytes = rows_bytes(l);
    LM_TRY(take(&rows, l->rows_file_bytes, &l->allocated, e));
    lay_out(l, rows);
    copy_weights(l);
    return LM_OK;
}

lm_status lm_learner_new(const lm_model *m, const lm_program *program, const bool *wanted,
                         const lm_learner_options *o, lm_learner **out, lm_error *e)
{
    lm_learner *l = lm_alloc_zero(1, sizeof *l);

    if (!l)
        return lm_fail_memory(e, "training", sizeof *l);
    begin(l, m, program, o);
    lm_status status = make(l, wanted, e);
    if (status != LM_OK) {
        lm_learner_free(l);
        return status;
    }
    *out = l;
    return LM_OK;
}

void lm_learner_free(lm_learner *l)
{
    if (!l)
        return;
    lm_free_aligned(l->slab, l->turn ? l->turn->bytes : 0);
    lm_free_aligned(l->state, l->state_bytes ? l->state_bytes : 64);
    lm_free_aligned(l->losses, l->rows_file_bytes);
    lm_engine_free(l->engine);
    lm_turn_free(l->turn);
    lm_backward_free(l->backward);
    lm_arena_free(&l->arena);
    lm_free(l);
}

lm_learner_memory lm_learner_allocated(const lm_learner *l)
{
    lm_memory         b;
    lm_learner_memory m = { .state = l->state_bytes,
                            .activations = l->turn->activations,
                            .checkpointed = l->turn->checkpointed };

    lm_engine_allocated(l->engine, &b);
    m.base    = b.total;
    m.mapped  = b.mapped;
    m.scratch = l->allocated - m.state - m.activations;
    m.total   = m.base + l->allocated;
    return m;
}

/* ---- rows ---- */

void lm_learner_begin(lm_learner *l, uint64_t labels)
{
    l->label_weight = labels ? 1.0f / (float)labels : 0;
    l->loss         = 0;
    for (uint32_t i = 0; i < l->n_trained; i++)
        memset(l->trained[i].gradient, 0, l->trained[i].elements * sizeof(float));
    for (uint32_t i = 0; i < l->n_trained; i++)
        if (l->trained[i].looked_up)
            memset(l->trained[i].looked_up, 0, l->trained[i].elements * sizeof(float));
}

void lm_learner_end(lm_learner *l)
{
    for (uint32_t i = 0; i < l->n_trained; i++)
        for (uint64_t k = 0; l->trained[i].looked_up && k < l->trained[i].elements; k++)
            l->trained[i].gradient[k] += l->trained[i].looked_up[k];
}

static void set_rows(lm_learner *l, const int32_t *tokens, const int32_t *labels, const lm_train_text *texts,
                     uint32_t n_texts)
{
    l->n_rows = l->n_labelled = 0;
    l->n_texts = n_texts;
    for (uint32_t t = 0; t < n_texts; t++) {
        l->texts[t] = texts[t];
        for (uint32_t i = 0; i < texts[t].rows; i++, l->n_rows++) {
            l->tokens[l->n_rows]    = tokens[l->n_rows];
            l->labels[l->n_rows]    = labels[l->n_rows];
            l->positions[l->n_rows] = i;
            l->lengths[l->n_rows]   = texts[t].rows;
            if (labels[l->n_rows] >= 0)
                l->labelled[l->n_labelled++] = l->n_rows;
        }
    }
}

static const float *frequencies(const lm_learner *l, uint32_t table, uint32_t length, float *scratch,
                                float *factor)
{
    const lm_engine    *g = l->engine;
    const lm_rope_spec *s = &l->program->ropes[table].spec;

    if (s->type == LM_ROPE_DYNAMIC) {
        const void *divisors = l->program->ropes[table].divisors == LM_NONE
                                   ? NULL
                                   : g->weight[l->program->ropes[table].divisors];
        *factor              = lm_rope_frequencies(s, length, divisors, NULL, scratch);
        return scratch;
    }
    bool is_long = lm_rope_is_long(s, length);
    *factor      = g->rope_factor[table][is_long];
    return g->frequencies[table] + (is_long ? s->dim / 2 : 0);
}

/* Compute the cosines and sines for the position of every row. */
static void fill_tables(lm_learner *l)
{
    for (uint32_t t = 0; t < l->program->n_ropes; t++) {
        const lm_buffer *b    = &l->turn->buffers[l->turn->tables[t]];
        uint32_t         half = l->program->ropes[t].spec.dim / 2, length = 0;
        const float     *inv    = NULL;
        float            factor = 1;
        bool             backwards = l->program->ropes[t].spec.backwards;
        uint32_t         rate      = l->program->ropes[t].spec.rate;
        for (uint32_t i = 0; i < l->n_rows; i++) {
            if (!inv || l->lengths[i] != length)
                inv = frequencies(l, t, length = l->lengths[i], lm_worker_scratch(l, 0), &factor);
            float *cosine = (float *)(void *)(l->slab + b->offset + i * b->stride),
                  position = (float)(l->positions[i] - (rate ? l->positions[i] % rate : 0));
            for (uint32_t k = 0; k < half; k++) {
                cosine[k]        = cosf(position * inv[k]) * factor;
                cosine[half + k] = sinf(position * inv[k]) * (backwards ? -factor : factor);
            }
        }
    }
}

/* ---- training pass ---- */

static lm_operand operand(const lm_learner *l, uint32_t buffer)
{
    const lm_buffer *b = buffer == LM_NONE ? NULL : &l->turn->buffers[buffer];

    return b ? (lm_operand){ (float *)(void *)(l->slab + b->offset), b->stride / sizeof(float) }
             : (lm_operand){ 0 };
}

/* Run one operation forward. In the tail, hidden states come from the current piece. */
static void forward(lm_learner *l, lm_turn_kind kind, uint32_t index, uint32_t rows)
{
    const lm_node *n = &l->program->nodes[index];
    bool           tail = index >= l->backward->tail;
    lm_frame f = { .l = l,
                   .node = n,
                   .rows = rows,
                   .tail = tail,
                   .out = operand(l, lm_turn_value(l->turn, kind, n, n->out)),
                   .kept = operand(l, lm_turn_kept(l->turn, kind, index)) };

    if (kind == LM_TURN_AGAIN) {
        f.out  = operand(l, l->turn->values[1][n->out]);
        f.kept = operand(l, l->turn->kept[1][index]);
    }
    for (uint32_t k = 0; k < n->n_in; k++)
        f.in[k] = operand(l, tail && index == l->backward->tail ? l->turn->hidden
                                                                : lm_turn_value(l->turn, kind, n, n->in[k]));
    lm_train_forward(&f);
}

static void reverse(lm_learner *l, const lm_reverse *r, uint32_t rows)
{
    const lm_node *n = &l->program->nodes[r->node];
    bool           head = r->node == l->backward->tail;
    lm_frame       f = { .l = l, .node = n, .reverse = r, .rows = rows, .tail = r->tail,
                         .out = operand(l, lm_turn_value(l->turn, LM_TURN_REVERSE, n, n->out)),
                         .kept = operand(l, lm_turn_kept(l->turn, LM_TURN_REVERSE, r->node)),
                         .dout = operand(l, l->turn->gradients[n->out]) };

    for (uint32_t k = 0; k < n->n_in; k++) {
        f.in[k] = operand(l, head ? l->turn->hidden : lm_turn_value(l->turn, LM_TURN_REVERSE, n, n->in[k]));
        if (r->into[k])
            f.din[k] = operand(l, head ? l->turn->hidden_gradient : l->turn->gradients[n->in[k]]);
    }
    lm_train_reverse(&f);
}

typedef struct piece {
    lm_learner *l;
    uint32_t    first;
    lm_operand  logits, gradient, from, to;
    uint64_t    width;
} piece;

static void gather(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const piece *p = arg;

    (void)worker;
    for (uint64_t i = from; i < to; i++)
        memcpy(p->to.at + i * p->to.row, p->from.at + p->l->labelled[p->first + i] * p->from.row,
               p->width * sizeof(float));
}

static void scatter(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const piece *p = arg;

    (void)worker;
    for (uint64_t i = from; i < to; i++)
        memcpy(p->to.at + p->l->labelled[p->first + i] * p->to.row, p->from.at + i * p->from.row,
               p->width * sizeof(float));
}

static void cross_entropy(void *arg, uint64_t from, uint64_t to, unsigned worker)
{
    const piece *p = arg;
    uint64_t     n = p->l->program->n_vocab;

    (void)worker;
    for (uint64_t i = from; i < to; i++) {
        uint32_t r = p->first + (uint32_t)i;
        float   *z = p->gradient.at + i * p->gradient.row;
        memcpy(z, p->logits.at + i * p->logits.row, n * sizeof *z);
        p->l->losses[r] = p->l->kernels.loss(z, n, (uint32_t)p->l->labels[p->l->labelled[r]],
                                             p->l->label_weight);
    }
}

/* Run the tail on pieces of the labelled rows: hidden states, logits, loss, and back. */
static void run_loss(lm_learner *l, bool back)
{
    const lm_backward *b      = l->backward;
    lm_value           hidden = l->program->nodes[b->tail].in[0], logits = l->program->logits;
    uint64_t           width  = l->program->values[hidden].width;
    lm_operand states = operand(l, l->turn->values[0][hidden]), into = operand(l, l->turn->gradients[hidden]);

    if (back && into.at)
        lm_train_clear(l, into, l->n_rows, width);
    for (uint32_t at = 0, n; at < l->n_labelled; at += n) {
        n       = l->n_labelled - at < l->turn->options.piece ? l->n_labelled - at : l->turn->options.piece;
        piece p = { l,
                    at,
                    operand(l, l->turn->values[0][logits]),
                    operand(l, l->turn->gradients[logits]),
                    states,
                    operand(l, l->turn->hidden),
                    width };
        lm_train_parallel(l, gather, &p, n, 16);
        for (uint32_t i = b->tail; i < l->program->n_nodes; i++)
            forward(l, LM_TURN_FORWARD, i, n);
        lm_train_parallel(l, cross_entropy, &p, n, 1);
        for (uint32_t i = 1; back && i < b->n_nodes; i++)
            if (b->nodes[i].tail)
                reverse(l, &b->nodes[i], n);
        p.from = operand(l, l->turn->hidden_gradient);
        p.to   = into;
        if (back && into.at)
            lm_train_parallel(l, scatter, &p, n, 16);
    }
}

static double sum_losses(const lm_learner *l, double sum)
{
    for (uint32_t i = 0; i < l->n_labelled; i++)
        sum += l->losses[i];
    return sum;
}

static void run_turn(lm_learner *l, bool back)
{
    fill_tables(l);
    for (uint32_t i = 0; i < l->turn->n_steps; i++) {
        const lm_turn_step *s = &l->turn->steps[i];
        const lm_reverse   *r = s->kind == LM_TURN_REVERSE ? &l->backward->nodes[s->index] : NULL;
        if (r && r->node == LM_NONE)
            run_loss(l, back);
        else if (r && back)
            reverse(l, r, l->n_rows);
        else if (!r && (back || s->kind == LM_TURN_FORWARD))
            forward(l, s->kind, s->index, l->n_rows);
    }
}

void lm_learner_rows(lm_learner *l, const int32_t *tokens, const int32_t *labels, const lm_train_text *texts,
                     uint32_t n_texts)
{
    set_rows(l, tokens, labels, texts, n_texts);
    run_turn(l, true);
    l->loss = sum_losses(l, l->loss);
}

double lm_learner_loss(lm_learner *l, const int32_t *tokens, const int32_t *labels,
                       const lm_train_text *texts, uint32_t n_texts)
{
    float dropout = l->options.dropout;

    l->options.dropout = 0;
    set_rows(l, tokens, labels, texts, n_texts);
    run_turn(l, false);
    l->options.dropout = dropout;
    return sum_losses(l, 0);
}
