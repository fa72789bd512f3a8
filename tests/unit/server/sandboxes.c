/* What a process in the server's sandbox can and cannot do. Each trial runs in its own child, because rights
 * cannot be regained. */
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/front/sandbox.h"

static char models[] = "/tmp/lamina-models-XXXXXX", stores[] = "/tmp/lamina-stores-XXXXXX";

static char *at(const char *folder, const char *name)
{
    static char path[256];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void put(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0666);

    assert_true(fd >= 0 && write(fd, "x", 1) == 1);
    close(fd);
}

static void enter(void)
{
    const char *read[] = { models, "/nowhere", NULL }, *write[] = { stores, NULL };

    lm_sandbox_files(read, write, NULL);
    lm_sandbox_calls();
}

/* Run `trial` in a sandboxed child. Returns 0: it worked, 255: the sandbox is not available, otherwise
 * errno. */
static int in_child(int (*trial)(void))
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        enter();
        _exit(lm_sandbox_now()->calls && lm_sandbox_now()->files ? trial() : 255);
    }
    assert_true(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int opened(const char *path, int flags)
{
    int fd = open(path, flags, 0666);

    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

static int reads_a_model(void)       { return opened(at(models, "m.gguf"), O_RDONLY); }
static int writes_a_model(void)      { return opened(at(models, "m.gguf"), O_RDWR); }
static int makes_a_model(void)       { return opened(at(models, "n.gguf"), O_WRONLY | O_CREAT); }
static int removes_a_model(void)     { return unlink(at(models, "m.gguf")) ? errno : 0; }
static int reads_passwords(void)     { return opened("/etc/passwd", O_RDONLY); }
static int lists_the_root(void)      { return opened("/", O_RDONLY | O_DIRECTORY); }
static int reads_another(void)       { return opened("/proc/1/environ", O_RDONLY); }
static int reads_its_status(void)    { return opened("/proc/self/status", O_RDONLY); }
static int reads_meminfo(void)       { return opened("/proc/meminfo", O_RDONLY); }
static int makes_in_store(void)      { return opened(at(stores, "new"), O_RDWR | O_CREAT); }
static int links_out(void)           { return symlink("/etc/passwd", at(stores, "link")) ? errno : 0; }
static int starts_a_program(void)    { return execl("/bin/true", "true", (char *)NULL) ? errno : 0; }
static int makes_a_socket(void)      { return socket(AF_INET, SOCK_STREAM, 0) < 0 ? errno : 0; }
static int makes_a_unix_socket(void) { return socket(AF_UNIX, SOCK_STREAM, 0) < 0 ? errno : 0; }
static int makes_a_ring(void)        { return syscall(SYS_io_uring_setup, 1, NULL) < 0 ? errno : 0; }

static int maps_memory(void)
{
    return mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED
               ? errno
               : 0;
}

static int renames_in_store(void)
{
    char from[256];

    put(at(stores, "part"));
    snprintf(from, sizeof from, "%s", at(stores, "part"));
    return rename(from, at(stores, "whole")) || unlink(at(stores, "whole")) ? errno : 0;
}

static int makes_a_process(void)
{
    pid_t child = fork();

    if (child == 0)
        _exit(0);
    return child < 0 ? errno : 0;
}

static void *nothing(void *arg) { return arg; }

static int makes_a_thread(void)
{
    pthread_t thread;
    int why = pthread_create(&thread, NULL, nothing, NULL);

    return why ? why : pthread_join(thread, NULL);
}

static void rights_needed_for_serving_remain(void **state)
{
    int (*const trials[])(void) = { reads_a_model, reads_its_status, reads_meminfo, makes_in_store,
                                    renames_in_store, makes_a_thread, maps_memory };

    (void)state;
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++)
        assert_int_equal(in_child(trials[i]), 0);
}

static void all_other_rights_are_dropped(void **state)
{
    int (*const files[])(void) = { writes_a_model, makes_a_model, removes_a_model, reads_passwords,
                                   lists_the_root, reads_another, links_out };
    int (*const calls[])(void) = { starts_a_program, makes_a_socket, makes_a_unix_socket, makes_a_process,
                                   makes_a_ring };

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        assert_int_equal(in_child(files[i]), EACCES);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        assert_int_equal(in_child(calls[i]), EPERM);
}

/* A thread that existed before the sandbox is restricted, too. */
static pthread_barrier_t barrier;
static int answer;

static void *try_later(void *arg)
{
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    answer = makes_a_socket();
    return arg;
}

static void existing_threads_are_restricted(void **state)
{
    int status;
    pid_t child = fork();

    (void)state;
    if (child == 0) {
        pthread_t thread;
        pthread_barrier_init(&barrier, NULL, 2);
        if (pthread_create(&thread, NULL, try_later, NULL))
            _exit(254);
        pthread_barrier_wait(&barrier);
        lm_sandbox_calls();
        pthread_barrier_wait(&barrier);
        pthread_join(thread, NULL);
        _exit(answer);
    }
    assert_true(waitpid(child, &status, 0) == child && WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), EPERM);
}

static int make_folders(void **state)
{
    (void)state;
    /* tests/e2e/serve/test_serve_sandbox.py tests the messages on a kernel without Landlock. */
    if (syscall(SYS_landlock_create_ruleset, NULL, (size_t)0, LANDLOCK_CREATE_RULESET_VERSION) < 1) {
        printf("no Landlock here\n");
        exit(77);
    }
    if (!mkdtemp(models) || !mkdtemp(stores))
        return -1;
    put(at(models, "m.gguf"));
    return 0;
}

static int remove_folders(void **state)
{
    (void)state;
    unlink(at(models, "m.gguf"));
    unlink(at(stores, "new"));
    rmdir(models);
    rmdir(stores);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rights_needed_for_serving_remain),
        cmocka_unit_test(all_other_rights_are_dropped),
        cmocka_unit_test(existing_threads_are_restricted),
    };

    return cmocka_run_group_tests(tests, make_folders, remove_folders);
}
