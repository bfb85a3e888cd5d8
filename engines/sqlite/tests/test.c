/* Tests of pageset_pcache.c: `test FOLDER` writes databases into FOLDER. The methods are called directly, then by SQLite. At the end
 * the pool must be empty, so a page that the cache lost is found. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pageset_pcache.h"
#include "sqlite3.h"

static const char *test = "start";

#define CHECK(condition, ...)                                                        \
    do {                                                                             \
        if (!(condition)) {                                                          \
            fprintf(stderr, "error: %s: line %d: %s: ", test, __LINE__, #condition); \
            fprintf(stderr, __VA_ARGS__);                                            \
            fprintf(stderr, "\n");                                                   \
            exit(1);                                                                 \
        }                                                                            \
    } while (0)

static pageset_pool *pool;
static sqlite3_pcache_methods2 m;
static const char *folder;

/* The cache keeps the run at the end of the pool, 16 pages at most, until sqlite3_shutdown. */
#define KEPT 16

static uint64_t in_use(void) {
    pageset_stats stats;
    CHECK(pageset_get_stats(pool, &stats, sizeof stats) == PAGESET_OK, "%s", pageset_last_error());
    return stats.in_use_bytes / PAGESET_PAGE_BYTES;
}

static unsigned next_random(unsigned *state) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    return *state ^= *state << 5;
}

/* ---- The methods, next to a model ---- */

#define KEYS 400
#define EXTRA 220

/* Random calls on one cache. The model knows each page that SQLite holds pinned, and what was last written to each key. */
static void methods(int page_bytes, unsigned seed) {
    sqlite3_pcache *cache = m.xCreate(page_bytes, EXTRA, 1);
    CHECK(cache, "no cache");
    sqlite3_pcache_page *pinned[KEYS + 1] = {0};
    unsigned stamp[KEYS + 1] = {0};
    unsigned max = 100, state = seed, hits = 0, evictions = 0;
    m.xCachesize(cache, (int)max);
    for (int i = 0; i < 200000; i++) {
        unsigned key = next_random(&state) % KEYS + 1, pins = 0;
        switch (next_random(&state) % 1000) {
        default: /* Fetch, perhaps write, perhaps unpin. */
            for (unsigned k = 1; k <= KEYS; k++) pins += pinned[k] != NULL;
            int create = (int)(next_random(&state) % 3);
            sqlite3_pcache_page *page = m.xFetch(cache, key, create);
            if (!page) {
                CHECK(!pinned[key], "pinned page %u is gone", key);
                CHECK(create == 0 || (create == 1 && pins * 10 >= max * 9 - 9), "no page for %u, %u of %u are pinned", key, pins, max);
                evictions += stamp[key] != 0;
                stamp[key] = 0;
                break;
            }
            CHECK(!pinned[key] || pinned[key] == page, "page %u has moved", key);
            unsigned *content = page->pBuf, *last = content + page_bytes / 4 - 1, *extra = page->pExtra;
            if (*(void **)page->pExtra == NULL) {
                CHECK(!pinned[key], "pinned page %u was replaced", key);
                evictions += stamp[key] != 0;
                *(void **)page->pExtra = page;
            } else {
                CHECK(stamp[key] && *content == stamp[key] && *last == stamp[key], "page %u has %u, not %u", key, *content, stamp[key]);
                CHECK(*(void **)extra == page && extra[EXTRA / 4 - 1] == stamp[key], "extra bytes of page %u", key);
                hits++;
            }
            *content = *last = extra[EXTRA / 4 - 1] = stamp[key] = (unsigned)i + 1;
            pinned[key] = page;
            if (next_random(&state) % 8 == 0) break;
            int discard = next_random(&state) % 8 == 0;
            m.xUnpin(cache, page, discard);
            pinned[key] = NULL;
            if (discard) {
                CHECK(!m.xFetch(cache, key, 0), "page %u was to be discarded", key);
                stamp[key] = 0;
            }
            break;
        case 0: { /* Truncate. */
            unsigned limit = KEYS / 2 + key / 2;
            m.xTruncate(cache, limit);
            for (unsigned k = limit; k <= KEYS; k++) {
                CHECK(!m.xFetch(cache, k, 0), "page %u is left after xTruncate(%u)", k, limit);
                pinned[k] = NULL;
                stamp[k] = 0;
            }
            break;
        }
        case 1: /* Another size of the cache. */
            max = next_random(&state) % 200 + 10;
            m.xCachesize(cache, (int)max);
            break;
        case 2: /* Only pinned pages are left. */
            for (unsigned k = 1; k <= KEYS; k++) pins += pinned[k] != NULL;
            m.xShrink(cache);
            CHECK(m.xPagecount(cache) == (int)pins, "%d pages are left, %u are pinned", m.xPagecount(cache), pins);
            break;
        case 3: case 4: case 5: { /* Rekey to a page that is not pinned. */
            unsigned to = next_random(&state) % KEYS + 1;
            if (!pinned[key] || pinned[to] || to == key) break;
            m.xRekey(cache, pinned[key], key, to);
            CHECK(!m.xFetch(cache, key, 0), "page %u has two keys", key);
            CHECK(m.xFetch(cache, to, 0) == pinned[key], "page %u is not at its new key", to);
            pinned[to] = pinned[key];
            stamp[to] = stamp[key];
            pinned[key] = NULL;
            stamp[key] = 0;
            break;
        }
        case 6: /* Unpin all. */
            for (unsigned k = 1; k <= KEYS; k++) {
                if (pinned[k]) m.xUnpin(cache, pinned[k], 0);
                pinned[k] = NULL;
            }
            CHECK(m.xPagecount(cache) <= (int)max, "%d pages, the limit is %u", m.xPagecount(cache), max);
            break;
        }
    }
    CHECK(hits > 10000 && evictions > 10000, "%u hits, %u evictions", hits, evictions);
    m.xDestroy(cache);
    CHECK(in_use() <= KEPT, "%lu pages are lost", (unsigned long)in_use());
}

/* A cache that shrinks to a tenth keeps few slabs: pages of the pool are at most 1.2 times those of the cache. */
static void shrink_to_a_tenth(void) {
    sqlite3_pcache *cache = m.xCreate(4096, EXTRA, 1);
    unsigned state = 5;
    m.xCachesize(cache, 5000);
    for (unsigned i = 0; i < 50000; i++) m.xUnpin(cache, m.xFetch(cache, next_random(&state) % 5000 + 1, 2), 0);
    for (unsigned i = 0; i < 50000; i++) {
        if (i == 10000) m.xCachesize(cache, 500);
        m.xUnpin(cache, m.xFetch(cache, next_random(&state) % 500 * 10 + 1, 2), 0);
    }
    CHECK(m.xPagecount(cache) >= 480, "only %d pages", m.xPagecount(cache));
    CHECK(in_use() <= 500 * 12 / 10 + KEPT, "%lu pages for a cache of %d", (unsigned long)in_use(), m.xPagecount(cache));
    m.xDestroy(cache);
}

/* With an empty pool, a cache takes its own oldest line, then lines of another cache, but no pinned one. */
static void empty_pool(void) {
    CHECK(pageset_set_limit(pool, 600 * PAGESET_PAGE_BYTES) == PAGESET_OK, "%s", pageset_last_error());
    sqlite3_pcache *first = m.xCreate(4096, EXTRA, 1), *second = m.xCreate(4096, EXTRA, 0);
    m.xCachesize(first, 10000);
    for (unsigned key = 1; key <= 1000; key++) {
        sqlite3_pcache_page *page = m.xFetch(first, key, 1);
        CHECK(page, "no page %u", key);
        if (key > 1) m.xUnpin(first, page, 0);
    }
    CHECK(m.xPagecount(first) > 500, "%d pages", m.xPagecount(first));
    CHECK(m.xFetch(first, 1000, 0) && !m.xFetch(first, 2, 0) && m.xFetch(first, 1, 0), "not the oldest pages went");
    unsigned got = 0;
    while (m.xFetch(second, got + 1, 2)) got++;
    CHECK(got > 500 && got < 600, "the other cache got %u pages", got);
    CHECK(m.xPagecount(first) == 2 && m.xFetch(first, 1000, 0) && m.xFetch(first, 1, 0), "%d pages are left", m.xPagecount(first));
    CHECK(!m.xFetch(first, 3, 1) && !m.xFetch(first, 3, 2), "no page is free");
    m.xDestroy(second);
    CHECK(m.xFetch(first, 3, 1), "the pool has free pages");
    m.xDestroy(first);
    CHECK(pageset_set_limit(pool, 0) == PAGESET_OK, "%s", pageset_last_error());
}

/* ---- Through SQLite ---- */

static sqlite3 *open_database(const char *name) {
    char path[1024];
    sqlite3 *db;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK(sqlite3_open(name[0] == ':' ? name : path, &db) == SQLITE_OK, "%s", name);
    sqlite3_busy_timeout(db, 20000);
    return db;
}

static int try(sqlite3 *db, const char *sql) { return sqlite3_exec(db, sql, NULL, NULL, NULL); }

static void run(sqlite3 *db, const char *sql) {
    int result = try(db, sql);
    CHECK(result == SQLITE_OK, "%s: %d, %s", sql, result, sqlite3_errmsg(db));
}

static sqlite3_int64 number(sqlite3 *db, const char *sql) {
    sqlite3_stmt *statement;
    CHECK(sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK, "%s", sqlite3_errmsg(db));
    CHECK(sqlite3_step(statement) == SQLITE_ROW, "%s: %s", sql, sqlite3_errmsg(db));
    sqlite3_int64 value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return value;
}

static void intact(sqlite3 *db) { CHECK(number(db, "SELECT integrity_check = 'ok' FROM pragma_integrity_check") == 1, "corrupt"); }

#define ROWS 8000

/* Random reads and writes of a database ten times as large as its cache, next to a table of what each row must be. A third of the
 * transactions is rolled back. */
static void mix(const char *name, const char *pragmas, unsigned seed) {
    sqlite3 *db = open_database(name);
    run(db, pragmas);
    run(db, "CREATE TABLE t(k INTEGER PRIMARY KEY, v INTEGER, b BLOB); CREATE INDEX i ON t(v)");
    static const unsigned none = 0;
    unsigned *rows = calloc(ROWS + 1, sizeof *rows), *saved = calloc(ROWS + 1, sizeof *rows), state = seed;
    CHECK(rows && saved, "no memory");
    sqlite3_stmt *put, *get, *drop;
    sqlite3_prepare_v2(db, "INSERT OR REPLACE INTO t VALUES(?1, ?2, zeroblob(200 + ?2 % 900))", -1, &put, NULL);
    sqlite3_prepare_v2(db, "SELECT v, length(b) FROM t WHERE k = ?1", -1, &get, NULL);
    sqlite3_prepare_v2(db, "DELETE FROM t WHERE k = ?1", -1, &drop, NULL);
    for (int transaction = 0; transaction < 60; transaction++) {
        run(db, "BEGIN IMMEDIATE");
        memcpy(saved, rows, (ROWS + 1) * sizeof *rows);
        for (int i = 0; i < 500; i++) {
            unsigned key = next_random(&state) % ROWS + 1, value = next_random(&state) % 1000000 + 1;
            unsigned kind = next_random(&state) % 8;
            sqlite3_stmt *statement = kind < 4 ? put : kind < 7 ? get : drop;
            sqlite3_bind_int64(statement, 1, key);
            if (statement == put) sqlite3_bind_int64(put, 2, value);
            int result = sqlite3_step(statement);
            if (statement == get && rows[key] != none) {
                CHECK(result == SQLITE_ROW && sqlite3_column_int64(get, 0) == rows[key], "row %u of %s", key, name);
                CHECK(sqlite3_column_int64(get, 1) == 200 + rows[key] % 900, "blob of row %u of %s", key, name);
            } else {
                CHECK(result == SQLITE_DONE, "row %u of %s: %d, %s", key, name, result, sqlite3_errmsg(db));
            }
            sqlite3_reset(statement);
            if (statement == put) rows[key] = value;
            if (statement == drop) rows[key] = none;
        }
        int back = next_random(&state) % 3 == 0;
        run(db, back ? "ROLLBACK" : "COMMIT");
        if (back) memcpy(rows, saved, (ROWS + 1) * sizeof *rows);
        if (transaction % 20 == 19) run(db, "PRAGMA incremental_vacuum; PRAGMA shrink_memory");
    }
    sqlite3_int64 count = 0, sum = 0;
    for (int k = 1; k <= ROWS; k++) count += rows[k] != none, sum += rows[k];
    CHECK(number(db, "SELECT count(*) FROM t") == count, "rows of %s", name);
    CHECK(number(db, "SELECT sum(v) FROM t NOT INDEXED") == sum, "sum of %s", name);
    CHECK(number(db, "SELECT sum(v) FROM t INDEXED BY i") == sum, "sum of the index of %s", name);
    intact(db);
    sqlite3_finalize(put), sqlite3_finalize(get), sqlite3_finalize(drop);
    free(rows), free(saved);
    CHECK(sqlite3_close(db) == SQLITE_OK, "%s", name);
}

static void sizes(void) {
    sqlite3 *db = open_database("sizes.db");
    run(db, "PRAGMA cache_size = 4000; CREATE TABLE t(b BLOB);"
            "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 12000) INSERT INTO t SELECT randomblob(1000) FROM n");
    CHECK(number(db, "SELECT sum(length(b)) FROM t") == 12000000, "sum");
    uint64_t full = in_use();
    CHECK(full > 2900, "only %lu pages are cached", (unsigned long)full);
    run(db, "PRAGMA cache_size = 300");
    CHECK(in_use() <= 300 * 12 / 10 + KEPT, "%lu pages after a smaller cache_size", (unsigned long)in_use());
    run(db, "PRAGMA cache_size = 2000");
    CHECK(number(db, "SELECT sum(length(b)) FROM t") == 12000000, "sum");
    CHECK(in_use() > 1900 && in_use() < 2000 * 12 / 10 + KEPT, "%lu pages", (unsigned long)in_use());
    uint64_t before, after;
    CHECK(pageset_resident(pool, &before) == PAGESET_OK, "%s", pageset_last_error());
    CHECK(sqlite3_db_release_memory(db) == SQLITE_OK, "release");
    CHECK(in_use() <= 4 + KEPT, "%lu pages after sqlite3_db_release_memory", (unsigned long)in_use());
    CHECK(pageset_resident(pool, &after) == PAGESET_OK, "%s", pageset_last_error());
    CHECK(before >= after + 1900 * PAGESET_PAGE_BYTES, "%lu bytes of %lu are still resident", (unsigned long)after, (unsigned long)before);
    intact(db);
    CHECK(sqlite3_close(db) == SQLITE_OK, "close");
}

/* The pool is smaller than the cache may be, then smaller than a database in memory. */
static void no_memory(void) {
    const char *fill = "INSERT INTO t SELECT randomblob(1000) FROM (WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 12000) SELECT i FROM n)";
    CHECK(pageset_set_limit(pool, 4 << 20) == PAGESET_OK, "%s", pageset_last_error());
    sqlite3 *db = open_database("limit.db");
    run(db, "PRAGMA cache_size = 100000; CREATE TABLE t(b BLOB)");
    run(db, fill);
    CHECK(in_use() > 900, "only %lu pages are in use", (unsigned long)in_use());
    intact(db);

    /* The other cache gives up its lines. */
    sqlite3 *memory = open_database(":memory:");
    run(memory, "CREATE TABLE t(b BLOB); INSERT INTO t VALUES('first')");
    CHECK(try(memory, fill) == SQLITE_NOMEM, "a database larger than the pool fits: %s", sqlite3_errmsg(memory));
    CHECK(number(memory, "SELECT count(*) FROM t") == 1, "rows after SQLITE_NOMEM");
    intact(memory);

    /* Everything is pinned elsewhere: the file keeps what was committed. */
    CHECK(sqlite3_db_release_memory(db) == SQLITE_OK, "release");
    void *hog[1024];
    size_t taken = pageset_alloc_bulk(pool, hog, 1024);
    int result = try(db, "SELECT sum(length(b)) FROM t");
    CHECK(result == SQLITE_NOMEM, "%zu pages are taken, and reads end with %d", taken, result);
    result = try(db, "UPDATE t SET b = randomblob(999)");
    CHECK(result == SQLITE_NOMEM, "%zu pages are taken, and writes end with %d", taken, result);
    CHECK(!taken || pageset_free_bulk(pool, hog, taken) == PAGESET_OK, "%s", pageset_last_error());
    CHECK(number(db, "SELECT sum(length(b)) FROM t") == 12000000, "sum");
    intact(db);

    CHECK(pageset_set_limit(pool, 0) == PAGESET_OK, "%s", pageset_last_error());
    run(memory, fill);
    CHECK(number(memory, "SELECT count(*) FROM t") == 12001, "rows");
    CHECK(sqlite3_close(memory) == SQLITE_OK && sqlite3_close(db) == SQLITE_OK, "close");
}

static void *thread(void *name) {
    mix(name, "PRAGMA cache_size = 120; PRAGMA auto_vacuum = INCREMENTAL; PRAGMA synchronous = OFF", (unsigned)strlen(name));
    return NULL;
}

static void *shared_thread(void *arg) {
    (void)arg;
    sqlite3 *db = open_database("shared.db");
    run(db, "PRAGMA cache_size = 50");
    for (int i = 0; i < 300; i++) {
        run(db, "BEGIN IMMEDIATE; UPDATE t SET v = v + 1 WHERE k = abs(random()) % 2000 + 1; UPDATE n SET v = v + 1; COMMIT");
        if (i % 50 == 0) CHECK(number(db, "SELECT count(*) FROM t") == 2000, "rows");
    }
    CHECK(sqlite3_close(db) == SQLITE_OK, "close");
    return NULL;
}

static void in_two_threads(void *(*call)(void *), void *first, void *second) {
    pthread_t threads[2];
    CHECK(!pthread_create(&threads[0], NULL, call, first) && !pthread_create(&threads[1], NULL, call, second), "no thread");
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
}

static void one_file_in_two_threads(void) {
    sqlite3 *db = open_database("shared.db");
    run(db, "PRAGMA journal_mode = WAL; CREATE TABLE n(v); INSERT INTO n VALUES(0); CREATE TABLE t(k INTEGER PRIMARY KEY, v, b);"
            "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 2000) INSERT INTO t SELECT i, 0, zeroblob(500) FROM n");
    in_two_threads(shared_thread, NULL, NULL);
    CHECK(number(db, "SELECT v FROM n") == 600 && number(db, "SELECT sum(v) FROM t") == 600, "updates are lost");
    intact(db);
    CHECK(sqlite3_close(db) == SQLITE_OK, "close");
}

int main(int count, char **arguments) {
    if (count != 2) return fprintf(stderr, "usage: test FOLDER\n"), 2;
    folder = arguments[1];
    pageset_options options;
    pageset_options_init(&options, sizeof options, 64 << 20);
    CHECK(pageset_pool_create(&options, &pool) == PAGESET_OK, "%s", pageset_last_error());
    CHECK(pageset_pcache_install(pool) == SQLITE_OK, "cannot install");
    CHECK(sqlite3_config(SQLITE_CONFIG_GETPCACHE2, &m) == SQLITE_OK && sqlite3_initialize() == SQLITE_OK, "cannot initialize");
    CHECK(pageset_ticker_start(pool, 100) == PAGESET_OK, "%s", pageset_last_error());

    test = "the methods";
    for (unsigned seed = 1; seed <= 3; seed++) methods(4096, seed);
    methods(512, 4);
    methods(65536, 5);
    test = "a cache that shrinks to a tenth";
    shrink_to_a_tenth();
    test = "an empty pool";
    empty_pool();
    test = "a database larger than its cache";
    mix("rollback.db", "PRAGMA cache_size = 100; PRAGMA auto_vacuum = INCREMENTAL; PRAGMA synchronous = OFF", 1);
    mix("wal.db", "PRAGMA page_size = 1024; PRAGMA cache_size = 100; PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF", 2);
    mix("large.db", "PRAGMA page_size = 65536; PRAGMA cache_size = 10; PRAGMA auto_vacuum = FULL; PRAGMA synchronous = OFF", 3);
    mix(":memory:", "PRAGMA auto_vacuum = FULL", 4);
    test = "other sizes of the cache";
    sizes();
    test = "no memory";
    no_memory();
    test = "two threads, two databases, and a pool that is too small for both caches";
    /* Room for what both may pin, nine tenths of 120 lines each and their headers, and not for 240 lines. */
    CHECK(pageset_set_limit(pool, 250 * PAGESET_PAGE_BYTES) == PAGESET_OK, "%s", pageset_last_error());
    in_two_threads(thread, "first.db", "the second.db");
    CHECK(pageset_set_limit(pool, 0) == PAGESET_OK, "%s", pageset_last_error());
    test = "two threads, one database";
    one_file_in_two_threads();
    test = "the end";
    CHECK(sqlite3_shutdown() == SQLITE_OK, "shutdown");
    CHECK(pageset_pool_destroy(pool) == PAGESET_OK, "%s", pageset_last_error());
    puts("ok");
    return 0;
}
