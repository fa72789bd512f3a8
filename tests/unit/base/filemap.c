/* filemap.c - mapping and reading files; files that shrink underneath. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "base/os/filemap.h"
#include "base/os/sigbus.h"

enum { PAGE = 4096 };

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

/* Install the handler, as the first mapping does. */
static void install_handler(void)
{
    static const char never_mapped[1];

    assert_true(lm_guarded_add(never_mapped, 1));
    lm_guarded_remove(never_mapped);
}

/* cmocka installs its own handlers before each test; ours must stay installed, as in a program. */
static void keep_handler(void)
{
    static struct sigaction ours;

    if (ours.sa_sigaction) {
        sigaction(SIGBUS, &ours, NULL);
    } else {
        install_handler();
        sigaction(SIGBUS, NULL, &ours);
    }
}

static void mapped_and_copied(void **state)
{
    char           path[256];
    lm_alloc_stats before = lm_alloc_statistics();
    lm_filemap     m;
    lm_error       e;

    (void)state;
    keep_handler();                                      /* this is the first mapping of the process */
    path_in(path, folder, "a");
    write_file(path, "weights", 7);
    for (int use_mmap = 0; use_mmap < 2; use_mmap++) {
        assert_int_equal(lm_filemap_open(path, use_mmap, &m, &e), LM_OK);
        assert_int_equal(m.size, 7);
        assert_int_equal(m.copied, !use_mmap);
        assert_memory_equal(m.data, "weights", 7);
        assert_string_equal(m.path, path);
        assert_int_equal(lm_filemap_check(&m, &e), LM_OK);
        lm_filemap_drop(&m, 0, 7);
        lm_filemap_close(&m);
        assert_null(m.data);
    }
    write_file(path, "", 0);
    assert_int_equal(lm_filemap_open(path, true, &m, &e), LM_OK);
    assert_null(m.data);
    assert_int_equal(m.size, 0);
    lm_filemap_close(&m);
    assert_int_equal(lm_alloc_statistics().live_bytes, before.live_bytes);
    lm_filemap closed = { 0 };
    lm_filemap_close(&closed);
    assert_true(fcntl(0, F_GETFD) >= 0 || errno == EBADF);
}

static void only_regular_files(void **state)
{
    char       path[256], text[1024];
    lm_filemap m = { .fd = -7 };
    lm_error   e;

    (void)state;
    path_in(path, folder, "pipe");
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(lm_filemap_open(path, true, &m, &e), LM_IO);        /* and does not wait for a writer */
    assert_non_null(strstr(lm_error_text(&e, text, sizeof text), "is not a regular file"));
    assert_int_equal(lm_filemap_open(folder, true, &m, &e), LM_IO);
    assert_int_equal(lm_filemap_open("/dev/zero", true, &m, &e), LM_IO);
    path_in(path, folder, "absent");
    assert_int_equal(lm_filemap_open(path, true, &m, &e), LM_NOT_FOUND);
    assert_non_null(strstr(lm_error_text(&e, text, sizeof text), "no such file or folder"));
    assert_string_equal(e.file, path);
    assert_int_equal(m.fd, -7);                          /* written only on success */
}

static size_t open_files(void)
{
    size_t n = 0;

    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void failed_allocations_leave_nothing_open(void **state)
{
    char       path[256];
    lm_filemap m;
    lm_error   e;

    (void)state;
    path_in(path, folder, "b");
    write_file(path, "weights", 7);
    for (int use_mmap = 0; use_mmap < 2; use_mmap++)
        for (uint64_t n = 1; n <= (use_mmap ? 1u : 2u); n++) {
            size_t         files  = open_files();
            lm_alloc_stats before = lm_alloc_statistics();
            lm_alloc_fail_at(n);
            assert_int_equal(lm_filemap_open(path, use_mmap, &m, &e), LM_NO_MEMORY);
            lm_alloc_fail_at(0);
            assert_int_equal(open_files(), files);
            assert_int_equal(lm_alloc_statistics().live_bytes, before.live_bytes);
        }
}

/* ---- files that shrink ---- */

static lm_filemap open_two_pages(void)
{
    static const char zeros[2 * PAGE];
    char              path[256];
    lm_filemap        m;

    keep_handler();
    path_in(path, folder, "shrinks");
    write_file(path, zeros, sizeof zeros);
    assert_int_equal(lm_filemap_open(path, true, &m, NULL), LM_OK);
    return m;
}

typedef struct touch { const volatile uint8_t *at; int sum; } touch;

static lm_status read_byte(void *arg)
{
    touch *t = arg;

    t->sum += *t->at + 1;
    return LM_OK;
}

static void a_cut_file_is_an_error(void **state)
{
    lm_filemap m = open_two_pages();
    lm_error   e;
    char       text[1024];

    (void)state;
    touch good = { m.data, 0 }, lost = { m.data + PAGE, 0 };
    assert_int_equal(lm_filemap_guard(read_byte, &lost, m.path, &e), LM_OK);
    assert_int_equal(truncate(m.path, PAGE), 0);
    assert_int_equal(lm_filemap_check(&m, &e), LM_IO);
    for (int i = 0; i < 3; i++) {                        /* repeatedly, and no signal is left blocked */
        assert_int_equal(lm_filemap_guard(read_byte, &lost, m.path, &e), LM_IO);
        assert_non_null(
            strstr(lm_error_text(&e, text, sizeof text), "shrinks: the file was truncated while in use"));
        assert_int_equal(lm_filemap_guard(read_byte, &good, m.path, &e), LM_OK);
    }
    assert_int_equal(lost.sum, 1);
    assert_int_equal(good.sum, 3);
    lm_filemap_close(&m);
}

typedef struct nested { touch inner; lm_status status; bool after; } nested;

static lm_status guard_inside(void *arg)
{
    nested *n = arg;

    n->status = lm_filemap_guard(read_byte, &n->inner, NULL, NULL);
    n->after  = true;
    return read_byte(&n->inner);                         /* now the outer guard catches */
}

static void guards_nest(void **state)
{
    lm_filemap m = open_two_pages();

    (void)state;
    assert_int_equal(truncate(m.path, 0), 0);
    nested n = { .inner = { m.data, 0 } };
    assert_int_equal(lm_filemap_guard(guard_inside, &n, m.path, NULL), LM_IO);
    assert_int_equal(n.status, LM_IO);
    assert_true(n.after);
    lm_filemap_close(&m);
}

static void *guarded_thread(void *arg)
{
    for (int i = 0; i < 200; i++)
        if (lm_filemap_guard(read_byte, arg, NULL, NULL) != LM_IO)
            return NULL;
    return arg;
}

/* Each thread jumps back to its own guard. */
static void threads_fault_apart(void **state)
{
    lm_filemap m = open_two_pages();
    pthread_t  t[4];
    touch      lost[4];

    (void)state;
    assert_int_equal(truncate(m.path, 0), 0);
    for (size_t i = 0; i < 4; i++) {
        lost[i] = (touch){ m.data + 100 * i, 0 };
        assert_int_equal(pthread_create(&t[i], NULL, guarded_thread, &lost[i]), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        void *result;
        pthread_join(t[i], &result);
        assert_ptr_equal(result, &lost[i]);
    }
    lm_filemap_close(&m);
}

/* A file mapped by other code: faults in it are not ours, with or without a guard. */
static const volatile uint8_t *foreign_mapping(void)
{
    char path[256];
    path_in(path, folder, "foreign");
    int fd = open(path, O_RDWR | O_CREAT, 0600);

    assert_int_equal(ftruncate(fd, PAGE), 0);
    void *p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(p != MAP_FAILED);
    assert_int_equal(ftruncate(fd, 0), 0);
    close(fd);
    return p;
}

static void exit_with_7(int number)
{
    (void)number;
    _exit(7);
}

/* Run `act` in a child and return the child's wait status. */
static int status_of(void (*act)(const volatile uint8_t *), const volatile uint8_t *at)
{
    int   status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        act(at);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void touch_foreign_in_guard(const volatile uint8_t *at)
{
    touch t = { at, 0 };
    install_handler();
    lm_filemap_guard(read_byte, &t, NULL, NULL);
}

static void touch_outside_guard(const volatile uint8_t *at)
{
    install_handler();
    (void)*at;
}

static void sent_by_somebody(const volatile uint8_t *at)
{
    (void)at;
    install_handler();
    raise(SIGBUS);
}

/* The handler is installed once per process, so the test sets the previous handler in children that have not
 * mapped anything yet. */
static void other_faults_end_as_before(void **state)
{
    const volatile uint8_t *foreign = foreign_mapping();

    (void)state;
    signal(SIGBUS, SIG_DFL);                             /* a sanitizer's handler would interfere */
    int a = status_of(touch_foreign_in_guard, foreign), b = status_of(touch_outside_guard, foreign);
    int c = status_of(sent_by_somebody, foreign);
    assert_true(WIFSIGNALED(a) && WTERMSIG(a) == SIGBUS);
    assert_true(WIFSIGNALED(b) && WTERMSIG(b) == SIGBUS);
    assert_true(WIFSIGNALED(c) && WTERMSIG(c) == SIGBUS);

    signal(SIGBUS, exit_with_7);
    a = status_of(touch_foreign_in_guard, foreign), b = status_of(touch_outside_guard, foreign);
    c = status_of(sent_by_somebody, foreign);
    assert_true(WIFEXITED(a) && WEXITSTATUS(a) == 7);
    assert_true(WIFEXITED(b) && WEXITSTATUS(b) == 7);
    assert_true(WIFEXITED(c) && WEXITSTATUS(c) == 7);

    signal(SIGBUS, SIG_IGN);                             /* a fault cannot be ignored; a signal that was sent
                                                            can */
    a = status_of(touch_outside_guard, foreign);
    c = status_of(sent_by_somebody, foreign);
    assert_true(WIFSIGNALED(a) && WTERMSIG(a) == SIGBUS);
    assert_true(WIFEXITED(c) && WEXITSTATUS(c) == 0);
    signal(SIGBUS, SIG_DFL);
}

/* A file that is copied, not mapped, does not replace the host's handler. */
static void guard_without_mappings(const volatile uint8_t *at)
{
    static const char text[] = "weights";
    char              path[256];
    lm_filemap        m;
    struct sigaction  now;
    touch             t = { 0 };

    (void)at;
    path_in(path, folder, "copied");
    write_file(path, text, sizeof text);
    if (lm_filemap_open(path, false, &m, NULL) != LM_OK)
        _exit(1);
    t.at = m.data;
    if (lm_filemap_guard(read_byte, &t, NULL, NULL) != LM_OK || t.sum != 'w' + 1 ||
        sigaction(SIGBUS, NULL, &now) != 0)
        _exit(2);
    _exit(now.sa_handler == exit_with_7 ? 0 : 3);
}

static void without_mappings_the_handler_is_the_hosts(void **state)
{
    (void)state;
    signal(SIGBUS, exit_with_7);
    int status = status_of(guard_without_mappings, NULL);
    signal(SIGBUS, SIG_DFL);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static struct sigaction  before_host;
static volatile int      host_asked;

/* A handler of a host as lamina.h requires it. */
static void host_handler(int number, siginfo_t *info, void *context)
{
    host_asked++;
    before_host.sa_sigaction(number, info, context);
}

/* A host's handler that was installed after ours and passes on unknown faults: a truncated file is an error
 * every time. */
static void a_host_handler_that_forwards_signals(void **state)
{
    lm_filemap       m      = open_two_pages();
    struct sigaction action = { .sa_sigaction = host_handler, .sa_flags = SA_SIGINFO | SA_NODEFER };
    touch            lost   = { m.data + PAGE, 0 };
    lm_error         e;

    (void)state;
    sigemptyset(&action.sa_mask);
    assert_int_equal(sigaction(SIGBUS, &action, &before_host), 0);
    assert_int_equal(truncate(m.path, 0), 0);
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(lm_filemap_guard(read_byte, &lost, "shrinks", &e), LM_IO);
        assert_int_equal(host_asked, i);
    }
    sigaction(SIGBUS, &before_host, NULL);
    lm_filemap_close(&m);
}

/* Make more mappings than the first table holds. */
static void many_mappings(void **state)
{
    enum { MANY = 300 };
    static lm_filemap m[MANY];
    char              path[256];
    static const char zeros[PAGE];

    (void)state;
    keep_handler();
    path_in(path, folder, "many");
    write_file(path, zeros, sizeof zeros);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(lm_filemap_open(path, true, &m[i], NULL), LM_OK);
    assert_int_equal(truncate(path, 0), 0);
    for (size_t i = 0; i < MANY; i++) {
        touch t = { m[i].data, 0 };
        assert_int_equal(lm_filemap_guard(read_byte, &t, NULL, NULL), LM_IO);
        lm_filemap_close(&m[i]);
    }
}

/* ---- small files ---- */

static void whole_small_files(void **state)
{
    char     path[256], *data = NULL;
    size_t   size = 0;
    lm_error e;

    (void)state;
    path_in(path, folder, "small");
    write_file(path, "{}\n", 3);
    assert_int_equal(lm_file_read(path, 3, &data, &size, &e), LM_OK);
    assert_string_equal(data, "{}\n");
    assert_int_equal(size, 3);
    lm_free(data);
    assert_int_equal(lm_file_read(path, 2, &data, &size, &e), LM_BAD_MODEL);
    write_file(path, "", 0);
    assert_int_equal(lm_file_read(path, 2, &data, &size, &e), LM_OK);
    assert_string_equal(data, "");
    lm_free(data);
    path_in(path, folder, "nowhere");
    assert_int_equal(lm_file_read(path, 2, &data, &size, &e), LM_NOT_FOUND);
    assert_int_equal(lm_file_read(folder, 2, &data, &size, &e), LM_IO);
    assert_true(lm_path_is_folder(folder));
    assert_false(lm_path_is_file(folder));
    assert_false(lm_path_is_folder(path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_faults_end_as_before),    /* first: before this process has a guard */
        cmocka_unit_test(without_mappings_the_handler_is_the_hosts),
        cmocka_unit_test(mapped_and_copied),
        cmocka_unit_test(only_regular_files),
        cmocka_unit_test(failed_allocations_leave_nothing_open),
        cmocka_unit_test(a_cut_file_is_an_error),
        cmocka_unit_test(guards_nest),
        cmocka_unit_test(threads_fault_apart),
        cmocka_unit_test(a_host_handler_that_forwards_signals),
        cmocka_unit_test(many_mappings),
        cmocka_unit_test(whole_small_files),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
