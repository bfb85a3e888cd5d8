/* Processes that come and go. */
#include "lab.h"

static void child(const struct task *task, int exec)
{
    while (running(task)) {
        int status;
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            if (exec)
                execl("/bin/busybox", "true", NULL);
            size_t bytes = MIB / 4;
            char *at = malloc(bytes);
            CHECK(at != NULL);
            memset(at, 1, bytes);
            _exit(exec);
        }
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
}

void fork_only(const struct task *task) { child(task, 0); }

void fork_exec(const struct task *task) { child(task, 1); }
