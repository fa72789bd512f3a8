/* verify.c - compare the engine with a reference, computing in three ways. What is reported and judged:
 * docs/guide/commands.md, "verify", and lamina/verify.h. */
#include "lamina/verify.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "formats/safetensors.h"
#include "program/program.h"
#include "runtime/measure/compare.h"
#include "runtime/measure/golden.h"
#include "runtime/model/model.h"
#include "lamina/version.h"

/* Lanes of each head that are stored in pairs; head 0: none. */
typedef struct lane_order {
    uint32_t head, dim;
    const lm_gguf_layout *layout;    /* instead; NULL: none */
} lane_order;

/* A tap that the program has; sorted in the order in which the program computes them. */
typedef struct tap {
    const lm_golden_tap *golden;
    uint32_t             order;
    lane_order           unpermute;
} tap;

typedef struct check {
    const lm_model        *m;
    lm_verify_options      o;
    lm_golden              golden;
    lm_engine             *g;
    bool                   length_dependent, by_kl;
    double                 kl_max;           /* by_kl */
    tap                   *taps;
    uint32_t               n_taps, n_unknown;
    const char           **probes;           /* [n_taps + 1] */
    float                 *lanes;            /* [the widest row]: a tap's row in the reference's order */
    bool                  *wanted;           /* [T]: positions whose logits are needed */
    lm_row                *rows;             /* [T] */
    float                 *ours;             /* [n_rows][width]: logits of all tokens in one step */
    float                 *row;              /* [the widest row] of the reference */
    lm_token              *greedy;           /* [B][N] */
    lm_safetensors_writer *dump;
    uint32_t               first_tap;        /* the first in `taps` that diverges; n_taps: none */
    double                 kl_sum;
    uint64_t               argmax_equal;
    lm_verdict             v;
} check;

/* ---- preparing ---- */

static int by_order(const void *a, const void *b)
{
    uint32_t x = ((const tap *)a)->order, y = ((const tap *)b)->order;
    return (x > y) - (x < y);
}

/* Return the layout of the rows that make a value, or of the columns that read it. */
static const lm_gguf_layout *layout_of(const lm_program *p, lm_value value)
{
    for (uint32_t i = p->values[value].producer; i < p->n_nodes; i++) {
        const lm_node        *n = &p->nodes[i];
        const lm_gguf_layout *l = n->weights[0] != LM_NONE ? p->weights[n->weights[0]].layout : NULL;
        if (l && l->width && (l->columns ? n->n_in && n->in[0] == value : n->out == value))
            return l;
    }
    return NULL;
}

/* Return the lane order of a value. GGUF stores the q and k rows of some families in the order in which its
 * rotation pairs lanes; also those of layers that do not rotate. */
static lane_order permuting(const lm_model *m, lm_value value)
{
    const lm_program     *p = m->program;
    const lm_gguf_layout *layout;

    if (m->config.gguf_layout && (layout = layout_of(p, value)))
        return (lane_order){ .layout = layout };
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_node      *n    = &p->nodes[i];
        const lm_rope_spec *rope = n->code == LM_OP_ROPE ? &p->ropes[n->rope.table].spec : NULL;
        if (rope && rope->permuted && n->in[0] == value)
            return (lane_order){ .head = n->rope.head_dim, .dim = rope->dim };
        bool scored = n->code == LM_OP_ATTENTION && (n->in[0] == value || n->in[1] == value);
        if (scored && m->config.rope.permuted &&
            p->nodes[p->values[value].producer].code != LM_OP_ROPE)
            return (lane_order){ .head = n->attention.spec.k_dim, .dim = n->attention.spec.k_dim };
    }
    return (lane_order){ 0 };
}

/* Reorder a row by its layout; without one, lanes 2i and 2i + 1 are i and i + dim/2 of the original. */
static const float *in_original_order(check *c, lane_order o, const float *x, uint32_t width)
{
    for (uint32_t i = 0; o.layout && i < width; i++)
        c->lanes[lm_gguf_layout_from(o.layout, i)] = x[i];
    if (o.layout)
        return c->lanes;
    memcpy(c->lanes, x, width * sizeof *x);
    for (uint32_t at = 0; at + o.head <= width; at += o.head)
        for (uint32_t i = 0; i < o.dim / 2; i++) {
            c->lanes[at + i] = x[at + 2 * i];
            c->lanes[at + i + o.dim / 2] = x[at + 2 * i + 1];
        }
    return c->lanes;
}

static lm_status choose_taps(check *c, lm_error *e)
{
    const lm_program *p = c->m->program;

    c->taps = lm_alloc_zero(c->golden.n_taps + 1, sizeof *c->taps);
    c->probes = lm_alloc_zero(c->golden.n_taps + 1, sizeof *c->probes);
    if (!c->taps || !c->probes)
        return lm_fail_memory(e, "taps", c->golden.n_taps * sizeof *c->taps);
    for (uint32_t i = 0; i < c->golden.n_taps; i++) {
        const lm_golden_tap *t = &c->golden.taps[i];
        lm_value value = lm_program_value(p, t->path);
        if (value == LM_NONE) {
            c->n_unknown++;
            continue;
        }
        if (t->tensor->dims[2] != p->values[value].width) {
            lm_fail(e, LM_BAD_MODEL, t->tensor->name, (int64_t)t->tensor->offset,
                    "%" PRIu64 " columns, the module gives %u", t->tensor->dims[2], p->values[value].width);
            return lm_fail_in(e, lm_container_path(c->golden.container));
        }
        c->taps[c->n_taps++] = (tap){ t, p->values[value].producer, permuting(c->m, value) };
    }
    if (c->n_taps)
        qsort(c->taps, c->n_taps, sizeof *c->taps, by_order);
    for (uint32_t i = 0; i < c->n_taps; i++)
        c->probes[i] = c->taps[i].golden->path;
    c->first_tap = c->n_taps;
    return LM_OK;
}

static lm_status allocate(check *c, lm_error *e)
{
    const lm_golden *g = &c->golden;
    uint64_t widest = g->width;

    for (uint32_t i = 0; i < c->n_taps; i++)
        widest = c->taps[i].golden->tensor->dims[2] > widest ? c->taps[i].golden->tensor->dims[2] : widest;
    c->wanted = lm_alloc_zero(g->length, sizeof *c->wanted);
    c->rows = lm_alloc_zero(g->length, sizeof *c->rows);
    c->ours = lm_alloc_zero(g->n_rows * g->width, sizeof *c->ours);
    c->row = lm_alloc_zero(widest, sizeof *c->row);
    c->lanes = lm_alloc_zero(widest, sizeof *c->lanes);
    c->greedy = lm_alloc_zero(g->batch * g->n_greedy + 1, sizeof *c->greedy);
    if (!c->wanted || !c->rows || !c->ours || !c->row || !c->lanes || !c->greedy)
        return lm_fail_memory(e, "the comparison", g->n_rows * g->width * sizeof *c->ours);
    for (uint64_t i = 0; i < g->n_rows; i++)
        c->wanted[lm_golden_position(g, i)] = true;
    if (g->n_greedy)
        c->wanted[g->length - 1] = true;
    return LM_OK;
}

static lm_status open_engine(check *c, lm_error *e)
{
    lm_engine_options o = c->o.engine;

    o.context = (uint32_t)(c->golden.length + c->golden.n_greedy);
    o.sequences = 1;
    o.max_rows = (uint32_t)c->golden.length;
    o.max_logits = 0;
    for (uint64_t t = 0; t < c->golden.length; t++)
        o.max_logits += c->wanted[t];
    o.kv_positions = 0;
    o.rollback = (uint32_t)c->golden.n_greedy;           /* after greedy ids differ, those of the reference
                                                            are followed */
    o.probes = c->n_taps ? c->probes : NULL;
    return lm_engine_new(c->m, &o, &c->g, e);
}

/* Open the dump, which has the format of a reference, so that it can serve as one. */
static lm_status open_dump(check *c, lm_error *e)
{
    static const char *const words[] = {
        [LM_COMPUTE_AUTO] = "auto", [LM_COMPUTE_F32] = "f32", [LM_COMPUTE_FINE] = "fine"
    };
    const lm_golden *g = &c->golden;
    const lm_tensor_info *copied[] = { g->ids, g->positions };
    lm_model_info info;
    lm_text source = { 0 };
    lm_status status;

    if (!c->o.dump)
        return LM_OK;
    LM_TRY(lm_safetensors_create(c->o.dump, &c->dump, e));
    lm_model_describe(c->m, &info);
    lm_text_printf(&source, "lamina %s, %s, compute %s, %s", LAMINA_VERSION, info.source,
                   words[c->o.engine.compute], lm_engine_cpu(c->g));
    if (!source.failed)
        lm_safetensors_add_meta(c->dump, "source", source.data);
    status = source.failed ? lm_fail_memory(e, "dump", source.size) : LM_OK;
    lm_text_free(&source);
    LM_TRY(status);
    for (size_t i = 0; i < 2; i++)
        if (copied[i])
            lm_safetensors_add_tensor(c->dump, copied[i]->name, LM_I64, copied[i]->n_dims, copied[i]->dims);
    lm_safetensors_add_tensor(c->dump, "logits", LM_F32, 3, g->logits->dims);
    if (g->greedy)
        lm_safetensors_add_tensor(c->dump, "greedy_ids", LM_I64, 2, g->greedy->dims);
    LM_TRY(lm_safetensors_begin(c->dump, e));
    for (size_t i = 0; i < 2; i++)
        if (copied[i])
            LM_TRY(lm_safetensors_write(c->dump, lm_container_data(g->container, copied[i]), copied[i]->bytes,
                                        e));
    return LM_OK;
}

static lm_status close_dump(check *c, lm_error *e)
{
    lm_safetensors_writer *w = c->dump;

    if (!w)
        return LM_OK;
    for (uint64_t i = 0; i < c->golden.batch * c->golden.n_greedy; i++) {
        int64_t id = c->greedy[i];
        LM_TRY(lm_safetensors_write(w, &id, sizeof id, e));
    }
    c->dump = NULL;
    return lm_safetensors_commit(w, e);
}

/* ---- stepping ---- */

static lm_status step(check *c, uint64_t b, uint64_t from, uint64_t n, lm_error *e)
{
    for (uint64_t i = 0; i < n; i++)
        c->rows[i] = (lm_row){ 0, lm_golden_id(&c->golden, b, from + i), (uint32_t)(from + i),
                               c->wanted[from + i] };
    return lm_engine_step(c->g, c->rows, n, e);
}

static lm_status feed(check *c, lm_token id, uint64_t position, lm_error *e)
{
    lm_row row = { 0, id, (uint32_t)position, true };

    return lm_engine_step(c->g, &row, 1, e);
}

/* ---- comparison with the reference ---- */

static void compare_logits(check *c, uint64_t b)
{
    const lm_golden *g = &c->golden;

    for (uint64_t i = 0; i < g->n_rows; i++) {
        float *ours = c->ours + i * g->width;
        lm_verdict_row r = { .sequence = b, .position = lm_golden_position(g, i) };

        memcpy(ours, lm_engine_logits(c->g, r.position), g->width * sizeof *ours);
        lm_golden_logits(g, b, i, c->row);
        r.rel_err = lm_relative_error(ours, c->row, g->width);
        r.kl = lm_kl(ours, c->row, g->width);
        r.argmax_equal = lm_argmax(ours, g->width) == lm_argmax(c->row, g->width);
        if (r.rel_err > c->v.max_rel_err || c->v.rows == 0) {
            c->v.max_rel_err = r.rel_err;
            c->v.worst_row = b * g->n_rows + i;
        }
        c->v.max_kl = !(r.kl <= c->v.max_kl) ? r.kl : c->v.max_kl;
        c->kl_sum += r.kl;
        c->argmax_equal += r.argmax_equal;
        c->v.rows++;
        if (c->o.row)
            c->o.row(c->o.arg, &r);
    }
}

/* Find the first tap that diverges, in the order of the program, and its first position. */
static void compare_taps(check *c, uint64_t b)
{
    for (uint32_t i = 0; i < c->n_taps && i <= c->first_tap; i++) {
        const lm_golden_tap *t = c->taps[i].golden;

        for (uint64_t position = 0; position < c->golden.length && i < c->first_tap; position++) {
            uint32_t width;
            const float *ours = lm_engine_probe(c->g, t->path, position, &width);
            double rel;

            if (!ours)
                continue;                                /* after the last attention only rows with logits
                                                            exist */
            if (c->taps[i].unpermute.head || c->taps[i].unpermute.layout)
                ours = in_original_order(c, c->taps[i].unpermute, ours, width);
            lm_golden_tap_row(&c->golden, t, b, position, c->row);
            rel = lm_relative_error(ours, c->row, width);
            if (rel <= c->v.tol)
                continue;
            c->first_tap = i;
            c->v.diverges = true;
            snprintf(c->v.first_path, sizeof c->v.first_path, "%s", t->path);
            c->v.first_position = position;
            c->v.first_rel_err = rel;
        }
    }
}

/* ---- greedy ---- */

/* Judge a token other than the reference's: it is right only if the tolerance, on both logits, covers their
 * difference. */
static void judge_choice(check *c, uint64_t b, uint64_t step, const float *logits, lm_token ours,
                         lm_token theirs)
{
    double margin = (double)logits[ours] - (double)logits[theirs];
    double tol = c->by_kl && c->v.max_rel_err > c->v.tol ? c->v.max_rel_err : c->v.tol;

    if (margin <= 2 * tol * lm_magnitude(logits, c->golden.width))
        return;
    if (c->v.greedy_agrees) {
        c->v.greedy_sequence = b;
        c->v.greedy_step     = step;
    }
    c->v.greedy_agrees = false;
}

/* Return to position `keep` of the reference's text. Where the states there are not stored, its tokens since
 * the last stored ones are processed again. */
static lm_status return_to(check *c, uint64_t b, uint64_t keep, lm_error *e)
{
    const lm_golden *g = &c->golden;
    uint32_t at, end = (uint32_t)g->length;

    LM_TRY(lm_engine_keep(c->g, 0, (uint32_t)keep, &at, e));
    for (; at < keep; at++)
        LM_TRY(feed(c, at < end ? lm_golden_id(g, b, at) : lm_golden_greedy(g, b, at - end), at, e));
    return LM_OK;
}

/* Generate greedily; after the first different token, also follow the reference. The sequence holds all T
 * tokens. */
static lm_status compare_greedy(check *c, uint64_t b, lm_error *e)
{
    const lm_golden *g = &c->golden;
    const float *logits = lm_engine_logits(c->g, g->length - 1);
    lm_token *ours = c->greedy + b * g->n_greedy;
    uint64_t common = g->n_greedy;

    for (uint64_t k = 0; k < g->n_greedy; k++) {
        if (k) {
            LM_TRY(feed(c, ours[k - 1], g->length + k - 1, e));
            logits = lm_engine_logits(c->g, 0);
        }
        ours[k] = (lm_token)lm_argmax(logits, g->width);
        if (k < common && ours[k] != lm_golden_greedy(g, b, k)) {
            common = k;
            judge_choice(c, b, k, logits, ours[k], lm_golden_greedy(g, b, k));
        }
    }
    c->v.greedy_common += common;
    if (common + 1 >= g->n_greedy)
        return LM_OK;

    LM_TRY(return_to(c, b, g->length + common, e));
    for (uint64_t k = common + 1; k < g->n_greedy; k++) {
        lm_token best;
        LM_TRY(feed(c, lm_golden_greedy(g, b, k - 1), g->length + k - 1, e));
        logits = lm_engine_logits(c->g, 0);
        best = (lm_token)lm_argmax(logits, g->width);
        if (best != lm_golden_greedy(g, b, k))
            judge_choice(c, b, k, logits, best, lm_golden_greedy(g, b, k));
    }
    return LM_OK;
}

/* ---- comparison with itself ---- */

/* Process the same T tokens again in pieces; *equal is cleared if a logit differs in one bit. */
static lm_status repeat(check *c, uint64_t b, const uint64_t *sizes, size_t n_sizes, bool *equal, lm_error *e)
{
    const lm_golden *g = &c->golden;

    LM_TRY(lm_engine_truncate(c->g, 0, 0, e));
    for (uint64_t at = 0, piece = 0; at < g->length; piece++) {
        uint64_t n = sizes[piece % n_sizes];

        n = n < g->length - at ? n : g->length - at;
        LM_TRY(step(c, b, at, n, e));
        for (uint64_t i = 0; i < g->n_rows; i++) {
            uint64_t position = lm_golden_position(g, i);
            if (position >= at && position < at + n &&
                memcmp(lm_engine_logits(c->g, position - at), c->ours + i * g->width,
                       g->width * sizeof *c->ours) != 0)
                *equal = false;
        }
        at += n;
    }
    return LM_OK;
}

static lm_status verify_batch(check *c, uint64_t b, lm_error *e)
{
    static const uint64_t uneven[] = { 3, 1, 7, 2, 16, 5, 33, 64, 11, 129 }, single[] = { 1 };

    LM_TRY(lm_engine_truncate(c->g, 0, 0, e));
    LM_TRY(step(c, b, 0, c->golden.length, e));
    compare_logits(c, b);
    compare_taps(c, b);
    if (c->dump)
        LM_TRY(
            lm_safetensors_write(c->dump, c->ours, c->golden.n_rows * c->golden.width * sizeof *c->ours, e));
    if (c->golden.n_greedy)
        LM_TRY(compare_greedy(c, b, e));
    if (!c->length_dependent) {
        LM_TRY(repeat(c, b, uneven, sizeof uneven / sizeof *uneven, &c->v.chunked, e));
        LM_TRY(repeat(c, b, single, 1, &c->v.stepwise, e));
    }
    return LM_OK;
}

static void conclude(check *c)
{
    lm_verdict *v = &c->v;

    v->mean_kl = c->kl_sum / (double)v->rows;
    v->argmax_agreement = (double)c->argmax_equal / (double)v->rows;
    if (c->n_unknown && !v->note[0])
        snprintf(v->note, sizeof v->note, "%u taps name no value of this program", c->n_unknown);
    v->agrees = (c->by_kl ? v->mean_kl <= c->kl_max : v->max_rel_err <= v->tol) && v->greedy_agrees &&
                (!v->bitwise_known || (v->chunked && v->stepwise));
}

/* Maximum length of a reference, in contexts of the model. Positions past those that the model was made for
 * exist unless each is learned (scaled rotations are for that), and a reference may contain them; going
 * further would take hours. */
enum { BEYOND = 8 };

static lm_status check_context(const check *c, uint32_t context, lm_error *e)
{
    const lm_golden *g   = &c->golden;
    uint64_t end = g->length + g->n_greedy,
             max = (uint64_t)context * (c->m->program->context_is_hard ? 1 : BEYOND);

    if (!context || g->n_greedy <= g->length || end <= max)
        return LM_OK;
    lm_fail(e, LM_LIMIT, "greedy_ids", LM_NO_OFFSET, "they end at position %" PRIu64 "; the model has %u%s",
            end, context, c->m->program->context_is_hard ? "" : ", and at most 8 times as many are allowed");
    return lm_fail_in(e, lm_container_path(g->container));
}

static lm_status verify(check *c, const char *path, lm_error *e)
{
    lm_verdict *v = &c->v;
    const char *why = NULL;
    lm_model_info info;

    lm_model_describe(c->m, &info);
    LM_TRY(lm_golden_open(path, info.n_vocab, &c->golden, e));
    LM_TRY(check_context(c, info.context_length, e));
    LM_TRY(choose_taps(c, e));
    LM_TRY(allocate(c, e));
    LM_TRY(open_engine(c, e));
    LM_TRY(open_dump(c, e));

    c->length_dependent = lm_model_length_dependent(c->m, &why);
    snprintf(v->source, sizeof v->source, "%s", c->golden.source);
    if (c->length_dependent)
        snprintf(v->note, sizeof v->note, "%s: only all at once is compared", why);
    v->tol = c->o.tol > 0 ? c->o.tol : c->o.tol < 0 ? 0 : 1e-4;
    c->by_kl = c->o.kl_max != 0;
    c->kl_max = c->o.kl_max > 0 ? c->o.kl_max : 0;
    v->has_greedy = c->golden.n_greedy > 0;
    v->greedy_total = c->golden.batch * c->golden.n_greedy;
    v->greedy_agrees = true;
    v->bitwise_known = !c->length_dependent;
    v->chunked = v->stepwise = !c->length_dependent;
    v->has_taps = c->n_taps > 0;
    v->taps = c->n_taps;

    for (uint64_t b = 0; b < c->golden.batch; b++)
        LM_TRY(verify_batch(c, b, e));
    LM_TRY(close_dump(c, e));
    conclude(c);
    return LM_OK;
}

lm_status lm_verify(const lm_model *m, const char *golden, const lm_verify_options *o, lm_verdict *out,
                    lm_error *e)
{
    LM_REQUIRE(e, m && golden && out);
    LM_CHECK_RESERVED(e, o);
    check c = { .m = m, .o = { .engine = { .kv = LM_KV_F32, .compute = LM_COMPUTE_F32 } } };
    lm_status status;

    if (o)
        c.o = *o;
    status = verify(&c, golden, e);
    if (status == LM_OK)
        *out = c.v;
    if (c.dump)
        lm_safetensors_abort(c.dump);
    lm_engine_free(c.g);
    lm_golden_close(&c.golden);
    lm_free(c.taps);
    lm_free(c.probes);
    lm_free(c.wanted);
    lm_free(c.rows);
    lm_free(c.ours);
    lm_free(c.row);
    lm_free(c.lanes);
    lm_free(c.greedy);
    return status;
}
