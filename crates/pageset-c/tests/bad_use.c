/* Wrong uses that the library detects. Each call fails with its code and changes nothing. */
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pageset.h"

static int failures;

static void expect(int line, int got, int wanted, const char *text) {
    if (got != wanted || (text && !strstr(pageset_last_error(), text))) {
        printf("line %d: got %s, wanted %s; last error: %s\n", line, pageset_strerror(got), pageset_strerror(wanted),
               pageset_last_error());
        failures++;
    }
}
#define EXPECT(call, code, text) expect(__LINE__, (call), (code), (text))
#define REFUSED(call, text)                                                                           \
    do {                                                                                              \
        if ((call) || !strstr(pageset_last_error(), text)) {                                          \
            printf("line %d: did not fail with %s: %s\n", __LINE__, text, pageset_last_error()); \
            failures++;                                                                               \
        }                                                                                             \
    } while (0)

static pageset_stats stats(const pageset_pool *pool) {
    pageset_stats stats;
    EXPECT(pageset_get_stats(pool, &stats, sizeof stats), PAGESET_OK, NULL);
    return stats;
}

/* Structures of other sizes than those of this library. */
static void sizes(void) {
    struct {
        pageset_options known;
        uint64_t later;
    } newer;
    pageset_pool *pool = NULL;
    EXPECT(pageset_options_init(&newer.known, offsetof(pageset_options, rules) - 1, 1), PAGESET_ERR_ARGUMENT, "cannot use options of 63 bytes");
    EXPECT(pageset_options_init(&newer.known, sizeof newer, 1 << 21), PAGESET_OK, NULL);
    newer.later = 1;
    EXPECT(pageset_pool_create(&newer.known, &pool), PAGESET_ERR_ARGUMENT, "is not 0, and this library knows ");
    newer.later = 0;
    newer.known.size = 0;
    EXPECT(pageset_pool_create(&newer.known, &pool), PAGESET_ERR_ARGUMENT, "cannot use options of 0 bytes");
    newer.known.size = sizeof newer;
    EXPECT(pageset_pool_create(&newer.known, &pool), PAGESET_OK, NULL);
    struct {
        pageset_stats known;
        uint64_t later;
    } counters = {.later = 1};
    EXPECT(pageset_get_stats(pool, &counters.known, 8), PAGESET_ERR_ARGUMENT, "cannot use stats of 8 bytes");
    EXPECT(pageset_get_stats(pool, &counters.known, sizeof counters), PAGESET_OK, NULL);
    if (counters.later != 0 || counters.known.size_bytes != 1 << 21) failures++, puts("wrong counters in a larger structure");
    EXPECT(pageset_pool_destroy(pool), PAGESET_OK, NULL);

    /* The first version of the options ended before `rules`. */
    struct {
        char known[offsetof(pageset_options, rules)];
        uint64_t other;
    } older;
    older.other = UINT64_MAX;
    pageset_options *first = (pageset_options *)(void *)&older;
    EXPECT(pageset_options_init(first, sizeof older.known, 1 << 21), PAGESET_OK, NULL);
    EXPECT(pageset_pool_create(first, &pool), PAGESET_OK, NULL);
    if (older.other != UINT64_MAX) failures++, puts("the call wrote beyond the options of an older program");
    EXPECT(pageset_pool_destroy(pool), PAGESET_OK, NULL);
}

/* The text of the last error stays where it is, so an older pointer reads the newer text. */
static void last_error(const pageset_pool *pool) {
    EXPECT(pageset_drain(NULL), PAGESET_ERR_NOT_A_POOL, "cannot use NULL as a pool");
    const char *older = pageset_last_error();
    EXPECT(pageset_free(pool, NULL, 0), PAGESET_ERR_FOREIGN, "cannot free NULL");
    if (older != pageset_last_error() || !strstr(older, "cannot free NULL")) failures++, puts("an older last error is stale");
    /* A compiler may evaluate the arguments in any order. */
    char text[2000];
    snprintf(text, sizeof text, "%s %d", pageset_last_error(), (int)pageset_free(pool, NULL, 11));
    if (!strstr(text, "cannot free NULL") && !strstr(text, "cannot use order = 11")) failures++, puts(text);
}

/* A thread with a pending cancellation completes every call, and ends at its own cancellation point. */
static void *cancelled(void *done) {
    pageset_options options;
    pageset_pool *pool;
    void *pages[300];
    uint64_t given;
    char text[256];
    pthread_cancel(pthread_self());
    EXPECT(pageset_options_init(&options, sizeof options, 8 << 20), PAGESET_OK, NULL);
    options.reserve_bytes = 16 << 20;
    EXPECT(pageset_pool_create(&options, &pool), PAGESET_OK, NULL);
    void *run = pageset_alloc(pool, 3);
    EXPECT(pageset_free(pool, run, 2), PAGESET_ERR_WRONG_ORDER, NULL);
    EXPECT(pageset_free(pool, run, 3), PAGESET_OK, NULL);
    EXPECT((int)pageset_alloc_bulk(pool, pages, 300), 300, NULL);
    EXPECT(pageset_free_bulk(pool, pages, 300), PAGESET_OK, NULL);
    run = pageset_alloc_contig(pool, 5 << 20);
    EXPECT(pageset_free_contig(pool, run, 5 << 20), PAGESET_OK, NULL);
    REFUSED(pageset_alloc_contig(pool, 9 << 20), "try 1 to 8388608");
    EXPECT(pageset_grow(pool, 4 << 20), PAGESET_OK, NULL);
    EXPECT(pageset_shrink(pool, 4 << 20), PAGESET_OK, NULL);
    EXPECT(pageset_tick(pool), PAGESET_OK, NULL);
    EXPECT(pageset_drain(pool), PAGESET_OK, NULL);
    EXPECT(pageset_give_back(pool, UINT64_MAX, &given), PAGESET_OK, NULL);
    EXPECT(pageset_resident(pool, &given), PAGESET_OK, NULL);
    if (pageset_zoneinfo(pool, text, sizeof text) < sizeof text) failures++, puts("a short zoneinfo");
    EXPECT((int)stats(pool).in_use_bytes, 0, NULL);
    EXPECT(pageset_pool_destroy(pool), PAGESET_OK, NULL);
    *(int *)done = 1;
#ifdef __SANITIZE_ADDRESS__
    /* The sanitizer mistakes the frames of a cancelled thread for an overflow. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    return PTHREAD_CANCELED;
#endif
    pthread_testcancel();
    failures++, puts("a call changed the cancelability of the thread");
    return NULL;
}

/* A pool larger than the address space. */
static void no_address_space(void) {
#ifndef __SANITIZE_ADDRESS__
    struct rlimit limit, less;
    pageset_options options;
    pageset_pool *pool;
    if (getenv("PAGESET_NO_LIMITS") || getrlimit(RLIMIT_AS, &limit) != 0) return;
    less = limit, less.rlim_cur = (rlim_t)2 << 30;
    setrlimit(RLIMIT_AS, &less);
    EXPECT(pageset_options_init(&options, sizeof options, UINT64_C(64) << 30), PAGESET_OK, NULL);
    EXPECT(pageset_pool_create(&options, &pool), PAGESET_ERR_SYSTEM, "cannot reserve address space (68719476736 bytes): ");
    EXPECT(pageset_pool_create(&options, &pool), PAGESET_ERR_SYSTEM, "ulimit -v");
    if (pool) failures++, puts("a failed creation left a pool");
    setrlimit(RLIMIT_AS, &limit);
#endif
}

/* A locked pool of a process that may lock 64 KiB. */
static void no_right_to_lock(void) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = {1 << 16, 1 << 16};
        pageset_options options;
        pageset_pool *pool;
        failures = 0;
        /* Only root has the right to lock more. */
        if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || (getuid() == 0 && setuid(65534) != 0)) _exit(2);
        EXPECT(pageset_options_init(&options, sizeof options, 4 << 20), PAGESET_OK, NULL);
        options.lock = 1;
        EXPECT(pageset_pool_create(&options, &pool), PAGESET_ERR_SYSTEM, "cannot lock the pool (4194304 bytes): ");
        EXPECT(pageset_pool_create(&options, &pool), PAGESET_ERR_SYSTEM, "may lock 65536 bytes in all; try a smaller pool");
        if (pool) failures++, puts("a failed lock left a pool");
        fflush(stdout);
        _exit(failures != 0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) failures++, printf("the child that locks: %d\n", status);
}

int main(void) {
    pthread_t thread;
    void *how;
    int done = 0;
    sizes();
    no_address_space();
    no_right_to_lock();
    pthread_create(&thread, NULL, cancelled, &done);
    pthread_join(thread, &how);
    if (!done || how != PTHREAD_CANCELED) failures++, puts("a thread was cancelled during a call");

    pageset_options options;
    pageset_pool *pool = NULL;
    EXPECT(pageset_options_init(NULL, sizeof options, 1), PAGESET_ERR_ARGUMENT, "cannot use options: it is NULL");
    EXPECT(pageset_options_init(&options, sizeof options, UINT64_C(1) << 30), PAGESET_OK, NULL);
    EXPECT(pageset_pool_create(NULL, &pool), PAGESET_ERR_ARGUMENT, "cannot use options: it is NULL");
    EXPECT(pageset_pool_create(&options, NULL), PAGESET_ERR_ARGUMENT, "cannot use pool: it is NULL");

    /* Sizes and settings out of range. */
    pageset_options wrong = options;
    wrong.bytes = 0;
    EXPECT(pageset_pool_create(&wrong, &pool), PAGESET_ERR_ARGUMENT, "a pool of 0 bytes");
    wrong.bytes = UINT64_MAX;
    EXPECT(pageset_pool_create(&wrong, &pool), PAGESET_ERR_ARGUMENT, "a pool of 18446744073709551615 bytes");
    wrong = options, wrong.reserve_bytes = 1;
    EXPECT(pageset_pool_create(&wrong, &pool), PAGESET_ERR_ARGUMENT, "its reserve is 1 bytes");
    wrong = options, wrong.huge_pages = 4;
    EXPECT(pageset_pool_create(&wrong, &pool), PAGESET_ERR_ARGUMENT, "cannot use huge_pages = 4: it is out of range; try 0 to 3");
    wrong = options, wrong.on_fork = 2;
    EXPECT(pageset_pool_create(&wrong, &pool), PAGESET_ERR_ARGUMENT, "cannot use on_fork = 2: it is out of range; try 0 or 1");
    wrong = options, wrong.free_check = 3;
    EXPECT(pageset_pool_create(&wrong, &pool), PAGESET_ERR_ARGUMENT, "cannot use free_check = 3: it is out of range; try 0 to 2");
    wrong = options, wrong.memory = 2;
    EXPECT(pageset_pool_create(&wrong, &pool), PAGESET_ERR_ARGUMENT, "cannot use memory = 2: it is out of range; try 0 or 1");
    wrong = options, wrong.memory = PAGESET_MEMORY_SHARED;
    EXPECT(pageset_pool_create(&wrong, &pool), PAGESET_ERR_ARGUMENT, "with PAGESET_FORK_COPY: a forked child would share the pages and not copy them; try PAGESET_FORK_ABSENT");
    wrong = options, wrong.name = "a\nb";
    EXPECT(pageset_pool_create(&wrong, &pool), PAGESET_ERR_ARGUMENT, "cannot name the memory \"a\\nb\": a name has 1 to 79 printable ASCII");
    wrong = options, wrong.huge_pages = PAGESET_HUGE_EXPLICIT_1GIB, wrong.bytes = UINT64_C(8) << 40;
    EXPECT(pageset_pool_create(&wrong, &pool), PAGESET_ERR_SYSTEM, "hugepages-1048576kB/nr_hugepages");
    wrong = options, wrong.give_back_after_scans = 0;
    EXPECT(pageset_pool_create(&wrong, &pool), PAGESET_ERR_ARGUMENT, "cannot use give_back_after_scans = 0: it is out of range; try 1 to 250");
    wrong = options, wrong.rules = "linux-4.16";
    EXPECT(pageset_pool_create(&wrong, &pool), PAGESET_ERR_ARGUMENT, "cannot use rules \"linux-4.16\": ");
    wrong.rules = "linux-6.18x";
    EXPECT(pageset_pool_create(&wrong, &pool), PAGESET_ERR_ARGUMENT, "cannot use rules \"linux-6.18x\": unknown rules `linux-6.18x`; the closest are linux-6.18, ");
    wrong.rules = "linux-6.18 bath=31";
    EXPECT(pageset_pool_create(&wrong, &pool), PAGESET_ERR_ARGUMENT, "bath=31: unknown rule `bath`; the closest are batch, ");
    wrong.rules = "linux-6.18 batch=0";
    EXPECT(pageset_pool_create(&wrong, &pool), PAGESET_ERR_ARGUMENT, "batch=0: allowed: 1 to 65536 pages");
    wrong.rules = "linux-6.18 high_fraction=8";
    EXPECT(pageset_pool_create(&wrong, &pool), PAGESET_ERR_ARGUMENT, "a pool has no high_fraction");
    wrong.rules = "linux-6.18 batch=31 regions=999999999";
    EXPECT(pageset_pool_create(&wrong, &pool), PAGESET_ERR_ARGUMENT, "999999999 regions; allowed: 1 to ");
    wrong.rules = "";
    EXPECT(pageset_pool_create(&wrong, &pool), PAGESET_ERR_ARGUMENT, "cannot use rules \"\"");
    wrong = options, wrong.node_count = 1;
    EXPECT(pageset_pool_create(&wrong, &pool), PAGESET_ERR_ARGUMENT, "cannot use nodes: it is NULL");
    uint32_t nodes[] = {4000000000u};
    wrong.nodes = nodes;
    EXPECT(pageset_pool_create(&wrong, &pool), PAGESET_ERR_NO_NODE, "[4000000000]");
    wrong = options, wrong.huge_pages = PAGESET_HUGE_EXPLICIT, wrong.bytes = UINT64_C(8) << 40;
    EXPECT(pageset_pool_create(&wrong, &pool), PAGESET_ERR_SYSTEM, "vm.nr_hugepages");
    if (pool) failures++, puts("a failed creation left a pool");

    EXPECT(pageset_pool_create(&options, &pool), PAGESET_OK, NULL);
    EXPECT(pageset_order_for(SIZE_MAX), -1, NULL);
    EXPECT(pageset_order_for(0), 0, NULL);
    EXPECT(pageset_order_for(4097), 1, NULL);
    REFUSED(pageset_alloc(pool, 11), "cannot use order = 11: it is out of range; try 0 to 10");
    REFUSED(pageset_alloc(pool, UINT32_MAX), "cannot use order = 4294967295");
    REFUSED(pageset_alloc(NULL, 0), "cannot use NULL as a pool");
    EXPECT(pageset_memory_fd(pool), -1, "the memory is private; try a pool with PAGESET_MEMORY_SHARED");
    EXPECT(pageset_memory_fd(NULL), -1, "cannot use NULL as a pool");
    EXPECT(pageset_offset_of(pool, NULL) == PAGESET_NO_OFFSET, 1, "the address is not in this pool");
    EXPECT(pageset_offset_of(pool, &options) == PAGESET_NO_OFFSET, 1, "the address is not in this pool");
    REFUSED(pageset_at_offset(pool, UINT64_C(1) << 50), "cannot use offset = 1125899906842624");
    REFUSED(pageset_alloc_typed(pool, 5, 0), "cannot use type = 5: it is out of range; try 0 to 2");
    REFUSED(pageset_alloc_on(pool, 999, 0), "cannot allocate from node 999");
    REFUSED(pageset_alloc_bulk(pool, NULL, 1), "cannot use pages: it is NULL");
    EXPECT((int)pageset_alloc_bulk(pool, NULL, 0), 0, NULL);
    EXPECT(pageset_free_bulk(pool, NULL, 1), PAGESET_ERR_ARGUMENT, "cannot use pages: it is NULL");
    EXPECT(pageset_get_stats(pool, NULL, sizeof(pageset_stats)), PAGESET_ERR_ARGUMENT, "cannot use stats: it is NULL");
    EXPECT(pageset_grow(pool, 1), PAGESET_ERR_ARGUMENT, "0 bytes of its reserve are left");

    last_error(pool);
    EXPECT(pageset_ticker_start(pool, 0), PAGESET_ERR_ARGUMENT, "cannot use interval_ms = 0");
    EXPECT(pageset_ticker_start(NULL, 1), PAGESET_ERR_NOT_A_POOL, "cannot use NULL as a pool");
    EXPECT(pageset_ticker_stop(NULL), PAGESET_ERR_NOT_A_POOL, "cannot use NULL as a pool");

    /* Handles that are no handles. */
    static uint64_t no_pool[4];
    for (size_t i = 1; i < 8; i++) {
        pageset_pool *misaligned = (pageset_pool *)(void *)((char *)pool + i);
        EXPECT(pageset_drain(misaligned), PAGESET_ERR_NOT_A_POOL, "as a pool: it was destroyed or never was one");
        REFUSED(pageset_alloc(misaligned, 0), "as a pool");
        EXPECT(pageset_pool_destroy((pageset_pool *)(void *)((char *)no_pool + i)), PAGESET_ERR_NOT_A_POOL, "as a pool");
    }
    /* The library does not read a misaligned handle: there is no memory here. */
    EXPECT(pageset_drain((pageset_pool *)(uintptr_t)9), PAGESET_ERR_NOT_A_POOL, "cannot use 0x9 as a pool");
    EXPECT(pageset_drain((pageset_pool *)(void *)no_pool), PAGESET_ERR_NOT_A_POOL, "as a pool");

    /* Wrong frees. */
    char *first = pageset_alloc(pool, 2), *run = pageset_alloc(pool, 2);
    memset(run, 7, 4 * PAGESET_PAGE_BYTES);
    char *heap = malloc(3 * PAGESET_PAGE_BYTES);
    char *foreign = heap + PAGESET_PAGE_BYTES - (uintptr_t)heap % PAGESET_PAGE_BYTES;
    pageset_stats before = stats(pool);
    EXPECT(pageset_free(pool, NULL, 0), PAGESET_ERR_FOREIGN, "cannot free NULL");
    EXPECT(pageset_free(pool, foreign, 0), PAGESET_ERR_FOREIGN, "the address is not in this pool");
    EXPECT(pageset_free(pool, &before, 0), PAGESET_ERR_UNALIGNED, "not a multiple of 4096");
    EXPECT(pageset_free(pool, run + 1, 2), PAGESET_ERR_UNALIGNED, "not a multiple of 4096");
    EXPECT(pageset_free(pool, run + PAGESET_PAGE_BYTES, 2), PAGESET_ERR_UNALIGNED, "no run of that order starts");
    EXPECT(pageset_free(pool, run, 1), PAGESET_ERR_WRONG_ORDER, "the run there has order 2");
    EXPECT(pageset_free(pool, run, 11), PAGESET_ERR_ARGUMENT, "cannot use order = 11");
    EXPECT(pageset_free(pool, run + PAGESET_PAGE_BYTES, 0), PAGESET_ERR_WRONG_ORDER, "inside the run of order 2");
    EXPECT(pageset_free(NULL, run, 2), PAGESET_ERR_NOT_A_POOL, "cannot use NULL as a pool");
    pageset_stats after = stats(pool);
    if (memcmp(&before, &after, sizeof before) != 0) failures++, puts("a wrong free changed the counters");
    if (run[0] != 7 || run[4 * PAGESET_PAGE_BYTES - 1] != 7) failures++, puts("a wrong free changed the run");

    /* Contiguous runs, growing and shrinking. */
    REFUSED(pageset_alloc_contig(pool, 0), "contiguous run of 0 bytes");
    REFUSED(pageset_alloc_contig(pool, SIZE_MAX), "try 1 to 1073741824");
    char *contig = pageset_alloc_contig(pool, (7 << 20) + 1);
    EXPECT(pageset_free_contig(pool, contig, 0), PAGESET_ERR_ARGUMENT, "cannot use bytes = 0");
    EXPECT(pageset_free_contig(pool, contig, SIZE_MAX), PAGESET_ERR_ARGUMENT, "cannot use bytes = 18446744073709551615");
    EXPECT(pageset_free_contig(pool, contig + 1, 4096), PAGESET_ERR_UNALIGNED, "not a multiple of 4096");
    EXPECT(pageset_free_contig(pool, contig, 4096), PAGESET_ERR_WRONG_ORDER, "the run there has 7344128 bytes; try that size");
    EXPECT(pageset_free_contig(pool, contig, 2 << 20), PAGESET_ERR_WRONG_ORDER, "as a contiguous run of 2097152 bytes");
    EXPECT(pageset_free_contig(pool, contig, UINT64_C(1) << 40), PAGESET_ERR_WRONG_ORDER, "the run there has 7344128 bytes");
    EXPECT(pageset_free_contig(pool, contig + 4096, 4096), PAGESET_ERR_WRONG_ORDER, "inside the contiguous run of 7344128 bytes");
    EXPECT(pageset_free_contig(pool, run, 4 * 4096), PAGESET_ERR_WRONG_ORDER, "no contiguous run starts there");
    EXPECT(pageset_free_contig(pool, foreign, 4096), PAGESET_ERR_FOREIGN, "the address is not in this pool");
    char *neighbour = pageset_alloc_contig(pool, 2 << 20);
    EXPECT(neighbour != contig + (8 << 20), 0, NULL);
    EXPECT(pageset_free_contig(pool, contig, 10 << 20), PAGESET_ERR_WRONG_ORDER, "the run there has 7344128 bytes");
    EXPECT(pageset_free_contig(pool, neighbour, 2 << 20), PAGESET_OK, NULL);
    EXPECT(pageset_free_contig(pool, contig, (7 << 20) + 1), PAGESET_OK, NULL);
    EXPECT(pageset_free_contig(pool, contig, 4096), PAGESET_ERR_DOUBLE_FREE, "is already free");
    EXPECT(pageset_free_contig(pool, NULL, 4096), PAGESET_ERR_FOREIGN, "cannot free NULL");
    EXPECT(pageset_shrink(pool, 0), PAGESET_ERR_ARGUMENT, "cannot shrink the pool by 0 bytes");
    EXPECT(pageset_shrink(pool, UINT64_MAX), PAGESET_ERR_ARGUMENT, "try 1 to 1071644672");
    EXPECT(pageset_shrink(NULL, 1), PAGESET_ERR_NOT_A_POOL, "cannot use NULL as a pool");
    void *space;
    uint64_t bytes;
    EXPECT(pageset_address_space(pool, &space, NULL), PAGESET_ERR_ARGUMENT, "cannot use bytes: it is NULL");
    EXPECT(pageset_address_space(pool, &space, &bytes), PAGESET_OK, NULL);
    if (bytes != UINT64_C(1) << 30 || (char *)space > run || run >= (char *)space + bytes) failures++, puts("a run is outside the address space");

    /* A bulk free with one page twice frees nothing. */
    void *pages[20];
    EXPECT((int)pageset_alloc_bulk(pool, pages, 19), 19, NULL);
    pages[19] = pages[3];
    EXPECT(pageset_free_bulk(pool, pages, 20), PAGESET_ERR_DOUBLE_FREE, "the run is already free");
    pages[19] = NULL;
    EXPECT(pageset_free_bulk(pool, pages, 20), PAGESET_ERR_FOREIGN, "cannot free NULL");
    pages[19] = (char *)pages[3] + 1;
    EXPECT(pageset_free_bulk(pool, pages, 20), PAGESET_ERR_UNALIGNED, "is not a multiple of 4096");
    EXPECT(pageset_free_bulk(pool, pages, 19), PAGESET_OK, NULL);

    /* The same for runs of several pages. */
    REFUSED(pageset_alloc_bulk_order(pool, 11, pages, 20), "cannot use order = 11");
    REFUSED(pageset_alloc_bulk_order(pool, 3, NULL, 1), "cannot use runs: it is NULL");
    EXPECT(pageset_free_bulk_order(pool, 3, NULL, 1), PAGESET_ERR_ARGUMENT, "cannot use runs: it is NULL");
    EXPECT((int)pageset_alloc_bulk_order(pool, 3, pages, 19), 19, NULL);
    before = stats(pool);
    pages[19] = pages[3];
    EXPECT(pageset_free_bulk_order(pool, 3, pages, 20), PAGESET_ERR_DOUBLE_FREE, "the run is already free");
    pages[19] = NULL;
    EXPECT(pageset_free_bulk_order(pool, 3, pages, 20), PAGESET_ERR_FOREIGN, "cannot free NULL");
    pages[19] = (char *)pages[3] + 4096;
    EXPECT(pageset_free_bulk_order(pool, 3, pages, 20), PAGESET_ERR_UNALIGNED, "no run of that order starts");
    pages[19] = run;
    EXPECT(pageset_free_bulk_order(pool, 3, pages, 20) != PAGESET_OK, 1, NULL);
    EXPECT(pageset_free_bulk_order(pool, 2, pages, 19), PAGESET_ERR_WRONG_ORDER, "the run there has order 3");
    EXPECT(pageset_free_bulk_order(pool, 11, pages, 19), PAGESET_ERR_ARGUMENT, "cannot use order = 11");
    after = stats(pool);
    if (before.in_use_bytes != after.in_use_bytes) failures++, puts("a wrong bulk free freed a run");
    EXPECT(pageset_free_bulk_order(pool, 3, pages, 19), PAGESET_OK, NULL);

    /* The calls of a forked child fail. */
    pid_t child = fork();
    if (child == 0) {
        failures = 0;
        EXPECT(pageset_free(pool, run, 2), PAGESET_ERR_FORKED, "the parent");
        REFUSED(pageset_alloc(pool, 0), "the parent");
        void *runs[1] = {run};
        REFUSED(pageset_alloc_bulk_order(pool, 2, runs, 1), "the parent");
        EXPECT(pageset_free_bulk_order(pool, 2, runs, 1), PAGESET_ERR_FORKED, "the parent");
        EXPECT(pageset_ticker_start(pool, 1), PAGESET_ERR_FORKED, "cannot start a ticker: the pool belongs to the parent");
        EXPECT(pageset_ticker_stop(pool), PAGESET_OK, NULL);
        _exit(failures);
    }
    int status;
    waitpid(child, &status, 0);
    EXPECT(status, 0, NULL);

    /* Destroying a pool. */
    EXPECT(pageset_free(pool, first, 2), PAGESET_OK, NULL);
    EXPECT(pageset_free(pool, first, 2), PAGESET_ERR_DOUBLE_FREE, "the run is already free");
    EXPECT(pageset_pool_destroy(pool), PAGESET_ERR_IN_USE, "16384 bytes are in use");
    EXPECT(pageset_free(pool, run, 2), PAGESET_OK, NULL);
    EXPECT(pageset_pool_destroy(pool), PAGESET_OK, NULL);
    EXPECT(pageset_pool_destroy(pool), PAGESET_ERR_NOT_A_POOL, "was destroyed");
    EXPECT(pageset_free(pool, run, 2), PAGESET_ERR_NOT_A_POOL, "was destroyed");
    REFUSED(pageset_alloc(pool, 0), "was destroyed");
    EXPECT(pageset_pool_destroy(NULL), PAGESET_ERR_NOT_A_POOL, "cannot use NULL as a pool");
    char old[4] = "old";
    if (pageset_zoneinfo(pool, old, sizeof old) != 0 || old[0] != 0) failures++, puts("zoneinfo without a pool");
    REFUSED(pageset_zoneinfo(NULL, NULL, 0) != 0, "cannot use NULL as a pool");

    /* A pool without free pages. */
    options.bytes = 4 << 20;
    EXPECT(pageset_pool_create(&options, &pool), PAGESET_OK, NULL);
    void *all = pageset_alloc(pool, 10);
    EXPECT(pageset_shrink(pool, 1), PAGESET_ERR_IN_USE, "; try again after its owner frees it");
    REFUSED(pageset_alloc_contig(pool, 4096), "no free range of that size starts at a multiple of 2 MiB, and 0 bytes are free in all");
    REFUSED(pageset_alloc(pool, 0), "no run of that size is free, and 0 bytes are free");
    EXPECT(pageset_free(pool, all, 10), PAGESET_OK, NULL);
    char text[64];
    size_t whole = pageset_zoneinfo(pool, text, sizeof text);
    if (strlen(text) != 63 || whole < 64 || strncmp(text, "Node ", 5) != 0) failures++, puts("zoneinfo is not truncated correctly");
    EXPECT(pageset_pool_destroy_with_pages(pool), PAGESET_OK, NULL);
    free(heap);
    printf("%s\n", failures ? "wrong" : "all refused as documented");
    return failures != 0;
}
