/* locate.c - resolve the name of a model to a file or folder. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/str.h"
#include "formats/configfile.h"
#include "formats/hub.h"
#include "lamina/model.h"
#include "lamina/preset.h"

static const char demo[] = "SmolLM2-135M-Instruct.Q4_1.gguf";

static lm_status add_path(lm_text *out, const char *path, lm_error *e)
{
    return lm_text_append(out, path, strlen(path), "a path", e);
}

/* Append the cache folder with a trailing slash; nothing if no environment variable names one. */
static void cache_folder(lm_text *out)
{
    const char *own = getenv("LAMINA_CACHE"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

    if (own && *own)
        lm_text_printf(out, "%s/", own);
    else if (cache && *cache)
        lm_text_printf(out, "%s/lamina/", cache);
    else if (home && *home)
        lm_text_printf(out, "%s/.cache/lamina/", home);
}

static void models_folder(lm_text *out)
{
    cache_folder(out);
    if (out->size)
        lm_text_add_str(out, "models/");
}

lm_status lm_cache_folder(lm_text *path, lm_error *e)
{
    LM_REQUIRE(e, path);
    lm_text folder = { 0 };
    lm_status status = LM_OK;

    cache_folder(&folder);
    if (folder.failed)
        status = lm_fail_memory(e, "a path", folder.size);
    else if (!folder.size)
        status = lm_fail(e, LM_NOT_FOUND, "cache", LM_NO_OFFSET,
                         "none of LAMINA_CACHE, XDG_CACHE_HOME and HOME is set");
    else
        status = add_path(path, folder.data, e);
    lm_text_free(&folder);
    return status;
}

/* Return how well an entry of the cache matches a name: 2 fully, 1 except for ".TYPE.gguf" or the number of a
 * part, 0 not at all. */
static int answers(const char *entry, const char *name)
{
    size_t n = strlen(name);
    const char *rest = entry + n, *dot;

    if (strncasecmp(entry, name, n) != 0)
        return 0;
    if (!*rest || strcasecmp(rest, ".gguf") == 0)
        return 2;
    if (strstr(entry, "-of-") && !strstr(entry, "-00001-of-"))
        return 0;                                        /* a split model is named by its first part */
    if (strncmp(rest, "-00001-of-", 10) == 0)
        return 1;
    dot = *rest == '.' || *rest == '-' ? strchr(rest + 1, '.') : NULL;
    return dot && strcasecmp(dot, ".gguf") == 0;
}

/* Append the one entry of `folder` that matches `name` best to `folder`. LM_USAGE: two match equally well. */
static lm_status search(lm_text *folder, const char *name, bool *found, lm_error *e)
{
    DIR *dir = folder->data ? opendir(folder->data) : NULL;
    char best[256] = "", other[256] = "";
    int quality = 0;

    *found = false;
    if (!dir)
        return LM_OK;
    for (struct dirent *d; (d = readdir(dir));) {
        int q = d->d_name[0] == '.' ? 0 : answers(d->d_name, name);
        if (q == 0 || q < quality)
            continue;
        if (q == quality)
            snprintf(other, sizeof other, "%s", best);       /* as good as the best so far: ambiguous */
        else
            other[0] = '\0';
        snprintf(best, sizeof best, "%s", d->d_name);
        quality = q;
    }
    closedir(dir);
    if (*best && *other)
        return lm_fail(e, LM_USAGE, name, LM_NO_OFFSET, "could be %s or %s of the cache", other, best);
    *found = *best != 0;
    if (*found)
        lm_text_add_str(folder, best);
    return LM_OK;
}

/* Search for "org/name" or "org/name:TYPE": the cache names its files without the organisation. */
static lm_status search_published(lm_text *folder, const char *id, bool *found, lm_error *e)
{
    const char  *name = strchr(id, '/') + 1, *colon = strchr(name, ':');
    const size_t n = colon ? (size_t)(colon - name) : strlen(name), before = folder->size;

    *found = false;
    for (const char *mark = colon ? ".-" : "."; *mark && !*found; mark++) {
        lm_text file = { 0 };
        lm_text_printf(&file, "%.*s", (int)n, name);
        if (colon)
            lm_text_printf(&file, "%c%s", *mark, colon + 1);
        lm_status status = file.failed ? lm_fail_memory(e, "a path", n) : search(folder, file.data, found, e);
        lm_text_free(&file);
        LM_TRY(status);
    }
    if (folder->failed)
        return lm_fail_memory(e, "a path", before);
    return LM_OK;
}

static lm_status not_there(const char *name, lm_error *e)
{
    return lm_fail(e, LM_NOT_FOUND, name, LM_NO_OFFSET,
                   "no such file or folder, and no such model in the cache");
}

/* Return whether a name looks like a path: a mistyped path is not the name of a published model. */
static bool is_path(const char *name)
{
    const char *slash = strchr(name, '/');

    return *name == '.' || *name == '/' || (slash && strchr(slash + 1, '/')) ||
           lm_view_ends(lm_view_of(name), LM_VIEW(".gguf")) ||
           lm_view_ends(lm_view_of(name), LM_VIEW(".json")) || lm_view_ends(lm_view_of(name), LM_VIEW("/"));
}

/* Look for a preset, as the last resort. If there is none, the error has the nearest preset as a hint. */
static lm_status find_preset(const char *name, lm_text *path, lm_error *e)
{
    const lm_preset *p;
    lm_error         other = { .offset = LM_NO_OFFSET };
    lm_status        status;

    if (strncmp(name, LM_PRESET_PREFIX, strlen(LM_PRESET_PREFIX)) == 0)
        name += strlen(LM_PRESET_PREFIX);
    else if (is_path(name))
        return not_there(name, e);
    status = lm_preset_find(name, &p, &other);
    if (status == LM_OK) {
        LM_TRY(add_path(path, LM_PRESET_PREFIX, e));
        return add_path(path, p->name, e);
    }
    if (status != LM_NOT_FOUND) {
        if (e)
            *e = other;
        return status;
    }
    not_there(name, e);
    return *other.hint ? lm_fail_hint(e, "%s", other.hint) : LM_NOT_FOUND;
}

static lm_status find_demo(lm_text *folder, lm_text *path, lm_error *e)
{
    struct stat st;

    lm_text_add_str(folder, demo);
    if (folder->failed)
        return lm_fail_memory(e, "a path", folder->size);
    if (stat(folder->data, &st) == 0)
        return add_path(path, folder->data, e);
    lm_fail(e, LM_NOT_FOUND, "MODEL", LM_NO_OFFSET, "no MODEL given, and the demo model is not installed");
    lm_fail_in(e, folder->data);
    lm_fail_hint(e, "name a .gguf file or a Hugging Face folder");
    return LM_NOT_FOUND;
}

static lm_status locate(const char *name, lm_text *folder, lm_text *path, lm_error *e)
{
    struct stat st;
    bool found = false;
    char *hub = NULL;
    lm_status status;

    if (!name)
        return find_demo(folder, path, e);
    if (!*name)
        return lm_fail(e, LM_USAGE, "MODEL", LM_NO_OFFSET, "an empty name");
    if (strcmp(name, "-") == 0)
        return add_path(path, LM_STANDARD_INPUT, e);
    if (stat(name, &st) == 0)
        return add_path(path, name, e);
    if (!strchr(name, '/'))
        LM_TRY(search(folder, name, &found, e));
    if (folder->failed)
        return lm_fail_memory(e, "a path", folder->size);
    if (found)
        return add_path(path, folder->data, e);

    status = lm_hub_resolve(name, NULL, &hub, e);
    if (status == LM_NOT_FOUND && strchr(name, '/')) {
        LM_TRY(search_published(folder, name, &found, e));
        if (found)
            return add_path(path, folder->data, e);
    }
    if (status == LM_USAGE || status == LM_NOT_FOUND) { /* a path, not an id; or an id that the caches do not
                                                           hold */
        const lm_preset *p;
        if (status == LM_USAGE || !strchr(name, '/') || lm_preset_find(name, &p, NULL) == LM_OK)
            return find_preset(name, path, e);
    }
    if (status != LM_OK)
        return status;
    status = add_path(path, hub, e);
    lm_free(hub);
    return status;
}

lm_status lm_model_locate(const char *name, lm_text *path, lm_error *e)
{
    LM_REQUIRE(e, path);
    lm_text folder = { 0 };
    lm_status status;

    models_folder(&folder);
    status = locate(name, &folder, path, e);
    lm_text_free(&folder);
    return status;
}
