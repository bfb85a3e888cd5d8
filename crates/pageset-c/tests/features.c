/* The ticker, bulk calls for runs of several pages, and the options that later versions added. */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pageset.h"

static pageset_pool *create(pageset_options *options) {
    pageset_pool *pool;
    if (pageset_pool_create(options, &pool) != PAGESET_OK) {
        printf("no pool: %s\n", pageset_last_error());
        exit(1);
    }
    return pool;
}

#define CHECK(condition)                                                                     \
    do {                                                                                     \
        if (!(condition)) {                                                                  \
            printf("line %d: %s; last error: %s\n", __LINE__, #condition, pageset_last_error()); \
            exit(1);                                                                         \
        }                                                                                    \
    } while (0)

static pageset_stats stats(const pageset_pool *pool) {
    pageset_stats stats;
    CHECK(pageset_get_stats(pool, &stats, sizeof stats) == PAGESET_OK);
    return stats;
}

static void nap(long milliseconds) {
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

/* Waits up to 10 s until the pool has given at least `bytes` back. */
static int has_given_back(const pageset_pool *pool, uint64_t bytes) {
    for (int i = 0; i < 1000 && stats(pool).given_back_bytes < bytes; i++) nap(10);
    return stats(pool).given_back_bytes >= bytes;
}

static int threads(void) {
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks);
    while (readdir(tasks)) count++;
    closedir(tasks);
    return count - 2;
}

static void touch_and_free(pageset_pool *pool) {
    void *run = pageset_alloc(pool, PAGESET_MAX_ORDER);
    CHECK(run);
    memset(run, 1, (size_t)PAGESET_PAGE_BYTES << PAGESET_MAX_ORDER);
    CHECK(pageset_free(pool, run, PAGESET_MAX_ORDER) == PAGESET_OK);
}

static volatile sig_atomic_t handled_elsewhere;
static pthread_t main_thread;

static void handler(int signal) {
    (void)signal;
    if (!pthread_equal(pthread_self(), main_thread)) handled_elsewhere = 1;
}

static void ticker(pageset_options options) {
    options.give_back_interval_ms = 1;
    options.give_back_after_scans = 1;
    pageset_pool *pool = create(&options);
    int others = threads();
    CHECK(pageset_ticker_stop(pool) == PAGESET_OK);
    CHECK(pageset_ticker_start(pool, 1) == PAGESET_OK);
    touch_and_free(pool);
    CHECK(has_given_back(pool, 4 << 20));

    /* The ticker's thread runs no signal handlers of the program. */
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    main_thread = pthread_self();
    sigaction(SIGUSR1, &action, NULL);
    sigset_t one, former;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &one, &former);
    CHECK(!sigismember(&former, SIGUSR1));
    kill(getpid(), SIGUSR1);
    nap(20);
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    CHECK(!handled_elsewhere);

    /* A stopped ticker gives nothing back. A second start replaces the first. */
    CHECK(pageset_ticker_stop(pool) == PAGESET_OK);
    CHECK(pageset_ticker_stop(pool) == PAGESET_OK);
    touch_and_free(pool);
    uint64_t before = stats(pool).given_back_bytes;
    nap(50);
    CHECK(stats(pool).given_back_bytes == before);
    CHECK(pageset_ticker_start(pool, 60000) == PAGESET_OK);
    CHECK(threads() == others + 1);
    CHECK(pageset_ticker_start(pool, 1) == PAGESET_OK);
    CHECK(has_given_back(pool, before + 1));

    /* A forked child stops its copy, and destroys the pool, without waiting for a thread that it does not have. */
    /* Valgrind reports the memory of the missing thread as lost in the child. */
    for (int destroys = getenv("PAGESET_NO_LIMITS") ? 2 : 0; destroys < 2; destroys++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            _exit(destroys ? pageset_pool_destroy_with_pages(pool) : pageset_ticker_stop(pool));
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }

    /* A pool that is not destroyed keeps its ticker. */
    void *held = pageset_alloc(pool, 0);
    CHECK(pageset_pool_destroy(pool) == PAGESET_ERR_IN_USE);
    touch_and_free(pool);
    CHECK(has_given_back(pool, stats(pool).given_back_bytes + 1));
    CHECK(pageset_free(pool, held, 0) == PAGESET_OK);
    CHECK(pageset_ticker_start(pool, 60000) == PAGESET_OK);
    CHECK(pageset_pool_destroy(pool) == PAGESET_OK);
    CHECK(threads() == others);
    CHECK(pageset_ticker_start(pool, 1) == PAGESET_ERR_NOT_A_POOL);
}

/* All runs of a pool are allocated, each once. */
static void bulk(pageset_options options) {
    pageset_pool *pool = create(&options);
    for (unsigned order = 0; order <= PAGESET_MAX_ORDER; order++) {
        size_t bytes = (size_t)PAGESET_PAGE_BYTES << order, all = stats(pool).size_bytes / bytes;
        void **runs = malloc((all + 1) * sizeof *runs);
        CHECK(pageset_alloc_bulk_order(pool, order, runs, 0) == 0);
        CHECK(pageset_free_bulk_order(pool, order, NULL, 0) == PAGESET_OK);
        CHECK(pageset_alloc_bulk_order(pool, order, runs, all + 1) == all);
        for (size_t i = 0; i < all; i++) {
            CHECK((uintptr_t)runs[i] % bytes == 0);
            *(size_t *)runs[i] = i;
        }
        for (size_t i = 0; i < all; i++) CHECK(*(size_t *)runs[i] == i);
        uint64_t failed = stats(pool).failed_allocs;
        CHECK(pageset_alloc_bulk_order(pool, order, runs + all, 1) == 0 && strstr(pageset_last_error(), "no run of that size is free"));
        CHECK(stats(pool).failed_allocs == failed + 1);
        CHECK(stats(pool).in_use_bytes == stats(pool).size_bytes);
        CHECK(pageset_free_bulk_order(pool, order, runs, all) == PAGESET_OK);
        CHECK(stats(pool).in_use_bytes == 0);
        free(runs);
    }
    CHECK(pageset_pool_destroy(pool) == PAGESET_OK);
}

/* The rules of `pool` as zoneinfo prints the batch. */
static int batch(const pageset_options *options) {
    pageset_options copy = *options;
    pageset_pool *pool = create(&copy);
    static char text[1 << 20];
    CHECK(pageset_zoneinfo(pool, text, sizeof text) < sizeof text);
    const char *found = strstr(text, "batch: ");
    CHECK(found);
    CHECK(pageset_pool_destroy(pool) == PAGESET_OK);
    return atoi(found + strlen("batch: "));
}

static void settings(pageset_options options) {
    options.bytes = UINT64_C(4) << 30;
    CHECK(batch(&options) == 64);
    const char *names[] = {"pageset", "linux-6.12", "linux-6.18", "linux-7.3"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        options.rules = names[i];
        CHECK(batch(&options) == 63);
    }
    options.rules = " linux-6.18  batch=31 decay=fifth";
    CHECK(batch(&options) == 31);
    options.rules = NULL;
    options.bytes = 64 << 20;
    options.no_restartable_sequences = 1;
    bulk(options);
    ticker(options);
}

/* The memory that this process has locked, in KiB. */
static long locked_kib(void) {
    char line[256];
    long kib = -1;
    FILE *status = fopen("/proc/self/status", "r");
    CHECK(status != NULL);
    while (fgets(line, sizeof line, status)) (void)sscanf(line, "VmLck: %ld", &kib);
    fclose(status);
    return kib;
}

/* A locked pool. Where this process may not lock 2 MiB, creating it fails. */
static void locked(void) {
    pageset_options options;
    pageset_pool *pool;
    void *start;
    uint64_t bytes;
    long before = locked_kib();
    CHECK(pageset_options_init(&options, sizeof options, 2 << 20) == PAGESET_OK);
    options.lock = 1;
    if (pageset_pool_create(&options, &pool) != PAGESET_OK) {
        CHECK(strstr(pageset_last_error(), "cannot lock the pool") && pool == NULL);
        printf("SKIPPED locked: %s\n", pageset_last_error());
        return;
    }
    CHECK(pageset_address_space(pool, &start, &bytes) == PAGESET_OK && locked_kib() - before == (long)(bytes >> 10));
    void *page = pageset_alloc(pool, 0);
    CHECK(page != NULL);
    memset(page, 1, 4096);
    CHECK(pageset_free(pool, page, 0) == PAGESET_OK && pageset_tick(pool) == PAGESET_OK);
    CHECK(pageset_pool_destroy(pool) == PAGESET_OK && locked_kib() == before);
}

int main(void) {
    pageset_options options;
    locked();
    CHECK(pageset_options_init(&options, sizeof options, 64 << 20) == PAGESET_OK);
    ticker(options);
    bulk(options);
    settings(options);
    puts("all features work as documented");
    return 0;
}
