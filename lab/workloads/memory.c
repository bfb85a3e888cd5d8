/* Page faults, huge pages, memory pressure and compaction. */
#include "lab.h"
#include <sys/syscall.h>

static char *map(size_t bytes, int flags, int file)
{
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

static void touch(char *at, size_t bytes)
{
    size_t page = sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < bytes; i += page)
        at[i] = 1;
}

static void map_touch_unmap(size_t bytes, int advice)
{
    char *at = map(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    madvise(at, bytes, advice);
    touch(at, bytes);
    munmap(at, bytes);
}

/* Private anonymous memory; the option is its size in MiB, 16 by default. */
void faults(const struct task *task)
{
    size_t bytes = (atoi(task->option) ? atoi(task->option) : 16) * MIB;
    while (running(task))
        map_touch_unmap(bytes, MADV_NOHUGEPAGE);
}

/* Pages of one file of a tmpfs, a stretch for each task. */
void shared_faults(const struct task *task)
{
    size_t bytes = 8 * MIB;
    char name[64];
    snprintf(name, sizeof name, "/tmp/shared%d", task->index);
    while (running(task)) {
        int file = open(name, O_CREAT | O_RDWR, 0600);
        CHECK(file >= 0 && ftruncate(file, bytes) == 0);
        char *at = map(bytes, MAP_SHARED, file);
        touch(at, bytes);
        munmap(at, bytes);
        CHECK(ftruncate(file, 0) == 0);
        close(file);
    }
    unlink(name);
}

/* As `faults`, with all memory from the node that the option names. */
void remote_faults(const struct task *task)
{
    unsigned long nodes = 1ul << atoi(task->option);
    CHECK(syscall(SYS_set_mempolicy, 2 /* MPOL_BIND */, &nodes, 64) == 0);
    while (running(task))
        map_touch_unmap(16 * MIB, MADV_NOHUGEPAGE);
}

void huge(const struct task *task)
{
    while (running(task))
        map_touch_unmap(32 * MIB, MADV_HUGEPAGE);
}

/* Holds most of what is available, then touches more: kswapd and direct reclaim of the file pages that it wrote. */
void pressure(const struct task *task)
{
    static char block[65536];
    size_t page = sysconf(_SC_PAGESIZE), available = sysconf(_SC_AVPHYS_PAGES) * page;
    char name[64];
    /* On the disk where there is one, because nothing can be reclaimed from a tmpfs without swap. */
    snprintf(name, sizeof name, "/disk/pressure%d", task->index);
    int file = open(name, O_CREAT | O_RDWR | O_TRUNC, 0600);
    for (size_t written = 0; file >= 0 && written < 48 * MIB / task->tasks; written += sizeof block)
        if (write(file, block, sizeof block) < 0)
            break;
    if (file >= 0)
        fsync(file);
    size_t bytes = available / 100 * 94 / task->tasks;
    char *at = map(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    madvise(at, bytes, MADV_HUGEPAGE);
    touch(at, bytes);
    while (running(task))
        map_touch_unmap(16 * MIB, MADV_NOHUGEPAGE);
    munmap(at, bytes);
    unlink(name);
}

/* Frees every second page of a stretch and asks the kernel to compact all zones. */
void compaction(const struct task *task)
{
    size_t page = sysconf(_SC_PAGESIZE), bytes = 32 * MIB;
    while (running(task)) {
        char *at = map(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        madvise(at, bytes, MADV_NOHUGEPAGE);
        touch(at, bytes);
        for (size_t i = 0; i < bytes; i += 2 * page)
            CHECK(madvise(at + i, page, MADV_DONTNEED) == 0);
        CHECK(put("/proc/sys/vm/compact_memory", "1") == 0);
        munmap(at, bytes);
    }
}
