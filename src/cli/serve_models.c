#include "cli/serve_models.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/output.h"

enum { MOST = 256 };

static bool ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

/* "…-00002-of-00003.gguf": found with its first part. */
static bool is_further_part(const char *name)
{
    size_t n = strlen(name);
    const char *at = n > 20 ? name + n - 20 : NULL;

    return at && at[0] == '-' && memcmp(at + 6, "-of-", 4) == 0 && strspn(at + 1, "0123456789") == 5 && memcmp(at + 1, "00001", 5) != 0;
}

static bool is_model(const char *path, const char *name)
{
    struct stat s;
    char *config = NULL;
    bool is = false;

    if (*name == '.' || stat(path, &s) < 0)
        return false;
    if (S_ISREG(s.st_mode))
        return ends_in(name, ".gguf") && !is_further_part(name);
    if (S_ISDIR(s.st_mode) && asprintf(&config, "%s/config.json", path) > 0)
        is = stat(config, &s) == 0;
    free(config);
    return is;
}

static lm_status add(lm_cli *cli, lm_served_model *list, size_t *n, const char *path, bool found, lm_error *e)
{
    if (*n == MOST)
        return lm_fail(e, LM_USAGE, path, LM_NO_OFFSET, "more than %d models", MOST);
    if (!(list[*n].path = lm_store_strdup(&cli->store, path)))
        return lm_fail_memory(e, "the models", strlen(path));
    list[(*n)++].found = found;
    return LM_OK;
}

static lm_status add_folder(lm_cli *cli, const char *folder, lm_served_model *list, size_t *n, lm_error *e)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, NULL, alphasort);
    size_t before = *n;
    lm_status status = LM_OK;

    if (count < 0)
        return lm_fail_errno(e, folder, "cannot list the models");
    for (int i = 0; i < count; i++) {
        char *path = NULL;

        if (status == LM_OK && asprintf(&path, "%s/%s", folder, entries[i]->d_name) > 0 && is_model(path, entries[i]->d_name))
            status = add(cli, list, n, path, true, e);
        free(path);
        free(entries[i]);
    }
    free(entries);
    if (status == LM_OK && *n == before)
        lm_warn("%s holds no .gguf file and no folder of a model", folder);
    return status;
}

lm_status lm_served_models(lm_cli *cli, const lm_model_flags *f, const char *folder, bool others, const lm_flag_list *aliases,
                           lm_served_model **out, size_t *n, lm_error *e)
{
    lm_served_model *list = lm_store_new(&cli->store, MOST, lm_served_model);

    if (!list)
        return lm_fail_memory(e, "the models", MOST * sizeof *list);
    *n = 0;
    for (size_t i = 0; i < cli->n_args || (!i && (f->model || !(folder || others))); i++) {
        const char *path = NULL;
        LM_TRY(lm_find_model(cli, f, i < cli->n_args ? cli->args[i] : NULL, &path, e));
        LM_TRY(add(cli, list, n, path, false, e));
    }
    if (folder)
        LM_TRY(add_folder(cli, folder, list, n, e));
    if (!*n && !others)
        return lm_fail(e, LM_NOT_FOUND, "--models-dir", LM_NO_OFFSET, "no models in %s", folder);
    if (aliases->n > *n)
        return lm_fail(e, LM_USAGE, "--alias", LM_NO_OFFSET, "%zu names for %zu model%s", aliases->n, *n, *n == 1 ? "" : "s");
    for (size_t i = 0; i < aliases->n; i++) {
        const char *all = aliases->items[i], *comma = strchr(all, ',');
        list[i].name = comma ? lm_store_strndup(&cli->store, all, (size_t)(comma - all)) : all;
        list[i].aliases = comma ? comma + 1 : NULL;
        if (!list[i].name)
            return lm_fail_memory(e, "the models", strlen(all));
        if (!*list[i].name)
            return lm_fail(e, LM_USAGE, "--alias", LM_NO_OFFSET, "\"%s\": a name is empty", all);
    }
    *out = list;
    return LM_OK;
}

lm_status lm_keep_card(lm_cli *cli, const lm_model *m, lm_model_info *out, lm_error *e)
{
    const char **texts[] = { &out->name, &out->family, &out->source, &out->container, &out->storage };

    lm_model_describe(m, out);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (*texts[i] && !(*texts[i] = lm_store_strdup(&cli->store, *texts[i])))
            return lm_fail_memory(e, "the models", 0);
    return LM_OK;
}
