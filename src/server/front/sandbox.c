/* sandbox.c - sandbox.h: a ruleset of Landlock (landlock(7)) for files, a filter of libseccomp for system
 * calls. What the kernel does not support is left out, and lm_sandbox_now says so. Threads: the one that
 * starts the server. */
#include "server/front/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sched.h>
#include <seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Rights that the kernel headers of Debian 12 do not define. */
#define FS_TRUNCATE  (UINT64_C(1) << 14)     /* ABI 3 */
#define FS_IOCTL_DEV (UINT64_C(1) << 15)     /* ABI 5 */

#define FS_READ  (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define FS_WRITE (FS_READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG | \
                  LANDLOCK_ACCESS_FS_REMOVE_FILE | FS_TRUNCATE | LANDLOCK_ACCESS_FS_REFER)
#define FS_SOCKET (LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_REMOVE_FILE)
#define FS_OF_FILES (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | \
                     LANDLOCK_ACCESS_FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV)

static lm_sandbox now;

/* What an engine reads of the system when it is created, and chat templates for the time. */
static const char *const of_the_system[] = { "/proc/meminfo", "/proc/self", "/sys/fs/cgroup",
                                             "/sys/devices/system", "/sys/kernel/mm/transparent_hugepage",
                                             "/dev/urandom", "/dev/null", "/etc/localtime",
                                             "/usr/share/zoneinfo", NULL };

static void note_missing(const char *what, const char *why)
{
    size_t n = strlen(now.why);

    snprintf(now.why + n, sizeof now.why - n, "%s%s: %s", n ? "; " : "", what, why);
}

/* ---- files ---- */

/* Return all rights that the kernel supports; 0: it has no Landlock. */
static uint64_t rights(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, (size_t)0, LANDLOCK_CREATE_RULESET_VERSION);
    uint64_t all = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;           /* ABI 1 */

    if (abi < 1)
        return 0;
    if (abi >= 2)
        all |= LANDLOCK_ACCESS_FS_REFER;
    if (abi >= 3)
        all |= FS_TRUNCATE;
    if (abi >= 5)
        all |= FS_IOCTL_DEV;
    return all;
}

static bool allow(int ruleset, const char *path, uint64_t access)
{
    struct landlock_path_beneath_attr rule = { .allowed_access = access,
                                               .parent_fd = open(path, O_PATH | O_CLOEXEC) };
    struct stat s;
    bool added;

    if (rule.parent_fd < 0)
        return true;
    if (fstat(rule.parent_fd, &s) == 0 && !S_ISDIR(s.st_mode))
        rule.allowed_access &= FS_OF_FILES;
    added = !rule.allowed_access ||
            syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0u) == 0;
    close(rule.parent_fd);
    return added;
}

static bool allow_all(int ruleset, const char *const *paths, uint64_t access)
{
    bool added = true;

    for (size_t i = 0; added && paths && paths[i]; i++)
        added = allow(ruleset, paths[i], access);
    return added;
}

void lm_sandbox_files(const char *const *read, const char *const *write, const char *const *sockets)
{
    uint64_t all = rights();
    struct landlock_ruleset_attr attr = { .handled_access_fs = all };
    int ruleset;

    if (!all) {
        note_missing("files are not restricted", "this kernel has no Landlock");
        return;
    }
    if ((ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0u)) < 0) {
        note_missing("files are not restricted", strerror(errno));
        return;
    }
    now.files = allow_all(ruleset, of_the_system, all & FS_READ) && allow_all(ruleset, read, all & FS_READ) &&
                allow_all(ruleset, write, all & FS_WRITE) && allow_all(ruleset, sockets, all & FS_SOCKET) &&
                prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                syscall(SYS_landlock_restrict_self, ruleset, 0u) == 0;
    if (!now.files)
        note_missing("files are not restricted", strerror(errno));
    close(ruleset);
}

/* ---- system calls ---- */

/* System calls that no request needs. Those that do not exist on this architecture are skipped. */
static const char *const forbidden[] = { "execve", "execveat", "fork", "vfork", "ptrace", "process_vm_readv",
                                         "process_vm_writev", "pidfd_getfd", "kcmp", "socket", "socketpair",
                                         "connect", "bind", "listen", "mount", "umount2", "pivot_root",
                                         "chroot", "setns", "unshare", "open_tree", "move_mount", "fsopen",
                                         "fsconfig", "fsmount", "mount_setattr", "init_module",
                                         "finit_module", "delete_module", "kexec_load", "kexec_file_load",
                                         "bpf", "perf_event_open", "userfaultfd", "lookup_dcookie",
                                         "io_uring_setup", "io_uring_enter", "io_uring_register", "keyctl",
                                         "add_key", "request_key", "open_by_handle_at", "name_to_handle_at",
                                         "reboot", "swapon", "swapoff", "settimeofday", "clock_settime",
                                         "clock_adjtime", "adjtimex", "sethostname", "setdomainname", "acct",
                                         "quotactl", "setuid", "setgid", "setreuid", "setregid", "setresuid",
                                         "setresgid", "setgroups", "setfsuid", "setfsgid", "capset",
                                         "personality", "mknod", "mknodat", "chown", "lchown", "fchownat",
                                         "iopl", "ioperm", "modify_ldt", "vhangup", "syslog", NULL };

static int add_calls(scmp_filter_ctx filter)
{
    for (size_t i = 0; forbidden[i]; i++) {
        int call = seccomp_syscall_resolve_name(forbidden[i]);
        int why = call == __NR_SCMP_ERROR ? 0 : seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), call, 0);

        if (why)
            return why;
    }
    /* clone may only create threads; without CLONE_THREAD it creates a process. The flags of clone3 are in
     * memory, where a filter cannot check them: with ENOSYS the C library falls back to clone. */
    int why = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    if (!why)
        why = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                               SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
    return why;
}

void lm_sandbox_calls(void)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    int why = filter ? 0 : -ENOMEM;

    if (!why)
        why = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);        /* existing threads, too */
    if (!why)
        why = add_calls(filter);
    if (!why)
        why = seccomp_load(filter);
    now.calls = !why;
    if (why)
        note_missing("system calls are not restricted", strerror(why < 0 ? -why : why));
    if (filter)
        seccomp_release(filter);
}

const lm_sandbox *lm_sandbox_now(void)
{
    return &now;
}
