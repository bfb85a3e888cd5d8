/* SQLite's page cache on a pool of libpageset. */
#ifndef PAGESET_PCACHE_H
#define PAGESET_PCACHE_H

#include "pageset.h"

/* Makes SQLite cache pages in `pool`. Call it before sqlite3_initialize, and destroy the pool after sqlite3_shutdown.
 * All connections of the process use this pool. Returns the result of sqlite3_config.
 *
 * Run a ticker (pageset_ticker_start): it returns free memory to the system. */
int pageset_pcache_install(pageset_pool *pool);

#endif
