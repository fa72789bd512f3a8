/* model_name.c - the name of a model for people, the same wherever one is shown. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "formats/configfile.h"
#include "formats/container.h"
#include "runtime/model/model.h"

/* Return the last part of a path without ".gguf", the number of a shard ("-00001-of-00003") and a slash at
 * its end. A snapshot of Hugging Face's cache (models--org--name/snapshots/COMMIT) has the name of its
 * repository. */
static lm_view name_in(const char *path)
{
    lm_view  v     = lm_view_of(path);
    unsigned parts = 0;

    while (v.size > 1 && v.data[v.size - 1] == '/')
        v.size--;
    const char *last = memrchr(v.data, '/', v.size), *repository = strstr(path, "models--"),
               *snapshots = repository ? strstr(repository, "/snapshots/") : NULL;
    if (snapshots && last == snapshots + strlen("/snapshots")) {
        v = (lm_view){ repository, (size_t)(snapshots - repository) };
        for (size_t i = v.size; i > 2 && !parts; i--)
            if (memcmp(v.data + i - 2, "--", 2) == 0)
                v = (lm_view){ v.data + i, v.size - i }, parts++;
        return v;
    }
    if (last && last + 1 < v.data + v.size)
        v = (lm_view){ last + 1, (size_t)(v.data + v.size - last - 1) };
    if (lm_view_ends(v, LM_VIEW(".gguf")) && v.size > 5)
        v.size -= 5;
    if (v.size > 15 && v.data[v.size - 15] == '-' && memcmp(v.data + v.size - 9, "-of-", 4) == 0)
        v.size -= 15;
    return v;
}

/* Names that converters give by default, and those of models without a path. */
static bool says_nothing(lm_view name)
{
    return lm_view_equal(name, LM_VIEW("model")) || lm_view_starts(name, LM_VIEW("ggml-model")) ||
           lm_view_equal(name, LM_VIEW("memory")) || lm_view_starts(name, LM_VIEW("descriptor "));
}

/* Return an escaped copy for display: names in files and paths may contain terminal escape sequences or
 * invalid UTF-8. */
static char *shown(lm_model *m, const char *text, size_t n)
{
    char *given = lm_arena_strndup(&m->arena, text, n),
         *out = given ? lm_arena_alloc(&m->arena, 4 * n + 1) : NULL;

    if (out)
        lm_escape(out, 4 * n + 1, given);
    return out;
}

/* Return the name in the keys of a GGUF file: its basename and size, which converters take from the names of
 * published models, else general.name, which is often that of some training run. */
static char *name_in_keys(lm_model *m)
{
    const lm_meta *meta = lm_container_meta(m->container);
    lm_view        name, size;
    char           both[512];

    if (lm_meta_string(meta, "general.basename", &name, NULL) != LM_OK || !name.size) {
        if (lm_meta_string(meta, "general.name", &name, NULL) != LM_OK || !name.size)
            return NULL;
        return shown(m, name.data, name.size);
    }
    if (lm_meta_string(meta, "general.size_label", &size, NULL) != LM_OK)
        size.size = 0;
    int n = snprintf(both, sizeof both, "%.*s%s%.*s", (int)(name.size < 200 ? name.size : 200), name.data,
                     size.size ? "-" : "", (int)(size.size < 200 ? size.size : 200), size.data);
    return shown(m, both, (size_t)n);
}

/* The name is that of the file, which its users know; the keys are used only if it says nothing. */
void lm_model_find_name(lm_model *m, const char *path)
{
    lm_view name = name_in(lm_config_name(path));

    if (m->preset) {
        m->name   = lm_arena_strdup(&m->arena, m->preset->title);
        m->source = lm_arena_strdup(&m->arena, m->preset->source);
        return;
    }
    if (m->container && lm_container_kind_of(m->container) == LM_GGUF && says_nothing(name))
        m->name = name_in_keys(m);
    if (!m->name)
        m->name = shown(m, name.data, name.size);
    m->source = shown(m, lm_config_name(path), strlen(lm_config_name(path)));
}
