#include "cli/trainplot.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/plot.h"

enum { PATH_BYTES = 4096 };

typedef struct curves {
    lm_plot         plot;
    lm_plot_series *loss, *smooth, *valid;
    double          mean;
} curves;

/* Add a step to the curves. A loss that is not finite is logged as -1 and omitted. */
static void add(curves *c, const json_t *step)
{
    double        x     = json_number_value(json_object_get(step, "step")), y = json_number_value(json_object_get(step, "loss"));
    const json_t *valid = json_object_get(step, "valid");

    if (!(y >= 0) || x < 1)
        return;
    c->mean = c->loss->n ? 0.9 * c->mean + 0.1 * y : y;
    lm_plot_point_add(&c->plot, c->loss, (lm_plot_point){ .x = x, .y = y });
    lm_plot_point_add(&c->plot, c->smooth, (lm_plot_point){ .x = x, .y = c->mean });
    if (valid)
        lm_plot_point_add(&c->plot, c->valid, (lm_plot_point){ .x = x, .y = json_number_value(valid) });
}

static lm_status save(const curves *c, const char *folder, lm_error *e)
{
    char      path[PATH_BYTES];
    lm_text   svg = { 0 };
    lm_status status;

    snprintf(path, sizeof path, "%.3900s/loss.svg", folder);
    lm_plot_svg(&c->plot, &svg);
    status = svg.failed ? lm_fail_memory(e, "a plot", 0) : lm_text_save(&svg, path, e);
    lm_text_free(&svg);
    return status;
}

lm_status lm_train_plot(const char *folder, lm_error *e)
{
    curves    c = { .plot = { .title = "Loss", .x = "step", .y = "loss" } };
    char      path[PATH_BYTES], *line = NULL;
    size_t    room = 0;
    lm_status status = LM_OK;

    snprintf(path, sizeof path, "%.3900s/log.jsonl", folder);
    FILE *log = fopen(path, "re");
    if (!log)
        return LM_OK;
    c.loss       = lm_plot_add(&c.plot, "step");
    c.smooth     = lm_plot_add(&c.plot, "running mean");
    c.valid      = lm_plot_add(&c.plot, "validation");
    c.loss->dots = true;
    while (getline(&line, &room, log) > 0) {
        json_t *step = json_loads(line, 0, NULL);
        add(&c, step);
        json_decref(step);
    }
    free(line);
    fclose(log);
    if (c.loss->n)
        status = save(&c, folder, e);
    lm_plot_free(&c.plot);
    return status;
}
