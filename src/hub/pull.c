/* pull.c - download a model: list its files, select the required ones, download each, then write the revision
 * name. */
#include "hub/cache_scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

bool hub_is_offline(void)
{
    static const char *const names[] = { "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE" };

    for (int i = 0; i < 2; i++) {
        const char *v = getenv(names[i]);
        if (v && (strcmp(v, "1") == 0 || strcasecmp(v, "on") == 0 || strcasecmp(v, "yes") == 0 ||
                  strcasecmp(v, "true") == 0))
            return true;
    }
    return false;
}

/* Find the first part of the only file with this type in the snapshot. */
static lm_status offline_type(hub_pull *p, const char *name, lm_error *e)
{
    hub_cache_info s;
    size_t    found = 0;

    lm_status status = hub_cache_scan(name, &s, e);
    for (size_t i = 0; i < s.n; i++)
        for (size_t j = 0; strcmp(s.kept[i].commit, p->commit) == 0 && j < s.kept[i].n; j++)
            if (hub_is_first(s.kept[i].files[j].path) && found++ == 0)
                snprintf(p->path, sizeof p->path, "%s/%s", s.kept[i].folder, s.kept[i].files[j].path);
    hub_cache_free(&s);
    if (status == LM_OK && found > 1)
        return lm_fail(e, LM_NOT_FOUND, name, LM_NO_OFFSET, "several files in the cache have this type");
    if (status == LM_OK && !found)
        return hub_fail_offline(name, e);
    return status;
}

/* The snapshot must exist. Without a type, opening it shows whether it contains a model. */
static lm_status offline(hub_pull *p, const char *name, lm_error *e)
{
    LM_TRY(hub_read_ref(p, e));
    snprintf(p->path, sizeof p->path, "%s/snapshots/%s", p->repository, p->commit);
    if (access(p->path, F_OK) != 0)
        return hub_fail_offline(p->id, e);
    return *p->type ? offline_type(p, name, e) : LM_OK;
}

static lm_status take_index(hub_pull *p, hub_file *f, lm_error *e)
{
    char       path[4096], url[6000];
    lm_text    text = { 0 };
    hub_answer a;

    if (p->dry_run && !f->here) {
        hub_file_url(p, f, url);
        LM_TRY(hub_get_text(&p->net, url, 64 << 20, &text, &a, e));
        p->done += text.size;
    } else {
        LM_TRY(hub_fetch_file(p, f, e));
        hub_blob_path(p, f, path);
        FILE *in = fopen(path, "rb");
        char  piece[1 << 14];
        for (size_t n; in && (n = fread(piece, 1, sizeof piece, in));)
            lm_text_add(&text, piece, n);
        if (in)
            fclose(in);
    }
    lm_status status = text.failed ? lm_fail(e, LM_NO_MEMORY, f->path, LM_NO_OFFSET, "an index")
        : hub_pick_shards(p, text.data ? text.data : "", text.size, e);
    if (status == LM_OK && !(p->index = strndup(text.data, text.size)))
        status = lm_fail(e, LM_NO_MEMORY, f->path, LM_NO_OFFSET, "an index");
    lm_text_free(&text);
    return status;
}

lm_status hub_read_index(hub_pull *p, lm_error *e)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->files[i].wanted && hub_is_index(p->files[i].path))
            return take_index(p, &p->files[i], e);
    return LM_OK;
}

static lm_status fetch_all(hub_pull *p, lm_error *e)
{
    char first[sizeof p->path];

    memcpy(first, p->path, sizeof first);
    p->done = 0;
    LM_TRY(hub_together(p, hub_fetch_file, e));
    LM_TRY(hub_write_ref(p, e));
    if ((size_t)snprintf(p->path, sizeof p->path, "%s/snapshots/%s%s%s", p->repository, p->commit,
                         *first ? "/" : "", first) >= sizeof p->path)
        return lm_fail(e, LM_LIMIT, p->id, LM_NO_OFFSET, "too long for a path");
    return LM_OK;
}

lm_status hub_pull_run(hub_pull *p, const char *name, const char *revision, lm_error *e)
{
    LM_TRY(hub_read_name(p, name, revision, e));
    LM_TRY(hub_find_cache(p, e));
    if (hub_is_offline())
        return offline(p, name, e);
    LM_TRY(hub_net_read(&p->net, e));
    LM_TRY(hub_list_files(p, e));
    LM_TRY(hub_pick(p, e));
    LM_TRY(hub_look(p, e));
    LM_TRY(hub_read_index(p, e));
    LM_TRY(hub_look(p, e));
    return p->dry_run ? LM_OK : fetch_all(p, e);
}

void hub_pull_free(hub_pull *p)
{
    free(p->files);
    free(p->index);
    *p = (hub_pull){ 0 };
}
