/* lamina doctor - what this machine has, what it can do, and what lamina finds of its own here. */
#include <dirent.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/output.h"
#include "lamina/machine.h"

typedef struct doctor_options { bool fresh; const char *cpu; uint32_t threads; } doctor_options;

#define O(field) offsetof(doctor_options, field)

static const lm_flag doctor_flag_table[] = {
    { "--fresh", NULL, LM_FLAG_SWITCH, O(fresh), NULL, "measure again instead of using saved results", 0, 0, NULL },
    { "--cpu", NULL, LM_FLAG_TEXT, O(cpu), "LEVEL", "instruction set to measure: ref, avx2, avx512 ... (default: the best available)", 0, 0, NULL },
    { "--threads", "-t", LM_FLAG_COUNT, O(threads), "N", "threads for the multi-threaded measurement (default: physical cores)", 0, 1024, NULL },
    { 0 },
};

static const lm_flag_group doctor_groups[] = { { "measurement", doctor_flag_table, 0 }, { 0 } };

/* Everything that is found out, before any of it is printed. */
typedef struct findings {
    lm_machine machine;
    lm_limits  limits;
    char       locale[64], charset[32];
    lm_text    cache;                    /* NULL data: nobody says where */
    bool       exists, writable;
    json_t    *models;                   /* [{name, bytes}] */
    json_t    *warnings;                 /* strings */
} findings;

/* ---- finding out ---- */

static void warn(findings *f, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void warn(findings *f, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    json_array_append_new(f->warnings, lm_json_of(text, strlen(text)));
}

static void find_locale(findings *f)
{
    locale_t l = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    const char *names[] = { getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG") }, *name = "C";

    for (size_t i = 3; i-- > 0;)
        name = names[i] && *names[i] ? names[i] : name;
    snprintf(f->locale, sizeof f->locale, "%s", name);
    snprintf(f->charset, sizeof f->charset, "%s", l ? nl_langinfo_l(CODESET, l) : "unknown");
    if (!l)
        warn(f, "the locale %s is not installed", f->locale);
    else if (strcmp(f->charset, "UTF-8") != 0)
        warn(f, "the locale %s is not UTF-8 (%s): text may be garbled on this terminal", f->locale, f->charset);
    if (l)
        freelocale(l);
}

static uint64_t bytes_in(const char *path, int depth)
{
    struct stat st;
    uint64_t sum = 0;
    DIR *dir;

    if (stat(path, &st) != 0)
        return 0;
    if (!S_ISDIR(st.st_mode))
        return (uint64_t)st.st_size;
    dir = depth ? opendir(path) : NULL;
    for (struct dirent *d; dir && (d = readdir(dir));) {
        lm_text inner = { 0 };
        if (d->d_name[0] == '.')
            continue;
        lm_text_printf(&inner, "%s/%s", path, d->d_name);
        sum += inner.failed ? 0 : bytes_in(inner.data, depth - 1);
        lm_text_free(&inner);
    }
    if (dir)
        closedir(dir);
    return sum;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static lm_status find_models(lm_cli *cli, findings *f, lm_error *e)
{
    const char *folder = lm_store_printf(&cli->store, "%smodels", f->cache.data);
    const char *names[1024];
    size_t n = 0;
    DIR *dir = folder ? opendir(folder) : NULL;

    for (struct dirent *d; dir && n < 1024 && (d = readdir(dir));)
        if (d->d_name[0] != '.' && !(names[n++] = lm_store_strdup(&cli->store, d->d_name)))
            break;
    if (dir)
        closedir(dir);
    if (!folder || (n && !names[n - 1]))
        return lm_fail_memory(e, "models", 0);
    qsort(names, n, sizeof *names, by_name);
    for (size_t i = 0; i < n; i++) {
        const char *path = lm_store_printf(&cli->store, "%s/%s", folder, names[i]);
        json_array_append_new(f->models, json_pack("{s:o, s:I}", "name", lm_json_of(names[i], strlen(names[i])), "bytes",
                                                   (json_int_t)(path ? bytes_in(path, 3) : 0)));
    }
    return LM_OK;
}

static lm_status find_cache(lm_cli *cli, findings *f, lm_error *e)
{
    lm_error why;
    struct stat st;

    if (lm_cache_folder(&f->cache, &why) != LM_OK) {
        warn(f, "no cache folder: %s", why.message);
        return LM_OK;
    }
    f->exists = stat(f->cache.data, &st) == 0 && S_ISDIR(st.st_mode);
    f->writable = f->exists && access(f->cache.data, W_OK | X_OK) == 0;
    if (!f->limits.kept || !f->writable)
        warn(f, "the cache folder %s is not writable: measurements are not saved", f->cache.data);
    return find_models(cli, f, e);
}

static void judge(findings *f)
{
    const lm_machine *m = &f->machine;
    char n[LM_FIGURE];

    if (strcmp(m->detected, "ref") == 0)
        warn(f, "no supported instruction set: models run in plain C, slowly");
    if (f->limits.busy > LM_LIMITS_BUSY)
        warn(f, "other work took %.0f %% of the time while this was measured%s; --fresh measures again",
             100 * f->limits.busy, f->limits.below > 0 ? "" : ", so the limits are too low");
    if (f->limits.below > 0)
        warn(f, "the machine was up to %.0f %% slower just now than the best measurement, which sets the limits", 100 * f->limits.below);
    if (m->limited_by && strcmp(m->usable, m->detected) != 0)
        warn(f, "LAMINA_CPU=%s prevents the use of %s", m->limited_by, m->detected);
    if (m->available && m->available < UINT64_C(1) << 30)
        warn(f, "only %s of memory is free", lm_figure_bytes(n, m->available));
    if (strcmp(m->huge_pages, "never") == 0)
        warn(f, "huge pages are off: reading weights is a few percent slower");
}

static lm_status find_out(lm_cli *cli, const doctor_options *o, findings *f, lm_error *e)
{
    lm_measure_options m = { .cpu = o->cpu, .threads = o->threads, .fresh = o->fresh };

    f->models = json_array();
    f->warnings = json_array();
    LM_TRY(lm_machine_describe(&f->machine, e));
    LM_TRY(lm_machine_measure(&m, &f->limits, e));       /* makes the cache folder too */
    find_locale(f);
    LM_TRY(find_cache(cli, f, e));
    judge(f);
    return LM_OK;
}

/* ---- telling ---- */

static json_t *rate_json(const lm_rate *r)
{
    if (r->all <= 0)
        return json_null();
    return json_pack("{s:f, s:f, s:f, s:s}", "one_thread", r->one, "all_threads", r->all, "best", r->best, "by", r->by);
}

static json_t *limits_json(const lm_limits *l)
{
    time_t at = (time_t)l->measured_at;
    struct tm utc;
    char text[32] = "";

    if (gmtime_r(&at, &utc))
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return json_pack("{s:s, s:i, s:o, s:o, s:o, s:o, s:s, s:b, s:f, s:f, s:f, s:s}",
                     "level", l->level, "threads", (int)l->threads, "int8", rate_json(&l->int8), "bf16", rate_json(&l->bf16),
                     "f32", rate_json(&l->f32), "memory", rate_json(&l->memory), "measured_at", text,
                     "measured_now", l->seconds > 0, "seconds", l->seconds, "busy", l->busy, "below", l->below,
                     "mark", lm_limits_mark(l));
}

static json_t *cpu_json(const lm_machine *m)
{
    json_t *levels = json_array();

    for (size_t i = 0; m->levels[i]; i++)
        json_array_append_new(levels, json_string(m->levels[i]));
    return json_pack("{s:s, s:i, s:i, s:o, s:s, s:s, s:o, s:s?}", "name", m->cpu, "cores", (int)m->cores, "threads", (int)m->threads,
                     "quota", m->processor_quota > 0 ? json_real(m->processor_quota) : json_null(),
                     "detected", m->detected, "usable", m->usable, "levels", levels, "limited_by", m->limited_by);
}

static json_t *limit_json(uint64_t bytes)
{
    return bytes ? json_integer((json_int_t)bytes) : json_null();
}

static json_t *memory_json(const lm_machine *m)
{
    return json_pack("{s:I, s:I, s:o, s:o, s:s}", "total", (json_int_t)m->memory, "available", (json_int_t)m->available,
                     "cgroup_limit", limit_json(m->memory_limit), "address_space_limit", limit_json(m->address_space_limit),
                     "huge_pages", m->huge_pages);
}

static json_t *findings_json(const findings *f)
{
    const lm_machine *m = &f->machine;

    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:{s:o, s:o, s:b}, s:{s:o, s:b, s:b, s:O}, s:O}",
                     "version", LAMINA_VERSION, "cpu", cpu_json(m), "limits", limits_json(&f->limits),
                     "memory", memory_json(m),
                     "libraries", lm_libraries_json(),
                     "locale", "name", lm_json_of(f->locale, strlen(f->locale)), "charset", lm_json_of(f->charset, strlen(f->charset)),
                     "utf8", strcmp(f->charset, "UTF-8") == 0,
                     "cache", "path", f->cache.data ? lm_json_of(f->cache.data, f->cache.size) : json_null(), "exists", f->exists,
                     "writable", f->writable, "models", f->models,
                     "warnings", f->warnings);
}

static void label(lm_text *out, const char *word)
{
    lm_text_printf(out, "%-10s ", word);
}

static void cpu_text(const findings *f, lm_text *out)
{
    const lm_machine *m = &f->machine;

    label(out, "CPU");
    lm_text_printf(out, "%s, %u core%s", m->cpu, m->cores, m->cores == 1 ? "" : "s");
    if (m->threads != m->cores)
        lm_text_printf(out, ", %u threads", m->threads);
    lm_text_add_char(out, '\n');
    if (m->processor_quota > 0) {
        label(out, "");
        lm_text_printf(out, "limited to the time of %.3g processor%s by a control group\n", m->processor_quota,
                       m->processor_quota == 1 ? "" : "s");
    }
    label(out, "");
    lm_text_printf(out, "using %s: %s\n", m->usable,
                   m->limited_by                         ? "LAMINA_CPU says so"
                   : strcmp(m->usable, "ref") == 0       ? "plain C, nothing faster was found"
                   : strcmp(m->usable, m->detected) == 0 ? "the highest level found"
                                                         : "the fastest level found");
    label(out, "");
    lm_text_add_str(out, "found");
    for (size_t i = 0; m->levels[i]; i++)
        lm_text_printf(out, " %s", m->levels[i]);
    lm_text_add_str(out, "; --cpu or LAMINA_CPU chooses\n");
}

static void rate_text(lm_text *out, const char *word, const lm_rate *r, double unit, const char *name)
{
    label(out, word);
    if (r->all <= 0)
        lm_text_add_str(out, "no such instruction: computed in f32\n");
    else
        lm_text_printf(out, "%8.4g %-8s %8.4g %-8s  %s\n", r->one / unit, name, r->all / unit, name, r->by);
}

static void limits_text(const findings *f, lm_text *out)
{
    const lm_limits *l = &f->limits;
    char when[64] = "earlier";
    time_t at = (time_t)l->measured_at;
    struct tm local;

    if (l->seconds > 0)
        snprintf(when, sizeof when, "measured just now in %.1f s, %s", l->seconds, l->kept ? "kept in the cache" : "not saved");
    else if (localtime_r(&at, &local))
        strftime(when, sizeof when, "measured %Y-%m-%d %H:%M; --fresh measures again", &local);
    label(out, "limits");
    lm_text_printf(out, "of %s with 1 thread and with %u; %s\n", l->level, l->threads, when);
    rate_text(out, "  int8", &l->int8, 1e9, "GOP/s");
    rate_text(out, "  bf16", &l->bf16, 1e9, "GFLOP/s");
    rate_text(out, "  f32", &l->f32, 1e9, "GFLOP/s");
    rate_text(out, "  reading", &l->memory, 1e9, "GB/s");
}

static void memory_text(const lm_machine *m, lm_text *out)
{
    const struct {
        uint64_t bytes;
        const char *by;
    } limits[] = { { m->memory_limit, "a control group" }, { m->address_space_limit, "ulimit -v, mapped files included" } };
    char a[LM_FIGURE], b[LM_FIGURE];

    label(out, "memory");
    lm_text_printf(out, "%s, %s free; huge pages: %s\n", lm_figure_bytes(a, m->memory), lm_figure_bytes(b, m->available),
                   strcmp(m->huge_pages, "madvise") == 0 ? "by request"
                   : m->huge_pages[0]                    ? m->huge_pages
                                                         : "unknown");
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (limits[i].bytes) {
            label(out, "");
            lm_text_printf(out, "limited to %s by %s\n", lm_figure_bytes(a, limits[i].bytes), limits[i].by);
        }
}

static void rest_text(const findings *f, lm_text *out)
{
    char a[LM_FIGURE];
    json_int_t bytes = 0;
    json_t *model;
    size_t i;

    memory_text(&f->machine, out);
    label(out, "libraries");
    lm_libraries_text(out);
    lm_text_add_char(out, '\n');
    label(out, "locale");
    lm_text_printf(out, "%s (%s)\n", f->locale, f->charset);
    label(out, "models");
    json_array_foreach(f->models, i, model)
        bytes += json_integer_value(json_object_get(model, "bytes"));
    lm_text_printf(out, "%zu in the cache folder%s%s", json_array_size(f->models), json_array_size(f->models) ? ", " : "",
                   json_array_size(f->models) ? lm_figure_bytes(a, (uint64_t)bytes) : "");
    lm_text_printf(out, " (%s)\n", f->cache.data ? f->cache.data : "nobody says where it is");
    json_array_foreach(f->models, i, model) {
        label(out, "");
        lm_text_printf(out, "%s, %s\n", json_string_value(json_object_get(model, "name")),
                       lm_figure_bytes(a, (uint64_t)json_integer_value(json_object_get(model, "bytes"))));
    }
}

static lm_status tell(lm_cli *cli, const findings *f, lm_error *e)
{
    lm_text out = { 0 };
    json_t *warning;
    lm_status status;
    size_t i;

    json_array_foreach(f->warnings, i, warning)
        lm_warn("%s", json_string_value(warning));
    if (cli->json)
        return lm_out_json(cli, findings_json(f), e);
    cpu_text(f, &out);
    limits_text(f, &out);
    rest_text(f, &out);
    if (!json_array_size(f->warnings))
        lm_text_printf(&out, "%severything lamina needs is here\n",
                       lm_out_is_terminal() && strcmp(f->charset, "UTF-8") == 0 ? "✓ " : "");
    status = lm_out_buf(&out, e);
    lm_text_free(&out);
    return status;
}

static lm_status doctor(lm_cli *cli, void *options, lm_error *e)
{
    findings f = { 0 };
    lm_status status = find_out(cli, options, &f, e);

    if (status == LM_OK)
        status = tell(cli, &f, e);
    lm_text_free(&f.cache);
    json_decref(f.models);
    json_decref(f.warnings);
    return status;
}

const lm_command lm_command_doctor = {
    .name = "doctor",
    .usage = "[--fresh] [--cpu LEVEL]",
    .summary = "check this machine: hardware, limits, speed, installation",
    .about = "  Measures peak arithmetic throughput and memory bandwidth with one thread and with all, in about a second,\n"
             "  and saves the results in the cache folder.\n",
    .groups = doctor_groups,
    .options_size = sizeof(doctor_options),
    .run = doctor,
};
