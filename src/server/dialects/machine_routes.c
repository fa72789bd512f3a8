/* GET /v1/machine: the machine, its limits, and the memory and work of each model, for clients that plot
 * them. */
#include <time.h>

#include "server/dialects/routes.h"

#define N(x) ((json_int_t)(x))

static json_t *memory_json(const lm_memory *m)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I}", "weights", N(m->weights), "mapped", N(m->mapped), "kv",
                     N(m->kv), "scratch", N(m->scratch), "total", N(m->total));
}

static json_t *engine_json(const lm_engine *g)
{
    lm_work w;

    lm_engine_work(g, &w);
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "cpu", lm_engine_cpu(g), "threads",
                     N(lm_engine_threads(g)), "context", N(lm_engine_context(g)), "sequences",
                     N(lm_engine_sequences(g)), "max_rows", N(lm_engine_max_rows(g)), "weight_bytes_per_step",
                     N(w.weight_bytes), "kv_bytes_per_position", N(w.kv_bytes), "ops_per_row",
                     N(w.row.int8 + w.row.bf16 + w.row.f32), "ops_per_logits",
                     N(w.logits.int8 + w.logits.bf16 + w.logits.f32));
}

static json_t *now_json(const lm_schedule_statistics *s)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "waiting", N(s->waiting), "reading",
                     N(s->reading), "writing", N(s->writing), "pages", N(s->pages), "pages_used",
                     N(s->pages_used), "prefix_pages", N(s->prefixes), "prompt_budget", N(s->prompt_budget),
                     "itl_target", s->itl_target);
}

static json_t *totals_json(const lm_schedule_statistics *s)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f}", "steps",
                     N(s->steps), "prompt_rows", N(s->prompt_rows), "written_rows", N(s->written_rows),
                     "draft_rows", N(s->draft_rows), "draft_accepted", N(s->draft_accepted), "tokens",
                     N(s->tokens), "submitted", N(s->submitted), "refused", N(s->refused), "preempted",
                     N(s->preempted), "prompt_tokens", N(s->prompt_tokens), "cached_tokens",
                     N(s->cached_tokens), "evicted_pages", N(s->evicted_pages), "step_seconds",
                     s->step_seconds, "queue_seconds", s->queue_seconds, "first_seconds", s->first_seconds);
}

/* Add what only a model in memory has. `plan`: also plan its sizes again, to compare them with what was
 * allocated. */
static void add_running(json_t *o, const lm_service *s, bool plan)
{
    lm_schedule_statistics figures;
    lm_memory allocated, planned;

    lm_schedule_describe(s->schedule, &figures);
    lm_engine_allocated(s->engine, &allocated);
    json_object_set_new(o, "allocated", memory_json(&allocated));
    if (plan && lm_engine_predict(s->model, &s->o.engine, &planned, NULL) == LM_OK)
        json_object_set_new(o, "planned", memory_json(&planned));
    json_object_set_new(o, "engine", engine_json(s->engine));
    json_object_set_new(o, "now", now_json(&figures));
    json_object_set_new(o, "totals", totals_json(&figures));
}

static json_t *model_json(lm_service *s, bool plan)
{
    lm_model_status status;
    json_t *o;

    lm_models_status(s, &status);
    o = json_pack("{s:s, s:s, s:I, s:I, s:f}", "id", s->name, "state", status.word, "bytes", N(status.bytes),
                  "requests", N(status.users), "leaves", status.leaves);
    if (lm_models_peek(s)) {
        add_running(o, s, plan);
        lm_models_unpeek(s);
    }
    return o;
}

static json_t *machine_json(void)
{
    lm_machine m;

    if (lm_machine_describe(&m, NULL) != LM_OK)
        return json_null();
    return json_pack("{s:s?, s:s?, s:I, s:I, s:I, s:I, s:I}", "cpu", m.cpu, "level", m.usable, "cores",
                     N(m.cores), "threads", N(m.threads), "memory", N(m.memory), "available", N(m.available),
                     "memory_limit", N(m.memory_limit));
}

static json_t *limits_json(const lm_limits *l)
{
    if (!l)
        return json_null();
    return json_pack("{s:s, s:f, s:f, s:f, s:f, s:I}", "level", l->level, "int8", l->int8.all, "bf16",
                     l->bf16.all, "f32", l->f32.all, "memory", l->memory.all, "threads", N(l->threads));
}

static lm_status answer_machine(lm_call *c, lm_error *e)
{
    bool plan = lm_exchange_query(c->x, "plan") != NULL;
    json_t *models = json_array();
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    for (size_t i = 0; lm_models_at(c->models, i); i++)
        json_array_append_new(models, model_json(lm_models_at(c->models, i), plan));
    return lm_answer_json(c,
                          json_pack("{s:s, s:f, s:I, s:o, s:o, s:o}", "build", lm_version(), "time",
                                    (double)now.tv_sec + (double)now.tv_nsec * 1e-9, "began",
                                    N(c->service->began), "machine", machine_json(), "limits",
                                    limits_json(c->service->o.limits), "models", models),
                          e);
}

const lm_route lm_route_machine = {
    .method = "GET", .path = "/v1/machine", .flags = LM_ROUTE_ALL, .dialect = LM_DIALECT_OPENAI,
    .summary = "return the machine, its limits, memory and work of each model; ?plan=1: planned sizes too",
    .handle = answer_machine, .query = "plan",
};
