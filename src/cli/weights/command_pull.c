/* lamina pull - download a model from a hub into the local cache, and manage the cache. */
#include <string.h>

#include "cli/base/from_hub.h"
#include "cli/base/interrupt.h"
#include "cli/base/options.h"
#include "cli/base/output.h"
#include "cli/base/pulling.h"
#include "cli/weights/pull_cache.h"

typedef struct pull_options {
    const char *revision;
    uint32_t    connections;
    bool        dry_run, repair;
} pull_options;

#define O(field) offsetof(pull_options, field)

static const lm_flag pull_flag_table[] = {
    { "--revision", NULL, LM_FLAG_TEXT, O(revision), "NAME",
      "branch, tag or commit (default main)", 0, 0, NULL },
    { "--connections", NULL, LM_FLAG_COUNT, O(connections), "N",
      "files to download at a time (4)", 1, 64, NULL },
    { "--dry-run", NULL, LM_FLAG_SWITCH, O(dry_run), NULL,
      "list the files and their sizes; download or remove nothing", 0, 0, NULL },
    { "--repair", NULL, LM_FLAG_SWITCH, O(repair), NULL,
      "verify-cache: remove damaged files; the next pull downloads them again", 0, 0, NULL },
    { 0 },
};

static const lm_flag_group pull_groups[] = {
    { "model", pull_flag_table, 0 },
    { 0 },
};

static void notice(const char *line)
{
    lm_note("%s", line);
}

static lm_status print_json(lm_cli *cli, const hub_pull *p, lm_error *e)
{
    json_t *files = json_array(), *path = p->dry_run ? json_null() : lm_json_of(p->path, strlen(p->path));

    for (size_t i = 0; i < p->n; i++)
        if (p->files[i].wanted)
            json_array_append_new(files, json_pack("{s:o, s:I, s:s, s:b}", "path",
                                                   lm_json_of(p->files[i].path, strlen(p->files[i].path)),
                                                   "bytes", (json_int_t)p->files[i].size, "hash",
                                                   p->files[i].hash, "in_cache", p->files[i].here));
    return lm_out_json(cli, json_pack("{s:o, s:s, s:s, s:I, s:I, s:o}", "path", path, "model", p->id,
                                      "commit", p->commit, "bytes", (json_int_t)p->bytes,
                                      "fetched", (json_int_t)(p->dry_run ? 0 : p->done), "files", files), e);
}

static lm_status print(lm_cli *cli, const hub_pull *p, lm_error *e)
{
    lm_text out = { 0 };
    char    size[LM_FORMATTED], missing[LM_FORMATTED];

    if (cli->json)
        return print_json(cli, p, e);
    if (!p->dry_run) {
        lm_text_printf(&out, "%s\n", p->path);
        return lm_out_free(&out, e);
    }
    for (size_t i = 0; i < p->n; i++)
        if (p->files[i].wanted)
            lm_text_printf(&out, "%12s  %s%s\n", lm_format_bytes(size, p->files[i].size), p->files[i].path,
                           p->files[i].here ? "  (in the cache)" : "");
    lm_note("dry run: %s of which %s would be fetched", lm_format_bytes(size, p->bytes),
            lm_format_bytes(missing, p->missing));
    return lm_out_free(&out, e);
}

/* Run an action on the cache (list, rm, verify-cache). Its name has no slash; the name of a model has one. */
static lm_status look(lm_cli *cli, const pull_options *o, const lm_cache_word *w, lm_error *e)
{
    bool checks = strcmp(w->name, "verify-cache") == 0, removes = strcmp(w->name, "rm") == 0;

    if (cli->n_args == 1 && w->needs_model)
        return lm_fail(e, LM_USAGE, w->name, LM_NO_OFFSET, "requires a model from the cache: org/name");
    if (o->revision || o->connections || (o->dry_run && !removes) || (o->repair && !checks))
        return lm_fail(e, LM_USAGE, w->name, LM_NO_OFFSET, "takes no flag but %s",
                       removes  ? "--dry-run"
                       : checks ? "--repair"
                                : "--json");
    return w->run(cli, cli->n_args > 1 ? lm_hub_bare(cli->args[1]) : NULL, checks ? o->repair : o->dry_run,
                  e);
}

static lm_status pull(lm_cli *cli, void *options, lm_error *e)
{
    pull_options        *o = options;
    const lm_cache_word *w = lm_cache_word_named(cli->args[0]);

    if (w)
        return look(cli, o, w, e);
    if (cli->n_args > 1)
        return lm_fail(e, LM_USAGE, cli->args[1], LM_NO_OFFSET, "only one model may be given");
    if (o->repair)
        return lm_fail(e, LM_USAGE, "--repair", LM_NO_OFFSET, "applies only to verify-cache");
    lm_pulling bar = lm_pulling_start();
    hub_pull p = { .net = { .notice = notice, .stop = lm_interrupted },
                   .progress = lm_pulling_show,
                   .progress_arg = &bar,
                   .dry_run = o->dry_run,
                   .connections = o->connections };
    lm_interrupt_watch(NULL);
    lm_status status = hub_pull_run(&p, lm_hub_bare(cli->args[0]), o->revision, e);
    lm_progress_end(&bar.bar);
    if (status == LM_USAGE && !hub_is_name(lm_hub_bare(cli->args[0])))
        lm_fail_hint(e, "names are those of huggingface.co: lamina pull HuggingFaceTB/SmolLM2-135M-Instruct");
    if (status == LM_OK)
        status = print(cli, &p, e);
    hub_pull_free(&p);
    return status;
}

const lm_command lm_command_pull = {
    .name = "pull",
    .usage = "ORG/NAME[:TYPE|@REVISION] [--dry-run] | list | rm ORG/NAME | verify-cache",
    .summary = "download a model from a hub into the local cache",
    .about = "  The cache is that of huggingface_hub: other programs find the model there, and run, chat, "
             "serve ... take ORG/NAME.\n"
             "  In a repository of GGUF files, :TYPE chooses one (default Q4_K_M, or the only one), and "
             ":PATH.gguf names a file.\n"
             "  Files are checked by their hashes before they are renamed; an interrupted pull continues "
             "where it stopped.\n"
             "  list [ORG/NAME] shows what the cache holds, rm ORG/NAME[:TYPE|@REVISION] removes it, "
             "verify-cache [ORG/NAME] reads\n"
             "  every file again and compares its hash.\n",
    .groups = pull_groups,
    .min_args = 1,
    .max_args = 2,
    .options_size = sizeof(pull_options),
    .run = pull,
};
