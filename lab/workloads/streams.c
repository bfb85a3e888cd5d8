/* Streams between two tasks: a writer on CPU `i` and a reader on another. */
#include "lab.h"
#include <arpa/inet.h>
#include <netinet/in.h>

static char block[65536];

/* The option is the distance of the reader's CPU from the writer's, 1 by default. */
static void stream(const struct task *task, int to, int from)
{
    pid_t reader = fork();
    CHECK(reader >= 0);
    if (reader == 0) {
        close(to);
        pin(task->index + (atoi(task->option) ? atoi(task->option) : 1));
        while (read(from, block, sizeof block) > 0)
            ;
        _exit(0);
    }
    close(from);
    while (running(task))
        CHECK(write(to, block, sizeof block) > 0);
    shutdown(to, SHUT_RDWR);
    close(to);
    CHECK(waitpid(reader, NULL, 0) == reader);
}

void unix_stream(const struct task *task)
{
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    stream(task, pair[0], pair[1]);
}

static void inet_stream(const struct task *task, int protocol)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int door = socket(AF_INET, SOCK_STREAM, protocol), to = socket(AF_INET, SOCK_STREAM, protocol);
    CHECK(door >= 0 && to >= 0);
    CHECK(bind(door, (struct sockaddr *)&address, length) == 0 && listen(door, 1) == 0);
    CHECK(getsockname(door, (struct sockaddr *)&address, &length) == 0);
    CHECK(connect(to, (struct sockaddr *)&address, length) == 0);
    int from = accept(door, NULL, NULL);
    CHECK(from >= 0);
    close(door);
    stream(task, to, from);
}

void tcp_stream(const struct task *task) { inet_stream(task, IPPROTO_TCP); }

void sctp_stream(const struct task *task) { inet_stream(task, IPPROTO_SCTP); }
