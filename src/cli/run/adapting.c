/* adapting.c - open the adapters of --lora and hand them to engines.
 *
 * Adapters and scales are in the order of the command line. The store of the command owns the arrays;
 * lm_loras owns the adapters, which read from their files as long as they are open. */
#include "cli/run/adapting.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/base/flags.h"
#include "cli/base/output.h"

#define L(field) offsetof(lm_lora_flags, field)

enum { MAX_ADAPTERS = 64 };

const lm_flag lm_lora_flag_table[] = {
    { "--lora", "--lora-scaled", LM_FLAG_LIST, L(files), "FILE[:SCALE]",
      "low-rank adapter: a PEFT or MLX folder or a GGUF file, multiplied by SCALE (1); "
      "separated by commas, or repeated",
      -1, 0, NULL },
    { 0 },
};

/* Split FILE[:SCALE] at the last colon, unless a file with the whole name exists. *scale is 1 if none is
 * given. */
static lm_status read_one(lm_cli *cli, const char *text, const char **path, float *scale, lm_error *e)
{
    const char *colon = strrchr(text, ':');
    struct stat st;
    char *end;

    *path = text;
    *scale = 1;
    if (!*text)
        return lm_fail(e, LM_USAGE, "--lora", LM_NO_OFFSET, "needs a file name");
    if (!colon || colon == text || stat(text, &st) == 0)
        return LM_OK;
    double x = strtod(colon + 1, &end);
    if (end == colon + 1 || *end || !isfinite(x) || fabs(x) > 1e6)
        return lm_fail(e, LM_USAGE, "--lora", LM_NO_OFFSET, "\"%s\" is not a scale from -1000000 to 1000000",
                       colon + 1);
    *scale = (float)x;
    *path = lm_store_strndup(&cli->store, text, (size_t)(colon - text));
    return *path ? LM_OK : lm_fail_memory(e, "--lora", strlen(text));
}

static void print_adapter(const lm_adapter *a, float scale)
{
    lm_adapter_info info;
    const char *warning;
    char n[LM_FORMATTED];

    lm_adapter_describe(a, &info);
    for (size_t i = 0; (warning = lm_adapter_warning(a, i)); i++)
        lm_warn("%s: %s", info.name, warning);
    lm_detail("adapter    %s, %s, %u modules, rank %u, %s parameters, scale %g", info.name, info.format,
              info.n_modules, info.rank, lm_format_count(n, info.parameters), (double)scale);
}

lm_status lm_loras_open(lm_cli *cli, const lm_lora_flags *f, const lm_model *m, lm_loras *out, lm_error *e)
{
    lm_status status = LM_OK;

    lm_flag_list files = f->files;

    *out = (lm_loras){ 0 };
    LM_TRY(lm_flag_split(cli, "--lora", &files, e));
    if (files.n > MAX_ADAPTERS)
        return lm_fail(e, LM_USAGE, "--lora", LM_NO_OFFSET, "given %zu times; %d are possible", files.n,
                       MAX_ADAPTERS);
    out->adapters = lm_store_new(&cli->store, files.n + 1, lm_adapter *);
    out->scales = lm_store_new(&cli->store, files.n + 1, float);
    out->paths = lm_store_new(&cli->store, files.n + 1, const char *);
    if (!out->adapters || !out->scales || !out->paths)
        return lm_fail_memory(e, "--lora", 0);
    for (size_t i = 0; status == LM_OK && i < files.n; i++) {
        status = read_one(cli, files.items[i], &out->paths[i], &out->scales[i], e);
        if (status == LM_OK)
            status = lm_adapter_open(m, out->paths[i], &out->adapters[i], e);
        if (status != LM_OK)
            break;
        print_adapter(out->adapters[out->n++], out->scales[i]);
    }
    if (status != LM_OK)
        lm_loras_close(out);
    return status;
}

void lm_loras_close(lm_loras *l)
{
    for (size_t i = 0; i < l->n; i++)
        lm_adapter_close(l->adapters[i]);
    *l = (lm_loras){ 0 };
}

void lm_loras_engine(const lm_loras *l, lm_engine_options *o)
{
    if (!l->n)
        return;
    o->adapters = (const lm_adapter *const *)l->adapters;
    o->adapter_scales = l->scales;
}
