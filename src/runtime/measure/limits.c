/* limits.c - store the best of what was measured. */
#include "runtime/measure/limits.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/cpu.h"
#include "base/os/filemap.h"
#include "base/hash.h"
#include "lamina/model.h"
#include "lamina/version.h"

#define VERSION 2                    /* of the probes: results of another version are measured again */

/* ---- comparison ---- */

enum { RATES = 4 };

static lm_rate *rate_of(lm_limits *l, int i)
{
    lm_rate *const all[RATES] = { &l->int8, &l->bf16, &l->f32, &l->memory };

    return all[i];
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double rate_below(const lm_rate *best, const lm_rate *now)
{
    return best->all > now->all ? 1 - now->all / best->all : 0;
}

double lm_limits_below(const lm_limits *best, const lm_limits *now)
{
    lm_limits a = *best, b = *now;
    double    max = 0;

    for (int i = 0; i < RATES; i++)
        max = larger(max, rate_below(rate_of(&a, i), rate_of(&b, i)));
    return max;
}

void lm_limits_improve(lm_limits *best, const lm_limits *now)
{
    lm_limits x = *now;

    for (int i = 0; i < RATES; i++) {
        lm_rate *a = rate_of(best, i), *b = rate_of(&x, i);
        if (b->all > a->all)
            memcpy(a->by, b->by, sizeof a->by);
        a->one  = larger(a->one, b->one);
        a->all  = larger(a->all, b->all);
        a->best = larger(a->best, b->best);
    }
    best->busy = now->busy < best->busy ? now->busy : best->busy;
    best->measured_at = now->measured_at;
    best->seconds += now->seconds;
}

void lm_limits_commit(lm_limits *best, lm_limits *now)
{
    double  below = lm_limits_below(best, now);
    bool    known = best->memory.all > 0;
    int64_t at    = best->measured_at;

    if (!known)
        best->busy = 1;
    lm_limits_improve(best, now);
    now->below = below > LM_LIMITS_BELOW ? below : 0;
    if (now->below > 0)
        best->measured_at = at;
    for (int i = 0; i < RATES; i++)
        if (rate_below(rate_of(best, i), rate_of(now, i)) > LM_LIMITS_BELOW)
            *rate_of(now, i) = *rate_of(best, i);
}

const char *lm_limits_mark(const lm_limits *l)
{
    if (!l)
        return "";
    return l->below > 0 ? "below the best known" : l->busy > LM_LIMITS_BUSY ? "busy" : "";
}

const lm_limits *lm_limits_usable(const lm_limits *l)
{
    return l && l->busy > LM_LIMITS_BUSY && !(l->below > 0) ? NULL : l;
}

/* ---- the file ---- */

const char *lm_limits_file(lm_arena *arena, const char *level, uint32_t threads)
{
    long        pages  = sysconf(_SC_PHYS_PAGES);
    lm_text     folder = { 0 };
    char *key = lm_arena_printf(arena, "%d|%s|%s|%s|%u|%u|%ld", VERSION, LAMINA_VERSION, lm_cpu_brand(),
                                level, threads, lm_cpu_cores(), pages);
    const char *path   = NULL;

    if (key && lm_cache_folder(&folder, NULL) == LM_OK)
        path = lm_arena_printf(arena, "%slimits-%.16s.json", folder.data,
                               lm_sha256_bytes(key, strlen(key)).hex);
    lm_text_free(&folder);
    return path;
}

static json_t *rate_json(const lm_rate *r)
{
    return json_pack("{s:f, s:f, s:f, s:s}", "one", r->one, "all", r->all, "best", r->best, "by", r->by);
}

static bool read_rate(json_t *limits, const char *name, lm_rate *out)
{
    json_t     *r  = json_object_get(limits, name);
    const char *by = json_string_value(json_object_get(r, "by"));

    out->one  = json_number_value(json_object_get(r, "one"));
    out->all  = json_number_value(json_object_get(r, "all"));
    out->best = json_number_value(json_object_get(r, "best"));
    snprintf(out->by, sizeof out->by, "%s", by ? by : "");
    return json_is_object(r) && by && out->one >= 0 && out->all >= 0 && out->best >= 0;
}

bool lm_limits_read(const char *path, lm_limits *out)
{
    lm_limits l    = *out;
    char     *text = NULL;
    size_t    n    = 0;

    if (lm_file_read(path, 1 << 16, &text, &n, NULL) != LM_OK)
        return false;
    json_t *j = json_loadb(text, n, 0, NULL);
    lm_free(text);
    bool good = read_rate(j, "int8", &l.int8) && read_rate(j, "bf16", &l.bf16) &&
                read_rate(j, "f32", &l.f32) && read_rate(j, "memory", &l.memory) && l.memory.all > 0;
    l.measured_at = json_integer_value(json_object_get(j, "measured_at"));
    l.busy        = json_number_value(json_object_get(j, "busy"));
    l.kept        = true;
    json_decref(j);
    if (good)
        *out = l;
    return good;
}

/* Free memory that jansson has allocated with its own function. */
static void jansson_free(void *p)
{
    json_free_t release;

    json_get_alloc_funcs(NULL, &release);
    release(p);
}

static void make_folder(const char *path)
{
    char        folder[4096];
    const char *end = strrchr(path, '/');

    if (end && (size_t)(end - path) < sizeof folder) {
        snprintf(folder, sizeof folder, "%.*s", (int)(end - path), path);
        mkdir(folder, 0777);
    }
}

bool lm_limits_write(const char *path, const lm_limits *l)
{
    json_t *j = json_pack("{s:o, s:o, s:o, s:o, s:I, s:f}", "int8", rate_json(&l->int8), "bf16",
                          rate_json(&l->bf16), "f32", rate_json(&l->f32), "memory", rate_json(&l->memory),
                          "measured_at", (json_int_t)l->measured_at, "busy", l->busy);
    char   *text = j ? json_dumps(j, JSON_INDENT(2)) : NULL;

    make_folder(path);
    bool kept = text && lm_file_write(path, text, strlen(text), NULL) == LM_OK;
    json_decref(j);
    jansson_free(text);
    return kept;
}
