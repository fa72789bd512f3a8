/* outfile.c - replacing files: complete or unchanged, whatever fails; what dead writers left is removed. */
#include "unit.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "base/os/filemap.h"
#include "base/os/temporary.h"

static char folder[128];

static int setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s", make_folder());
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return remove_folder(folder);
}

static size_t names_in_folder(void)
{
    char   command[320];
    size_t n = 0;
    snprintf(command, sizeof command, "ls -A %s | wc -l", folder);
    FILE *p = popen(command, "r");

    assert_int_equal(fscanf(p, "%zu", &n), 1);
    pclose(p);
    return n;
}

static void outfiles_are_whole_or_absent(void **state)
{
    char        path[256], *data = NULL;
    size_t      size = 0, names = names_in_folder();
    lm_outfile *f;
    lm_error    e;
    struct stat st;

    (void)state;
    path_in(path, folder, "out");
    assert_int_equal(lm_outfile_open(path, &f, &e), LM_OK);
    assert_int_equal(lm_outfile_write(f, "half", 4, &e), LM_OK);
    assert_false(lm_path_is_file(path));
    lm_outfile_abort(f);
    assert_int_equal(names_in_folder(), names);

    write_file(path, "old", 3);
    mode_t mask = umask(027);
    assert_int_equal(lm_outfile_open(path, &f, &e), LM_OK);
    umask(mask);
    assert_int_equal(lm_outfile_write(f, "whole ", 6, &e), LM_OK);
    assert_int_equal(lm_outfile_write(f, NULL, 0, &e), LM_OK);
    assert_int_equal(lm_outfile_write(f, "text", 4, &e), LM_OK);
    assert_int_equal(lm_outfile_commit(f, &e), LM_OK);
    assert_int_equal(names_in_folder(), names + 1);
    assert_int_equal(lm_file_read(path, 100, &data, &size, &e), LM_OK);
    assert_string_equal(data, "whole text");
    lm_free(data);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);

    path_in(path, folder, "no/such/folder");
    assert_int_equal(lm_outfile_open(path, &f, &e), LM_NOT_FOUND);
    assert_string_equal(e.file, path);
    lm_outfile_abort(NULL);
}

/* An output file does not replace a special file or a link. As root, renaming a file to /dev/null would break
 * it for every process, and a pipe's reader would wait forever. */
static void outfiles_replace_only_files(void **state)
{
    char        path[256], link[256], text[8] = "";
    size_t      names;
    lm_outfile *f;
    lm_error    e;
    struct stat st;

    (void)state;
    path_in(path, folder, "outpipe");
    assert_int_equal(mkfifo(path, 0600), 0);
    names = names_in_folder();
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    assert_int_equal(lm_outfile_open(path, &f, &e), LM_OK);
    assert_int_equal(lm_outfile_write(f, "text", 4, &e), LM_OK);
    assert_int_equal(lm_outfile_commit(f, &e), LM_OK);
    assert_int_equal(read(reader, text, sizeof text), 4);
    assert_memory_equal(text, "text", 4);
    close(reader);
    assert_int_equal(stat(path, &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
    assert_int_equal(names_in_folder(), names);

    path_in(path, folder, "target");
    path_in(link, folder, "link");
    write_file(path, "old", 3);
    assert_int_equal(symlink("target", link), 0);
    assert_int_equal(lm_outfile_open(link, &f, &e), LM_OK);
    assert_int_equal(lm_outfile_write(f, "longer", 6, &e), LM_OK);
    assert_int_equal(lm_outfile_commit(f, &e), LM_OK);
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 6);

    assert_int_equal(unlink(path), 0);                   /* now the link is dangling */
    names = names_in_folder();
    assert_int_equal(lm_outfile_open(link, &f, &e), LM_NOT_FOUND);
    assert_non_null(strstr(e.message, "leads nowhere"));
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(names_in_folder(), names);
    assert_int_equal(unlink(link), 0);
}

/* If the name has become a folder meanwhile, commit is an error and no temporary file is left. */
static void outfiles_that_cannot_be_placed(void **state)
{
    char        path[256];
    lm_outfile *f;
    lm_error    e;

    (void)state;
    path_in(path, folder, "taken");
    assert_int_equal(lm_outfile_open(path, &f, &e), LM_OK);
    assert_int_equal(mkdir(path, 0700), 0);
    size_t names = names_in_folder();
    assert_int_equal(lm_outfile_commit(f, &e), LM_IO);
    assert_int_equal(names_in_folder(), names - 1);
}

/* Start a process that writes `name`, and kill it in the middle. */
static void kill_a_writer(const char *name)
{
    char  path[256];
    int   ready[2], status;
    char  byte;
    pid_t child;

    path_in(path, folder, name);
    assert_int_equal(pipe(ready), 0);
    child = fork();
    if (child == 0) {
        lm_outfile *f;
        if (lm_outfile_open(path, &f, NULL) != LM_OK || lm_outfile_write(f, "half", 4, NULL) != LM_OK ||
            write(ready[1], "x", 1) != 1)
            _exit(1);
        pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    close(ready[0]);
    close(ready[1]);
}

/* The next writer in the folder, whatever it writes, removes temporary files of dead writers, and no file
 * with a similar name. */
static void files_of_killed_writers_are_removed(void **state)
{
    static const char *const strangers[] = { ".lamina-0123456789abcde", ".lamina-0123456789abcdef0",
                                             "lamina-0123456789abcdef", ".lamina-0123456789abcdeF" };
    char        path[256], link[256];
    size_t      names = names_in_folder();
    lm_outfile *alive;

    (void)state;
    kill_a_writer("one");
    assert_int_equal(names_in_folder(), names + 1);
    kill_a_writer("two");
    assert_int_equal(names_in_folder(), names + 1);      /* the second removed the file of the first */
    path_in(path, folder, "three");
    assert_int_equal(lm_outfile_open(path, &alive, NULL), LM_OK);
    assert_int_equal(lm_outfile_write(alive, "text", 4, NULL), LM_OK);
    assert_int_equal(names_in_folder(), names + 1);
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++) {
        path_in(path, folder, strangers[i]);
        write_file(path, "mine", 4);
    }
    path_in(path, folder, "four");                       /* while the third is being written */
    path_in(link, folder, ".lamina-00000000000000aa");
    assert_int_equal(symlink(strangers[0], link), 0);
    assert_int_equal(lm_file_write(path, "four", 4, NULL), LM_OK);
    assert_int_equal(names_in_folder(), names + 7);
    assert_int_equal(lm_outfile_commit(alive, NULL), LM_OK);
    assert_int_equal(names_in_folder(), names + 7);
    path_in(path, folder, "three");
    assert_true(lm_path_is_file(path));
}

/* Incomplete folders are removed too, with the files in them. */
static void half_folders_are_swept(void **state)
{
    char   path[256], name[PATH_MAX], inside[PATH_MAX + 8];
    size_t names = names_in_folder();

    (void)state;
    path_in(path, folder, "model");
    int fd = lm_temporary_folder(path, name);
    assert_true(fd >= 0);
    snprintf(inside, sizeof inside, "%s/a", name);
    write_file(inside, "text", 4);
    int other = lm_temporary_folder(path, inside);
    assert_true(other >= 0);
    assert_int_equal(names_in_folder(), names + 2);      /* both are being written */
    close(fd);
    close(other);                                        /* as if their owners had died */
    assert_int_equal(lm_file_write(path, "x", 1, NULL), LM_OK);
    assert_int_equal(names_in_folder(), names + 1);
}

/* A full disk is an error, at the latest when the file is committed. */
static void full_disks_are_noticed(void **state)
{
    lm_outfile *f;
    lm_error    e;
    char        data[1 << 16] = { 0 };

    (void)state;
    struct sigaction ignore = { .sa_handler = SIG_IGN }, before;
    sigaction(SIGXFSZ, &ignore, &before);
    int status = 0;
    pid_t child = fork();
    if (child == 0) {                                    /* a limit on file sizes simulates a full disk */
        char path[256];
        path_in(path, folder, "big");
        if (lm_outfile_open(path, &f, &e) != LM_OK)
            _exit(1);
        if (setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 100000, 100000 }) != 0)
            _exit(2);
        lm_status s = LM_OK;
        for (int i = 0; i < 3 && s == LM_OK; i++)
            s = lm_outfile_write(f, data, sizeof data, &e);
        s = s == LM_OK ? lm_outfile_commit(f, &e) : (lm_outfile_abort(f), s);
        _exit(s == LM_IO && strstr(e.message, "File too large") && !lm_path_is_file(path) ? 0 : 3);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    sigaction(SIGXFSZ, &before, NULL);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outfiles_are_whole_or_absent),
        cmocka_unit_test(outfiles_replace_only_files),
        cmocka_unit_test(outfiles_that_cannot_be_placed),
        cmocka_unit_test(files_of_killed_writers_are_removed),
        cmocka_unit_test(half_folders_are_swept),
        cmocka_unit_test(full_disks_are_noticed),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
