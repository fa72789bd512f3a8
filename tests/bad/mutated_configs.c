/* mutated_configs.c - every member of every golden's config.json: missing, of another type, zero, negative,
 * huge, not a number. Each leads to an error or a run. A pair of member and value that many goldens of a
 * family share is changed once. */
#include <dirent.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models.h"
#include "mutants.h"

#define MAX 1024

/* "missing" deletes the member; NaN is not valid JSON, but Python's json module writes it. */
static const char *const changes[] = {
    "missing", "null",  "true", "false", "0",  "1",    "3",    "-1", "2147483648", "4294967297", "9223372036854775807",
    "0.5",     "-2.5",  "1e-320", "1e308", "\"\"", "\"x\"", "[]", "{}", "[null]",   "[[[[]]]]",   "NaN",
};
enum { CHANGES = sizeof changes / sizeof *changes };

static const char   placeholder[] = "@@";
static mutant_count count;

/* Write the document with the placeholder replaced by `change`; a JSON writer cannot produce NaN. */
static void write_config(const char *folder, const json_t *root, const char *change)
{
    char path[512], *text = json_dumps(root, JSON_COMPACT | JSON_ENCODE_ANY),
                    *at = text ? strstr(text, "\"@@\"") : NULL;
    FILE *f;

    snprintf(path, sizeof path, "%s/config.json", folder);
    unlink(path);                        /* when a truncated file is written again, some file systems wait for
                                            the disk */
    f = fopen(path, "w");
    if (!f || !text) {
        perror(path);
        exit(1);
    }
    if (at)
        fprintf(f, "%.*s%s%s", (int)(at - text), text, change, at + 4);
    else
        fputs(text, f);
    fclose(f);
    free(text);
}

static void try_change(const char *folder, const json_t *root, const char *name, const char *path,
                       const char *change)
{
    char what[600];

    snprintf(what, sizeof what, "%.120s: %.300s: %s", name, path, change);
    write_config(folder, root, change);
    mutant_run(folder, what, &count);
}

static void walk(const char *folder, const json_t *root, json_t *at, const char *name, const char *path);

/* A member or an element: `put` replaces it, a NULL deletes it. */
typedef struct slot {
    json_t     *parent;
    const char *key;
    size_t      index;
} slot;

static void put(const slot *s, json_t *value)
{
    if (s->key && value)
        json_object_set(s->parent, s->key, value);
    else if (s->key)
        json_object_del(s->parent, s->key);
    else if (value)
        json_array_set(s->parent, s->index, value);
}

static void change_slot(const char *folder, const json_t *root, const slot *s, json_t *value,
                        const char *name, const char *path)
{
    char    memo[2048], *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    json_t *mark = json_string(placeholder);

    snprintf(memo, sizeof memo, "%.*s %.300s %.1500s", (int)strcspn(name, "/"), name, path, text ? text : "");
    free(text);
    if (mutant_is_new(memo)) {
        json_incref(value);
        for (size_t i = 0; i < CHANGES; i++) {
            if (strcmp(changes[i], "missing") == 0 && !s->key)
                continue;
            put(s, strcmp(changes[i], "missing") == 0 ? NULL : mark);
            try_change(folder, root, name, path, changes[i]);
            put(s, value);
        }
        walk(folder, root, value, name, path);
        json_decref(value);
    }
    json_decref(mark);
}

/* Change the members of objects and the first two elements of arrays. */
static void walk(const char *folder, const json_t *root, json_t *at, const char *name, const char *path)
{
    char        inner[400];
    char       *keys[512];
    size_t      n = 0;
    const char *key;
    json_t     *value;

    if (json_is_object(at))
        json_object_foreach(at, key, value)
            if (n < 512)
                keys[n++] = strdup(key);
    for (size_t i = 0; i < n; i++) {
        snprintf(inner, sizeof inner, "%.300s%s%.80s", path, *path ? "/" : "", keys[i]);
        change_slot(folder, root, &(slot){ at, keys[i], 0 }, json_object_get(at, keys[i]), name, inner);
        free(keys[i]);
    }
    for (size_t i = 0; i < json_array_size(at) && i < 2; i++) {
        snprintf(inner, sizeof inner, "%.300s/%zu", path, i);
        change_slot(folder, root, &(slot){ at, NULL, i }, json_array_get(at, i), name, inner);
    }
}

/* Link (or, with `remove`, unlink) the model files of the golden's folder, except GGUF files. */
static void link_files(const char *from, const char *to, bool remove)
{
    struct dirent *d;
    char           source[1024], target[1024];
    DIR           *all = opendir(from);

    while (all && (d = readdir(all))) {
        const char *dot = strrchr(d->d_name, '.');
        if (!dot || strncmp(d->d_name, "model", 5) != 0 || strcmp(dot, ".gguf") == 0)
            continue;
        snprintf(source, sizeof source, "%.500s/%.255s", from, d->d_name);
        snprintf(target, sizeof target, "%.500s/%.255s", to, d->d_name);
        if (remove ? unlink(target) : symlink(source, target)) {
            perror(target);
            exit(1);
        }
    }
    if (all)
        closedir(all);
}

int main(void)
{
    static golden_model models[MAX];
    size_t              n = golden_models(models, MAX), folders = 0;
    const char         *folder = mutant_begin();
    char                path[600];

    for (size_t i = 0; i < n; i++) {
        if (strcmp(models[i].path, models[i].folder) != 0)
            continue;
        snprintf(path, sizeof path, "%.500s/config.json", models[i].folder);
        json_t *root = json_load_file(path, 0, NULL);
        if (!root) {
            fprintf(stderr, "%s: not read\n", path);
            return 1;
        }
        size_t ran = count.ran;
        link_files(models[i].folder, folder, false);
        write_config(folder, root, "");
        mutant_run(folder, models[i].name, &count);
        if (count.ran == ran) {
            fprintf(stderr, "%s: does not run as it is\n", models[i].name);
            return 1;
        }
        walk(folder, root, root, models[i].name, "");
        link_files(models[i].folder, folder, true);
        json_decref(root);
        folders++;
    }
    mutant_end();
    printf("count: mutated configurations %zu of %zu folders, %zu refused, %zu ran\n",
           count.refused + count.ran, folders, count.refused, count.ran);
    return folders && count.refused && count.ran ? 0 : 1;
}
