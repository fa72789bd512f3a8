/* Every malformed file is rejected with the error line that expected.tsv contains for it, within 64 MB of
 * memory.
 *
 *   bad_files           compare (a test)
 *   bad_files --print   print the current errors in the form of expected.tsv, for review */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "formats/container.h"
#include "lamina/model.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };                  /* RLIMIT_DATA would reject the sanitizer's own shadow memory */
#else
enum { SANITIZED = 0 };
#endif

enum { MAX_ROWS = 2000, HANG_SECONDS = 300, MAX_MB = 64 };

typedef struct outcome {
    char line[1200];                     /* "status<TAB>error line" */
    int  exit_code;                      /* of the child; -1: killed */
    int  signal;
    long grown_kb;                       /* resident memory in excess of that of a process that opens
                                            nothing */
} outcome;

static long idle_kb;

/* In the child: open `path` and write the outcome to `out`. Returns the exit status that a command would
 * have. */
static int open_one(const char *path, FILE *out)
{
    struct rlimit limit = { (rlim_t)MAX_MB << 20, (rlim_t)MAX_MB << 20 };
    lm_container *c;
    lm_model     *m;
    lm_error      e = { .offset = LM_NO_OFFSET };
    char          text[1100];
    lm_status     s;

    if (!SANITIZED)
        setrlimit(RLIMIT_DATA, &limit);
    alarm(HANG_SECONDS);
    if (!path)
        return 0;
    if (!strncmp(path, "model/", 6)) {
        s = lm_model_open(path, NULL, &m, &e);
        if (s == LM_OK)
            lm_model_close(m);
    } else {
        s = lm_container_open(path, NULL, &c, &e);
        if (s == LM_OK)
            lm_container_close(c);
    }
    fprintf(out, "%s\t%s", lm_status_word(s), s == LM_OK ? "" : lm_error_text(&e, text, sizeof text));
    if (s != LM_OK && s != e.code)
        fprintf(out, " [returned %s, the error says %s]", lm_status_word(s), lm_status_word(e.code));
    fflush(out);
    return s == LM_OK ? 0 : s == LM_BAD_MODEL || s == LM_UNSUPPORTED ? 3 : 1;
}

static outcome try_one(const char *path)
{
    outcome       r = { .exit_code = -1 };
    struct rusage used;
    int           ends[2], status;
    pid_t         child;
    size_t        n = 0;
    ssize_t       got;

    fflush(stdout);                      /* otherwise the child would print it again */
    if (pipe(ends) || (child = fork()) < 0) {
        perror("bad_files");
        exit(2);
    }
    if (!child) {
        close(ends[0]);
        FILE *out = fdopen(ends[1], "w");
        int   code = open_one(path, out);
        fclose(out);
        exit(code);                      /* so that the leak check runs */
    }
    close(ends[1]);
    while ((got = read(ends[0], r.line + n, sizeof r.line - 1 - n)) > 0)
        n += (size_t)got;
    close(ends[0]);
    r.line[n] = 0;
    wait4(child, &status, 0, &used);
    r.grown_kb = used.ru_maxrss - idle_kb;
    if (WIFEXITED(status))
        r.exit_code = WEXITSTATUS(status);
    else
        r.signal = WTERMSIG(status);
    return r;
}

/* ---- the files ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static size_t list(const char *folder, char **out, size_t n)
{
    DIR           *d = opendir(folder);
    struct dirent *entry;
    size_t         first = n;

    while (d && (entry = readdir(d)))
        if (entry->d_name[0] != '.' && n < MAX_ROWS && asprintf(&out[n], "%s/%s", folder, entry->d_name) > 0)
            n++;
    if (d)
        closedir(d);
    qsort(out + first, n - first, sizeof *out, by_name);
    return n;
}

/* List what is opened: files and folders of safetensors directly, split models by their first existing
 * part. */
static size_t list_all(char **out)
{
    char  *models[MAX_ROWS], *parts[MAX_ROWS];
    size_t n = list("gguf", out, 0), n_models;

    n        = list("safetensors", out, n);
    n        = list("folder", out, n);
    n        = list("model", out, n);
    n_models = list("split", models, 0);
    for (size_t i = 0; i < n_models; i++) {
        size_t n_parts = list(models[i], parts, 0);
        if (n_parts)
            out[n++] = strdup(parts[0]);
        while (n_parts)
            free(parts[--n_parts]);
        free(models[i]);
    }
    return n;
}

/* ---- the expectations ---- */

static int failures;

static void wrong(const char *path, const char *what, const char *detail)
{
    printf("%s: %s%s\n", path, what, detail);
    failures++;
}

/* Whether the line is the expected one, which may end in "*" if a growing list follows, such as the list of
 * families. */
static bool same(const char *line, const char *expected)
{
    size_t n = strlen(expected);

    return n && expected[n - 1] == '*' ? !strncmp(line, expected, n - 1) : !strcmp(line, expected);
}

static void check(const char *path, const char *expected)
{
    outcome r = try_one(path);
    char    text[64];

    if (r.signal) {
        snprintf(text, sizeof text, "%d", r.signal);
        wrong(path, "ended by signal ", text);
        return;
    }
    if (!same(r.line, expected)) {
        wrong(path, "expected ", expected);
        printf("%*s  but got %s\n", (int)strlen(path), "", r.line);
    }
    if (r.exit_code != (strcmp(path, "model/good.gguf") ? 3 : 0)) {
        snprintf(text, sizeof text, "%d", r.exit_code);
        wrong(path, "wrong exit status: ", text);
    }
    snprintf(text, sizeof text, "%ld kB", r.grown_kb);
    if (r.grown_kb > MAX_MB * 1024L)
        wrong(path, "took ", text);
}

static char *read_rows(const char *path, char **rows, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *text = f ? calloc(1, 1 << 20) : NULL, *rest = text, *line;

    if (!text || !fread(text, 1, (1 << 20) - 1, f)) {
        perror(path);
        exit(2);
    }
    fclose(f);
    *n = 0;
    while ((line = strsep(&rest, "\n")))
        if (*line && *line != '#' && *n < MAX_ROWS)
            rows[(*n)++] = line;
    return text;
}

static void compare_all(char **files, size_t n_files)
{
    char  *rows[MAX_ROWS], *seen = calloc(n_files + 1, 1);
    size_t n_rows, gguf = 0, models = 0;
    char  *text = read_rows("expected.tsv", rows, &n_rows);

    for (size_t i = 0; i < n_rows; i++) {
        char  *tab = strchr(rows[i], '\t');
        size_t k = 0;
        if (!tab) {
            wrong(rows[i], "no tab in this row", "");
            continue;
        }
        *tab = 0;
        while (k < n_files && strcmp(files[k], rows[i]))
            k++;
        if (k == n_files) {
            wrong(rows[i], "has a row but no file", "");
            continue;
        }
        seen[k] = 1;
        models += !strncmp(rows[i], "model/", 6) && strcmp(rows[i], "model/good.gguf");
        gguf += !strncmp(rows[i], "gguf/", 5) || !strncmp(rows[i], "split/", 6);
        check(rows[i], tab + 1);
    }
    for (size_t k = 0; k < n_files; k++)
        if (!seen[k])
            wrong(files[k], "has no row in expected.tsv", "");
    printf("count: malformed GGUF files %zu\n", gguf);
    printf("count: malformed safetensors and Hugging Face files %zu\n", n_rows - gguf - models - 1);
    printf("count: files of impossible models %zu\n", models);
    free(seen);
    free(text);
}

int main(int argc, char **argv)
{
    const char *tests = getenv("LAMINA_TESTS");
    char       *files[MAX_ROWS];
    size_t      n;

    if (!tests || chdir(tests) || chdir("bad")) {
        fprintf(stderr, "bad_files: LAMINA_TESTS does not name the tests\n");
        return 2;
    }
    n       = list_all(files);
    idle_kb = 0;
    idle_kb = try_one(NULL).grown_kb;
    if (argc > 1 && !strcmp(argv[1], "--print"))
        for (size_t i = 0; i < n; i++)
            printf("%s\t%s\n", files[i], try_one(files[i]).line);
    else
        compare_all(files, n);
    while (n)
        free(files[--n]);
    return failures ? 1 : 0;
}
