// pageset.h: a pool of pages with per-CPU caches that size themselves.
//
// A pool reserves address space and hands out runs of 2^order pages of 4096 bytes, from order 0 (4 KiB) to order 10
// (4 MiB). A run is aligned to its size. It contains the bytes of its last owner, or zeros.
//
// Errors: a function that can fail returns a pageset_error, or NULL or 0 if it returns pages. pageset_last_error() then
// returns a message with the values. A call that fails has changed nothing, unless its documentation says otherwise.
//
// Threads: any thread can call any function at any time. Exceptions are the two functions that destroy a pool. Any thread
// can free a run.
//
// Signals: a signal handler may call pageset_free_deferred, and no other function.
//
// Cancellation: no call is a cancellation point. A thread with asynchronous cancelability must not call the library.
//
// Forks: the pool belongs to the parent. In a forked child, calls that allocate or free pages fail with
// PAGESET_ERR_FORKED. Other calls have no useful effect. The child can read the pages, unless the pool was created with
// PAGESET_FORK_ABSENT.
//
// Filters of system calls: a pool works under a filter that came before it. A filter that comes later may refuse membarrier:
// drains are then slower. If it also refuses sched_setaffinity, a drain reaches the cache of the caller's CPU only, and
// pageset_alloc_contig, pageset_grow, pageset_shrink and pageset_give_back fail (PAGESET_ERR_SYSTEM). A pool with
// no_restartable_sequences needs neither call.
//
// Versions: a structure that may grow contains its size, or a function takes its size. The SONAME changes when programs
// must be rebuilt.
//
// cbindgen generates this file from crates/pageset-c. To regenerate it, run
// PAGESET_HEADER=write cargo test -p pageset-c --test header


#ifndef PAGESET_H
#define PAGESET_H

#include <stddef.h>
#include <stdint.h>

// Base pages of the system only.
#define PAGESET_HUGE_NONE 0

// Huge pages where the system finds them. The default.
#define PAGESET_HUGE_TRANSPARENT 1

// Huge pages that an administrator has set apart (vm.nr_hugepages). Creating the pool reserves them.
#define PAGESET_HUGE_EXPLICIT 2

// Huge pages of 1 GiB that an administrator has set apart, in /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages or at
// boot. Creating the pool reserves them, and rounds its size up to 1 GiB for each node. The pool gives no memory back, except
// that pageset_shrink returns each whole page of 1 GiB in the memory that it takes out of use.
#define PAGESET_HUGE_EXPLICIT_1GIB 3

// Memory of this process only. The default.
#define PAGESET_MEMORY_PRIVATE 0

// A file in memory (memfd) that other processes can map. pageset_memory_fd returns its descriptor. Needs
// PAGESET_FORK_ABSENT: a forked child would otherwise share the pages. With PAGESET_HUGE_EXPLICIT, only pageset_give_back and
// pageset_shrink give memory back. It is then no longer reserved: if the system has no free huge page when the pool needs it
// again, a touch ends the process (SIGBUS).
#define PAGESET_MEMORY_SHARED 1

// A forked child sees a copy of the pages. The default.
#define PAGESET_FORK_COPY 0

// A forked child does not see the pages, which makes forks cheaper. A touch ends the child. If the child has mapped other
// memory at that address, the touch reaches that memory.
#define PAGESET_FORK_ABSENT 1

// All frees, except those of pageset_free_bulk. The default.
#define PAGESET_CHECK_SINGLE 0

// All frees. pageset_free_bulk then takes 1.1 to 1.5 ns more for each page (AMD EPYC).
#define PAGESET_CHECK_ALL 1

// Frees of orders 4 to 8 and 10, and frees that drain a cache. A free into a cache then takes 0.2 to 0.3 ns less.
#define PAGESET_CHECK_BASIC 2

// The size of a page in bytes.
#define PAGESET_PAGE_BYTES 4096

// The largest order. Its runs have 4 MiB.
#define PAGESET_MAX_ORDER 10

// For runs that live long. See pageset_alloc_typed.
#define PAGESET_TYPE_UNMOVABLE 0

// The type of pageset_alloc.
#define PAGESET_TYPE_MOVABLE 1

// For runs that the program frees when memory is short, such as those of a cache.
#define PAGESET_TYPE_RECLAIMABLE 2

// What pageset_offset_of returns for an address outside the pool.
#define PAGESET_NO_OFFSET UINT64_MAX

// The result of a call. 0 is success. The other numbers never change.
enum pageset_error
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Success.
  PAGESET_OK = 0,
  // A pointer that must not be NULL is NULL, or a number is out of range.
  PAGESET_ERR_ARGUMENT = 1,
  // The pool was destroyed, or the pointer does not point to a pool.
  PAGESET_ERR_NOT_A_POOL = 2,
  // No run of that size is free, not even after a drain of all caches.
  PAGESET_ERR_NO_MEMORY = 3,
  // The pool has no memory of that node.
  PAGESET_ERR_NO_NODE = 4,
  // The system refused address space, memory or huge pages.
  PAGESET_ERR_SYSTEM = 5,
  // The address is not in this pool.
  PAGESET_ERR_FOREIGN = 6,
  // The address is not a multiple of 4096, or no run of that order starts there.
  PAGESET_ERR_UNALIGNED = 7,
  // The run is already free.
  PAGESET_ERR_DOUBLE_FREE = 8,
  // The run has another order or size, or the address is inside a larger run.
  PAGESET_ERR_WRONG_ORDER = 9,
  // A run is in use. The pool cannot be destroyed, or cannot shrink by that much.
  PAGESET_ERR_IN_USE = 10,
  // The pool belongs to the parent of this process.
  PAGESET_ERR_FORKED = 11,
  // A bug in this library. Please report it with the text of pageset_last_error().
  PAGESET_ERR_INTERNAL = 12,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum pageset_error pageset_error;
#else
typedef int32_t pageset_error;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// A pool. Programs only use pointers to it. After the pool is destroyed, 40 bytes remain until the program ends, so that
// later uses are detected.
typedef struct pageset_pool pageset_pool;

// The settings of a pool. Fill them in with pageset_options_init, then change some. Later versions may add members at the
// end. Programs that were built before then keep working.
typedef struct pageset_options {
  // `sizeof(pageset_options)`. pageset_options_init sets it.
  size_t size;
  // The initial size in bytes, above 0 and below 16 TiB for each node. It is rounded up to 2 MiB for each node.
  uint64_t bytes;
  // The size in bytes up to which the pool can grow, at least `bytes`; 0 means `bytes`.
  uint64_t reserve_bytes;
  // PAGESET_HUGE_NONE, PAGESET_HUGE_TRANSPARENT, PAGESET_HUGE_EXPLICIT or PAGESET_HUGE_EXPLICIT_1GIB.
  uint32_t huge_pages;
  // PAGESET_FORK_COPY or PAGESET_FORK_ABSENT.
  uint32_t on_fork;
  // If not 0, creating the pool makes all its memory resident. Default: 0.
  uint32_t prefault;
  // The length of `nodes`, 0 to 1024; 0 means all nodes that have memory.
  uint32_t node_count;
  // The numbers of the nodes that provide the memory, each once. May be NULL if `node_count` is 0. Only
  // pageset_pool_create reads it.
  const uint32_t *nodes;
  // The time between two scans for free memory to give back to the system, in milliseconds. Default: 1000.
  uint32_t give_back_interval_ms;
  // How many scans in a row must find memory free before it goes back, 1 to 250. Default: 5.
  uint32_t give_back_after_scans;
  // The most that one scan gives back in bytes. Default: 64 MiB. With 0, only pageset_give_back gives memory back.
  uint64_t give_back_bytes_per_scan;
  // The rules by which caches refill, drain and size themselves: a name, or a file whose name ends in .toml, then perhaps
  // changes, as in "linux-6.18 batch=31 decay=fifth". NULL, the default: the rules "pageset" with a batch that is a power of two.
  // Only pageset_pool_create reads it.
  const char *rules;
  // If not 0, threads take the lock of a cache without restartable sequences. Default: 0.
  //
  // Set it for a program that later forbids itself membarrier, and under ThreadSanitizer. An allocation and its free then
  // take 2 to 8 ns more each.
  uint32_t no_restartable_sequences;
  // PAGESET_CHECK_SINGLE, PAGESET_CHECK_ALL or PAGESET_CHECK_BASIC: which frees are certain to notice another free of the
  // same run at the same instant.
  uint32_t free_check;
  // How many bytes can be in use at the same time, 1 to `bytes`; 0, the default, means all. See pageset_set_limit.
  uint64_t limit_bytes;
  // If not 0, each free fills the run with zeros, so that no later owner reads what the last one wrote. Default: 0.
  uint32_t zero_on_free;
  // If not 0, only whole blocks of 2 MiB go back to the system. Default: 0, so parts of blocks with runs in use also go back.
  uint32_t no_give_back_parts;
  // How many times as many scans as `give_back_after_scans` must find a part of a block free, 1 to 255; 0 means 4.
  uint32_t give_back_parts_after_scans_factor;
  // The smallest free run that goes back as a part of a block, order 0 to 10. Default: 0.
  uint32_t give_back_parts_min_order;
  // How much of a 2 MiB block must have stayed free before parts of it go back, in bytes; 0 means 512 KiB, 1 means any.
  uint32_t give_back_parts_min_free_bytes;
  // The most system calls that give parts back in one scan; 0 means 1024.
  uint32_t give_back_parts_calls_per_scan;
  // The name of the memory in /proc/self/maps: 1 to 79 printable ASCII characters, except `[`, `]`, `\`, `$` and the
  // backquote. NULL, the default: no name, of shared memory "pageset". Only pageset_pool_create reads it.
  //
  // Private memory needs Linux 5.17 with CONFIG_ANON_VMA_NAME, and no explicit huge pages. It has no name otherwise.
  const char *name;
  // PAGESET_MEMORY_PRIVATE or PAGESET_MEMORY_SHARED.
  uint32_t memory;
  // If not 0, each page of the pool that is resident stays resident (mlock2 with MLOCK_ONFAULT), also a page that is first
  // touched later. Default: 0. With `prefault`, all pages are resident and locked from the start.
  //
  // Scans then give no memory back, and the system refuses pageset_give_back and pageset_shrink. The whole address space
  // counts, including the reserve: a process without CAP_IPC_LOCK may lock `ulimit -l` bytes. Creating the pool fails with
  // PAGESET_ERR_SYSTEM above that.
  uint32_t lock;
} pageset_options;

// The counters of a pool at a recent moment. free + cached + withheld + in use = size.
typedef struct pageset_stats {
  // Size of the pool, without the reserve.
  uint64_t size_bytes;
  // On the free lists, and in a block that is going back to the system.
  uint64_t free_bytes;
  // Free, in the caches of CPUs or in deferred frees that are not complete.
  uint64_t cached_bytes;
  // Owned by callers.
  uint64_t in_use_bytes;
  // Allocated since the pool was created.
  uint64_t alloc_bytes;
  // Freed since the pool was created.
  uint64_t free_total_bytes;
  // Resident bytes that went back to the system since the pool was created.
  uint64_t given_back_bytes;
  // Address space of the metadata.
  uint64_t metadata_bytes;
  // Allocations that failed.
  uint64_t failed_allocs;
  // Acquisitions of the locks of the free lists.
  uint64_t lock_acquisitions;
  // Withheld, because the pool has a limit.
  uint64_t withheld_bytes;
} pageset_stats;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns a short English description of an error code. Never NULL, not even for unknown codes. The text lives as long
// as the program.
const char *pageset_strerror(int32_t error);

// Returns the message of the last call of this thread that failed, with its values, or an empty text. A message above 1023
// bytes loses its end.
//
// The address is the same for the life of the thread, and the text there always ends in a zero byte. The next call of this
// thread that fails replaces the text. Copy the text to keep it, or to read it in another thread.
const char *pageset_last_error(void);

// Destroys a pool and frees its address space. Ends its ticker first. No other call on the pool may run at the same time.
// Later calls fail with PAGESET_ERR_NOT_A_POOL.
//
// PAGESET_ERR_IN_USE if runs are in use. The pool then remains usable.
//
// Precondition: `pool` is NULL or came from pageset_pool_create.
pageset_error pageset_pool_destroy(struct pageset_pool *pool);

// Destroys a pool as pageset_pool_destroy does, even if runs are in use. Nothing may refer to the runs any more.
//
// Precondition: `pool` is NULL or came from pageset_pool_create.
pageset_error pageset_pool_destroy_with_pages(struct pageset_pool *pool);

// Fills in the options of a pool of `bytes`, with defaults for all other settings. `size` is `sizeof *options`.
//
// PAGESET_ERR_ARGUMENT if `options` is NULL or `size` is less than that of the first version.
//
// Precondition: `options` is NULL or has `size` writable bytes.
pageset_error pageset_options_init(struct pageset_options *options,
                                   size_t size,
                                   uint64_t bytes);

// Creates a pool and writes its handle to `*pool`. The program destroys it with pageset_pool_destroy.
//
// PAGESET_ERR_ARGUMENT if a pointer is NULL, or an option or the size of the options is out of range.
// PAGESET_ERR_NO_NODE if a node has no memory for this process or is named twice. PAGESET_ERR_SYSTEM if the system
// refuses memory. After an error, `*pool` is NULL.
//
// Precondition: `options` is NULL or was filled in by pageset_options_init. `pool` is NULL or writable.
pageset_error pageset_pool_create(const struct pageset_options *options,
                                  struct pageset_pool **pool);

// Returns the smallest order whose runs hold `bytes`, or -1 above 4 MiB. Order 0 holds 0 bytes.
int32_t pageset_order_for(size_t bytes);

// Allocates a run of 2^order pages, order 0 to 10. The caller owns it until pageset_free.
//
// The run comes from the node of the calling thread while that node has one, else from the nearest node that has one.
//
// NULL on failure: no memory, an order above 10, no pool, or a forked child.
//
// Precondition: `pool` is NULL or came from pageset_pool_create.
void *pageset_alloc(const struct pageset_pool *pool,
                    uint32_t order);

// Allocates a run of 2^order pages from `node` only.
//
// NULL on failure: as for pageset_alloc, or the pool has no memory of that node.
//
// Precondition: `pool` is NULL or came from pageset_pool_create.
void *pageset_alloc_on(const struct pageset_pool *pool, uint32_t node, uint32_t order);

// Allocates a run of 2^order pages in a 2 MiB block of its type (PAGESET_TYPE_...) where possible. Runs that live long then
// keep fewer 2 MiB blocks from being free.
//
// NULL on failure: as for pageset_alloc, or an unknown type.
//
// Precondition: `pool` is NULL or came from pageset_pool_create.
void *pageset_alloc_typed(const struct pageset_pool *pool,
                          uint32_t type,
                          uint32_t order);

// Frees a run of `order`. Nothing may refer to the run any more. NULL is refused like any other foreign address.
//
// PAGESET_ERR_FOREIGN, PAGESET_ERR_UNALIGNED, PAGESET_ERR_DOUBLE_FREE or PAGESET_ERR_WRONG_ORDER for a wrong free, which
// has changed nothing. The call does not detect a second free of a run that was allocated again meanwhile. The
// option `free_check` says when it detects two threads that free the same run at the same instant.
//
// Precondition: `pool` is NULL or came from pageset_pool_create. Nothing refers to the run.
pageset_error pageset_free(const struct pageset_pool *pool,
                           void *run,
                           uint32_t order);

// Allocates up to `count` single pages into `pages`, and returns how many.
//
// 0 on failure: no page is free, `pages` is NULL, no pool, or a forked child. A `count` of 0 is no failure.
//
// Precondition: `pool` is NULL or came from pageset_pool_create. `pages` is NULL or has room for `count` pointers.
size_t pageset_alloc_bulk(const struct pageset_pool *pool,
                          void **pages,
                          size_t count);

// Frees `count` single pages. The call checks all pages before it frees any.
//
// The error of pageset_free for the first wrong page. The call has then freed none.
//
// Precondition: `pool` is NULL or came from pageset_pool_create. `pages` is NULL or has `count` pointers. Nothing refers to the pages.
pageset_error pageset_free_bulk(const struct pageset_pool *pool,
                                void *const *pages,
                                size_t count);

// Allocates up to `count` runs of 2^order pages into `runs`, and returns how many. For order 0, it is pageset_alloc_bulk.
//
// 0 on failure: no run of that size is free, an order above 10, `runs` is NULL, no pool, or a forked child. A `count` of 0 is
// no failure.
//
// Precondition: `pool` is NULL or came from pageset_pool_create. `runs` is NULL or has room for `count` pointers.
size_t pageset_alloc_bulk_order(const struct pageset_pool *pool,
                                uint32_t order,
                                void **runs,
                                size_t count);

// Frees `count` runs of `order`. The call checks all runs before it frees any. For order 0, it is pageset_free_bulk.
//
// The error of pageset_free for the first wrong run. The call has then freed none.
//
// Precondition: `pool` is NULL or came from pageset_pool_create. `runs` is NULL or has `count` pointers. Nothing refers to the runs.
pageset_error pageset_free_bulk_order(const struct pageset_pool *pool,
                                      uint32_t order,
                                      void *const *runs,
                                      size_t count);

// Allocates a contiguous run of `bytes`, rounded up to pages. It starts at a multiple of 2 MiB. The caller owns it until
// pageset_free_contig.
//
// The call is for runs that live long. It takes about 1 us for each MiB and drains all caches. If no free range is that
// large, it searches for 10 to 130 us for each GiB of the pool.
//
// NULL on failure: no free range of that size, 0 bytes, more than a node has, no pool, or a forked child.
//
// Precondition: `pool` is NULL or came from pageset_pool_create.
void *pageset_alloc_contig(const struct pageset_pool *pool,
                           size_t bytes);

// Frees a run of pageset_alloc_contig. `bytes` is the size that the program requested.
//
// PAGESET_ERR_WRONG_ORDER if the run has another size, rounded up to pages: the message names its size. Also if the address
// is inside a contiguous run, or is in use as another run. Else the errors of pageset_free. The call has then changed
// nothing.
//
// Do not free parts of the run with pageset_free. That call does not refuse them. This call then fails with
// PAGESET_ERR_DOUBLE_FREE and names the part that is already free.
//
// Precondition: `pool` is NULL or came from pageset_pool_create. Nothing refers to the run, and the caller owns all of it.
pageset_error pageset_free_contig(const struct pageset_pool *pool,
                                  void *run,
                                  size_t bytes);

// Brings `bytes` more of the reserved address space into use, rounded up to 2 MiB for each node.
//
// PAGESET_ERR_ARGUMENT if `bytes` is 0 or exceeds the rest of the reserve. PAGESET_ERR_SYSTEM if the system refuses memory.
// The size then stays.
//
// Precondition: `pool` is NULL or came from pageset_pool_create.
pageset_error pageset_grow(const struct pageset_pool *pool,
                           uint64_t bytes);

// Takes `bytes` at the ends of the nodes out of use, and gives the memory back to the system. pageset_grow brings it into
// use again. `bytes` is rounded up to 2 MiB for each node.
//
// Runs in use do not move. Threads that find no memory meanwhile wait for the call.
//
// PAGESET_ERR_ARGUMENT if `bytes` is 0 or a node would keep less than 2 MiB. PAGESET_ERR_IN_USE if a run in that memory is
// in use; the message says how many bytes can go. PAGESET_ERR_SYSTEM if the system does not take the memory back. The
// size then stays.
//
// Precondition: `pool` is NULL or came from pageset_pool_create.
pageset_error pageset_shrink(const struct pageset_pool *pool,
                             uint64_t bytes);

// Shrinks the cache of the caller's CPU if it was little used, and gives memory back to the system as the options say. Call
// it about once a second from each thread that uses the pool, or use pageset_ticker_start.
//
// PAGESET_ERR_SYSTEM if the system does not take memory back.
//
// Precondition: `pool` is NULL or came from pageset_pool_create.
pageset_error pageset_tick(const struct pageset_pool *pool);

// Drains the caches of all CPUs, so that their pages merge into large runs.
//
// Precondition: `pool` is NULL or came from pageset_pool_create.
pageset_error pageset_drain(const struct pageset_pool *pool);

// Gives up to `bytes` of free memory back to the system now, rounded up to 2 MiB. Writes to `*given` how many resident bytes
// went. `given` may be NULL.
//
// Threads that find no memory meanwhile wait for the call.
//
// PAGESET_ERR_SYSTEM if the system does not take memory back.
//
// Precondition: `pool` is NULL or came from pageset_pool_create. `given` is NULL or writable.
pageset_error pageset_give_back(const struct pageset_pool *pool,
                                uint64_t bytes,
                                uint64_t *given);

// Allocates a run of 2^order pages that contains zeros, order 0 to 10.
//
// The call clears the run, 50 ns to 1 us for each page, unless the pool has the option `zero_on_free`.
//
// NULL on failure: as for pageset_alloc.
//
// Precondition: `pool` is NULL or came from pageset_pool_create.
void *pageset_alloc_zeroed(const struct pageset_pool *pool,
                           uint32_t order);

// Allocates a contiguous run of `bytes` that contains zeros, as pageset_alloc_contig and pageset_alloc_zeroed do.
//
// NULL on failure: as for pageset_alloc_contig.
//
// Precondition: `pool` is NULL or came from pageset_pool_create.
void *pageset_alloc_contig_zeroed(const struct pageset_pool *pool,
                                  size_t bytes);

// Allocates a run of 2^order pages, order 0 to 10, and waits up to `timeout_ms` milliseconds until one is free. With 0, the
// call makes one try.
//
// The thread that has waited longest tries first after a free. A pageset_alloc that comes between gets the run. The call
// notices a deferred free within 10 ms.
//
// NULL on failure: no run was free in time, the run is larger than a node with its reserve, an order above 10, no pool, or a
// forked child.
//
// Precondition: `pool` is NULL or came from pageset_pool_create.
void *pageset_alloc_timeout(const struct pageset_pool *pool,
                            uint32_t order,
                            uint32_t timeout_ms);

// Frees a run later. This is the one function that a signal handler may call, whatever it has interrupted. Nothing may refer to
// the run any more.
//
// The call takes no lock, waits for nothing and makes no system call. One of the next calls to the pool completes the free.
//
// The errors of pageset_free. A failure does not change pageset_last_error().
//
// Precondition: `pool` is NULL or came from pageset_pool_create. Nothing refers to the run.
pageset_error pageset_free_deferred(const struct pageset_pool *pool,
                                    void *run,
                                    uint32_t order);

// Limits how many bytes of the pool can be in use at the same time, 1 to its size, rounded up to pages. 0 removes the limit.
//
// The pool withholds the rest of its memory. Allocations above the limit fail. Other calls cost the same as without a limit. A
// pool with a limit cannot grow or shrink.
//
// PAGESET_ERR_ARGUMENT if the limit exceeds the size. PAGESET_ERR_IN_USE if more is in use now; the message says how much. The
// limit then stays.
//
// Precondition: `pool` is NULL or came from pageset_pool_create.
pageset_error pageset_set_limit(const struct pageset_pool *pool,
                                uint64_t bytes);

// Returns the descriptor of shared memory. The pool owns it, so the program must not close it. Programs that this process
// starts do not inherit it.
//
// Send the descriptor to another process over a Unix socket (SCM_RIGHTS), and the offsets of runs with it. The process maps
// it with `mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0)`; fstat tells the size, which never changes. The memory stays until
// the last process unmaps it. Only this process can allocate and free runs. Nobody may write a run that is free.
//
// -1 on failure: the memory is private, or no pool.
//
// Precondition: `pool` is NULL or came from pageset_pool_create.
int pageset_memory_fd(const struct pageset_pool *pool);

// Returns the offset of an address in the address space of the pool, in bytes. It is the same in each process that maps the
// memory, and what AF_XDP calls the address of a frame.
//
// PAGESET_NO_OFFSET on failure: the address is not in this pool, or no pool.
//
// Precondition: `pool` is NULL or came from pageset_pool_create.
uint64_t pageset_offset_of(const struct pageset_pool *pool,
                           const void *address);

// Returns the address at an offset in bytes: the reverse of pageset_offset_of. Only the owner of the run there may read or
// write it.
//
// NULL on failure: the offset is not below the size of the address space, or no pool.
//
// Precondition: `pool` is NULL or came from pageset_pool_create.
void *pageset_at_offset(const struct pageset_pool *pool,
                        uint64_t offset);

// Writes the counters to `*stats`. The call visits the counters of each CPU, so do not make it for every request.
//
// `size` is `sizeof *stats`. Later versions may add members at the end. A program that was built before gets the members
// that it knows.
//
// PAGESET_ERR_ARGUMENT if `stats` is NULL or `size` is less than that of the first version.
//
// Precondition: `pool` is NULL or came from pageset_pool_create. `stats` is NULL or has `size` writable bytes.
pageset_error pageset_get_stats(const struct pageset_pool *pool,
                                struct pageset_stats *stats,
                                size_t size);

// Asks the system how many bytes of the pool are resident, and writes them to `*bytes`. Takes about 5 us for each resident
// 2 MiB.
//
// PAGESET_ERR_ARGUMENT if `bytes` is NULL, and PAGESET_ERR_SYSTEM if the system call fails.
//
// Precondition: `pool` is NULL or came from pageset_pool_create. `bytes` is NULL or writable.
pageset_error pageset_resident(const struct pageset_pool *pool,
                               uint64_t *bytes);

// Writes the zones and caches of the pool to `text` in the format of /proc/zoneinfo. Returns the length of the whole text
// without the zero byte.
//
// The call writes at most `room` bytes, including the zero byte, and truncates a longer text. `text` may be NULL if `room`
// is 0. Without a pool, the text is empty and the result is 0.
//
// Precondition: `pool` is NULL or came from pageset_pool_create. `text` is NULL or has `room` writable bytes.
size_t pageset_zoneinfo(const struct pageset_pool *pool,
                        char *text,
                        size_t room);

// Writes the start and the length of the address space of all runs, including the reserve. They serve to register the
// memory with io_uring or a device. "Registered memory" in the documentation of pageset-host says what to observe.
//
// PAGESET_ERR_ARGUMENT if a pointer is NULL.
//
// Precondition: `pool` is NULL or came from pageset_pool_create. `start` and `bytes` are NULL or writable.
pageset_error pageset_address_space(const struct pageset_pool *pool,
                                    void **start,
                                    uint64_t *bytes);

// Starts a thread that does the work of pageset_tick on each CPU that the caller may use, once each `interval_ms`, at least
// 1. About 1000 is right for most programs. If the pool has such a thread, the call ends that thread first.
//
// The thread receives no signals. It ends with pageset_ticker_stop or with the pool. A forked child does not have it. Stop
// it before the library is unloaded.
//
// PAGESET_ERR_ARGUMENT if `interval_ms` is 0. PAGESET_ERR_SYSTEM if the system starts no thread. PAGESET_ERR_FORKED in a
// forked child. A thread that was there before then keeps running.
//
// Precondition: `pool` is NULL or came from pageset_pool_create.
pageset_error pageset_ticker_start(const struct pageset_pool *pool,
                                   uint32_t interval_ms);

// Ends the thread of pageset_ticker_start and waits for it, at most for one round of its work. Does nothing if there is no
// such thread, and in a forked child.
//
// Precondition: `pool` is NULL or came from pageset_pool_create.
pageset_error pageset_ticker_stop(const struct pageset_pool *pool);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PAGESET_H */
