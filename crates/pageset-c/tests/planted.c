/* Errors that a checker of memory must report, and a program without errors. The first argument names the error. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pageset.h"

static pageset_pool *pool;
static volatile char sink;

static void must(int condition) {
    if (!condition) {
        printf("a call failed: %s\n", pageset_last_error());
        exit(1);
    }
}

/* Threads that hand runs to each other through the pool only. */
static void *correct(void *argument) {
    for (int round = 0; round < 200; round++) {
        unsigned order = round % 6;
        char *run = pageset_alloc(pool, order);
        must(run != NULL);
        memset(run, (int)(size_t)argument, (size_t)PAGESET_PAGE_BYTES << order);
        must(pageset_free(pool, run, order) == PAGESET_OK);
    }
    return NULL;
}

static void *late_write(void *run) {
    struct timespec time = {0, 50 * 1000000};
    nanosleep(&time, NULL);
    *(volatile char *)run = 1;
    return NULL;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "correct";
    pageset_options options;
    must(pageset_options_init(&options, sizeof options, 16 << 20) == PAGESET_OK);
    must(pageset_pool_create(&options, &pool) == PAGESET_OK);
    char *run = pageset_alloc(pool, 2);
    must(run != NULL);
    memset(run, 1, 4 * PAGESET_PAGE_BYTES);
    if (!strcmp(what, "correct")) {
        pthread_t threads[3];
        for (size_t i = 0; i < 3; i++) must(!pthread_create(&threads[i], NULL, correct, (void *)i));
        for (size_t i = 0; i < 3; i++) must(!pthread_join(threads[i], NULL));
        must(pageset_free(pool, run, 2) == PAGESET_OK);
        run = pageset_alloc_contig(pool, 5 << 20);
        must(run != NULL);
        memset(run, 1, 5 << 20);
        must(pageset_free_contig(pool, run, 5 << 20) == PAGESET_OK);
        must(pageset_give_back(pool, UINT64_MAX, NULL) == PAGESET_OK);
        must(pageset_pool_destroy(pool) == PAGESET_OK);
    } else if (!strcmp(what, "use-after-free")) {
        must(pageset_free(pool, run, 2) == PAGESET_OK);
        sink = run[5000];
    } else if (!strcmp(what, "use-after-deferred-free")) {
        must(pageset_free_deferred(pool, run, 2) == PAGESET_OK);
        sink = run[5000];
    } else if (!strcmp(what, "beyond-a-run")) {
        run[4 * PAGESET_PAGE_BYTES] = 1;
    } else if (!strcmp(what, "race")) {
        /* Another thread writes the run after this one has freed it. */
        pthread_t thread;
        must(!pthread_create(&thread, NULL, late_write, run));
        must(pageset_free(pool, run, 2) == PAGESET_OK);
        must(!pthread_join(thread, NULL));
    } else {
        printf("unknown: %s\n", what);
        return 0;
    }
    puts("done");
    return 0;
}
