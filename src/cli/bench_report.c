/* bench_report.c - measured speed as a table, CSV or JSON, in llama-bench's columns and some of our own. */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "cli/bench.h"
#include "cli/output.h"

static const char md_head[] =
    "| model                          |       size |     params | backend    | threads |          test |                  t/s |"
    "   predicted t/s |   limit t/s | of limit |\n"
    "| ------------------------------ | ---------: | ---------: | ---------- | ------: | ------------: | -------------------: |"
    " --------------: | ----------: | -------: |\n";

static const char csv_head[] =
    "build_version,cpu_info,backends,model_filename,model_type,model_size,model_n_params,n_batch,n_ubatch,n_threads,type_k,type_v,"
    "n_prompt,n_gen,n_depth,n_sequences,test_time,avg_ns,stddev_ns,avg_ts,stddev_ts,median_ts,best_ts,predicted_ts,limit_ts,limited_by,peak,"
    "busy,load_seconds,weight_bytes,mapped_bytes,kv_bytes,scratch_bytes,peak_rss\n";

static void test_name(const lm_bench_result *r, char *out, size_t size)
{
    int n = snprintf(out, size, r->prompt ? "pp%u" : "tg%u", r->prompt ? r->prompt : r->gen);

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

static void md_line(const lm_bench_result *r, lm_buf *out)
{
    char test[64], speed[64], limit[64], predicted[64];

    test_name(r, test, sizeof test);
    snprintf(speed, sizeof speed, "%.2f ± %.2f", r->mean, r->deviation);
    if (r->predicted > 0)
        snprintf(predicted, sizeof predicted, "%.1f (%+.0f %%)", r->predicted, 100 * (r->predicted / r->median - 1));
    else
        snprintf(predicted, sizeof predicted, "–");
    snprintf(limit, sizeof limit, "%.1f %s", r->limit, r->limited_by);
    lm_buf_printf(out, "| %-30.30s | %6.2f GiB | %8.2f M | %-10s | %7u | %13s | %21s | %15s | %11s | %6.1f %% |\n", r->info.name,
                  (double)r->info.weight_bytes / (double)(1u << 30), (double)r->info.parameters * 1e-6, r->level, r->threads, test, speed,
                  predicted, limit, 100 * r->median / r->limit);
}

static void csv_text(lm_buf *out, const char *text)
{
    lm_buf_add_char(out, '"');
    for (const char *at = text; *at; at++) {
        lm_buf_add_char(out, *at);
        if (*at == '"')
            lm_buf_add_char(out, '"');
    }
    lm_buf_add_str(out, "\",");
}

static void csv_line(const lm_bench_result *r, lm_buf *out)
{
    char when[32];

    time_text(r->time, when);
    csv_text(out, LAMINA_VERSION);
    csv_text(out, r->cpu);
    csv_text(out, r->level);
    csv_text(out, r->info.source);
    csv_text(out, r->info.storage ? r->info.storage : "");
    lm_buf_printf(out, "%" PRIu64 ",%" PRIu64 ",%u,%u,%u,%s,%s,%u,%u,%u,%u,%s,", r->info.weight_bytes, r->info.parameters, r->batch,
                  r->batch, r->threads, r->kv, r->kv, r->prompt, r->gen, r->depth, r->sequences, when);
    lm_buf_printf(out, "%.0f,%.0f,%.4f,%.4f,%.4f,%.4f,%.4f,%.4f,%s,%.6g,%.4f,%.4f,", 1e9 * r->mean_seconds, 1e9 * r->deviation_seconds,
                  r->mean, r->deviation, r->median, r->best, r->predicted, r->limit, r->limited_by, r->peak, r->busy, r->load_seconds);
    lm_buf_printf(out, "%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", r->memory.weights, r->memory.mapped,
                  r->memory.kv, r->memory.scratch, r->rss);
}

static json_t *result_json(const lm_bench_result *r)
{
    char    when[32];
    json_t *j = json_object();

    time_text(r->time, when);
    json_object_set_new(j, "build_version", json_string(LAMINA_VERSION));
    json_object_set_new(j, "cpu_info", lm_json_text(r->cpu, strlen(r->cpu)));
    json_object_set_new(j, "backends", json_string(r->level));
    json_object_set_new(j, "model_filename", lm_json_text(r->info.source, strlen(r->info.source)));
    json_object_set_new(j, "model_type", json_string(r->info.storage ? r->info.storage : ""));
    json_object_set_new(j, "model_size", json_integer((json_int_t)r->info.weight_bytes));
    json_object_set_new(j, "model_n_params", json_integer((json_int_t)r->info.parameters));
    json_object_set_new(j, "n_batch", json_integer(r->batch));
    json_object_set_new(j, "n_ubatch", json_integer(r->batch));
    json_object_set_new(j, "n_threads", json_integer(r->threads));
    json_object_set_new(j, "type_k", json_string(r->kv));
    json_object_set_new(j, "type_v", json_string(r->kv));
    json_object_set_new(j, "compute", json_string(r->compute));
    json_object_set_new(j, "repack", json_boolean(r->repack));
    json_object_set_new(j, "n_prompt", json_integer(r->prompt));
    json_object_set_new(j, "n_gen", json_integer(r->gen));
    json_object_set_new(j, "n_depth", json_integer(r->depth));
    json_object_set_new(j, "n_sequences", json_integer(r->sequences));
    json_object_set_new(j, "n_reps", json_integer(r->reps));
    json_object_set_new(j, "test_time", json_string(when));
    json_object_set_new(j, "avg_ns", json_integer((json_int_t)(1e9 * r->mean_seconds)));
    json_object_set_new(j, "stddev_ns", json_integer((json_int_t)(1e9 * r->deviation_seconds)));
    json_object_set_new(j, "avg_ts", json_real(r->mean));
    json_object_set_new(j, "stddev_ts", json_real(r->deviation));
    json_object_set_new(j, "median_ts", json_real(r->median));
    json_object_set_new(j, "best_ts", json_real(r->best));
    json_object_set_new(j, "predicted_ts", r->predicted > 0 ? json_real(r->predicted) : json_null());
    json_object_set_new(j, "predicted", json_pack("{s:f, s:f, s:f, s:f, s:f}", "seconds", r->forecast.seconds, "products",
                                                  r->forecast.products, "attention", r->forecast.attention, "rows", r->forecast.rows,
                                                  "waiting", r->forecast.waiting));
    json_object_set_new(j, "limit_ts", json_real(r->limit));
    json_object_set_new(j, "of_limit", json_real(r->median / r->limit));
    json_object_set_new(j, "limited_by", json_string(r->limited_by));
    json_object_set_new(j, "peak", json_real(r->peak));
    json_object_set_new(j, "busy", json_real(r->busy));
    json_object_set_new(j, "load_seconds", json_real(r->load_seconds));
    json_object_set_new(j, "weight_bytes", json_integer((json_int_t)r->memory.weights));
    json_object_set_new(j, "mapped_bytes", json_integer((json_int_t)r->memory.mapped));
    json_object_set_new(j, "kv_bytes", json_integer((json_int_t)r->memory.kv));
    json_object_set_new(j, "scratch_bytes", json_integer((json_int_t)r->memory.scratch));
    json_object_set_new(j, "peak_rss", json_integer((json_int_t)r->rss));
    return j;
}

static void json_line(const lm_bench_result *r, bool indented, lm_buf *out)
{
    json_t *j    = result_json(r);
    char   *text = json_dumps(j, indented ? JSON_INDENT(2) : JSON_COMPACT);
    json_free_t release;

    json_get_alloc_funcs(NULL, &release);
    if (text)
        lm_buf_add_str(out, text);
    else
        out->failed = true;
    release(text);
    json_decref(j);
}

void lm_bench_head(lm_bench_form form, lm_buf *out)
{
    if (form == LM_BENCH_MD)
        lm_buf_add_str(out, md_head);
    else if (form == LM_BENCH_CSV)
        lm_buf_add_str(out, csv_head);
    else if (form == LM_BENCH_JSON)
        lm_buf_add_str(out, "[\n");
}

void lm_bench_line(lm_bench_form form, const lm_bench_result *r, bool first, lm_buf *out)
{
    if (form == LM_BENCH_MD) {
        md_line(r, out);
    } else if (form == LM_BENCH_CSV) {
        csv_line(r, out);
    } else {
        if (form == LM_BENCH_JSON && !first)
            lm_buf_add_str(out, ",\n");
        json_line(r, form == LM_BENCH_JSON, out);
        if (form == LM_BENCH_JSONL)
            lm_buf_add_char(out, '\n');
    }
}

void lm_bench_tail(lm_bench_form form, lm_buf *out)
{
    if (form == LM_BENCH_JSON)
        lm_buf_add_str(out, "\n]\n");
}
