/* mutants.c - one changed description after the other: opened, run if it can be, or refused. */
#include "mutants.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lamina/lamina.h"
#include "base/map.h"
#include "runtime/engine.h"

static const char *now = "";
static char        folder[64];
static lm_map     *seen;

static void crashed(int signal_number)
{
    ssize_t ignored = write(2, now, strlen(now));

    ignored += write(2, "\n", 1);
    (void)ignored;
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static lm_status try(const char *path, bool *ran, lm_error *e)
{
    lm_model         *m = NULL;
    lm_engine        *g = NULL;
    lm_engine_options o = { .context = 8, .sequences = 1, .rows = 4, .logit_rows = 1, .kv = LM_KV_F32, .compute = LM_COMPUTE_F32,
                            .threads = 1 };
    lm_row            rows[4] = { { 0, 0, 0, false }, { 0, 1, 1, false }, { 0, 2, 2, false }, { 0, 3, 3, true } };
    lm_status         status = lm_model_open(path, NULL, &m, e);

    if (status == LM_OK)
        status = lm_engine_new(m, &o, &g, e);
    if (status == LM_OK)
        status = lm_engine_step(g, rows, 4, e);
    *ran = status == LM_OK && lm_engine_logits(g, 3);
    lm_engine_free(g);
    lm_model_close(m);
    return status;
}

void mutant_run(const char *path, const char *what, mutant_count *count)
{
    lm_error e   = { 0 };
    bool     ran = false;

    now              = what;
    lm_status status = try(path, &ran, &e);
    if ((status != LM_OK && (!e.message[0] || e.code != status)) || (status == LM_OK && !ran)) {
        fprintf(stderr, "%s: status %d says \"%s\"\n", what, (int)status, e.message);
        exit(1);
    }
    count->refused += status != LM_OK;
    count->ran += status == LM_OK;
}

bool mutant_is_new(const char *text)
{
    uint64_t known;

    if (lm_map_get(seen, lm_view_of(text), &known))
        return false;
    return lm_map_set(seen, lm_view_of(strdup(text)), 1);
}

const char *mutant_begin(void)
{
    snprintf(folder, sizeof folder, "/tmp/lamina-mutants-XXXXXX");
    seen = lm_map_new(4096);
    if (!mkdtemp(folder) || !seen) {
        perror(folder);
        exit(1);
    }
    signal(SIGSEGV, crashed);
    signal(SIGFPE, crashed);
    signal(SIGABRT, crashed);
    return folder;
}

void mutant_end(void)
{
    struct dirent *d;
    char           path[400];
    DIR           *all = opendir(folder);

    while (all && (d = readdir(all))) {
        snprintf(path, sizeof path, "%s/%.255s", folder, d->d_name);
        unlink(path);
    }
    if (all)
        closedir(all);
    rmdir(folder);
}
