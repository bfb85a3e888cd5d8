/* For programs of others, such as SQLite's speedtest1: makes SQLite use a pool of PAGESET_PCACHE_MIB before main. Without that
 * variable, SQLite keeps its own cache. */
#include <stdio.h>
#include <stdlib.h>

#include "pageset_pcache.h"

__attribute__((constructor)) static void install(void) {
    const char *mib = getenv("PAGESET_PCACHE_MIB");
    if (!mib) return;
    pageset_options options;
    pageset_pool *pool;
    pageset_options_init(&options, sizeof options, strtoull(mib, NULL, 10) << 20);
    /* Parts of blocks go back 5 s after they became free, not 20 s. */
    options.give_back_interval_ms = 250;
    if (pageset_pool_create(&options, &pool) != PAGESET_OK || pageset_ticker_start(pool, 250) != PAGESET_OK) {
        fprintf(stderr, "error: cannot create a pool of PAGESET_PCACHE_MIB=%s: %s\n", mib, pageset_last_error());
        exit(1);
    }
    int result = pageset_pcache_install(pool);
    if (result) {
        fprintf(stderr, "error: cannot install the page cache: SQLite's error %d\n", result);
        exit(1);
    }
}
