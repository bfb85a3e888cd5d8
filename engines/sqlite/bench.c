/* A working set that shrinks to a tenth: `bench NAME FOLDER THREADS SECONDS` prints one CSV row a second.
 *
 * Each thread has a database of its own, all of which its cache holds. It reads random rows, and updates one in ten, SECONDS long.
 * Then it uses only the rows of each tenth page, SECONDS long. The cache may hold the working set and 1 % more. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sqlite3.h"

#define PAGES_OF_ALL 132000u /* With rows, of all databases. */
#define INNER_PAGES 331u     /* Of all databases, as dbstat counts them. Each tenth page with rows needs all of them. */
#define ROWS_OF_A_PAGE 3u    /* 3 rows of 1200 bytes fill a page of 4096 bytes. */
#define PAGE_BYTES 4096u

static const char *folder;
static unsigned pages, inner; /* Of one database. */
static atomic_uint tenth, stop;
static struct client {
    pthread_t thread;
    int number;
    _Alignas(64) atomic_ulong calls;
} clients[2];

static void die(sqlite3 *db, const char *what) {
    fprintf(stderr, "error: %s: %s\n", what, sqlite3_errmsg(db));
    exit(1);
}

static void run(sqlite3 *db, const char *sql) {
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) die(db, sql);
}

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql) {
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK) die(db, sql);
    return statement;
}

static void *client(void *arg) {
    struct client *me = arg;
    char text[1200];
    sqlite3 *db;
    snprintf(text, sizeof text, "%s/bench-%u-%d.db", folder, pages, me->number);
    if (sqlite3_open(text, &db) != SQLITE_OK) die(db, text);
    run(db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF");
    snprintf(text, sizeof text, "PRAGMA cache_size = %u", (pages + inner) / 100 * 101);
    run(db, text);
    run(db, "CREATE TABLE IF NOT EXISTS t(k INTEGER PRIMARY KEY, v INTEGER, b BLOB)");
    sqlite3_stmt *count = prepare(db, "SELECT max(k) FROM t");
    if (sqlite3_step(count) != SQLITE_ROW) die(db, "count");
    if (sqlite3_column_int64(count, 0) == 0) {
        snprintf(text, sizeof text,
                 "WITH RECURSIVE n(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM n WHERE i < %u) INSERT INTO t SELECT i, 0, zeroblob(1190) FROM n",
                 pages * ROWS_OF_A_PAGE - 1);
        run(db, text);
        /* The order in memory is to be that of the random reads. */
        sqlite3_reset(count);
        run(db, "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA shrink_memory");
    }
    sqlite3_finalize(count);

    sqlite3_stmt *get = prepare(db, "SELECT v, b FROM t WHERE k = ?"), *put = prepare(db, "UPDATE t SET v = v + 1 WHERE k = ?");
    unsigned state = 12345, every = 1;
    while (!stop) {
        if (tenth && every == 1) {
            every = 10;
            snprintf(text, sizeof text, "PRAGMA cache_size = %u", (pages / every + inner) / 100 * 101);
            run(db, text);
        }
        run(db, "BEGIN");
        for (int i = 0; i < 100; i++) {
            state ^= state << 13, state ^= state >> 17, state ^= state << 5;
            unsigned page = state % (pages / every) * every;
            sqlite3_stmt *statement = i % 10 == 9 ? put : get;
            sqlite3_bind_int64(statement, 1, page * ROWS_OF_A_PAGE + state % ROWS_OF_A_PAGE);
            int result = sqlite3_step(statement);
            if (result != (statement == get ? SQLITE_ROW : SQLITE_DONE)) die(db, "a call");
            sqlite3_reset(statement);
        }
        run(db, "COMMIT");
        atomic_fetch_add_explicit(&me->calls, 100, memory_order_relaxed);
    }
    sqlite3_finalize(get);
    sqlite3_finalize(put);
    sqlite3_close(db);
    return NULL;
}

static unsigned long resident_bytes(void) {
    unsigned long all, resident;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%lu %lu", &all, &resident) != 2) exit(1);
    fclose(file);
    return resident * (unsigned long)sysconf(_SC_PAGESIZE);
}

/* Of all threads, in milliseconds. Other programs on the machine do not change it. */
static unsigned long cpu_ms(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (unsigned long)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000 + (unsigned long)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1000;
}

int main(int count, char **arguments) {
    if (count != 5) return fprintf(stderr, "usage: bench NAME FOLDER THREADS SECONDS\n"), 2;
    folder = arguments[2];
    int threads = atoi(arguments[3]), seconds = atoi(arguments[4]);
    if (threads < 1 || threads > 2 || seconds < 1) return fprintf(stderr, "error: 1 or 2 threads, 1 second or more\n"), 2;
    pages = PAGES_OF_ALL / (unsigned)threads;
    inner = INNER_PAGES / (unsigned)threads + 1;
    sqlite3_initialize();
    for (int i = 0; i < threads; i++) {
        clients[i].number = i;
        if (pthread_create(&clients[i].thread, NULL, client, &clients[i])) return perror("error: pthread_create"), 1;
    }
    unsigned long last = 0, last_ms = cpu_ms();
    for (int second = 1; second <= 2 * seconds; second++) {
        sleep(1);
        unsigned long calls = 0, ms = cpu_ms();
        for (int i = 0; i < threads; i++) calls += clients[i].calls;
        printf("%s,%d,%d,%s,%lu,%lu,%lu,%lu\n", arguments[1], threads, second, second <= seconds ? "all" : "tenth", calls - last, ms - last_ms,
               (unsigned long)(PAGES_OF_ALL / (second <= seconds ? 1 : 10) + INNER_PAGES) * PAGE_BYTES, resident_bytes());
        fflush(stdout);
        last = calls;
        last_ms = ms;
        if (second == seconds) tenth = 1;
    }
    stop = 1;
    for (int i = 0; i < threads; i++) pthread_join(clients[i].thread, NULL);
    return 0;
}
