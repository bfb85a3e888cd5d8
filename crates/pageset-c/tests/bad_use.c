/* Everything that a C program can do wrong and the library can see: each is refused with its code, and changes nothing. */
#include <pthread.h>
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
            printf("line %d: not refused, or not with %s: %s\n", __LINE__, text, pageset_last_error()); \
            failures++;                                                                               \
        }                                                                                             \
    } while (0)

static pageset_stats stats(const pageset_pool *pool) {
    pageset_stats stats;
    EXPECT(pageset_get_stats(pool, &stats, sizeof stats), PAGESET_OK, NULL);
    return stats;
}

/* Structures of other sizes than this library's. */
static void sizes(void) {
    struct {
        pageset_options known;
        uint64_t later;
    } newer;
    pageset_pool *pool = NULL;
    EXPECT(pageset_options_init(&newer.known, sizeof newer.known - 1, 1), PAGESET_ERR_ARGUMENT, "the size of options is ");
    EXPECT(pageset_options_init(&newer.known, sizeof newer, 1 << 21), PAGESET_OK, NULL);
    newer.later = 1;
    EXPECT(pageset_pool_create(&newer.known, &pool), PAGESET_ERR_ARGUMENT, "does not know: byte ");
    newer.later = 0;
    newer.known.size = 0;
    EXPECT(pageset_pool_create(&newer.known, &pool), PAGESET_ERR_ARGUMENT, "the size of options is 0; allowed: sizeof");
    newer.known.size = sizeof newer;
    EXPECT(pageset_pool_create(&newer.known, &pool), PAGESET_OK, NULL);
    struct {
        pageset_stats known;
        uint64_t later;
    } counters = {.later = 1};
    EXPECT(pageset_get_stats(pool, &counters.known, 8), PAGESET_ERR_ARGUMENT, "the size of stats is 8");
    EXPECT(pageset_get_stats(pool, &counters.known, sizeof counters), PAGESET_OK, NULL);
    if (counters.later != 0 || counters.known.size_bytes != 1 << 21) failures++, puts("counters of a larger structure");
    EXPECT(pageset_pool_destroy(pool), PAGESET_OK, NULL);
}

/* A thread whose cancellation waits makes every call to its end, and ends where it says. */
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
    REFUSED(pageset_alloc_contig(pool, 9 << 20), "allowed: 1 to 8388608");
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
    /* It takes the frames of a cancelled thread for an overflow. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    return PTHREAD_CANCELED;
#endif
    pthread_testcancel();
    failures++, puts("a call has changed whether the thread can be cancelled");
    return NULL;
}

/* Less address space than a pool asks for. */
static void no_address_space(void) {
#ifndef __SANITIZE_ADDRESS__
    struct rlimit limit, less;
    pageset_options options;
    pageset_pool *pool;
    if (getenv("PAGESET_NO_LIMITS") || getrlimit(RLIMIT_AS, &limit) != 0) return;
    less = limit, less.rlim_cur = (rlim_t)2 << 30;
    setrlimit(RLIMIT_AS, &less);
    EXPECT(pageset_options_init(&options, sizeof options, UINT64_C(64) << 30), PAGESET_OK, NULL);
    EXPECT(pageset_pool_create(&options, &pool), PAGESET_ERR_SYSTEM, "reserving address space of 68719476736 bytes failed");
    EXPECT(pageset_pool_create(&options, &pool), PAGESET_ERR_SYSTEM, "ulimit -v");
    if (pool) failures++, puts("a failed creation left a pool");
    setrlimit(RLIMIT_AS, &limit);
#endif
}

int main(void) {
    pthread_t thread;
    void *how;
    int done = 0;
    sizes();
    no_address_space();
    pthread_create(&thread, NULL, cancelled, &done);
    pthread_join(thread, &how);
    if (!done || how != PTHREAD_CANCELED) failures++, puts("a thread was cancelled in the middle of a call");

    pageset_options options;
    pageset_pool *pool = NULL;
    EXPECT(pageset_options_init(NULL, sizeof options, 1), PAGESET_ERR_ARGUMENT, "options is NULL");
    EXPECT(pageset_options_init(&options, sizeof options, UINT64_C(1) << 30), PAGESET_OK, NULL);
    EXPECT(pageset_pool_create(NULL, &pool), PAGESET_ERR_ARGUMENT, "options or pool is NULL");
    EXPECT(pageset_pool_create(&options, NULL), PAGESET_ERR_ARGUMENT, "options or pool is NULL");

    /* Sizes and settings out of range. */
    pageset_options wrong = options;
    wrong.bytes = 0;
    EXPECT(pageset_pool_create(&wrong, &pool), PAGESET_ERR_ARGUMENT, "a pool of 0 bytes");
    wrong.bytes = UINT64_MAX;
    EXPECT(pageset_pool_create(&wrong, &pool), PAGESET_ERR_ARGUMENT, "a pool of 18446744073709551615 bytes");
    wrong = options, wrong.reserve_bytes = 1;
    EXPECT(pageset_pool_create(&wrong, &pool), PAGESET_ERR_ARGUMENT, "may grow to 1 only");
    wrong = options, wrong.huge_pages = 3;
    EXPECT(pageset_pool_create(&wrong, &pool), PAGESET_ERR_ARGUMENT, "huge_pages is 3; allowed: 0 to 2");
    wrong = options, wrong.on_fork = 2;
    EXPECT(pageset_pool_create(&wrong, &pool), PAGESET_ERR_ARGUMENT, "on_fork is 2");
    wrong = options, wrong.give_back_after_scans = 0;
    EXPECT(pageset_pool_create(&wrong, &pool), PAGESET_ERR_ARGUMENT, "give_back_after_scans is 0; allowed: 1 to 250");
    wrong = options, wrong.node_count = 1;
    EXPECT(pageset_pool_create(&wrong, &pool), PAGESET_ERR_ARGUMENT, "node_count is 1");
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
    REFUSED(pageset_alloc(pool, 11), "the order is 11; allowed: 0 to 10");
    REFUSED(pageset_alloc(pool, UINT32_MAX), "the order is 4294967295");
    REFUSED(pageset_alloc(NULL, 0), "the pool is NULL");
    REFUSED(pageset_alloc_typed(pool, 5, 0), "the type is 5; allowed: 0 to 2");
    REFUSED(pageset_alloc_on(pool, 999, 0), "no memory of node 999");
    REFUSED(pageset_alloc_bulk(pool, NULL, 1), "pages is NULL");
    EXPECT((int)pageset_alloc_bulk(pool, NULL, 0), 0, NULL);
    EXPECT(pageset_free_bulk(pool, NULL, 1), PAGESET_ERR_ARGUMENT, "pages is NULL");
    EXPECT(pageset_get_stats(pool, NULL, sizeof(pageset_stats)), PAGESET_ERR_ARGUMENT, "stats is NULL");
    EXPECT(pageset_grow(pool, 1), PAGESET_ERR_ARGUMENT, "no reserve is left");

    /* Wrong frees. */
    char *first = pageset_alloc(pool, 2), *run = pageset_alloc(pool, 2);
    memset(run, 7, 4 * PAGESET_PAGE_BYTES);
    char *heap = malloc(3 * PAGESET_PAGE_BYTES);
    char *foreign = heap + PAGESET_PAGE_BYTES - (uintptr_t)heap % PAGESET_PAGE_BYTES;
    pageset_stats before = stats(pool);
    EXPECT(pageset_free(pool, NULL, 0), PAGESET_ERR_FOREIGN, "NULL cannot be freed");
    EXPECT(pageset_free(pool, foreign, 0), PAGESET_ERR_FOREIGN, "it is not in this pool");
    EXPECT(pageset_free(pool, &before, 0), PAGESET_ERR_UNALIGNED, "not a multiple of 4096");
    EXPECT(pageset_free(pool, run + 1, 2), PAGESET_ERR_UNALIGNED, "not a multiple of 4096");
    EXPECT(pageset_free(pool, run + PAGESET_PAGE_BYTES, 2), PAGESET_ERR_UNALIGNED, "no run of that order starts");
    EXPECT(pageset_free(pool, run, 1), PAGESET_ERR_WRONG_ORDER, "the run there has order 2");
    EXPECT(pageset_free(pool, run, 11), PAGESET_ERR_ARGUMENT, "the order is 11");
    EXPECT(pageset_free(pool, run + PAGESET_PAGE_BYTES, 0), PAGESET_ERR_WRONG_ORDER, "inside the run of order 2");
    EXPECT(pageset_free(NULL, run, 2), PAGESET_ERR_NOT_A_POOL, "the pool is NULL");
    pageset_stats after = stats(pool);
    if (memcmp(&before, &after, sizeof before) != 0) failures++, puts("a wrong free changed the books");
    if (run[0] != 7 || run[4 * PAGESET_PAGE_BYTES - 1] != 7) failures++, puts("a wrong free changed the run");

    /* Contiguous runs, and what is in the way of a pool that shrinks. */
    REFUSED(pageset_alloc_contig(pool, 0), "a contiguous run of 0 bytes");
    REFUSED(pageset_alloc_contig(pool, SIZE_MAX), "allowed: 1 to 1073741824");
    char *contig = pageset_alloc_contig(pool, (7 << 20) + 1);
    EXPECT(pageset_free_contig(pool, contig, 0), PAGESET_ERR_ARGUMENT, "bytes is 0");
    EXPECT(pageset_free_contig(pool, contig, SIZE_MAX), PAGESET_ERR_ARGUMENT, "bytes is 18446744073709551615");
    EXPECT(pageset_free_contig(pool, contig + 1, 4096), PAGESET_ERR_UNALIGNED, "not a multiple of 4096");
    EXPECT(pageset_free_contig(pool, contig, 4096), PAGESET_ERR_WRONG_ORDER, "the run there has order");
    EXPECT(pageset_free_contig(pool, contig, UINT64_C(1) << 40), PAGESET_ERR_FOREIGN, "it is not in this pool");
    EXPECT(pageset_free_contig(pool, contig, (7 << 20) + 1), PAGESET_OK, NULL);
    EXPECT(pageset_free_contig(pool, contig, 4096), PAGESET_ERR_DOUBLE_FREE, "free");
    EXPECT(pageset_free_contig(pool, NULL, 4096), PAGESET_ERR_FOREIGN, "NULL cannot be freed");
    EXPECT(pageset_shrink(pool, 0), PAGESET_ERR_ARGUMENT, "cannot shrink by 0 bytes");
    EXPECT(pageset_shrink(pool, UINT64_MAX), PAGESET_ERR_ARGUMENT, "allowed: 1 to 1071644672");
    EXPECT(pageset_shrink(NULL, 1), PAGESET_ERR_NOT_A_POOL, "the pool is NULL");
    void *space;
    uint64_t bytes;
    EXPECT(pageset_address_space(pool, &space, NULL), PAGESET_ERR_ARGUMENT, "start or bytes is NULL");
    EXPECT(pageset_address_space(pool, &space, &bytes), PAGESET_OK, NULL);
    if (bytes != UINT64_C(1) << 30 || (char *)space > run || run >= (char *)space + bytes) failures++, puts("the space");

    /* A bulk with one page twice: nothing of it is freed. */
    void *pages[20];
    EXPECT((int)pageset_alloc_bulk(pool, pages, 19), 19, NULL);
    pages[19] = pages[3];
    EXPECT(pageset_free_bulk(pool, pages, 20), PAGESET_ERR_DOUBLE_FREE, "it is free already");
    pages[19] = NULL;
    EXPECT(pageset_free_bulk(pool, pages, 20), PAGESET_ERR_FOREIGN, "NULL cannot be freed");
    pages[19] = (char *)pages[3] + 1;
    EXPECT(pageset_free_bulk(pool, pages, 20), PAGESET_ERR_UNALIGNED, "is not a multiple of 4096");
    EXPECT(pageset_free_bulk(pool, pages, 19), PAGESET_OK, NULL);

    /* A forked child is refused everything. */
    pid_t child = fork();
    if (child == 0) {
        failures = 0;
        EXPECT(pageset_free(pool, run, 2), PAGESET_ERR_FORKED, "the parent");
        REFUSED(pageset_alloc(pool, 0), "the parent");
        _exit(failures);
    }
    int status;
    waitpid(child, &status, 0);
    EXPECT(status, 0, NULL);

    /* The end of a pool. */
    EXPECT(pageset_free(pool, first, 2), PAGESET_OK, NULL);
    EXPECT(pageset_free(pool, first, 2), PAGESET_ERR_DOUBLE_FREE, "it is free already");
    EXPECT(pageset_pool_destroy(pool), PAGESET_ERR_IN_USE, "16384 bytes of the pool are in use");
    EXPECT(pageset_free(pool, run, 2), PAGESET_OK, NULL);
    EXPECT(pageset_pool_destroy(pool), PAGESET_OK, NULL);
    EXPECT(pageset_pool_destroy(pool), PAGESET_ERR_NOT_A_POOL, "was destroyed");
    EXPECT(pageset_free(pool, run, 2), PAGESET_ERR_NOT_A_POOL, "was destroyed");
    REFUSED(pageset_alloc(pool, 0), "was destroyed");
    EXPECT(pageset_pool_destroy(NULL), PAGESET_ERR_NOT_A_POOL, "the pool is NULL");
    char old[4] = "old";
    if (pageset_zoneinfo(pool, old, sizeof old) != 0 || old[0] != 0) failures++, puts("zoneinfo of no pool");
    REFUSED(pageset_zoneinfo(NULL, NULL, 0) != 0, "the pool is NULL");

    /* A pool of which nothing is left: errors, and all of it can be had again. */
    options.bytes = 4 << 20;
    EXPECT(pageset_pool_create(&options, &pool), PAGESET_OK, NULL);
    void *all = pageset_alloc(pool, 10);
    EXPECT(pageset_shrink(pool, 1), PAGESET_ERR_IN_USE, "; 0 bytes at its end are free");
    REFUSED(pageset_alloc_contig(pool, 4096), "no 4096 bytes in a row are free; 0 bytes are in all");
    REFUSED(pageset_alloc(pool, 0), "no run of 4096 bytes is free; 0 bytes are");
    EXPECT(pageset_free(pool, all, 10), PAGESET_OK, NULL);
    char text[64];
    size_t whole = pageset_zoneinfo(pool, text, sizeof text);
    if (strlen(text) != 63 || whole < 64 || strncmp(text, "Node ", 5) != 0) failures++, puts("zoneinfo is not cut as it should be");
    EXPECT(pageset_pool_destroy_with_pages(pool), PAGESET_OK, NULL);
    free(heap);
    printf("%s\n", failures ? "wrong" : "all refused as documented");
    return failures != 0;
}
