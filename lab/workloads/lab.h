/* Shared by all workloads: each is a function that runs until `end`, in `tasks` tasks. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

/* Ends this process with the fault and its place. */
#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        if (!(call)) {                                                                                                 \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, strerror(errno));                            \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

/* What a task gets: its number, the number of tasks, and the time at which it ends, in seconds of CLOCK_MONOTONIC. */
struct task {
    int index, tasks;
    double end;
    const char *option;
};

double now(void);
int running(const struct task *task);
/* Binds this task to the CPU `number` modulo the CPUs that are on-line. */
void pin(int number);
/* Runs `body` once in each of task->tasks processes or threads, task `i` on CPU `i`; fails when one of them fails. */
void in_processes(struct task task, void (*body)(const struct task *));
void in_threads(struct task task, void (*body)(const struct task *));
/* Writes `text` to a file of /proc or /sys; returns 0 or the error. */
int put(const char *path, const char *text);

void faults(const struct task *task);
void shared_faults(const struct task *task);
void remote_faults(const struct task *task);
void huge(const struct task *task);
void pressure(const struct task *task);
void compaction(const struct task *task);
void unix_stream(const struct task *task);
void tcp_stream(const struct task *task);
void sctp_stream(const struct task *task);
void write_truncate(const struct task *task);
void read_file(const struct task *task);
void fork_only(const struct task *task);
void fork_exec(const struct task *task);
void cpu_hotplug(const struct task *task);
void memory_hotplug(const struct task *task);
