/* Threads over the public calls, for ThreadSanitizer: ci/tsan.sh links it with a library that is instrumented too. Each owner writes to
 * its pages without synchronization, so two owners of a page are a data race, as are changes of metadata outside their locks. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pageset.h"

#ifdef __SANITIZE_THREAD__
/* Newer compilers call these, and the runtime of GCC 12 does not have them. Those of the C library are watched. */
__attribute__((weak)) void *__tsan_memcpy(void *to, const void *from, size_t bytes) { return memcpy(to, from, bytes); }
__attribute__((weak)) void *__tsan_memmove(void *to, const void *from, size_t bytes) { return memmove(to, from, bytes); }
__attribute__((weak)) void *__tsan_memset(void *to, int value, size_t bytes) { return memset(to, value, bytes); }
#endif

#define CHECK(condition)                                                                     \
    do {                                                                                     \
        if (!(condition)) {                                                                  \
            printf("line %d: %s; last error: %s\n", __LINE__, #condition, pageset_last_error()); \
            exit(1);                                                                         \
        }                                                                                    \
    } while (0)

enum { THREADS = 4, HELD = 64, MAIL = 16 };

static pageset_pool *pool;
static atomic_int stop;
/* With a second argument: a page that all threads write to, which the sanitizer must report. */
static volatile long *racy;
static atomic_long calls;

/* Runs that one thread allocates and another frees. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *mail[MAIL];

static size_t bytes_of(unsigned order) { return (size_t)PAGESET_PAGE_BYTES << order; }

/* The first and the last word are written and read: an owner's mark. */
static void *marked(void *run, size_t bytes, long mark) {
    if (run) *(long *)run = ((long *)run)[bytes / sizeof(long) - 1] = mark;
    return run;
}

static void unmark(void *run, size_t bytes, long mark) {
    CHECK(*(long *)run == mark && ((long *)run)[bytes / sizeof(long) - 1] == mark);
}

static void *work(void *argument) {
    long mark = (long)argument;
    unsigned random = (unsigned)mark;
    void *held[HELD] = {0}, *bulk[32];
    unsigned orders[HELD] = {0};
    long done = 0;
    for (; !atomic_load(&stop); done++) {
        if (racy) ++*racy;
        random = random * 1664525u + 1013904223u;
        unsigned place = (random >> 8) % HELD, order = (random >> 16) % 12 < 8 ? 0 : (random >> 20) % 5;
        switch ((random >> 24) % 16) {
        case 0:
            for (size_t got = pageset_alloc_bulk(pool, bulk, 32), i = 0; i <= got; i++) {
                if (i < got) unmark(marked(bulk[i], bytes_of(0), mark), bytes_of(0), mark);
                else CHECK(pageset_free_bulk(pool, bulk, got) == PAGESET_OK);
            }
            break;
        case 1: {
            void *run = marked(pageset_alloc_contig(pool, 3 << 20), 3 << 20, mark);
            if (run) CHECK(pageset_free_contig(pool, run, 3 << 20) == PAGESET_OK);
            break;
        }
        case 2: { /* What another thread allocated is freed here. */
            void *mine = marked(pageset_alloc(pool, 0), bytes_of(0), 0), *other;
            pthread_mutex_lock(&lock);
            other = mail[place % MAIL];
            mail[place % MAIL] = mine;
            pthread_mutex_unlock(&lock);
            if (other) unmark(other, bytes_of(0), 0);
            if (other) CHECK(pageset_free(pool, other, 0) == PAGESET_OK);
            break;
        }
        case 3: {
            long *zeros = pageset_alloc_zeroed(pool, 1);
            if (zeros) unmark(zeros, bytes_of(1), 0);
            if (zeros) marked(zeros, bytes_of(1), mark);
            if (zeros) CHECK(pageset_free_deferred(pool, zeros, 1) == PAGESET_OK);
            break;
        }
        default:
            if (held[place]) {
                unmark(held[place], bytes_of(orders[place]), mark);
                CHECK(pageset_free(pool, held[place], orders[place]) == PAGESET_OK);
            }
            orders[place] = order;
            held[place] = marked(order % 2 ? pageset_alloc_typed(pool, PAGESET_TYPE_UNMOVABLE, order) : pageset_alloc(pool, order),
                                 bytes_of(order), mark);
        }
    }
    for (int i = 0; i < HELD; i++)
        if (held[i]) CHECK(pageset_free(pool, held[i], orders[i]) == PAGESET_OK);
    atomic_fetch_add(&calls, done);
    return NULL;
}

/* What an owner of a pool does meanwhile. Errors of the resizes are allowed: the ends of the pool may be in use. */
static void *administer(void *argument) {
    (void)argument;
    while (!atomic_load(&stop)) {
        pageset_stats stats;
        CHECK(pageset_get_stats(pool, &stats, sizeof stats) == PAGESET_OK);
        CHECK(pageset_tick(pool) == PAGESET_OK);
        CHECK(pageset_give_back(pool, 4 << 20, NULL) == PAGESET_OK);
        pageset_grow(pool, 4 << 20);
        CHECK(pageset_drain(pool) == PAGESET_OK);
        pageset_shrink(pool, 4 << 20);
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    }
    return NULL;
}

int main(int count, char **arguments) {
    pageset_options options;
    CHECK(pageset_options_init(&options, sizeof options, 48 << 20) == PAGESET_OK);
    options.reserve_bytes = 64 << 20;
    options.free_check = PAGESET_CHECK_ALL;
    /* Under the sanitizer, which does not see what the sequences order. */
    options.no_restartable_sequences = 1;
    CHECK(pageset_pool_create(&options, &pool) == PAGESET_OK);
    CHECK(pageset_ticker_start(pool, 10) == PAGESET_OK);
    if (count > 2) CHECK(racy = pageset_alloc(pool, 0));
    pthread_t threads[THREADS + 1];
    for (long i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
    CHECK(pthread_create(&threads[THREADS], NULL, administer, NULL) == 0);
    nanosleep(&(struct timespec){count > 1 ? atoi(arguments[1]) : 2, 0}, NULL);
    atomic_store(&stop, 1);
    for (int i = 0; i <= THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < MAIL; i++)
        if (mail[i]) CHECK(pageset_free(pool, mail[i], 0) == PAGESET_OK);
    CHECK(atomic_load(&calls) > 0);
    CHECK(pageset_pool_destroy(pool) == PAGESET_OK);
    printf("nothing is in use at the end\n");
    return 0;
}
