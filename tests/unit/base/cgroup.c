/* cgroup.c - trees of control groups as Linux lays them out, made of plain files: v1, v2, both, containers,
 * nested groups, nonsense. */
#include "unit.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include "base/os/available.h"
#include "base/os/cgroup.h"

#define MOUNT_V1                                                                                    \
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"                           \
    "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n" \
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:10 master:1 - cgroup cgroup rw,memory\n"
#define MOUNT_V2 "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define LONG_MOUNT "29 23 0:25 / /var/lib rw - overlay overlay rw,lowerdir="

typedef struct file { const char *path, *text; } file;

static char root[128];

static void put(const char *path, const char *text)
{
    char full[512];

    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        mkdir(full, 0700);
        *at = '/';
    }
    write_file(full, text, strlen(text));
}

/* Return the limits that are read from a tree of these files. */
static lm_cgroup read_tree(const file *files)
{
    char      command[320];
    lm_cgroup got;

    snprintf(root, sizeof root, "%s", make_folder());
    for (; files->path; files++)
        put(files->path, files->text);
    lm_cgroup_read(root, &got);
    snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
    return got;
}

#define TREE(...) read_tree((const file[]){ __VA_ARGS__, { 0 } })

static void assert_limits(lm_cgroup got, uint64_t limit, uint64_t left, double processors)
{
    assert_true(got.memory_limit == limit);
    assert_true(got.memory_free == left);
    assert_true(got.processors == processors);
}

static void nothing_limits_nothing(void **state)
{
    (void)state;
    assert_limits(TREE({ "/nothing", "" }), UINT64_MAX, UINT64_MAX, 0);
    assert_limits(TREE({ "/proc/self/cgroup", "0::/\n" }, { "/proc/self/mountinfo", MOUNT_V2 }), UINT64_MAX,
                  UINT64_MAX, 0);
    assert_limits(TREE({ "/proc/self/cgroup", "0::/a\n" }, { "/sys/fs/cgroup/a/memory.max", "1000\n" }),
                  UINT64_MAX, UINT64_MAX, 0);
    assert_limits(TREE({ "/proc/self/cgroup", "0::/a\n" }, { "/proc/self/mountinfo", MOUNT_V2 },
                       { "/sys/fs/cgroup/a/memory.max", "max\n" },
                       { "/sys/fs/cgroup/a/memory.current", "5\n" },
                       { "/sys/fs/cgroup/a/cpu.max", "max 100000\n" }),
                  UINT64_MAX, UINT64_MAX, 0);
    assert_limits(TREE({ "/proc/self/cgroup", "2:memory:/a\n1:cpu,cpuacct:/a\n" },
                       { "/proc/self/mountinfo", MOUNT_V1 },
                       { "/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n" },
                       { "/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n" },
                       { "/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n" }),
                  UINT64_MAX, UINT64_MAX, 0);
}

/* File pages count as available: the kernel reclaims them before it kills a process. */
static void version_2(void **state)
{
    (void)state;
    assert_limits(TREE({ "/proc/self/cgroup", "0::/a.slice/b\n" }, { "/proc/self/mountinfo", MOUNT_V2 },
                       { "/sys/fs/cgroup/a.slice/b/memory.max", "100000000\n" }, { "/sys/fs/cgroup/a.slice/b/memory.current", "60000000\n" },
                       { "/sys/fs/cgroup/a.slice/b/memory.stat", "anon 7\nfile 50000000\ninactive_file 30000000\nactive_file 20000000\n" },
                       { "/sys/fs/cgroup/a.slice/b/cpu.max", "150000 100000\n" }),
                  100000000, 90000000, 1.5);
    assert_limits(TREE({ "/proc/self/cgroup", "0::/b\n" }, { "/proc/self/mountinfo", MOUNT_V2 },
                       { "/sys/fs/cgroup/b/memory.max", "max\n" }, { "/sys/fs/cgroup/b/memory.high", "4096\n" },
                       { "/sys/fs/cgroup/b/memory.current", "8192\n" }),
                  4096, 0, 0);
}

static void version_1(void **state)
{
    (void)state;
    assert_limits(TREE({ "/proc/self/cgroup", "3:cpu,cpuacct:/a\n2:memory:/a\n0::/\n" },
                       { "/proc/self/mountinfo", MOUNT_V1 },
                       { "/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "80000000\n" },
                       { "/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "50000000\n" },
                       { "/sys/fs/cgroup/memory/a/memory.stat",
                         "inactive_file 1\ntotal_inactive_file 10000000\ntotal_active_file 5000000\n" },
                       { "/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "250000\n" },
                       { "/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n" }),
                  80000000, 45000000, 2.5);
}

/* v1 has the memory controller, v2 the others: only v2's own controllers are looked up in v2. */
static void both_versions(void **state)
{
    static const char mounts[] = MOUNT_V1 "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    (void)state;
    assert_limits(TREE({ "/proc/self/cgroup", "0::/u\n4:memory:/m\n9:name=systemd:/s\n" },
                       { "/proc/self/mountinfo", mounts },
                       { "/sys/fs/cgroup/memory/m/memory.limit_in_bytes", "1000\n" },
                       { "/sys/fs/cgroup/unified/u/memory.max", "10\n" },
                       { "/sys/fs/cgroup/unified/u/cpu.max", "50000 100000\n" }),
                  1000, 1000, 0.5);
}

/* The tightest group of all ancestors counts, for the limit and for the available memory independently. */
static void nested_groups(void **state)
{
    (void)state;
    assert_limits(TREE({ "/proc/self/cgroup", "0::/a/b/c\n" }, { "/proc/self/mountinfo", MOUNT_V2 },
                       { "/sys/fs/cgroup/a/memory.max", "5000\n" },
                       { "/sys/fs/cgroup/a/memory.current", "4900\n" },
                       { "/sys/fs/cgroup/a/b/memory.max", "max\n" },
                       { "/sys/fs/cgroup/a/b/c/memory.max", "1000\n" },
                       { "/sys/fs/cgroup/a/b/c/memory.current", "200\n" },
                       { "/sys/fs/cgroup/a/b/c/cpu.max", "400000 100000\n" },
                       { "/sys/fs/cgroup/a/b/cpu.max", "300000 100000\n" },
                       { "/sys/fs/cgroup/a/cpu.max", "max 100000\n" }),
                  1000, 100, 3);
}

/* From inside a container the root of the mount is the container's own group, or the path of the group is the
 * host's and does not exist here. */
static void containers(void **state)
{
    static const char inside[]  = "30 23 0:26 /docker/1\\0402 /sys/fs/cgroup ro - cgroup2 cgroup ro\n";
    static const char outside[] = "30 23 0:26 /../.. /sys/fs/cgroup ro - cgroup2 cgroup ro\n";

    (void)state;
    assert_limits(TREE({ "/proc/self/cgroup", "0::/docker/1 2\n" }, { "/proc/self/mountinfo", inside },
                       { "/sys/fs/cgroup/memory.max", "700\n" },
                       { "/sys/fs/cgroup/memory.current", "100\n" }),
                  700, 600, 0);
    assert_limits(TREE({ "/proc/self/cgroup", "0::/docker/1 2/init\n" }, { "/proc/self/mountinfo", inside },
                       { "/sys/fs/cgroup/memory.max", "700\n" },
                       { "/sys/fs/cgroup/init/memory.max", "300\n" }),
                  300, 300, 0);
    assert_limits(TREE({ "/proc/self/cgroup", "0::/docker/12\n" }, { "/proc/self/mountinfo", inside },
                       { "/sys/fs/cgroup/memory.max", "700\n" }),
                  700, 700, 0);
    assert_limits(TREE({ "/proc/self/cgroup", "0::/../x\n" }, { "/proc/self/mountinfo", outside },
                       { "/sys/fs/cgroup/memory.max", "700\n" }),
                  700, 700, 0);
    assert_limits(TREE({ "/proc/self/cgroup", "0::/gone\n" }, { "/proc/self/mountinfo", MOUNT_V2 },
                       { "/sys/fs/cgroup/memory.max", "700\n" }),
                  700, 700, 0);
}

static void nonsense_limits_nothing(void **state)
{
    static char mounts[20000];

    (void)state;
    snprintf(mounts, sizeof mounts, "%s%015000d\n\n - \n- - -\n1 2 - cgroup2 x y\n%s", LONG_MOUNT, 0,
             MOUNT_V2);
    assert_limits(TREE({ "/proc/self/cgroup", "\n:\n::\n0:\n0::relative\n0::/a\n0::" },
                       { "/proc/self/mountinfo", mounts }, { "/sys/fs/cgroup/a/memory.max", "12x\n" },
                       { "/sys/fs/cgroup/memory.max", "1000" }, { "/sys/fs/cgroup/memory.current", "much\n" },
                       { "/sys/fs/cgroup/memory.stat", "inactive_file\nactive_file x\n\n" },
                       { "/sys/fs/cgroup/a/cpu.max", "0 100000\n" },
                       { "/sys/fs/cgroup/cpu.max", "100000\n" }),
                  1000, 1000, 0);
    assert_limits(TREE({ "/proc/self/cgroup", "0::/\n" }, { "/proc/self/mountinfo", MOUNT_V2 },
                       { "/sys/fs/cgroup/memory.max", "-1\n" }, { "/sys/fs/cgroup/cpu.max", "100000 0\n" }),
                  UINT64_MAX, UINT64_MAX, 0);
    assert_limits(TREE({ "/proc/self/cgroup", "0::/\n" }, { "/proc/self/mountinfo", MOUNT_V2 },
                       { "/sys/fs/cgroup/memory.max", "" }, { "/sys/fs/cgroup/cpu.max", "" }),
                  UINT64_MAX, UINT64_MAX, 0);
    assert_limits(TREE({ "/proc/self/cgroup", "0::/\n" }, { "/proc/self/mountinfo", MOUNT_V2 },
                       { "/sys/fs/cgroup/memory.max", "0\n" },
                       { "/sys/fs/cgroup/memory.current", "99999999999999999999999\n" }),
                  0, 0, 0);
}

/* The memory available to this process is within its limits, whatever they are. */
static void available_is_within_the_limits(void **state)
{
    uint64_t bytes = lm_memory_available(),
             all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    lm_cgroup group;

    (void)state;
    lm_cgroup_read("", &group);
    assert_true(bytes > 1u << 20 && bytes <= all && bytes <= group.memory_limit &&
                bytes <= lm_address_space_limit());
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)      /* sanitizers map terabytes */
/* Under a limit, address space that is already mapped is not available; without a limit it does not
 * matter. */
static void the_address_space_counts(void **state)
{
    struct rlimit before, less;
    uint64_t      free_before = lm_memory_available(), max = UINT64_C(1) << 30;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    less = (struct rlimit){ max, before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_AS, &less), 0);
    uint64_t limit = lm_address_space_limit(), left = lm_memory_available();
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_true(limit == max && left < max && left < free_before);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_limits_nothing), cmocka_unit_test(version_2),
        cmocka_unit_test(version_1),              cmocka_unit_test(both_versions),
        cmocka_unit_test(nested_groups),          cmocka_unit_test(containers),
        cmocka_unit_test(nonsense_limits_nothing), cmocka_unit_test(available_is_within_the_limits),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        cmocka_unit_test(the_address_space_counts),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
