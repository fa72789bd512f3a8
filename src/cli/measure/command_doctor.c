/* lamina doctor - check this machine: hardware, speed, limits, and lamina's cache. */
#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "cli/base/output.h"
#include "lamina/machine.h"
#include "lamina/model.h"

typedef struct doctor_options { bool fresh; const char *cpu; uint32_t threads; } doctor_options;

#define O(field) offsetof(doctor_options, field)

static const lm_flag doctor_flag_table[] = {
    { "--fresh", NULL, LM_FLAG_SWITCH, O(fresh), NULL,
      "measure again instead of using saved results", 0, 0, NULL },
    { "--cpu", NULL, LM_FLAG_TEXT, O(cpu), "LEVEL",
      "instruction set to measure: ref, avx2, avx512 ... (default: the best available)", 0, 0, NULL },
    { "--threads", "-t", LM_FLAG_COUNT, O(threads), "N",
      "threads for the multi-threaded measurement (default: physical cores)", 0, 1024, NULL },
    { 0 },
};

static const lm_flag_group doctor_groups[] = { { "measurement", doctor_flag_table, 0 }, { 0 } };

/* All findings, collected before any of them is printed. */
typedef struct findings {
    lm_machine machine;
    lm_limits  limits;
    char       locale[64], charset[32];
    lm_text    cache;                    /* path of the cache folder; NULL data: unknown */
    bool       exists, writable;
    /* [{name, bytes}] of lamina's cache, [{name, bytes, path}] of the Hugging Face cache */
    json_t    *models, *hub;
    uint64_t   mapped, locked, file_size, files;         /* ulimit -v, -l, -f, -n; UINT64_MAX: no limit */
    const char *temporary;
    uint64_t   cache_free, temporary_free;               /* free bytes of disk; UINT64_MAX: unknown */
    json_t    *warnings;                 /* strings */
} findings;

/* ---- collection ---- */

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
        warn(f, "the locale %s is not installed; export LC_ALL=C.UTF-8 works everywhere", f->locale);
    else if (strcmp(f->charset, "UTF-8") != 0)
        warn(f,
             "the locale %s is not UTF-8 (%s): text may be garbled on this terminal; export LC_ALL=C.UTF-8",
             f->locale, f->charset);
    if (l)
        freelocale(l);
}

static bool add_model(void *arg, const lm_cached_model *m)
{
    findings *f = arg;
    bool hub = strcmp(m->cache, "lamina") != 0;
    json_t *one = json_pack("{s:o, s:I}", "name", lm_json_of(m->name, strlen(m->name)),
                            "bytes", (json_int_t)m->bytes);

    if (hub)
        json_object_set_new(one, "path", lm_json_of(m->path, strlen(m->path)));
    return json_array_append_new(hub ? f->hub : f->models, one) == 0;
}

/* ---- limits in force ---- */

static uint64_t limit_of(int resource)
{
    struct rlimit l;

    return getrlimit(resource, &l) == 0 && l.rlim_cur != RLIM_INFINITY ? (uint64_t)l.rlim_cur : UINT64_MAX;
}

static void find_limits(findings *f)
{
    f->mapped = limit_of(RLIMIT_AS);
    f->locked = limit_of(RLIMIT_MEMLOCK);
    f->file_size = limit_of(RLIMIT_FSIZE);
    f->files = limit_of(RLIMIT_NOFILE);
    if (f->file_size < UINT64_C(1) << 30)
        warn(f, "files may not grow beyond %" PRIu64 " bytes (ulimit -f): larger models cannot be written; "
                "raise it with ulimit -f unlimited", f->file_size);
    if (f->files < 64)
        warn(f,
             "only %" PRIu64 " files may be open at a time (ulimit -n): split models may need more; raise it "
                             "with ulimit -n 1024",
             f->files);
}

/* Return the bytes free for this user at `path`, or at its nearest existing parent folder. UINT64_MAX:
 * unknown. */
static uint64_t free_at(lm_cli *cli, const char *path)
{
    char *folder = lm_store_strdup(&cli->store, path);
    struct statvfs v;

    while (folder && *folder && statvfs(folder, &v) != 0) {
        char *slash = strrchr(folder, '/');
        if (!slash)
            return UINT64_MAX;
        slash[slash == folder] = '\0';
        if (slash == folder && statvfs("/", &v) != 0)
            return UINT64_MAX;
    }
    return folder && *folder ? (uint64_t)v.f_bavail * v.f_frsize : UINT64_MAX;
}

static void find_disk(lm_cli *cli, findings *f)
{
    const char *temporary = getenv("TMPDIR");
    char n[LM_FORMATTED];

    f->temporary = temporary && *temporary ? temporary : "/tmp";
    f->temporary_free = free_at(cli, f->temporary);
    f->cache_free = f->cache.data ? free_at(cli, f->cache.data) : UINT64_MAX;
    if (f->cache_free < UINT64_C(1) << 30)
        warn(f,
             "only %s of disk is free for the cache folder %s: delete models, or set LAMINA_CACHE to another "
             "disk",
             lm_format_bytes(n, f->cache_free), f->cache.data);
}

static void find_cache(findings *f)
{
    lm_error why;
    struct stat st;

    if (lm_cache_folder(&f->cache, &why) != LM_OK) {
        warn(f, "no cache folder: %s; set one of them", why.message);
        return;
    }
    f->exists = stat(f->cache.data, &st) == 0 && S_ISDIR(st.st_mode);
    f->writable = f->exists && access(f->cache.data, W_OK | X_OK) == 0;
    if (!f->limits.kept || !f->writable)
        warn(f,
             "the cache folder %s is not writable: measurements are not saved; set LAMINA_CACHE to a folder "
             "that is",
             f->cache.data);
}

static void judge(findings *f)
{
    const lm_machine *m = &f->machine;
    char n[LM_FORMATTED];

    if (strcmp(m->detected, "ref") == 0)
        warn(f, "no supported instruction set: models run in plain C, slowly");
    if (f->limits.busy > LM_LIMITS_BUSY)
        warn(f, "other work took %.0f %% of the time while this was measured%s; --fresh measures again",
             100 * f->limits.busy, f->limits.below > 0 ? "" : ", so the limits are too low");
    if (f->limits.below > 0)
        warn(f,
             "the machine was up to %.0f %% slower just now than the best measurement, which sets the limits",
             100 * f->limits.below);
    if (m->limited_by && strcmp(m->usable, m->detected) != 0)
        warn(f, "LAMINA_CPU=%s prevents the use of %s; unset LAMINA_CPU", m->limited_by, m->detected);
    if (m->available && m->available < UINT64_C(1) << 30)
        warn(f, "only %s of memory is free: end other programs, or take a smaller type (lamina fit MODEL)",
             lm_format_bytes(n, m->available));
    if (strcmp(m->huge_pages, "never") == 0)
        warn(f, "huge pages are off: reading weights is a few percent slower; "
                "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled");
}

static lm_status find_out(lm_cli *cli, const doctor_options *o, findings *f, lm_error *e)
{
    lm_measure_options m = { .cpu = o->cpu, .threads = o->threads, .fresh = o->fresh };

    f->models = json_array();
    f->hub = json_array();
    f->warnings = json_array();
    LM_TRY(lm_machine_describe(&f->machine, e));
    /* also creates the cache folder */
    LM_TRY(lm_machine_measure(&m, &f->limits, e));
    find_locale(f);
    find_cache(f);
    LM_TRY(lm_model_cached(add_model, f, e));
    find_limits(f);
    find_disk(cli, f);
    judge(f);
    return LM_OK;
}

/* ---- output ---- */

static json_t *rate_json(const lm_rate *r)
{
    if (r->all <= 0)
        return json_null();
    return json_pack("{s:f, s:f, s:f, s:s}", "one_thread", r->one, "all_threads", r->all, "best", r->best,
                     "by", r->by);
}

static json_t *limits_json(const lm_limits *l)
{
    time_t at = (time_t)l->measured_at;
    struct tm utc;
    char text[32] = "";

    if (gmtime_r(&at, &utc))
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return json_pack("{s:s, s:i, s:o, s:o, s:o, s:o, s:s, s:b, s:f, s:f, s:f, s:s}", "level", l->level,
                     "threads", (int)l->threads, "int8", rate_json(&l->int8), "bf16", rate_json(&l->bf16),
                     "f32", rate_json(&l->f32), "memory", rate_json(&l->memory), "measured_at", text,
                     "measured_now", l->seconds > 0, "seconds", l->seconds, "busy", l->busy,
                     "below", l->below, "mark", lm_limits_mark(l));
}

static json_t *cpu_json(const lm_machine *m)
{
    json_t *levels = json_array();

    for (size_t i = 0; m->levels[i]; i++)
        json_array_append_new(levels, json_string(m->levels[i]));
    return json_pack("{s:s, s:i, s:i, s:o, s:s, s:s, s:o, s:s?}", "name", m->cpu, "cores", (int)m->cores,
                     "threads", (int)m->threads,
                     "quota", m->processor_quota > 0 ? json_real(m->processor_quota) : json_null(),
                     "detected", m->detected, "usable", m->usable, "levels", levels,
                     "limited_by", m->limited_by);
}

static json_t *limit_json(uint64_t bytes)
{
    return bytes ? json_integer((json_int_t)bytes) : json_null();
}

static json_t *memory_json(const lm_machine *m)
{
    return json_pack("{s:I, s:I, s:o, s:o, s:s}", "total", (json_int_t)m->memory,
                     "available", (json_int_t)m->available, "cgroup_limit", limit_json(m->memory_limit),
                     "address_space_limit", limit_json(m->address_space_limit), "huge_pages", m->huge_pages);
}

static json_t *known_json(uint64_t n)
{
    return n == UINT64_MAX ? json_null() : json_integer((json_int_t)n);
}

static json_t *place_json(const char *path, uint64_t left)
{
    return json_pack("{s:o, s:o}", "path", path ? lm_json_of(path, strlen(path)) : json_null(),
                     "free", known_json(left));
}

static json_t *findings_json(const findings *f)
{
    const lm_machine *m = &f->machine;

    return json_pack("{s:s, s:o, s:o, s:o, s:{s:o, s:o, s:o, s:o}, s:{s:o, s:o}, s:o, s:{s:o, s:o, s:b}, "
                     "s:{s:o, s:b, s:b, s:O, s:O}, s:O}",
                     "version", LAMINA_VERSION, "cpu", cpu_json(m), "limits", limits_json(&f->limits),
                     "memory", memory_json(m), "ulimit", "address_space", known_json(f->mapped),
                     "locked_memory", known_json(f->locked), "file_size", known_json(f->file_size),
                     "open_files", known_json(f->files), "disk", "cache",
                     place_json(f->cache.data, f->cache_free), "temporary",
                     place_json(f->temporary, f->temporary_free), "libraries", lm_libraries_json(), "locale",
                     "name", lm_json_of(f->locale, strlen(f->locale)), "charset",
                     lm_json_of(f->charset, strlen(f->charset)), "utf8", strcmp(f->charset, "UTF-8") == 0,
                     "cache", "path", f->cache.data ? lm_json_of(f->cache.data, f->cache.size) : json_null(),
                     "exists", f->exists, "writable", f->writable, "models", f->models, "huggingface", f->hub,
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
        lm_text_printf(out, ", %u thread%s", m->threads, m->threads == 1 ? "" : "s");
    lm_text_add_char(out, '\n');
    if (m->processor_quota > 0) {
        label(out, "");
        lm_text_printf(out, "limited to the time of %.3g processor%s by a control group\n",
                       m->processor_quota, m->processor_quota == 1 ? "" : "s");
    }
    label(out, "");
    lm_text_printf(out, "using %s: %s\n", m->usable,
                   m->limited_by                         ? "set by LAMINA_CPU"
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
        snprintf(when, sizeof when, "measured just now in %.1f s, %s", l->seconds,
                 l->kept ? "saved in the cache folder" : "not saved");
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
    } limits[] = { { m->memory_limit, "a control group" },
                   { m->address_space_limit, "ulimit -v, mapped files included" } };
    char a[LM_FORMATTED], b[LM_FORMATTED];

    label(out, "memory");
    lm_text_printf(out, "%s, %s free; huge pages: %s\n", lm_format_bytes(a, m->memory),
                   lm_format_bytes(b, m->available),
                   strcmp(m->huge_pages, "madvise") == 0 ? "by request"
                   : m->huge_pages[0]                    ? m->huge_pages
                                                         : "unknown");
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (limits[i].bytes) {
            label(out, "");
            lm_text_printf(out, "limited to %s by %s\n", lm_format_bytes(a, limits[i].bytes), limits[i].by);
        }
}

/* List the resources that are limited. */
static void ulimit_text(const findings *f, lm_text *out)
{
    const struct {
        const char *flag, *what;
        uint64_t n;
        bool bytes;
    } limits[] = {
        { "-v", "address space", f->mapped, true },
        { "-l", "locked memory (--mlock)", f->locked, true },
        { "-f", "size of a file", f->file_size, true },
        { "-n", "open files", f->files, false },
    };
    bool first = true;
    char n[LM_FORMATTED];

    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        if (limits[i].n == UINT64_MAX)
            continue;
        label(out, first ? "ulimit" : "");
        lm_text_printf(out, "%s %s: %s\n", limits[i].flag, limits[i].what,
                       limits[i].bytes ? lm_format_bytes(n, limits[i].n) : lm_format_count(n, limits[i].n));
        first = false;
    }
    if (first) {
        label(out, "ulimit");
        lm_text_add_str(out, "no limits\n");
    }
}

static void disk_text(const findings *f, lm_text *out)
{
    char n[LM_FORMATTED];

    label(out, "disk");
    if (f->cache_free != UINT64_MAX)
        lm_text_printf(out, "%s free for the cache folder, ", lm_format_bytes(n, f->cache_free));
    lm_text_printf(out, "%s free for temporary files (%s)\n",
                   f->temporary_free == UINT64_MAX ? "unknown" : lm_format_bytes(n, f->temporary_free),
                   f->temporary);
}

static void models_text(const json_t *models, const char *where, const char *folder, lm_text *out)
{
    const bool some = json_array_size(models) > 0;
    json_int_t bytes = 0;
    const json_t *model;
    char a[LM_FORMATTED];
    size_t i;

    json_array_foreach(models, i, model)
        bytes += json_integer_value(json_object_get(model, "bytes"));
    label(out, folder ? "models" : "");
    lm_text_printf(out, "%zu %s%s%s", json_array_size(models), where, some ? ", " : "",
                   some ? lm_format_bytes(a, (uint64_t)bytes) : "");
    lm_text_printf(out, folder ? " (%s)\n" : "\n", folder);
    json_array_foreach(models, i, model) {
        label(out, "");
        lm_text_printf(out, "%s, %s\n", json_string_value(json_object_get(model, "name")),
                       lm_format_bytes(a, (uint64_t)json_integer_value(json_object_get(model, "bytes"))));
    }
}

static void rest_text(const findings *f, lm_text *out)
{
    memory_text(&f->machine, out);
    ulimit_text(f, out);
    disk_text(f, out);
    label(out, "libraries");
    lm_libraries_text(out);
    lm_text_add_char(out, '\n');
    label(out, "locale");
    lm_text_printf(out, "%s (%s)\n", f->locale, f->charset);
    models_text(f->models, "in the cache folder",
                f->cache.data ? f->cache.data : "unknown: no environment variable names it", out);
    if (json_array_size(f->hub))
        models_text(f->hub, "in the Hugging Face cache", NULL, out);
}

static lm_status print_findings(lm_cli *cli, const findings *f, lm_error *e)
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
        status = print_findings(cli, &f, e);
    lm_text_free(&f.cache);
    json_decref(f.models);
    json_decref(f.hub);
    json_decref(f.warnings);
    return status;
}

const lm_command lm_command_doctor = {
    .name = "doctor",
    .usage = "[--fresh] [--cpu LEVEL]",
    .summary = "check this machine: hardware, limits, speed, installation",
    .about = "  Measures peak arithmetic throughput and memory bandwidth with one thread and with all, in "
             "about a second,\n"
             "  and saves the results in the cache folder.\n",
    .groups = doctor_groups,
    .options_size = sizeof(doctor_options),
    .run = doctor,
};
