/* lamina cluster plan - compare every split of a model over nodes, which need not exist. */
#include <string.h>

#include "cli/run/cluster.h"
#include "cli/study/cluster_page.h"

/* Find the link by name, or measure it between the ranks of this mpirun. *speaks: this rank prints the
 * result. */
static lm_status find_link(const lm_cluster_flags *f, lm_link *out, bool *speaks, lm_error *e)
{
    const lm_link *named;
    lm_cluster    *c = NULL;

    *speaks = true;
    if (!f->link || strcmp(f->link, "measure") != 0) {
        LM_TRY(lm_link_find(f->link ? f->link : lm_link_at(0)->name, &named, e));
        *out = *named;
        return LM_OK;
    }
    LM_TRY(lm_cluster_join(NULL, &c, e));
    *speaks          = lm_cluster_rank(c) == 0;
    lm_status status = lm_cluster_measure(c, out, e);
    lm_cluster_leave(c);
    return status;
}

/* Return LM_NO_FIT if no split fits. The caller prints the table before it reports the error. */
static lm_status verdict(const lm_cluster_plan *p, lm_error *e)
{
    const lm_cluster_row *last = &p->rows[p->n - 1];
    char a[LM_FORMATTED], b[LM_FORMATTED];

    for (size_t i = 0; i < p->n; i++)
        if (p->rows[i].fits)
            return LM_OK;
    return lm_fail(e, LM_NO_FIT, "memory", LM_NO_OFFSET,
                   "%s over %u nodes: %s are needed on one, there are %s", p->precision, p->nodes,
                   lm_format_bytes(a, last->total), lm_format_bytes(b, p->memory));
}

/* Print the plan. If no split fits, the JSON document contains the error too. */
static lm_status print(lm_cli *cli, const lm_fitted *x, const lm_fit_place *at, const lm_cluster_plan *p,
                       bool simulated, lm_error *e)
{
    lm_status fits = verdict(p, e), status;
    lm_text   page = { 0 };

    if (cli->json) {
        json_t *json = lm_cluster_plan_json(x, at, p, simulated);
        if (fits != LM_OK)
            json_object_set_new(json, "error", lm_json_error(e));
        status = lm_out_json(cli, json, e);
    } else {
        lm_cluster_plan_page(x, at, p, simulated, &cli->store, &page);
        status = lm_out_buf(&page, e);
        lm_text_free(&page);
    }
    return status == LM_OK ? fits : status;
}

static lm_status plan(lm_cli *cli, lm_cluster_flags *f, const lm_model *m, lm_fit_place *at,
                      lm_cluster_plan_options *o, lm_error *e)
{
    lm_fitted       x = { 0 };
    lm_cluster_plan p = { 0 };

    lm_model_describe(m, &x.info);
    LM_TRY(lm_engine_flags(&f->run, m, 0, &o->engine, e));
    lm_cache_words(&o->engine, at->kv);
    LM_TRY(lm_cluster_plan_model(m, o, &p, e));
    return print(cli, &x, at, &p, o->simulate, e);
}

lm_status lm_cluster_plan_run(lm_cli *cli, lm_cluster_flags *f, lm_error *e)
{
    lm_fit_place            at = { .here = true };
    lm_link                 link;
    lm_cluster_plan_options o = { .link = &link,
                                  .memory = f->ram,
                                  .precision = f->precision,
                                  .streams = f->streams,
                                  .prompt = f->prompt,
                                  .exact = f->exact,
                                  .simulate = f->simulate > 0,
                                  .nodes = f->simulate ? f->simulate : f->nodes };
    lm_model *m = NULL;
    bool      speaks;

    if ((f->nodes > 0) == (f->simulate > 0))
        return lm_fail(e, LM_USAGE, "plan", LM_NO_OFFSET, "requires exactly one of --nodes and --simulate");
    if (f->device) {
        LM_TRY(lm_device_find(f->device, &at.device, e));
        at.here = false;
    }
    LM_TRY(find_link(f, &link, &speaks, e));
    if (!speaks)
        return LM_OK;
    if (at.here) {
        LM_TRY(lm_machine_measure(&(lm_measure_options){ .cpu = f->run.cpu, .threads = f->run.threads },
                                  &at.limits, e));
        o.limits = lm_limits_usable(&at.limits);
    }
    o.device = at.device;
    f->model.o.weights_optional = f->model.o.tokenizer_optional = true;
    LM_TRY(lm_open_model(cli, &f->model, cli->n_args > 1 ? cli->args[1] : NULL, &m, e));
    lm_status status = plan(cli, f, m, &at, &o, e);
    lm_model_close(m);
    return status;
}
