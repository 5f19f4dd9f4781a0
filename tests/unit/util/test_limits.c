/* NP: 1 2 3
 * Limits of memory and cores from a simulated /proc and /sys and from Slurm's variables, and their
 * division among the ranks of a node. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "util/fsx.h"
#include "util/limits.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const int64_t gib = INT64_C(1) << 30;

static const char *const slurm[] = {
    "SLURM_MEM_PER_NODE",    "SLURM_MEM_PER_CPU",    "SLURM_CPUS_PER_TASK",
    "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE", "SLURM_CPUS_ON_NODE",
};

static char root[64];

static void put(const char *path, const char *text)
{
    struct err e = {0};
    char full[512];
    snprintf(full, sizeof full, "%s%s", root, path);
    assert_int_equal(fsx_make_parent(full, &e), OK);
    assert_int_equal(fsx_write_atomic(full, text, strlen(text), &e), OK);
}

/* A machine of 64 GiB and 16 CPUs, of which this process may use 8. */
static int setup(void **state)
{
    (void)state;
    strcpy(root, "/tmp/limits.XXXXXX");
    if (!mkdtemp(root)) return -1;
    for (size_t i = 0; i < sizeof slurm / sizeof *slurm; i++) unsetenv(slurm[i]);
    put("/proc/meminfo",
        "MemTotal:       67108864 kB\nMemFree: 1 kB\nMemAvailable:   33554432 kB\n");
    put("/proc/self/status", "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-5,8,10\n");
    put("/sys/devices/system/cpu/online", "0-15\n");
    return 0;
}

static int teardown(void **state)
{
    char command[128];
    (void)state;
    for (size_t i = 0; i < sizeof slurm / sizeof *slurm; i++) unsetenv(slurm[i]);
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

static struct limits get(void)
{
    struct err e = {0};
    struct limits l;
    assert_int_equal(limits_read(root, &l, &e), OK);
    return l;
}

static void without_cgroups_the_machine_limits(void **state)
{
    (void)state;
    struct limits l = get();
    assert_int_equal(l.memory, 64 * gib);
    assert_int_equal(l.machine_memory, 64 * gib);
    assert_int_equal(l.available, 32 * gib);
    assert_int_equal(l.cores, 16);
    assert_int_equal(l.machine_cores, 16);
    assert_int_equal(cpu_set_count(&l.cpus), 8);
    assert_int_equal(l.cpus.bits[0], 0x53f);
    assert_string_equal(l.memory_from, "the machine's memory");
}

static void test_version_2_takes_the_lowest_level(void **state)
{
    (void)state;
    put("/proc/self/mountinfo", "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
                                "31 20 0:27 / /tmp rw - tmpfs tmpfs rw\n");
    put("/proc/self/cgroup", "0::/system.slice/job_7/step_0\n");
    put("/sys/fs/cgroup/system.slice/job_7/step_0/memory.max", "max\n");
    put("/sys/fs/cgroup/system.slice/job_7/step_0/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/system.slice/job_7/memory.max", "8589934592\n");
    put("/sys/fs/cgroup/system.slice/job_7/memory.high", "7516192768\n");
    put("/sys/fs/cgroup/system.slice/memory.max", "17179869184\n");
    put("/sys/fs/cgroup/system.slice/cpu.max", "350000 100000\n");
    struct limits l = get();
    assert_int_equal(l.memory, 7 * gib);
    assert_string_equal(l.memory_from, "/sys/fs/cgroup/system.slice/job_7/memory.high");
    assert_int_equal(l.cores, 3);
    assert_string_equal(l.cores_from, "/sys/fs/cgroup/system.slice/cpu.max");
}

static void version_1_limits_each_controller(void **state)
{
    (void)state;
    put("/proc/self/mountinfo",
        "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "35 31 0:32 / /sys/fs/cgroup/memory rw shared:1 - cgroup cgroup rw,memory\n");
    put("/proc/self/cgroup", "4:memory:/slurm/uid_0/job_3\n1:cpu,cpuacct:/slurm\n0::/\n");
    put("/sys/fs/cgroup/memory/slurm/uid_0/job_3/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/slurm/memory.limit_in_bytes", "4294967296\n");
    put("/sys/fs/cgroup/cpu,cpuacct/slurm/cpu.cfs_quota_us", "50000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/slurm/cpu.cfs_period_us", "100000\n");
    struct limits l = get();
    assert_int_equal(l.memory, 4 * gib);
    assert_string_equal(l.memory_from, "/sys/fs/cgroup/memory/slurm/memory.limit_in_bytes");
    assert_int_equal(l.cores, 1); /* half a core still runs one thread */
}

/* A container without its own namespace names a cgroup that is not visible. */
static void test_container_shows_the_mount_point(void **state)
{
    (void)state;
    put("/proc/self/mountinfo",
        "35 31 0:32 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    put("/proc/self/cgroup", "4:memory:/docker/abc/inner\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "3221225472\n");
    put("/sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "2147483648\n");
    assert_int_equal(get().memory, 2 * gib);
    put("/proc/self/cgroup", "4:memory:/docker/other\n");
    assert_int_equal(get().memory, 3 * gib);
}

static void slurm_limits_below_the_machine(void **state)
{
    (void)state;
    setenv("SLURM_MEM_PER_NODE", "20480", 1);
    setenv("SLURM_CPUS_ON_NODE", "6", 1);
    struct limits l = get();
    assert_int_equal(l.memory, 20 * gib);
    assert_string_equal(l.memory_from, "SLURM_MEM_PER_NODE");
    assert_int_equal(l.cores, 6);
    setenv("SLURM_MEM_PER_NODE", "0", 1); /* all of it */
    assert_int_equal(get().memory, 64 * gib);
    setenv("SLURM_MEM_PER_CPU", "2048", 1);
    assert_int_equal(get().memory, 12 * gib);
    unsetenv("SLURM_CPUS_ON_NODE");
    setenv("SLURM_CPUS_PER_TASK", "2", 1);
    setenv("SLURM_TASKS_PER_NODE", "4(x2)", 1);
    l = get();
    assert_int_equal(l.cores, 8);
    assert_int_equal(l.memory, 16 * gib);
    setenv("SLURM_NTASKS_PER_NODE", "2", 1);
    assert_int_equal(get().cores, 4);
    setenv("SLURM_MEM_PER_CPU", "lots", 1);
    assert_int_equal(get().memory, 64 * gib);
}

static void unreadable_files_limit_nothing(void **state)
{
    (void)state;
    struct err e = {0};
    struct limits l;
    char absent[80];
    snprintf(absent, sizeof absent, "%s/absent", root);
    assert_int_equal(limits_read(absent, &l, &e), ERR_IO);
    put("/proc/self/mountinfo", "nonsense\n1 2 - cgroup\n");
    put("/proc/self/cgroup", "no colons\n::\n4:memory\n");
    assert_int_equal(get().memory, 64 * gib);
}

static void this_machine_has_limits(void **state)
{
    (void)state;
    struct err e = {0};
    struct limits l;
    assert_int_equal(limits_read("", &l, &e), OK);
    assert_true(l.memory > 0 && l.memory <= l.machine_memory);
    assert_true(l.cores >= 1 && l.cores <= l.machine_cores);
    assert_true(cpu_set_count(&l.cpus) >= 1);
}

static struct limits_share share(const struct limits *l, bool works)
{
    struct err e = {0};
    struct limits_share s;
    assert_int_equal(limits_share(MPI_COMM_WORLD, l, works, &s, &e), OK);
    return s;
}

static void ranks_share_memory_and_cores(void **state)
{
    (void)state;
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    struct limits l = {.memory = 60 * gib, .cores = 12, .process_memory = INT64_MAX};
    /* Not bound: all ranks may run on the same 12 CPUs. */
    l.cpus.bits[0] = 0xfff;
    struct limits_share s = share(&l, true);
    assert_int_equal(s.ranks, size);
    assert_int_equal(s.workers, size);
    assert_int_equal(s.cores, 12 / size);
    assert_int_equal(s.memory, 60 * gib / size);
    assert_true(s.bound == (size == 1));
    /* A master that waits leaves its share to the others. */
    if (size > 1) {
        s = share(&l, rank > 0);
        assert_int_equal(s.workers, size - 1);
        assert_int_equal(s.cores, rank == 0 ? 1 : 12 / (size - 1));
        assert_int_equal(s.memory, 60 * gib / (size - 1));
    }
    /* Bound to two CPUs each, also beyond the first word. */
    l.cpus = (struct cpu_set){0};
    l.cpus.bits[rank] = 0x3;
    s = share(&l, true);
    assert_int_equal(s.cores, 2);
    assert_true(s.bound);
    /* The job's quota applies to all ranks together. */
    l.cores = size;
    l.process_memory = gib;
    s = share(&l, true);
    assert_int_equal(s.cores, 1);
    assert_int_equal(s.memory, gib);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_cgroups_the_machine_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_version_2_takes_the_lowest_level, setup, teardown),
        cmocka_unit_test_setup_teardown(version_1_limits_each_controller, setup, teardown),
        cmocka_unit_test_setup_teardown(test_container_shows_the_mount_point, setup, teardown),
        cmocka_unit_test_setup_teardown(slurm_limits_below_the_machine, setup, teardown),
        cmocka_unit_test_setup_teardown(unreadable_files_limit_nothing, setup, teardown),
        cmocka_unit_test(this_machine_has_limits),
        cmocka_unit_test(ranks_share_memory_and_cores),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
