/* Everything that a C program can do wrong and the library can see: each is refused with its code, and changes nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    EXPECT(pageset_get_stats(pool, &stats), PAGESET_OK, NULL);
    return stats;
}

int main(void) {
    pageset_options options;
    pageset_pool *pool = NULL;
    EXPECT(pageset_options_init(NULL, 1), PAGESET_ERR_ARGUMENT, "options is NULL");
    EXPECT(pageset_options_init(&options, UINT64_C(1) << 30), PAGESET_OK, NULL);
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
    EXPECT(pageset_free_bulk(pool, NULL, 1, NULL), PAGESET_ERR_ARGUMENT, "pages is NULL");
    EXPECT(pageset_get_stats(pool, NULL), PAGESET_ERR_ARGUMENT, "stats is NULL");
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

    /* A bulk with one page twice: nothing of it is freed. */
    void *pages[20];
    size_t freed = 99;
    EXPECT((int)pageset_alloc_bulk(pool, pages, 19), 19, NULL);
    pages[19] = pages[3];
    EXPECT(pageset_free_bulk(pool, pages, 20, &freed), PAGESET_ERR_DOUBLE_FREE, "it is free already");
    EXPECT((int)freed, 0, NULL);
    EXPECT(pageset_free_bulk(pool, pages, 19, &freed), PAGESET_OK, NULL);
    EXPECT((int)freed, 19, NULL);

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

    /* A pool of which nothing is left: errors, and all of it can be had again. */
    options.bytes = 4 << 20;
    EXPECT(pageset_pool_create(&options, &pool), PAGESET_OK, NULL);
    void *all = pageset_alloc(pool, 10);
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
