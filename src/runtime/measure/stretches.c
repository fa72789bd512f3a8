/* stretches.c - rows of many texts in one step. */
#include "runtime/measure/stretches.h"

#include "base/alloc.h"
#include "base/error.h"
#include "runtime/engine/state.h"

typedef struct place { uint32_t stretch, row; } place;

typedef struct reading {
    lm_engine *const *engines;
    uint32_t          n_engines;
    const lm_stretch *s;
    size_t            n, open;       /* stretches before `open` are done */
    uint32_t         *done;          /* [n]: rows of each that are done */
    uint32_t          max, max_logits;
    lm_row           *rows;          /* [most] of the step */
    place            *from;          /* [most]: the origin of each */
    uint32_t         *wanted;        /* [max_logits]: rows of the step with logits */
    uint32_t          n_rows, n_wanted;
    lm_stretch_row   *each;
    void             *arg;
} reading;

/* Add the rows of stretch `i` that fit into the step. */
static void add_rows(reading *r, size_t i)
{
    const lm_stretch *s    = &r->s[i];
    uint32_t          done = r->done[i], room = r->max - r->n_rows, left = s->n - done;

    room = room < left ? room : left;
    for (uint32_t k = 0; k < r->n_engines; k++)
        room = room ? lm_engine_uniform_rows(r->engines[k], s->at + done, room) : 0;
    for (uint32_t k = 0; k < room; k++, done++) {
        bool wanted = done >= s->wanted;
        if (wanted && r->n_wanted == r->max_logits)
            break;
        lm_token id = s->first >= 0 && s->at + done == 0 ? s->first : s->ids[done];
        r->rows[r->n_rows] = (lm_row){ s->sequence, id, s->at + done, wanted };
        r->from[r->n_rows] = (place){ (uint32_t)i, done };
        if (wanted)
            r->wanted[r->n_wanted++] = r->n_rows;
        r->n_rows++;
    }
    r->done[i] = done;
}

static void run_callback(void *arg, unsigned worker, unsigned i)
{
    const reading *r   = arg;
    uint32_t       row = r->wanted[i];
    const float   *logits[LM_MAX_ENGINES];

    (void)worker;
    for (uint32_t k = 0; k < r->n_engines; k++)
        logits[k] = lm_engine_logits(r->engines[k], row);
    r->each(r->arg, &r->s[r->from[row].stretch], r->from[row].row, logits);
}

static lm_status step(reading *r, lm_error *e)
{
    for (uint32_t k = 0; k < r->n_engines; k++)
        LM_TRY(lm_engine_step(r->engines[k], r->rows, r->n_rows, e));
    lm_pool *pool = r->engines[0]->pool;
    lm_pool_use(pool, lm_pool_threads(pool));
    lm_pool_run_chunks(pool, run_callback, r, r->n_wanted);
    return LM_OK;
}

static lm_status read_all(reading *r, lm_error *e)
{
    while (r->open < r->n) {
        r->n_rows = r->n_wanted = 0;
        for (size_t i = r->open; i < r->n && r->n_rows < r->max; i++)
            add_rows(r, i);
        if (r->n_rows)
            LM_TRY(step(r, e));
        else if (r->done[r->open] < r->s[r->open].n)
            return lm_fail(e, LM_LIMIT, "text", LM_NO_OFFSET, "no row of it fits into a forward pass");
        while (r->open < r->n && r->done[r->open] == r->s[r->open].n)
            r->open++;
    }
    return LM_OK;
}

lm_status lm_read_stretches(lm_engine *const *engines, uint32_t n_engines, const lm_stretch *s, size_t n,
                            lm_stretch_row *each, void *arg, lm_error *e)
{
    reading r = { .engines = engines,
                  .n_engines = n_engines,
                  .s = s,
                  .n = n,
                  .each = each,
                  .arg = arg,
                  .max = UINT32_MAX,
                  .max_logits = UINT32_MAX };

    for (uint32_t k = 0; k < n_engines; k++) {
        uint32_t rows = lm_engine_max_rows(engines[k]), logits = lm_engine_max_logits(engines[k]);
        r.max        = rows < r.max ? rows : r.max;
        r.max_logits = logits < r.max_logits ? logits : r.max_logits;
    }
    r.done   = lm_alloc_zero(n + 1, sizeof *r.done);
    r.rows   = lm_alloc_zero(r.max, sizeof *r.rows);
    r.from   = lm_alloc_zero(r.max, sizeof *r.from);
    r.wanted = lm_alloc_zero(r.max_logits, sizeof *r.wanted);
    bool      whole  = r.done && r.rows && r.from && r.wanted;
    lm_status status = whole ? read_all(&r, e) : lm_fail_memory(e, "a forward pass", r.max * sizeof *r.rows);
    lm_free(r.done);
    lm_free(r.rows);
    lm_free(r.from);
    lm_free(r.wanted);
    return status;
}
