/* Buffers from a pool: one run, many pages, and a wrong free. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "pageset.h"

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, pageset_last_error());
    return 1;
}

int main(void) {
    pageset_options options;
    pageset_pool *pool;
    pageset_options_init(&options, sizeof options, UINT64_C(64) << 20);
    if (pageset_pool_create(&options, &pool) != PAGESET_OK) return failed("pageset_pool_create");

    /* 10,000 bytes fit into 2^2 pages. */
    unsigned order = (unsigned)pageset_order_for(10000);
    char *buffer = pageset_alloc(pool, order);
    if (!buffer) return failed("pageset_alloc");
    memset(buffer, 'x', 10000);

    void *pages[300];
    size_t got = pageset_alloc_bulk(pool, pages, 300);
    if (got == 0) return failed("pageset_alloc_bulk");
    for (size_t i = 0; i < got; i++) memset(pages[i], (int)i, PAGESET_PAGE_BYTES);

    pageset_stats stats;
    if (pageset_get_stats(pool, &stats, sizeof stats) != PAGESET_OK) return failed("pageset_get_stats");
    printf("order %u and %zu pages: %" PRIu64 " bytes in use\n", order, got, stats.in_use_bytes);

    if (pageset_free(pool, buffer, 0) != PAGESET_ERR_WRONG_ORDER) return failed("a wrong order was not detected");
    if (pageset_free(pool, buffer, order) != PAGESET_OK) return failed("pageset_free");
    if (pageset_free_bulk(pool, pages, got) != PAGESET_OK) return failed("pageset_free_bulk");

    uint64_t given;
    if (pageset_give_back(pool, UINT64_MAX, &given) != PAGESET_OK) return failed("pageset_give_back");
    if (pageset_get_stats(pool, &stats, sizeof stats) != PAGESET_OK) return failed("pageset_get_stats");
    printf("%" PRIu64 " bytes in use, %s went back to the system\n", stats.in_use_bytes, given ? "some" : "none");
    return pageset_pool_destroy(pool) == PAGESET_OK ? 0 : failed("pageset_pool_destroy");
}
