/* wl NAME SECONDS TASKS [OPTION]: page traffic of one kind. Exit code 1 when a system call fails.
   wl now: nanoseconds since 1970. */
#include "lab.h"

double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

int running(const struct task *task) { return now() < task->end; }

void pin(int number)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(number % sysconf(_SC_NPROCESSORS_ONLN), &set);
    CHECK(sched_setaffinity(0, sizeof set, &set) == 0);
}

int put(const char *path, const char *text)
{
    int file = open(path, O_WRONLY);
    if (file < 0)
        return errno;
    int error = write(file, text, strlen(text)) < 0 ? errno : 0;
    close(file);
    return error;
}

void in_processes(struct task task, void (*body)(const struct task *))
{
    int failed = 0, status;
    for (int i = 0; i < task.tasks; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            task.index = i;
            pin(i);
            body(&task);
            _exit(0);
        }
    }
    for (int i = 0; i < task.tasks; i++) {
        CHECK(wait(&status) > 0);
        failed |= status;
    }
    if (failed)
        exit(1);
}

struct thread {
    struct task task;
    void (*body)(const struct task *);
};

static void *in_thread(void *argument)
{
    struct thread *thread = argument;
    pin(thread->task.index);
    thread->body(&thread->task);
    return NULL;
}

void in_threads(struct task task, void (*body)(const struct task *))
{
    pthread_t ids[64];
    struct thread threads[64];
    CHECK(task.tasks <= 64);
    for (int i = 0; i < task.tasks; i++) {
        threads[i] = (struct thread){task, body};
        threads[i].task.index = i;
        CHECK(pthread_create(&ids[i], NULL, in_thread, &threads[i]) == 0);
    }
    for (int i = 0; i < task.tasks; i++)
        CHECK(pthread_join(ids[i], NULL) == 0);
}

int main(int count, char **words)
{
    if (count == 2 && !strcmp(words[1], "now")) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        return printf("%lld%09ld\n", (long long)t.tv_sec, t.tv_nsec) < 0;
    }
    static const struct {
        const char *name;
        void (*body)(const struct task *);
        void (*in)(struct task, void (*)(const struct task *));
    } all[] = {
        {"faults", faults, in_processes},
        {"thread-faults", faults, in_threads},
        {"shared-faults", shared_faults, in_processes},
        {"remote-faults", remote_faults, in_processes},
        {"huge", huge, in_processes},
        {"pressure", pressure, in_processes},
        {"compaction", compaction, in_processes},
        {"unix", unix_stream, in_processes},
        {"tcp", tcp_stream, in_processes},
        {"sctp", sctp_stream, in_processes},
        {"write", write_truncate, in_processes},
        {"read", read_file, in_processes},
        {"fork", fork_only, in_processes},
        {"exec", fork_exec, in_processes},
        {"cpu-hotplug", cpu_hotplug, in_processes},
        {"memory-hotplug", memory_hotplug, in_processes},
    };
    if (count >= 4)
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            if (strcmp(words[1], all[i].name) == 0) {
                /* 0 tasks: one for each CPU. */
                int tasks = atoi(words[3]) ? atoi(words[3]) : sysconf(_SC_NPROCESSORS_ONLN);
                struct task task = {0, tasks, now() + atof(words[2]), count > 4 ? words[4] : ""};
                all[i].in(task, all[i].body);
                return 0;
            }
    fprintf(stderr, "cannot run workload `%s`; usage: wl NAME SECONDS TASKS [OPTION]\n", count > 1 ? words[1] : "");
    return 2;
}
