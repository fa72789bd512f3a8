/* serve_models.c - list the models that `lamina serve` is given by name, then those in a folder.
 *
 * A folder is searched two levels deep. What is not a model is named in one message. Names and paths are in
 * the store of the command. */
#include "cli/serve/serve_models.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/base/output.h"

enum { MAX_MODELS = 256 };

static bool ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Return whether this is a further part ("…-00002-of-00003.gguf") of a split model whose first part is in the
 * same folder. */
static bool is_further_part(const char *path)
{
    size_t n = strlen(path);
    const char *at = n > 20 ? path + n - 20 : NULL;
    char *first;
    bool is;

    if (!at || at[0] != '-' || memcmp(at + 6, "-of-", 4) || strspn(at + 1, "0123456789") != 5 ||
        memcmp(at + 1, "00001", 5) == 0 || !(first = strdup(path)))
        return false;
    memcpy(first + n - 19, "00001", 5);
    is = access(first, F_OK) == 0;
    free(first);
    return is;
}

typedef enum entry_kind { NO_MODEL, A_MODEL, A_PART, A_FOLDER } entry_kind;

static bool folder_has(const char *folder, const char *name)
{
    char *path = NULL;
    bool is = asprintf(&path, "%s/%s", folder, name) > 0 && access(path, F_OK) == 0;

    free(path);
    return is;
}

/* *why: why an entry whose name promises a model is none; else unchanged. */
static entry_kind kind_of(const char *path, const char *name, const char **why)
{
    bool named = ends_in(name, ".gguf");
    struct stat s;

    if (stat(path, &s) < 0) {
        *why = named ? strerror(errno) : *why;
        return NO_MODEL;
    }
    if (S_ISREG(s.st_mode))
        return !named ? NO_MODEL : is_further_part(path) ? A_PART : A_MODEL;
    if (!S_ISDIR(s.st_mode)) {
        *why = named ? "it is not a regular file" : *why;
        return NO_MODEL;
    }
    if (folder_has(path, "config.json"))
        return A_MODEL;
    if (!folder_has(path, "adapter_config.json"))
        return A_FOLDER;
    *why = "it is an adapter: serve its base model with --lora";
    return NO_MODEL;
}

static lm_status add(lm_cli *cli, lm_served_model *list, size_t *n, const char *path, bool found, lm_error *e)
{
    if (*n == MAX_MODELS)
        return lm_fail(e, LM_USAGE, path, LM_NO_OFFSET, "more than %d models", MAX_MODELS);
    if (!(list[*n].path = lm_store_strdup(&cli->store, path)))
        return lm_fail_memory(e, "the models", strlen(path));
    list[(*n)++].found = found;
    return LM_OK;
}

enum { MAX_NAMED = 8 };

/* The skipped paths, for one message. */
typedef struct passed { lm_text names; size_t n; } passed;

static void pass_over(passed *p, const char *path)
{
    if (p->n++ < MAX_NAMED)
        lm_text_printf(&p->names, "%s%s", p->n > 1 ? ", " : "", path);
}

/* Add the models in a folder. `deeper`: also those in its subfolders. */
static lm_status add_entries(lm_cli *cli, const char *folder, bool deeper, lm_served_model *list, size_t *n,
                             passed *p, lm_error *e)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, NULL, alphasort);
    lm_status status = LM_OK;

    if (count < 0)
        return lm_fail_errno(e, folder, "cannot list the models");
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        char *path = NULL;

        if (status == LM_OK && *name != '.' && asprintf(&path, "%s/%s", folder, name) > 0) {
            const char *why = NULL;
            entry_kind kind = kind_of(path, name, &why);
            size_t before = *n;
            if (kind == A_MODEL)
                status = add(cli, list, n, path, true, e);
            else if (kind == A_FOLDER && deeper)
                status = add_entries(cli, path, false, list, n, &(passed){ .n = MAX_NAMED }, e);
            if (why)
                lm_warn("%s is passed over: %s", path, why);
            else if (status == LM_OK && *n == before && kind != A_PART)
                pass_over(p, path);
        }
        free(path);
        free(entries[i]);
    }
    free(entries);
    return status;
}

static lm_status add_folder(lm_cli *cli, const char *folder, lm_served_model *list, size_t *n, lm_error *e)
{
    passed p = { 0 };
    size_t before = *n;
    lm_status status = add_entries(cli, folder, true, list, n, &p, e);

    if (status == LM_OK && *n == before)
        lm_warn("%s holds no .gguf file and no folder of a model", folder);
    else if (status == LM_OK && p.n)
        lm_print_line("passed over, no model: %s%s", p.names.data ? p.names.data : "",
                      p.n > MAX_NAMED ? ", ..." : "");
    lm_text_free(&p.names);
    return status;
}

lm_status lm_served_models(lm_cli *cli, const lm_model_flags *f, const char *folder, bool others,
                           const lm_flag_list *aliases, lm_served_model **out, size_t *n, lm_error *e)
{
    lm_served_model *list = lm_store_new(&cli->store, MAX_MODELS, lm_served_model);

    if (!list)
        return lm_fail_memory(e, "the models", MAX_MODELS * sizeof *list);
    *n = 0;
    for (size_t i = 0; i < cli->n_args || (!i && (f->model || !(folder || others))); i++) {
        const char *path = NULL;
        LM_TRY(lm_find_weights(cli, f, i < cli->n_args ? cli->args[i] : NULL, &path, e));
        LM_TRY(add(cli, list, n, path, false, e));
    }
    if (folder)
        LM_TRY(add_folder(cli, folder, list, n, e));
    if (!*n && !others)
        return lm_fail(e, LM_NOT_FOUND, "--models-dir", LM_NO_OFFSET, "no models in %s", folder);
    if (aliases->n > *n)
        return lm_fail(e, LM_USAGE, "--alias", LM_NO_OFFSET, "%zu names for %zu model%s", aliases->n, *n,
                       *n == 1 ? "" : "s");
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
