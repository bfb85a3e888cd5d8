/* SQLite's page cache on a pool of libpageset (SQLITE_CONFIG_PCACHE2).
 *
 * A cached page is a *line*. The content is a run of the pool. The line's header and the bytes that SQLite wants beside each
 * page lie in a *slot* of a *slab*, which is one page of the pool. The content is thus aligned to its size and goes back to the
 * pool as it came. A database page below 4 KiB takes 4 KiB.
 *
 *     hash table --> line (slot of a slab) --> content (run of the pool)
 *                     key, chain, LRU links
 *                     SQLite's extra bytes
 *
 * A line is pinned or on the LRU list. xUnpin puts it there, xFetch takes it off. A miss takes the oldest line if the cache is
 * full or the pool is empty, else a new line.
 *
 * If the pool is empty and a cache has no line on its LRU list, it evicts lines of the cache that has the most.
 *
 * Locks: SQLite calls the methods of one cache from one thread at a time. Each method holds the cache's own lock, because other
 * caches may evict its lines. `registry_lock` guards the list of caches. A thread that holds it may take a cache's lock; a thread
 * that holds a cache's lock never waits for it.
 *
 * No memory: xCreate and xFetch return NULL, and nothing has changed. SQLite then writes dirty pages to the file, or fails with
 * SQLITE_NOMEM. */
#include "pageset_pcache.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "sqlite3.h"

typedef struct line line;
typedef struct slab slab;
typedef struct cache cache;

struct line {
    sqlite3_pcache_page page; /* First: SQLite knows a line by the address of this member. */
    line *chain;              /* The next line of the bucket, or the next free slot of the slab. */
    line *newer, *older;      /* The LRU list. NULL in a pinned line and in a free slot. */
    unsigned key;             /* SQLite's page number, 1 or more; 0 in a free slot. */
};

/* The start of a slab's page. The slots follow. */
struct slab {
    slab *next, *prev; /* The list of slabs with free slots. */
    line *free;
    unsigned used;
};

struct cache {
    atomic_flag busy;   /* The lock. Nobody holds it for long. */
    cache *next, *prev; /* The list of all caches. */
    line **buckets;
    unsigned bucket_count; /* A power of two. */
    unsigned lines, unpinned;
    unsigned max_lines; /* PRAGMA cache_size. */
    unsigned max_key;   /* No line has a larger key. */
    unsigned slabs;
    unsigned skip_pool; /* How many misses take an old line before one asks the pool again. */
    uint32_t order;     /* Of the content. */
    unsigned slot_bytes, slots;
    int purgeable;
    line lru;        /* The anchor of the LRU list: `newer` is the oldest line, `older` the newest. */
    slab with_space; /* The anchor of the list of slabs with free slots. */
};

/* After the pool was empty, a cache takes old lines for so many misses: a failed allocation drains the caches of all CPUs. */
#define MISSES_WITHOUT_POOL 256

/* How many lines a cache evicts from another at once. */
#define LINES_FROM_OTHERS 16

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static cache *registry;

static cache *lock(sqlite3_pcache *p) {
    cache *c = (cache *)p;
    /* Pairs with the release in unlock. */
    while (atomic_flag_test_and_set_explicit(&c->busy, memory_order_acquire)) sched_yield();
    return c;
}

static void unlock(cache *c) { atomic_flag_clear_explicit(&c->busy, memory_order_release); }

/* xInit and xShutdown write these, when no other method runs. */
static const pageset_pool *pool;
static char *pool_end;

/* The run at the end of the pool's address space, and its order. SQLite reads up to 16 bytes beyond a page if the database is
 * corrupt, so no line may use that run. Only one thread can get the run, so it writes these without a lock. */
static void *last_run;
static uint32_t last_order;

static void *run_alloc(uint32_t order) {
    char *run = pageset_alloc(pool, order);
    if (run && run + ((size_t)PAGESET_PAGE_BYTES << order) == pool_end) {
        last_run = run;
        last_order = order;
        run = pageset_alloc(pool, order);
    }
    return run;
}

/* Fails only in a forked child, to which the pool does not belong. SQLite forbids connections there, too. */
static void run_free(void *run, uint32_t order) { (void)pageset_free(pool, run, order); }

/* ---- Slots ---- */

static slab *slab_of(line *l) { return (slab *)((uintptr_t)l & ~(uintptr_t)(PAGESET_PAGE_BYTES - 1)); }

static line *slot_at(const cache *c, slab *s, unsigned i) {
    return (line *)((char *)s + PAGESET_PAGE_BYTES - (size_t)(i + 1) * c->slot_bytes);
}

static void slab_link(cache *c, slab *s) {
    s->prev = &c->with_space;
    s->next = c->with_space.next;
    s->next->prev = s->prev->next = s;
}

static void slab_unlink(slab *s) {
    s->prev->next = s->next;
    s->next->prev = s->prev;
}

static line *slot_alloc(cache *c) {
    slab *s = c->with_space.next;
    if (s == &c->with_space) {
        s = run_alloc(0);
        if (!s) return NULL;
        s->used = 0;
        s->free = NULL;
        for (unsigned i = 0; i < c->slots; i++) {
            line *l = slot_at(c, s, i);
            l->key = 0;
            l->newer = l->older = NULL;
            l->chain = s->free;
            s->free = l;
        }
        slab_link(c, s);
        c->slabs++;
    }
    line *l = s->free;
    s->free = l->chain;
    if (++s->used == c->slots) slab_unlink(s);
    return l;
}

static void slot_free(cache *c, line *l) {
    slab *s = slab_of(l);
    l->key = 0;
    l->chain = s->free;
    s->free = l;
    if (s->used-- == c->slots) slab_link(c, s);
    if (s->used == 0) {
        slab_unlink(s);
        c->slabs--;
        run_free(s, 0);
    }
}

/* ---- Lines ---- */

static line *line_alloc(cache *c) {
    line *l = slot_alloc(c);
    if (!l) return NULL;
    l->page.pBuf = run_alloc(c->order);
    if (!l->page.pBuf) {
        slot_free(c, l);
        return NULL;
    }
    l->page.pExtra = l + 1;
    return l;
}

/* The line is in no list. */
static void line_free(cache *c, line *l) {
    run_free(l->page.pBuf, c->order);
    slot_free(c, l);
}

static line **bucket_of(const cache *c, unsigned key) { return &c->buckets[key & (c->bucket_count - 1)]; }

static void hash_insert(cache *c, line *l, unsigned key) {
    line **bucket = bucket_of(c, key);
    l->key = key;
    l->chain = *bucket;
    *bucket = l;
    if (key > c->max_key) c->max_key = key;
}

static void hash_remove(cache *c, line *l) {
    line **at = bucket_of(c, l->key);
    while (*at != l) at = &(*at)->chain;
    *at = l->chain;
}

/* Fits the hash table to the number of lines. Without memory it stays, and the chains become longer. Returns whether there is a
 * table. */
static int hash_fit(cache *c) {
    unsigned count = 256;
    while (count <= c->lines && count < 1u << 30) count *= 2;
    if (count == c->bucket_count) return 1;
    line **buckets = sqlite3_malloc64((sqlite3_uint64)count * sizeof *buckets);
    if (!buckets) return c->buckets != NULL;
    memset(buckets, 0, (size_t)count * sizeof *buckets);
    line **old = c->buckets;
    unsigned old_count = c->bucket_count;
    c->buckets = buckets;
    c->bucket_count = count;
    for (unsigned i = 0; i < old_count; i++) {
        for (line *l = old[i], *next; l; l = next) {
            next = l->chain;
            hash_insert(c, l, l->key);
        }
    }
    sqlite3_free(old);
    return 1;
}

static void lru_remove(cache *c, line *l) {
    l->newer->older = l->older;
    l->older->newer = l->newer;
    l->newer = l->older = NULL;
    c->unpinned--;
}

static void lru_insert(cache *c, line *l) {
    l->newer = &c->lru;
    l->older = c->lru.older;
    l->newer->older = l->older->newer = l;
    c->unpinned++;
}

/* Takes an unpinned line out of the cache. */
static void detach(cache *c, line *l) {
    lru_remove(c, l);
    hash_remove(c, l);
    c->lines--;
}

static void evict(cache *c, line *l) {
    detach(c, l);
    line_free(c, l);
}

static line *oldest(cache *c) { return c->unpinned ? c->lru.newer : NULL; }

/* Evicts lines of the cache that has the most. Returns how many: 0 only if all lines of all caches are pinned. The caller holds no
 * lock. */
static unsigned evict_from_others(void) {
    unsigned evicted = 0;
    cache *victim;
    pthread_mutex_lock(&registry_lock);
    do {
        unsigned most = 0;
        victim = NULL;
        for (cache *c = registry; c; c = c->next) {
            lock((sqlite3_pcache *)c);
            if (c->purgeable && c->unpinned > most) {
                most = c->unpinned;
                victim = c;
            }
            unlock(c);
        }
        if (victim) {
            lock((sqlite3_pcache *)victim);
            for (; evicted < LINES_FROM_OTHERS && victim->unpinned; evicted++) evict(victim, oldest(victim));
            unlock(victim);
        }
        /* Its thread may have pinned them in between. */
    } while (victim && !evicted);
    pthread_mutex_unlock(&registry_lock);
    return evicted;
}

/* Evicts the lines of the slabs that are nearly empty, until the slabs are an eighth of the lines. The lines that remain after the
 * cache has shrunk are scattered: one or two in each slab. SQLite has pointers into a line's extra bytes, so a line cannot move. It
 * can only be evicted and read again. */
static void compact(cache *c) {
    for (unsigned used = 1; used <= c->slots / 2; used++) {
        for (slab *s = c->with_space.next, *next; s != &c->with_space; s = next) {
            next = s->next;
            if (c->slabs <= c->lines / 8 + 8) return;
            if (s->used > used) continue;
            unsigned unpinned = 0;
            for (unsigned i = 0; i < c->slots; i++) unpinned += slot_at(c, s, i)->newer != NULL;
            if (unpinned < s->used) continue;
            /* The last one frees the slab. */
            for (unsigned i = 0; unpinned; i++) {
                line *l = slot_at(c, s, i);
                if (l->newer) {
                    unpinned--;
                    evict(c, l);
                }
            }
        }
    }
}

static void shrink_to(cache *c, unsigned lines) {
    if (!c->purgeable || c->lines <= lines) return;
    while (c->lines > lines && c->unpinned) evict(c, oldest(c));
    compact(c);
    hash_fit(c);
}

/* ---- The methods. SQLite's documentation of sqlite3_pcache_methods2 says what each has to do. ---- */

static int pcache_init(void *arg) {
    void *start;
    uint64_t bytes;
    pool = arg;
    if (pageset_address_space(pool, &start, &bytes) != PAGESET_OK) {
        sqlite3_log(SQLITE_ERROR, "cannot use the pool: %s", pageset_last_error());
        return SQLITE_ERROR;
    }
    pool_end = (char *)start + bytes;
    return SQLITE_OK;
}

static void pcache_shutdown(void *arg) {
    (void)arg;
    if (last_run) run_free(last_run, last_order);
    last_run = NULL;
}

static sqlite3_pcache *pcache_create(int page_bytes, int extra_bytes, int purgeable) {
    cache *c = sqlite3_malloc(sizeof *c);
    if (!c) return NULL;
    memset(c, 0, sizeof *c);
    c->order = (uint32_t)pageset_order_for((size_t)page_bytes);
    c->slot_bytes = (unsigned)(sizeof(line) + (size_t)extra_bytes + 7) & ~7u;
    c->slots = (PAGESET_PAGE_BYTES - sizeof(slab)) / c->slot_bytes;
    c->purgeable = purgeable;
    c->lru.newer = c->lru.older = &c->lru;
    c->with_space.next = c->with_space.prev = &c->with_space;
    if (!hash_fit(c)) {
        sqlite3_free(c);
        return NULL;
    }
    pthread_mutex_lock(&registry_lock);
    c->next = registry;
    if (registry) registry->prev = c;
    registry = c;
    pthread_mutex_unlock(&registry_lock);
    return (sqlite3_pcache *)c;
}

static void pcache_cachesize(sqlite3_pcache *p, int max_lines) {
    cache *c = lock(p);
    c->max_lines = (unsigned)max_lines;
    shrink_to(c, c->max_lines);
    unlock(c);
}

static int pcache_pagecount(sqlite3_pcache *p) {
    cache *c = lock(p);
    int lines = (int)c->lines;
    unlock(c);
    return lines;
}

/* A line for a page that is not in the cache. */
static line *line_for(cache *c) {
    line *l = c->purgeable ? oldest(c) : NULL;
    if (l && (c->lines + 1 >= c->max_lines || c->skip_pool)) {
        if (c->skip_pool) c->skip_pool--;
    } else {
        line *fresh;
        while (!(fresh = line_alloc(c)) && !l) {
            unlock(c);
            unsigned evicted = evict_from_others();
            lock((sqlite3_pcache *)c);
            if (!evicted) return NULL;
        }
        c->skip_pool = fresh ? 0 : MISSES_WITHOUT_POOL;
        if (fresh) return fresh;
    }
    detach(c, l);
    return l;
}

/* `create` is 1 if SQLite could also write a dirty page to the file and unpin it, and 2 if it cannot. */
static line *fetch_new(cache *c, unsigned key, int create) {
    if (create == 1 && c->lines - c->unpinned >= (uint64_t)c->max_lines * 9 / 10) return NULL;
    if (c->lines >= c->bucket_count) hash_fit(c);
    line *l = line_for(c);
    if (!l) return NULL;
    hash_insert(c, l, key);
    c->lines++;
    /* SQLite takes the rest of the extra bytes as garbage if the first pointer is NULL. */
    memset(l->page.pExtra, 0, sizeof(void *));
    return l;
}

static sqlite3_pcache_page *pcache_fetch(sqlite3_pcache *p, unsigned key, int create) {
    cache *c = lock(p);
    line *l = *bucket_of(c, key);
    while (l && l->key != key) l = l->chain;
    if (!l) {
        if (create) l = fetch_new(c, key, create);
    } else if (l->newer) {
        lru_remove(c, l);
    }
    unlock(c);
    return l ? &l->page : NULL;
}

static void pcache_unpin(sqlite3_pcache *p, sqlite3_pcache_page *page, int discard) {
    cache *c = lock(p);
    line *l = (line *)page;
    lru_insert(c, l);
    if (discard || c->lines > c->max_lines) evict(c, l);
    unlock(c);
}

static void pcache_rekey(sqlite3_pcache *p, sqlite3_pcache_page *page, unsigned old_key, unsigned new_key) {
    cache *c = lock(p);
    (void)old_key;
    for (line *l = *bucket_of(c, new_key); l; l = l->chain) {
        if (l->key == new_key) {
            evict(c, l);
            break;
        }
    }
    hash_remove(c, (line *)page);
    hash_insert(c, (line *)page, new_key);
    unlock(c);
}

static void truncate_to(cache *c, unsigned limit) {
    if (limit > c->max_key) return;
    /* Only the buckets of the keys from limit to max_key. */
    unsigned buckets = c->max_key - limit < c->bucket_count ? c->max_key - limit + 1 : c->bucket_count;
    for (unsigned i = 0; i < buckets; i++) {
        for (line **at = bucket_of(c, limit + i), *l; (l = *at) != NULL;) {
            if (l->key < limit) {
                at = &l->chain;
                continue;
            }
            *at = l->chain;
            c->lines--;
            if (l->newer) lru_remove(c, l);
            line_free(c, l);
        }
    }
    c->max_key = limit ? limit - 1 : 0;
}

static void pcache_truncate(sqlite3_pcache *p, unsigned limit) {
    cache *c = lock(p);
    truncate_to(c, limit);
    unlock(c);
}

static void pcache_destroy(sqlite3_pcache *p) {
    cache *c = (cache *)p;
    pthread_mutex_lock(&registry_lock);
    if (c->prev) c->prev->next = c->next;
    else registry = c->next;
    if (c->next) c->next->prev = c->prev;
    pthread_mutex_unlock(&registry_lock);
    truncate_to(c, 0);
    sqlite3_free(c->buckets);
    sqlite3_free(c);
}

/* sqlite3_db_release_memory and PRAGMA shrink_memory: the memory also goes back to the system. */
static void pcache_shrink(sqlite3_pcache *p) {
    cache *c = lock(p);
    unsigned lines = c->lines;
    shrink_to(c, 0);
    uint64_t freed = (uint64_t)(lines - c->lines) * ((uint64_t)PAGESET_PAGE_BYTES << c->order);
    unlock(c);
    if (freed) (void)pageset_give_back(pool, freed, NULL);
}

int pageset_pcache_install(pageset_pool *with) {
    const sqlite3_pcache_methods2 methods = {
        .iVersion = 1,
        .pArg = with,
        .xInit = pcache_init,
        .xShutdown = pcache_shutdown,
        .xCreate = pcache_create,
        .xCachesize = pcache_cachesize,
        .xPagecount = pcache_pagecount,
        .xFetch = pcache_fetch,
        .xUnpin = pcache_unpin,
        .xRekey = pcache_rekey,
        .xTruncate = pcache_truncate,
        .xDestroy = pcache_destroy,
        .xShrink = pcache_shrink,
    };
    return sqlite3_config(SQLITE_CONFIG_PCACHE2, &methods);
}
