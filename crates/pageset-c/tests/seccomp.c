/* A filter of system calls that came after the pool. No call ends in an internal error, and nothing is printed.
 *
 * `seccomp membarrier` refuses membarrier, `seccomp all` also sched_setaffinity. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pageset.h"

#define CHECK(condition)                                                                     \
    do {                                                                                     \
        if (!(condition)) {                                                                  \
            printf("line %d: %s; last error: %s\n", __LINE__, #condition, pageset_last_error()); \
            exit(1);                                                                         \
        }                                                                                    \
    } while (0)

enum { PAGES = 4096 };
static void *pages[PAGES];

static int refuse(int also_moves) {
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, also_moves ? SYS_sched_setaffinity : SYS_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof program / sizeof *program, program};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

static void move_to(int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}

/* Leaves pages in the cache of the last CPU, where the main thread will not run. */
static void *fill_other_cache(void *pool) {
    move_to((int)sysconf(_SC_NPROCESSORS_ONLN) - 1);
    void *own[500];
    CHECK(pageset_alloc_bulk(pool, own, 500) == 500);
    CHECK(pageset_free_bulk(pool, own, 500) == PAGESET_OK);
    return NULL;
}

static void works_in_full(pageset_pool *pool) {
    CHECK(pageset_alloc_bulk(pool, pages, PAGES) == PAGES);
    CHECK(!pageset_alloc(pool, 0) && strstr(pageset_last_error(), "no run of that size is free"));
    CHECK(pageset_free_bulk(pool, pages, PAGES) == PAGESET_OK);
    CHECK(pageset_grow(pool, 1 << 21) == PAGESET_OK && pageset_shrink(pool, 1 << 21) == PAGESET_OK);
    CHECK(pageset_pool_destroy(pool) == PAGESET_OK);
}

int main(int argc, char **argv) {
    int all = argc == 2 && strcmp(argv[1], "all") == 0;
    pageset_options options;
    pageset_pool *pool, *plain;
    CHECK(pageset_options_init(&options, sizeof options, PAGES * PAGESET_PAGE_BYTES) == PAGESET_OK);
    options.reserve_bytes = 2 * options.bytes;
    CHECK(pageset_pool_create(&options, &pool) == PAGESET_OK);
    /* A pool without restartable sequences needs neither call. */
    options.no_restartable_sequences = 1;
    CHECK(pageset_pool_create(&options, &plain) == PAGESET_OK);
    options.no_restartable_sequences = 0;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, fill_other_cache, pool) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, fill_other_cache, plain) == 0 && pthread_join(thread, NULL) == 0);
    move_to(0);
    if (!refuse(all)) return puts("SKIPPED: this kernel has no filters of system calls"), 0;

    /* No memory is left: NULL, and not an internal error. */
    size_t got = 0;
    while (got < PAGES && (pages[got] = pageset_alloc(pool, 0))) got++;
    CHECK(all || got == PAGES);
    CHECK(!pageset_alloc(pool, 0) && strstr(pageset_last_error(), "no run of that size is free"));
    CHECK(pageset_free_bulk(pool, pages, got) == PAGESET_OK);

    CHECK(pageset_tick(pool) == PAGESET_OK);
    CHECK(pageset_drain(pool) == PAGESET_OK);
    CHECK(pageset_ticker_start(pool, 1) == PAGESET_OK);
    usleep(30000);
    CHECK(pageset_ticker_stop(pool) == PAGESET_OK);

    /* These calls need the caches of all CPUs. With one CPU, that is the caller's. */
    pageset_error refused = all && sysconf(_SC_NPROCESSORS_ONLN) > 1 ? PAGESET_ERR_SYSTEM : PAGESET_OK;
    CHECK(pageset_grow(pool, 1 << 21) == refused);
    CHECK(pageset_shrink(pool, 1 << 21) == refused);
    if (refused) CHECK(strstr(pageset_last_error(), "cannot resize the pool: the system refuses membarrier"));
    CHECK(pageset_give_back(pool, UINT64_MAX, NULL) == PAGESET_OK);
    void *contig = pageset_alloc_contig(pool, 1 << 20);
    CHECK(!contig == (refused != PAGESET_OK));
    if (contig) CHECK(pageset_free_contig(pool, contig, 1 << 20) == PAGESET_OK);

    /* A pool from after the filter works in full. */
    pageset_pool *later;
    CHECK(pageset_pool_create(&options, &later) == PAGESET_OK);
    works_in_full(later);
    works_in_full(plain);
    CHECK(pageset_pool_destroy(pool) == PAGESET_OK);
    puts("the pool works under the filter");
    return 0;
}
