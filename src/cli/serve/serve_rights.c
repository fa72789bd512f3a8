/* serve_rights.c - list the folders that the server opens files in after startup.
 *
 * Each file stands for its folder, since files are replaced by renaming. The lists are in the store of the
 * command. */
#include "cli/serve/serve_rights.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct paths { const char **items; size_t n; } paths;

/* Add `path`, or if `end` is not NULL the part before it. An empty path is ".", an empty part "/". */
static lm_status add(lm_cli *cli, paths *p, const char *path, const char *end, lm_error *e)
{
    size_t n = end ? (size_t)(end - path) : strlen(path);

    p->items[p->n] = n ? lm_store_strndup(&cli->store, path, n) : end ? "/" : ".";
    return p->items[p->n++] ? LM_OK : lm_fail_memory(e, "a path", n);
}

static lm_status add_folder_of(lm_cli *cli, paths *p, const char *path, lm_error *e)
{
    const char *slash = strrchr(path, '/');

    return slash ? add(cli, p, path, slash, e) : add(cli, p, ".", NULL, e);
}

/* Add the folder of a file, which contains the other parts of a split file, and the folder of its target if
 * it is a link. For a snapshot of the Hugging Face cache, add the folder that contains both the snapshots and
 * the files to which they link. */
static lm_status add_model(lm_cli *cli, paths *p, const char *path, lm_error *e)
{
    const char *snapshots = strstr(path, "/snapshots/");
    struct stat s;
    char *real;
    lm_status status;

    if (snapshots)
        LM_TRY(add(cli, p, path, snapshots, e));
    if (stat(path, &s) == 0 && S_ISDIR(s.st_mode))
        return add(cli, p, path, NULL, e);
    LM_TRY(add_folder_of(cli, p, path, e));
    if (!(real = realpath(path, NULL)))
        return LM_OK;
    status = add_folder_of(cli, p, real, e);
    free(real);
    return status;
}

static lm_status add_member_models(lm_cli *cli, paths *p, const lm_service_options *o, lm_error *e)
{
    LM_TRY(add_model(cli, p, o->path, e));
    for (uint32_t i = 0; o->others && i + 1 < o->mixture.n; i++)
        LM_TRY(add_model(cli, p, o->others[i].path, e));
    return LM_OK;
}

lm_status lm_serve_rights(lm_cli *cli, const char *keys, const char *const *stores, size_t n,
                          lm_server_options *o, lm_error *e)
{
    const char *const *loras = o->models.services->loras;
    size_t hosts = 0, models = o->models.n, all = models, adapters = 0;
    paths reads, writes, sockets;

    while (o->http.hosts[hosts])
        hosts++;
    for (size_t i = 0; i < models; i++)
        all += o->models.services[i].others ? o->models.services[i].mixture.n : 0;
    while (loras && loras[adapters])
        adapters++;
    reads = (paths){ lm_store_new(&cli->store, 3 * (all + adapters) + 3, const char *), 0 };
    writes = (paths){ lm_store_new(&cli->store, n + 1, const char *), 0 };
    sockets = (paths){ lm_store_new(&cli->store, hosts + 1, const char *), 0 };
    if (!reads.items || !writes.items || !sockets.items)
        return lm_fail_memory(e, "paths", models * sizeof(char *));
    for (size_t i = 0; i < models; i++)
        LM_TRY(add_member_models(cli, &reads, o->models.services + i, e));
    for (size_t i = 0; i < adapters; i++)
        LM_TRY(add_model(cli, &reads, loras[i], e));
    if (keys)
        LM_TRY(add_model(cli, &reads, keys, e));
    for (size_t i = 0; i < n; i++) {
        if (!stores[i])
            continue;
        mkdir(stores[i], 0777);              /* errors are reported when the folder is used */
        LM_TRY(add(cli, &writes, stores[i], NULL, e));
    }
    for (size_t i = 0; i < hosts; i++)
        if (strncmp(o->http.hosts[i], "unix:", 5) == 0)
            LM_TRY(add_folder_of(cli, &sockets, o->http.hosts[i] + 5, e));
    o->reads = reads.items;
    o->writes = writes.items;
    o->sockets = sockets.items;
    return LM_OK;
}
