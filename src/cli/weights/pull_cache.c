/* pull_cache.c - list, remove and verify the models of the cache, as text and as JSON. */
#include "cli/weights/pull_cache.h"

#include <stdlib.h>
#include <string.h>

#include "cli/base/cell_table.h"
#include "cli/base/interrupt.h"
#include "cli/base/options.h"
#include "cli/base/output.h"
#include "hub/cache_scan.h"

static json_t *words_of(const char *text)
{
    json_t *list = json_array();

    for (const char *at = text; *at; at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");
        json_array_append_new(list, lm_json_of(at, n));
        at += n;
    }
    return list;
}

static json_t *snapshots_json(const hub_cache_info *s)
{
    json_t *list = json_array();

    for (size_t i = 0; i < s->n; i++) {
        const hub_cached_revision *k = &s->kept[i];
        size_t          lacks        = 0;
        for (size_t j = 0; j < k->n; j++)
            lacks += !k->files[j].here;
        json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:I, s:I, s:I, s:o}", "model", k->id,
                                              "commit", k->commit, "revisions", words_of(k->revisions),
                                              "files", (json_int_t)k->n, "missing", (json_int_t)lacks,
                                              "bytes", (json_int_t)k->bytes,
                                              "path", lm_json_of(k->folder, strlen(k->folder))));
    }
    return list;
}

static lm_status print_table(lm_cli *cli, const hub_cache_info *s, lm_error *e)
{
    lm_cell_table grid = { .store = &cli->store, .align = "lllrr" };
    lm_text out  = { 0 };
    char    files[LM_FORMATTED], bytes[LM_FORMATTED], commit[13];

    lm_cell_table_row(&grid, "model", "revision", "commit", "files", "size");
    for (size_t i = 0; i < s->n; i++) {
        const hub_cached_revision *k = &s->kept[i];
        memcpy(commit, k->commit, 12);
        commit[12] = '\0';
        lm_cell_table_row(&grid, k->id, *k->revisions ? k->revisions : "-", commit,
                          lm_format_count(files, k->n), lm_format_bytes(bytes, k->bytes));
    }
    lm_cell_table_print(&grid, &out);
    return lm_out_free(&out, e);
}

static lm_status print_list(lm_cli *cli, const hub_cache_info *s, lm_error *e)
{
    if (cli->json)
        return lm_out_json(cli, json_pack("{s:o, s:o}", "cache", lm_json_of(s->cache, strlen(s->cache)),
                                          "snapshots", snapshots_json(s)), e);
    if (s->n)
        return print_table(cli, s, e);
    lm_note("%s: no models", s->cache);
    return LM_OK;
}

static lm_status list(lm_cli *cli, const char *model, bool alter, lm_error *e)
{
    hub_cache_info s;

    (void)alter;
    lm_status status = hub_cache_scan(model, &s, e);
    if (status == LM_OK)
        status = print_list(cli, &s, e);
    hub_cache_free(&s);
    return status;
}

/* ---- rm ---- */

static lm_status print_removed(lm_cli *cli, const hub_cache_info *s, bool dry_run, uint64_t freed,
                               lm_error *e)
{
    char   bytes[LM_FORMATTED];
    size_t files = 0;

    if (cli->json)
        return lm_out_json(cli, json_pack("{s:o, s:o, s:b, s:I}",
                                          "cache", lm_json_of(s->cache, strlen(s->cache)),
                                          "snapshots", snapshots_json(s), "removed", !dry_run,
                                          "freed", (json_int_t)freed), e);
    for (size_t i = 0; i < s->n; i++)
        files += s->kept[i].n;
    lm_note("%s%s: %zu file%s in %zu snapshot%s, %s", dry_run ? "dry run: would remove " : "removed ",
            s->kept[0].id, files, files == 1 ? "" : "s", s->n, s->n == 1 ? "" : "s",
            lm_format_bytes(bytes, freed));
    return LM_OK;
}

static lm_status rm(lm_cli *cli, const char *model, bool dry_run, lm_error *e)
{
    hub_cache_info s;
    uint64_t  freed  = 0;
    lm_status status = hub_cache_scan(model, &s, e);

    if (status == LM_OK)
        status = hub_cache_remove(&s, dry_run, &freed, e);
    if (status == LM_OK)
        status = print_removed(cli, &s, dry_run, freed, e);
    hub_cache_free(&s);
    return status;
}

/* ---- verify-cache ---- */

static json_t *flaws_json(const hub_checking *c)
{
    json_t *flaws = json_array();

    for (size_t i = 0; i < c->n_flaws; i++) {
        const hub_flaw *f = &c->flaws[i];
        json_array_append_new(flaws,
                              json_pack("{s:s, s:s, s:o, s:s, s:s, s:b}", "model", f->of->id,
                                        "commit", f->of->commit, "path", lm_json_of(f->path, strlen(f->path)),
                                        "blob", f->blob, "problem", f->problem, "removed", f->removed));
    }
    return flaws;
}

static lm_status verdict(const hub_checking *c, lm_error *e)
{
    size_t removed = 0;

    for (size_t i = 0; i < c->n_flaws; i++)
        removed += c->flaws[i].removed;
    if (!c->n_flaws)
        return LM_OK;
    lm_fail(e, LM_DIFFERS, "cache", LM_NO_OFFSET, "%zu file%s of %zu %s missing or not the bytes of the hash",
            c->n_flaws, c->n_flaws == 1 ? "" : "s", c->checked + c->n_flaws - removed,
            c->n_flaws == 1 ? "is" : "are");
    if (removed)
        return lm_fail_hint(e, "what was damaged is removed: lamina pull fetches it again");
    return lm_fail_hint(e, "lamina pull verify-cache --repair removes what is damaged, "
                           "lamina pull fetches it again");
}

static lm_status print_check(lm_cli *cli, const hub_cache_info *s, const hub_checking *c, lm_error *e)
{
    lm_text out = { 0 };
    char    bytes[LM_FORMATTED];

    lm_status found = verdict(c, e);
    if (cli->json) {
        json_t *j = json_pack("{s:o, s:o, s:I, s:I, s:I, s:o}",
                              "cache", lm_json_of(s->cache, strlen(s->cache)), "snapshots", snapshots_json(s),
                              "checked", (json_int_t)c->checked, "unknown", (json_int_t)c->unknown,
                              "bytes", (json_int_t)c->bytes, "flaws", flaws_json(c));
        if (found != LM_OK)
            json_object_set_new(j, "error", lm_json_error(e));
        lm_status printed = lm_out_json(cli, j, e);
        return printed == LM_OK ? found : printed;
    }
    for (size_t i = 0; i < c->n_flaws; i++)
        lm_text_printf(&out, "%-8s %s %s%s\n", c->flaws[i].problem, c->flaws[i].of->id, c->flaws[i].path,
                       c->flaws[i].removed ? " (removed)" : "");
    if (c->unknown)
        lm_warn("%zu file%s stand%s in a snapshot without a hash: not checked", c->unknown,
                c->unknown == 1 ? "" : "s", c->unknown == 1 ? "s" : "");
    if (found == LM_OK)
        lm_note("%zu file%s, %s: the bytes of their hashes", c->checked, c->checked == 1 ? "" : "s",
                lm_format_bytes(bytes, c->bytes));
    lm_status printed = lm_out_free(&out, NULL);
    return found != LM_OK     ? found
           : printed == LM_OK ? LM_OK
                              : lm_fail(e, printed, "stdout", LM_NO_OFFSET, "cannot be written");
}

static lm_status verify(lm_cli *cli, const char *model, bool repair, lm_error *e)
{
    hub_cache_info s;
    lm_progress  bar = lm_progress_start("checking");
    hub_checking c = {
        .repair = repair, .stop = lm_interrupted, .progress = lm_progress_show, .progress_arg = &bar
    };
    lm_status    status = hub_cache_scan(model, &s, e);

    lm_interrupt_watch(NULL);
    if (status == LM_OK)
        status = hub_cache_check(&s, &c, e);
    lm_progress_end(&bar);
    if (status == LM_OK)
        status = print_check(cli, &s, &c, e);
    free(c.flaws);
    hub_cache_free(&s);
    return status;
}

const lm_cache_word *lm_cache_word_named(const char *name)
{
    static const lm_cache_word words[] = {
        { "list", false, list }, { "rm", true, rm }, { "verify-cache", false, verify },
    };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i].name, name) == 0)
            return &words[i];
    return NULL;
}
