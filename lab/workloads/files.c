/* Files: written and truncated, read through the page cache, read past it. */
#include "lab.h"

static char block[65536] __attribute__((aligned(65536)));

static void fill(int file, size_t bytes)
{
    for (size_t done = 0; done < bytes; done += sizeof block)
        CHECK(write(file, block, sizeof block) == sizeof block);
}

/* Writes 16 MiB and truncates; the option is the folder, /tmp by default. */
void write_truncate(const struct task *task)
{
    char name[128];
    snprintf(name, sizeof name, "%s/write%d", *task->option ? task->option : "/tmp", task->index);
    while (running(task)) {
        int file = open(name, O_CREAT | O_RDWR, 0600);
        CHECK(file >= 0);
        fill(file, 16 * MIB);
        CHECK(ftruncate(file, 0) == 0);
        close(file);
    }
    unlink(name);
}

/* Reads a file of the disk again and again: `cached` drops it from the page cache between, `direct` goes past it. */
void read_file(const struct task *task)
{
    char name[64];
    snprintf(name, sizeof name, "/disk/read%d", task->index);
    int file = open(name, O_CREAT | O_RDWR, 0600);
    CHECK(file >= 0);
    fill(file, 8 * MIB);
    CHECK(fsync(file) == 0);
    close(file);
    file = open(name, O_RDONLY | (strcmp(task->option, "direct") == 0 ? O_DIRECT : 0));
    CHECK(file >= 0);
    while (running(task)) {
        CHECK(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0 && lseek(file, 0, SEEK_SET) == 0);
        ssize_t got;
        while ((got = read(file, block, sizeof block)) > 0)
            ;
        CHECK(got == 0);
    }
    close(file);
    unlink(name);
}
