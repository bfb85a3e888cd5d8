/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/* The functions of src/lib.rs, which documents them. */
#ifndef PAGESET_CORE_H
#define PAGESET_CORE_H

#include <linux/types.h>

#define CORE_NO_PAGE U64_MAX
#define CORE_ANY_NODE U32_MAX
#define CORE_WAIT_NOTHING 0
#define CORE_WAIT_LOCK 1
#define CORE_WAIT_MEMORY 2

struct core_span {
	u32 node;
	u64 start, pages;
};

struct core_books {
	u64 free, cached, in_use, holds;
	const char *what;
	size_t length;
	u64 expected, found;
};

size_t core_metadata(const struct core_span *spans, size_t count, const u32 *nodes, size_t cpus);
int core_build(const struct core_span *spans, size_t count, const u32 *nodes, size_t cpus, void *memory, size_t bytes);
void core_drop(void);
int core_online(u64 start, u64 pages);
int core_offline(u64 start, u64 pages);
bool core_is_free(u64 start, u64 pages);
u64 core_idle(u32 zone);
void core_cpu(u32 cpu, bool online);
u64 core_alloc(u32 order, u32 node, u32 wait, bool movable, bool this_node_only);
int core_free(u64 page, u32 order);
int core_free_deferred(u64 page, u32 order);
size_t core_alloc_bulk(u64 *pages, size_t count, u32 wait, bool movable);
int core_free_bulk(const u64 *pages, size_t count);
void core_tick(u32 cpu);
void core_drain(void);
int core_audit(u32 zone, struct core_books *books);
void core_zoneinfo(void *to);
void core_counters(void *to);

/* What src/lib.rs and src/lock.rs call. */
u32 host_cpu(void);
unsigned long host_lock(raw_spinlock_t *lock);
bool host_try_lock(raw_spinlock_t *lock, unsigned long *flags);
void host_unlock(raw_spinlock_t *lock, unsigned long flags);
void host_write(void *to, const char *text, size_t length);

#endif
