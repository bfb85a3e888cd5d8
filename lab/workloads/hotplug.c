/* CPUs and memory blocks that go off-line and on-line under page faults. */
#include "lab.h"

/* The first task turns the last CPU off and on; the others fault. */
void cpu_hotplug(const struct task *task)
{
    if (task->index > 0) {
        /* Not on the CPU that goes off-line. */
        pin(0);
        return faults(task);
    }
    char path[64];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%ld/online", sysconf(_SC_NPROCESSORS_CONF) - 1);
    CHECK(put(path, "0") == 0);
    usleep(100000);
    CHECK(put(path, "1") == 0);
    faults(task);
}

/* The first task turns the memory block that the option names, or the last that goes, off and on; the others fault. */
void memory_hotplug(const struct task *task)
{
    if (task->index > 0)
        return faults(task);
    char path[64];
    for (int block = 511; block >= 0; block--) {
        snprintf(path, sizeof path, "/sys/devices/system/memory/memory%d/state", block);
        if (put(path, "offline") != 0)
            continue;
        fprintf(stderr, "memory block %d off-line\n", block);
        usleep(100000);
        CHECK(put(path, "online_movable") == 0);
        return faults(task);
    }
    fprintf(stderr, "cannot turn any memory block off-line\n");
    _exit(1);
}
