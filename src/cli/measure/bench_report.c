/* bench_report.c - measured speed as a table, CSV or JSON, with llama-bench's columns and some additional
 * ones. */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/columns.h"
#include "cli/base/output.h"
#include "cli/measure/bench.h"

static const char md_head[] =
    "| model                          |       size |     params | backend    | threads |          test |                  t/s |"
    "   predicted t/s |   limit t/s | of limit |\n"
    "| ------------------------------ | ---------: | ---------: | ---------- | ------: | ------------: | -------------------: |"
    " --------------: | ----------: | -------: |\n";

void lm_bench_test_name(const lm_bench_result *r, char *out, size_t size)
{
    int n = r->prompt && r->gen
                ? snprintf(out, size, "pp%u+tg%u", r->prompt, r->gen)
                : snprintf(out, size, r->prompt ? "pp%u" : "tg%u", r->prompt ? r->prompt : r->gen);

    if (r->sequences > 1)
        n += snprintf(out + n, size - (size_t)n, " x %u", r->sequences);
    if (r->depth)
        snprintf(out + n, size - (size_t)n, " @ d%u", r->depth);
}

static void time_text(int64_t at, char out[32])
{
    time_t    t = (time_t)at;
    struct tm utc;

    out[0] = '\0';
    if (gmtime_r(&t, &utc))
        strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

/* Append a name as a table cell. A bar is escaped: it would end the cell. */
static void put_name(const char *name, lm_text *out)
{
    lm_text escaped = { 0 };

    for (; *name; name++) {
        if (*name == '|')
            lm_text_add_char(&escaped, '\\');
        lm_text_add_char(&escaped, *name);
    }
    lm_text_add_str(out, "| ");
    lm_text_add_cell(out, escaped.data ? escaped.data : "", 30);
    lm_text_free(&escaped);
}

static void md_line(const lm_bench_result *r, lm_text *out)
{
    char test[64], speed[64], limit[64], predicted[64];

    lm_bench_test_name(r, test, sizeof test);
    snprintf(speed, sizeof speed, "%.2f ± %.2f", r->mean, r->deviation);
    if (r->predicted > 0)
        snprintf(predicted, sizeof predicted, "%.1f (%+.0f %%)", r->predicted,
                 100 * (r->predicted / r->median - 1));
    else
        snprintf(predicted, sizeof predicted, "–");
    snprintf(limit, sizeof limit, "%.1f %s", r->limit, r->limited_by);
    put_name(r->info.name, out);
    lm_text_printf(out, " | %6.2f GiB | %8.2f M | %-10s | %7u | %13s | %21s | %15s | %11s | %6.1f %% |\n",
                   (double)r->info.weight_bytes / (double)(1u << 30), (double)r->info.parameters * 1e-6,
                   r->level, r->threads, test, speed, predicted, limit, 100 * r->median / r->limit);
}

/* ---- fields of all forms except the table, in output order ---- */

typedef enum field_kind { TEXT, WHOLE, REAL, TRUTH } field_kind;

typedef struct field {
    const char *name;
    field_kind  kind;
    const char *text;
    uint64_t    whole;
    double      real;
} field;

enum { MAX_FIELDS = 48 };

typedef struct fields { field at[MAX_FIELDS]; size_t n; char time[32]; } fields;

static void text(fields *f, const char *name, const char *x)
{
    f->at[f->n++] = (field){ name, TEXT, x ? x : "", 0, 0 };
}

static void whole(fields *f, const char *name, uint64_t x)
{
    f->at[f->n++] = (field){ name, WHOLE, NULL, x, 0 };
}

static void real(fields *f, const char *name, double x) { f->at[f->n++] = (field){ name, REAL, NULL, 0, x }; }
static void truth(fields *f, const char *name, bool x) { f->at[f->n++] = (field){ name, TRUTH, NULL, x, 0 }; }

static void list(const lm_bench_result *r, fields *f)
{
    f->n = 0;
    time_text(r->time, f->time);
    text(f, "build_version", LAMINA_VERSION);
    text(f, "cpu_info", r->cpu);
    text(f, "backends", r->level);
    text(f, "model_filename", r->info.source);
    text(f, "model_type", r->info.storage);
    whole(f, "model_size", r->info.weight_bytes);
    whole(f, "model_n_params", r->info.parameters);
    whole(f, "n_batch", r->n_batch);
    whole(f, "n_ubatch", r->batch);
    whole(f, "n_threads", r->threads);
    whole(f, "n_threads_batch", r->threads_batch);
    text(f, "type_k", r->keys);
    text(f, "type_v", r->values);
    text(f, "compute", r->compute);
    truth(f, "use_mmap", r->mapped);
    truth(f, "repack", r->repack);
    whole(f, "n_prompt", r->prompt);
    whole(f, "n_gen", r->gen);
    whole(f, "n_depth", r->depth);
    whole(f, "n_sequences", r->sequences);
    whole(f, "n_reps", r->reps);
    text(f, "test_time", f->time);
    whole(f, "avg_ns", (uint64_t)(1e9 * r->mean_seconds));
    whole(f, "stddev_ns", (uint64_t)(1e9 * r->deviation_seconds));
    real(f, "avg_ts", r->mean);
    real(f, "stddev_ts", r->deviation);
    real(f, "median_ts", r->median);
    real(f, "best_ts", r->best);
    real(f, "predicted_ts", r->predicted > 0 ? r->predicted : NAN);
    real(f, "limit_ts", r->limit);
    real(f, "of_limit", r->median / r->limit);
    text(f, "limited_by", r->limited_by);
    real(f, "peak", r->peak);
    real(f, "busy", r->busy);
    real(f, "below", r->below);
    real(f, "load_seconds", r->load_seconds);
    whole(f, "weight_bytes", r->memory.weights);
    whole(f, "mapped_bytes", r->memory.mapped);
    whole(f, "kv_bytes", r->memory.kv);
    whole(f, "scratch_bytes", r->memory.scratch);
    whole(f, "planned_bytes", r->planned.total);
    whole(f, "peak_rss", r->rss);
}

/* Put quotes around a text and double those inside. */
static void add_quoted(lm_text *out, const char *x)
{
    lm_text_add_char(out, '"');
    for (; *x; x++)
        lm_text_printf(out, *x == '"' ? "%c\"" : "%c", *x);
    lm_text_add_char(out, '"');
}

static void add_value(lm_text *out, const field *f)
{
    if (f->kind == TEXT)
        add_quoted(out, f->text);
    else if (f->kind == REAL && !isnan(f->real))
        lm_text_printf(out, "%.8g", f->real);
    else if (f->kind != REAL)
        lm_text_printf(out, "%" PRIu64, f->whole);
}

static void csv_head(lm_text *out)
{
    static const lm_bench_result nothing = { .limit = 1 };
    fields f;

    list(&nothing, &f);
    for (size_t i = 0; i < f.n; i++)
        lm_text_printf(out, "%s%s", i ? "," : "", f.at[i].name);
    lm_text_add_char(out, '\n');
}

static void csv_line(const lm_bench_result *r, lm_text *out)
{
    fields f;

    list(r, &f);
    for (size_t i = 0; i < f.n; i++) {
        if (i)
            lm_text_add_char(out, ',');
        add_value(out, &f.at[i]);
    }
    lm_text_add_char(out, '\n');
}

/* ---- JSON, which also contains the samples ---- */

static json_t *value_json(const field *f)
{
    return f->kind == TEXT    ? lm_json_of(f->text, strlen(f->text))
           : f->kind == REAL  ? isnan(f->real) ? json_null() : json_real(f->real)
           : f->kind == TRUTH ? json_boolean(f->whole)
                              : json_integer((json_int_t)f->whole);
}

static json_t *result_json(const lm_bench_result *r)
{
    json_t *j = json_pack("{s:s}", "schema", "lamina.bench/1"), *ns = json_array(), *ts = json_array();
    fields  f;

    list(r, &f);
    for (size_t i = 0; i < f.n; i++)
        json_object_set_new(j, f.at[i].name, value_json(&f.at[i]));
    for (uint32_t i = 0; i < r->reps; i++) {
        json_array_append_new(ns, json_integer((json_int_t)(1e9 * r->samples[i])));
        json_array_append_new(ts, json_real(r->tokens / r->samples[i]));
    }
    json_object_set_new(j, "predicted",
                        json_pack("{s:f, s:f, s:f, s:f, s:f}", "seconds", r->forecast.seconds,
                                  "products", r->forecast.products, "attention", r->forecast.attention,
                                  "rows", r->forecast.rows, "waiting", r->forecast.waiting));
    if (r->profiled)
        json_object_set_new(j, "profile", lm_bench_profile_json(r));
    json_object_set_new(j, "samples_ns", ns);
    json_object_set_new(j, "samples_ts", ts);
    return j;
}

static void json_line(const lm_bench_result *r, bool indented, lm_text *out)
{
    json_t *j    = result_json(r);
    char   *dump = json_dumps(j, indented ? JSON_INDENT(2) : JSON_COMPACT);
    json_free_t release;

    json_get_alloc_funcs(NULL, &release);
    if (dump)
        lm_text_add_str(out, dump);
    else
        out->failed = true;
    release(dump);
    json_decref(j);
}

/* ---- forms ---- */

void lm_bench_head(lm_bench_form form, lm_text *out)
{
    if (form == LM_BENCH_MD)
        lm_text_add_str(out, md_head);
    else if (form == LM_BENCH_CSV)
        csv_head(out);
    else if (form == LM_BENCH_JSON)
        lm_text_add_str(out, "[\n");
}

void lm_bench_line(lm_bench_form form, const lm_bench_result *r, bool first, lm_text *out)
{
    if (form == LM_BENCH_MD) {
        md_line(r, out);
    } else if (form == LM_BENCH_CSV) {
        csv_line(r, out);
    } else {
        if (form == LM_BENCH_JSON && !first)
            lm_text_add_str(out, ",\n");
        json_line(r, form == LM_BENCH_JSON, out);
        if (form == LM_BENCH_JSONL)
            lm_text_add_char(out, '\n');
    }
}

void lm_bench_tail(lm_bench_form form, lm_text *out)
{
    if (form == LM_BENCH_JSON)
        lm_text_add_str(out, "\n]\n");
}
