/* cgroup.c - the limits of control groups, from the group of this process up to the highest visible one. */
#include "base/os/cgroup.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONE      UINT64_MAX
#define UNLIMITED (UINT64_C(1) << 62)          /* v1 writes "no limit" as the highest multiple of a page */

/* The groups of a controller: mounted at `mount`, where the root is the group `top`; this process is in
 * `group`. */
typedef struct hierarchy {
    bool v2;
    char mount[PATH_MAX], top[PATH_MAX], group[PATH_MAX];
} hierarchy;

/* ---- lines and numbers ---- */

static FILE *open_file(const char *folder, const char *name)
{
    char path[2 * PATH_MAX];
    int  n = snprintf(path, sizeof path, "%s%s", folder, name);

    return n > 0 && (size_t)n < sizeof path ? fopen(path, "re") : NULL;
}

/* Read the next line without its end. Lines longer than `size` are skipped: none of them is needed. */
static bool next_line(FILE *f, char *line, size_t size)
{
    while (f && fgets(line, (int)size, f)) {
        size_t n = strcspn(line, "\n");
        if (line[n] || feof(f)) {
            line[n] = '\0';
            return true;
        }
        for (int c = 0; c != '\n' && c != EOF;)
            c = getc(f);
    }
    return false;
}

static void close_file(FILE *f)
{
    if (f)
        fclose(f);
}

/* Return the number below UNLIMITED at the start of `text`, which must end the word; otherwise NONE. */
static uint64_t number_in(const char *text)
{
    char *end;

    if (*text < '0' || *text > '9')
        return NONE;
    unsigned long long n = strtoull(text, &end, 10);
    return n < UNLIMITED && (*end == '\0' || *end == ' ') ? n : NONE;
}

static uint64_t number_of(const char *folder, const char *name)
{
    char  line[64];
    FILE *f = open_file(folder, name);
    bool  good = next_line(f, line, sizeof line);

    close_file(f);
    return good ? number_in(line) : NONE;
}

/* ---- limits of one group ---- */

/* Return the bytes of file pages, which are clean or soon written. */
static uint64_t file_pages(const char *folder, bool v2)
{
    const char *const names[] = { v2 ? "inactive_file " : "total_inactive_file ",
                                  v2 ? "active_file " : "total_active_file " };
    char              line[128];
    FILE             *f   = open_file(folder, "/memory.stat");
    uint64_t          sum = 0;

    while (next_line(f, line, sizeof line))
        for (size_t i = 0; i < 2; i++) {
            size_t   n     = strlen(names[i]);
            uint64_t bytes = strncmp(line, names[i], n) == 0 ? number_in(line + n) : NONE;
            sum += bytes == NONE ? 0 : bytes;
        }
    close_file(f);
    return sum;
}

static void limit_memory(const char *folder, bool v2, lm_cgroup *out)
{
    uint64_t limit = number_of(folder, v2 ? "/memory.max" : "/memory.limit_in_bytes");
    /* above it the kernel all but stops a process */
    uint64_t high  = v2 ? number_of(folder, "/memory.high") : NONE;

    limit = high < limit ? high : limit;
    if (limit == NONE)
        return;
    uint64_t used = number_of(folder, v2 ? "/memory.current" : "/memory.usage_in_bytes"),
             files = file_pages(folder, v2);
    used          = used == NONE || used < files ? 0 : used - files;
    uint64_t left = used < limit ? limit - used : 0;
    out->memory_limit = limit < out->memory_limit ? limit : out->memory_limit;
    out->memory_free  = left < out->memory_free ? left : out->memory_free;
}

static void limit_processors(const char *folder, bool v2, lm_cgroup *out)
{
    uint64_t quota = number_of(folder, v2 ? "/cpu.max" : "/cpu.cfs_quota_us"), period = NONE;
    char     line[64];
    FILE    *f = v2 ? open_file(folder, "/cpu.max") : NULL;

    if (!v2)
        period = number_of(folder, "/cpu.cfs_period_us");
    else if (next_line(f, line, sizeof line) && strchr(line, ' '))
        period = number_in(strchr(line, ' ') + 1);
    close_file(f);
    if (quota == NONE || period == NONE || !quota || !period)
        return;
    double share    = (double)quota / (double)period;
    out->processors = out->processors > 0 && out->processors < share ? out->processors : share;
}

/* ---- locating the groups ---- */

static bool is_listed(const char *list, const char *word)
{
    size_t n = strlen(word);

    for (const char *at = list; at; at = strchr(at, ','), at += at != NULL)
        if (strncmp(at, word, n) == 0 && (at[n] == '\0' || at[n] == ','))
            return true;
    return false;
}

/* Find the group: "4:memory:/a/b" is v1; "0::/a/b" is v2, which has the controllers that v1 does not have. */
static bool find_group(const char *root, const char *controller, hierarchy *h)
{
    char  line[PATH_MAX + 256];
    FILE *f     = open_file(root, "/proc/self/cgroup");
    bool  found = false;

    while (next_line(f, line, sizeof line)) {
        char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        if (!path || path[1] != '/' || strlen(path + 1) >= sizeof h->group)
            continue;
        *path   = '\0';
        bool v2 = names[1] == '\0';
        if (v2 ? found : !is_listed(names + 1, controller))
            continue;
        h->v2 = v2;
        found = true;
        snprintf(h->group, sizeof h->group, "%s", path + 1);
    }
    close_file(f);
    return found;
}

/* Copy a path, decoding the octal escapes of characters that would end a word (proc(5)). */
static void copy_path(char to[PATH_MAX], const char *from)
{
    size_t n = 0;

    for (; *from && n + 1 < PATH_MAX; from++)
        if (from[0] == '\\' && strspn(from + 1, "01234567") >= 3) {
            to[n++] = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
            from += 3;
        } else {
            to[n++] = *from;
        }
    to[n] = '\0';
}

/* Find the mount, in a line such as "35 31 0:32 TOP MOUNT rw … - cgroup SOURCE rw,memory". */
static bool find_mount(const char *root, const char *controller, hierarchy *h)
{
    char  line[2 * PATH_MAX];
    FILE *f     = open_file(root, "/proc/self/mountinfo");
    bool  found = false;

    while (!found && next_line(f, line, sizeof line)) {
        char *type = strstr(line, " - "), *words[5], *rest = line;
        if (!type)
            continue;
        *type = '\0';
        type += 3;
        char *source = strchr(type, ' '), *options = source ? strchr(source + 1, ' ') : NULL;
        if (!options)
            continue;
        *source = '\0';
        if (strcmp(type, h->v2 ? "cgroup2" : "cgroup") != 0 || !(h->v2 || is_listed(options + 1, controller)))
            continue;
        for (size_t i = 0; i < 5; i++)
            words[i] = strsep(&rest, " ");
        if (!words[4])
            continue;
        copy_path(h->top, words[3]);
        copy_path(h->mount, words[4]);
        found = true;
    }
    close_file(f);
    return found;
}

/* Return the group's path below the mount; "" if it is not visible there, as for groups outside of a
 * container. */
static const char *below_mount(const hierarchy *h)
{
    size_t n = strcmp(h->top, "/") == 0 ? 0 : strlen(h->top);

    if (strncmp(h->group, h->top, n) != 0 || (h->group[n] && h->group[n] != '/') || strstr(h->group, "/.."))
        return "";
    return strcmp(h->group + n, "/") == 0 ? "" : h->group + n;
}

static void read_controller(const char *root, const char *controller,
                            void (*limit)(const char *folder, bool v2, lm_cgroup *out), lm_cgroup *out)
{
    hierarchy h;
    char      folder[3 * PATH_MAX];

    if (!find_group(root, controller, &h) || !find_mount(root, controller, &h))
        return;
    size_t top = strlen(root) + strlen(h.mount);
    if ((size_t)snprintf(folder, sizeof folder, "%s%s%s", root, h.mount, below_mount(&h)) >= sizeof folder)
        return;
    for (;;) {
        limit(folder, h.v2, out);
        char *last = strrchr(folder, '/');
        if (!last || last < folder + top)
            return;
        *last = '\0';
    }
}

void lm_cgroup_read(const char *root, lm_cgroup *out)
{
    *out = (lm_cgroup){ NONE, NONE, 0 };
    read_controller(root, "memory", limit_memory, out);
    read_controller(root, "cpu", limit_processors, out);
}
