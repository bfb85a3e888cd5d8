/* What programs ask for: zeroed runs, zero on free, deferred frees, a time limit, a limit of the pool, parts that go back. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pageset.h"

#define CHECK(condition)                                                                     \
    do {                                                                                     \
        if (!(condition)) {                                                                  \
            printf("line %d: %s; last error: %s\n", __LINE__, #condition, pageset_last_error()); \
            exit(1);                                                                         \
        }                                                                                    \
    } while (0)

static pageset_options options_of(uint64_t bytes) {
    pageset_options options;
    CHECK(pageset_options_init(&options, sizeof options, bytes) == PAGESET_OK);
    options.huge_pages = PAGESET_HUGE_NONE;
    return options;
}

static pageset_pool *create(const pageset_options *options) {
    pageset_pool *pool;
    CHECK(pageset_pool_create(options, &pool) == PAGESET_OK);
    return pool;
}

static pageset_stats stats(const pageset_pool *pool) {
    pageset_stats stats;
    CHECK(pageset_get_stats(pool, &stats, sizeof stats) == PAGESET_OK);
    return stats;
}

static int is_zero(const unsigned char *run, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        if (run[i]) return 0;
    }
    return 1;
}

static void zeroed(void) {
    pageset_options options = options_of(8 << 20);
    for (int zero_on_free = 0; zero_on_free < 2; zero_on_free++) {
        options.zero_on_free = zero_on_free;
        pageset_pool *pool = create(&options);
        for (int round = 0; round < 3; round++) {
            for (unsigned order = 0; order <= PAGESET_MAX_ORDER; order++) {
                size_t bytes = (size_t)PAGESET_PAGE_BYTES << order;
                unsigned char *run = pageset_alloc_zeroed(pool, order);
                CHECK(run && is_zero(run, bytes));
                memset(run, 0xa5, bytes);
                CHECK(pageset_free(pool, run, order) == PAGESET_OK);
            }
            unsigned char *run = pageset_alloc_contig_zeroed(pool, 6 << 20);
            CHECK(run && is_zero(run, 6 << 20));
            memset(run, 0xa5, 6 << 20);
            CHECK(pageset_free_contig(pool, run, 6 << 20) == PAGESET_OK);
        }
        CHECK(!pageset_alloc_zeroed(pool, 11) && strstr(pageset_last_error(), "cannot use order = 11"));
        CHECK(pageset_pool_destroy(pool) == PAGESET_OK);
    }
    CHECK(!pageset_alloc_zeroed(NULL, 0) && !pageset_alloc_contig_zeroed(NULL, 1));
}

static pageset_pool *signal_pool;
static void *signal_run;
static volatile sig_atomic_t signal_result = -1;

static void handler(int signal) {
    (void)signal;
    signal_result = pageset_free_deferred(signal_pool, signal_run, 2);
}

static void deferred(void) {
    pageset_options options = options_of(8 << 20);
    pageset_pool *pool = signal_pool = create(&options);
    CHECK((signal_run = pageset_alloc(pool, 2)));
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    CHECK(signal_result == PAGESET_OK);
    CHECK(!pageset_alloc(pool, 99));
    const char *error = pageset_last_error();
    CHECK(pageset_free_deferred(pool, signal_run, 2) == PAGESET_ERR_DOUBLE_FREE);
    CHECK(pageset_free_deferred(pool, NULL, 2) == PAGESET_ERR_FOREIGN);
    CHECK(pageset_free_deferred(pool, signal_run, 11) == PAGESET_ERR_ARGUMENT);
    CHECK(pageset_free_deferred(NULL, signal_run, 2) == PAGESET_ERR_NOT_A_POOL);
    CHECK(strstr(error, "order = 99"));
    CHECK(pageset_drain(pool) == PAGESET_OK);
    void *run = pageset_alloc(pool, PAGESET_MAX_ORDER);
    CHECK(run && pageset_free(pool, run, PAGESET_MAX_ORDER) == PAGESET_OK);
    CHECK(stats(pool).in_use_bytes == 0);
    CHECK(pageset_pool_destroy(pool) == PAGESET_OK);
}

static void *freer(void *run) {
    struct timespec time = {0, 30 * 1000000};
    nanosleep(&time, NULL);
    CHECK(pageset_free(signal_pool, run, PAGESET_MAX_ORDER) == PAGESET_OK);
    return NULL;
}

static void limits(void) {
    pageset_options options = options_of(16 << 20);
    options.limit_bytes = 4 << 20;
    pageset_pool *pool = signal_pool = create(&options);
    CHECK(stats(pool).withheld_bytes == 12 << 20);
    void *run = pageset_alloc_timeout(pool, PAGESET_MAX_ORDER, 0);
    CHECK(run && !pageset_alloc(pool, 0) && strstr(pageset_last_error(), "the pool is limited to 4194304 bytes"));
    CHECK(!pageset_alloc_timeout(pool, 0, 20) && strstr(pageset_last_error(), "within 20ms"));
    CHECK(pageset_set_limit(pool, 2 << 20) == PAGESET_ERR_IN_USE);
    CHECK(pageset_set_limit(pool, 17 << 20) == PAGESET_ERR_ARGUMENT);
    CHECK(pageset_grow(pool, 2 << 20) == PAGESET_ERR_ARGUMENT && strstr(pageset_last_error(), "it has a limit"));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, freer, run) == 0);
    CHECK((run = pageset_alloc_timeout(pool, PAGESET_MAX_ORDER, 60000)));
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(pageset_set_limit(pool, 0) == PAGESET_OK && stats(pool).withheld_bytes == 0);
    CHECK(pageset_free(pool, run, PAGESET_MAX_ORDER) == PAGESET_OK);
    CHECK(pageset_pool_destroy(pool) == PAGESET_OK);
}

/* Fills the pool with pages, frees all but each 64th, and returns what stays resident after a give-back. */
static uint64_t resident_after(pageset_options options) {
    enum { PAGES = 2048 };
    static void *pages[PAGES];
    pageset_pool *pool = create(&options);
    CHECK(pageset_alloc_bulk(pool, pages, PAGES) == PAGES);
    for (int i = 0; i < PAGES; i++) *(char *)pages[i] = 1;
    for (int i = 0; i < PAGES; i++) {
        if (i % 64) CHECK(pageset_free(pool, pages[i], 0) == PAGESET_OK);
    }
    CHECK(pageset_give_back(pool, UINT64_MAX, NULL) == PAGESET_OK);
    uint64_t resident;
    CHECK(pageset_resident(pool, &resident) == PAGESET_OK);
    CHECK(pageset_pool_destroy_with_pages(pool) == PAGESET_OK);
    return resident;
}

static void parts(void) {
    pageset_options options = options_of(8 << 20);
    CHECK(resident_after(options) <= 64 * PAGESET_PAGE_BYTES);
    options.no_give_back_parts = 1;
    CHECK(resident_after(options) == 8 << 20);
    options.no_give_back_parts = 0;
    options.give_back_parts_min_order = 8;
    CHECK(resident_after(options) == 8 << 20);
    options.give_back_parts_min_order = 11;
    pageset_pool *pool;
    CHECK(pageset_pool_create(&options, &pool) == PAGESET_ERR_ARGUMENT);
    CHECK(strstr(pageset_last_error(), "give_back_parts_min_order = 11: it is out of range; try 0 to 10"));
    options.give_back_parts_min_order = 0;
    options.give_back_parts_after_scans_factor = 256;
    CHECK(pageset_pool_create(&options, &pool) == PAGESET_ERR_ARGUMENT);
}

int main(void) {
    zeroed();
    deferred();
    limits();
    parts();
    puts("all calls work as documented");
    return 0;
}
