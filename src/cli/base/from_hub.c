/* from_hub.c - look up models in the cache first, then on the hub. */
#include "cli/base/from_hub.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/base/interrupt.h"
#include "cli/base/pulling.h"

#define PREFIX "lamina-heads-"

static void notice(const char *line)
{
    lm_note("%s", line);
}

bool lm_is_hub_name(const lm_cli *cli)
{
    for (size_t i = 0; i < cli->n_given; i++)
        if (strcmp(cli->given[i]->name, "--hf-repo") == 0)
            return true;
    return false;
}

const char *lm_hub_bare(const char *name)
{
    static const char *const hosts[] = { "https://huggingface.co/", "https://hf.co/", "huggingface.co/",
                                         "hf.co/" };

    for (size_t i = 0; name && i < sizeof hosts / sizeof *hosts; i++)
        if (strncmp(name, hosts[i], strlen(hosts[i])) == 0 && access(name, F_OK) != 0)
            return name + strlen(hosts[i]);
    return name;
}

bool lm_hub_may_have(const char *name)
{
    return name && *name != '.' && hub_is_name(name);
}

static lm_status keep(lm_cli *cli, const char *path, const char **out, lm_error *e)
{
    *out = lm_store_strdup(&cli->store, path);
    return *out ? LM_OK : lm_fail_memory(e, "a path", strlen(path));
}

/* Find a model in the cache. A local folder or a preset with the same name does not count. */
static bool is_cached(lm_cli *cli, const char *name, const char **path)
{
    lm_text found = { 0 };
    bool here = !strchr(name, '@') && lm_model_locate(name, &found, NULL) == LM_OK &&
                strstr(found.data, "/snapshots/");

    here = here && keep(cli, found.data, path, NULL) == LM_OK;
    lm_text_free(&found);
    return here;
}

lm_status lm_hub_fetch(lm_cli *cli, const char *name, const char **path, lm_error *e)
{
    if (is_cached(cli, name, path))
        return LM_OK;
    lm_pulling bar  = lm_pulling_start();
    hub_pull p = { .net = { .notice = notice, .stop = lm_interrupted },
                   .progress = lm_pulling_show,
                   .progress_arg = &bar };
    bool       held = lm_interrupt_record();
    lm_status  status = hub_pull_run(&p, name, NULL, e);
    lm_progress_end(&bar.bar);
    status = lm_interrupt_release(held, status, e);
    if (status == LM_OK)
        status = keep(cli, p.path, path, e);
    hub_pull_free(&p);
    return status;
}

/* ---- headers ---- */

static char folder[1024];                /* temporary folder of this process; "": none yet */

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    remove(path);
    return 0;
}

static void remove_tree(const char *path)
{
    nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void remove_folder(void)
{
    remove_tree(folder);
}

/* Remove the folders of processes that no longer exist, such as killed ones. */
static void sweep(const char *place)
{
    DIR *dir = opendir(place);
    char path[1024 + 300];

    for (struct dirent *d; dir && (d = readdir(dir));) {
        long pid = strncmp(d->d_name, PREFIX, strlen(PREFIX)) == 0
                       ? strtol(d->d_name + strlen(PREFIX), NULL, 10)
                       : 0;
        if (pid < 1 || kill((pid_t)pid, 0) == 0 || errno != ESRCH)
            continue;
        snprintf(path, sizeof path, "%s/%s", place, d->d_name);
        remove_tree(path);               /* has no effect on other users' folders */
    }
    if (dir)
        closedir(dir);
}

static lm_status make_folder(lm_error *e)
{
    const char *place = getenv("TMPDIR");

    if (*folder)
        return LM_OK;
    place = place && *place ? place : "/tmp";
    sweep(place);
    if ((size_t)snprintf(folder, sizeof folder, "%s/" PREFIX "%ld-XXXXXX", place, (long)getpid()) >=
            sizeof folder ||
        !mkdtemp(folder)) {
        *folder = '\0';
        return lm_fail_errno(e, place, "a folder for headers cannot be created");
    }
    atexit(remove_folder);
    return LM_OK;
}

lm_status lm_hub_heads(lm_cli *cli, const char *name, const char **path, lm_error *e)
{
    char bytes[LM_FORMATTED], whole[LM_FORMATTED];

    if (is_cached(cli, name, path))
        return LM_OK;
    LM_TRY(make_folder(e));
    hub_pull  p      = { .net = { .notice = notice, .stop = lm_interrupted }, .connections = 8 };
    bool      held   = lm_interrupt_record();
    lm_status status = lm_interrupt_release(held, hub_heads_run(&p, name, folder, e), e);
    if (status == LM_OK)
        status = keep(cli, p.path, path, e);
    uint64_t all = 0;
    size_t   n   = 0;
    for (size_t i = 0; i < p.n; i++) {
        all += p.files[i].wanted ? p.files[i].size : 0;
        n += p.files[i].wanted;
    }
    if (status == LM_OK)
        lm_note("%s at %.12s: %s of %zu file%s with %s were fetched, not their weights", p.id, p.commit,
                lm_format_bytes(bytes, p.done), n, n == 1 ? "" : "s", lm_format_bytes(whole, all));
    hub_pull_free(&p);
    return status;
}
