/* Shared memory: another process gets the descriptor over a socket, and finds a page by its offset. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pageset.h"

#define CHECK(condition)                                                                     \
    do {                                                                                     \
        if (!(condition)) {                                                                  \
            printf("line %d: %s; last error: %s\n", __LINE__, #condition, pageset_last_error()); \
            exit(1);                                                                         \
        }                                                                                    \
    } while (0)

union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

static void send_fd(int socket, int fd, uint64_t offset) {
    union control control;
    memset(&control, 0, sizeof control);
    struct iovec data = {&offset, sizeof offset};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    CHECK(sendmsg(socket, &message, 0) == sizeof offset);
}

static int receive_fd(int socket, uint64_t *offset) {
    union control control;
    struct iovec data = {offset, sizeof *offset};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    CHECK(recvmsg(socket, &message, 0) == sizeof *offset);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    CHECK(header && header->cmsg_type == SCM_RIGHTS);
    int fd;
    memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return fd;
}

/* The other process, which starts before there is a pool. */
static int other_process(int socket) {
    uint64_t offset;
    int fd = receive_fd(socket, &offset);
    struct stat file;
    CHECK(fstat(fd, &file) == 0 && file.st_size == 8 << 20);
    char *memory = mmap(NULL, (size_t)file.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(memory != MAP_FAILED && close(fd) == 0 && offset < (uint64_t)file.st_size);
    CHECK(strcmp(memory + offset, "first") == 0);
    strcpy(memory + offset, "second");
    return 0;
}

static long file_bytes(int fd) {
    struct stat file;
    CHECK(fstat(fd, &file) == 0);
    return (long)file.st_blocks * 512;
}

int main(void) {
    int sockets[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        _exit(other_process(sockets[1]));
    }

    pageset_options options;
    CHECK(pageset_options_init(&options, sizeof options, 8 << 20) == PAGESET_OK);
    options.memory = PAGESET_MEMORY_SHARED;
    options.on_fork = PAGESET_FORK_ABSENT;
    options.huge_pages = PAGESET_HUGE_NONE;
    options.name = "frames of c";
    pageset_pool *pool;
    CHECK(pageset_pool_create(&options, &pool) == PAGESET_OK);
    int fd = pageset_memory_fd(pool);
    CHECK(fd >= 0 && file_bytes(fd) == 0 && ftruncate(fd, 4096) == -1);

    char line[512];
    int named = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps);
    while (fgets(line, sizeof line, maps)) named += strstr(line, "/memfd:frames of c (deleted)") != NULL;
    fclose(maps);
    CHECK(named == 1);

    char *first = pageset_alloc(pool, 0), *page = pageset_alloc(pool, 3);
    CHECK(first && page);
    uint64_t offset = pageset_offset_of(pool, page);
    CHECK(offset < 8 << 20 && pageset_at_offset(pool, offset) == page);
    CHECK(!pageset_at_offset(pool, 8 << 20) && pageset_at_offset(pool, (8 << 20) - 1));
    strcpy(page, "first");
    send_fd(sockets[0], fd, offset);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(strcmp(page, "second") == 0);

    CHECK(file_bytes(fd) == 4096);
    CHECK(pageset_free(pool, page, 3) == PAGESET_OK && pageset_free(pool, first, 0) == PAGESET_OK);
    uint64_t given;
    CHECK(pageset_give_back(pool, UINT64_MAX, &given) == PAGESET_OK && given == 4096);
    CHECK(file_bytes(fd) == 0);
    CHECK(pageset_pool_destroy(pool) == PAGESET_OK);
    CHECK(pageset_memory_fd(pool) == -1 && close(fd) == -1);
    puts("another process read and wrote the pages");
    return 0;
}
