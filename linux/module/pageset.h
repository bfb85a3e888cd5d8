/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/*
 * What the module pageset offers to other modules: blocks of pages of the memory that it holds.
 *
 * Nobody but the caller uses a block's pages. Their reference counts and flags are not maintained: map them by page frame number, and
 * pass them to nothing that takes or drops references.
 *
 * | call | thread | interrupt | NMI |
 * | --- | --- | --- | --- |
 * | pageset_alloc, pageset_alloc_node | yes | yes | yes, waits for nothing |
 * | pageset_alloc_bulk | yes | yes | yes, waits for nothing |
 * | pageset_free | yes | yes | yes, the block is free after the next drain or refill |
 * | pageset_free_bulk | yes | yes | no |
 *
 * No call sleeps. Callers may hold spinlocks, and then leave out __GFP_DIRECT_RECLAIM, as for alloc_pages: with it an allocation waits
 * for other CPUs, whose interrupts may want the same spinlock. In interrupts and with interrupts masked the flag has no effect.
 */
#ifndef PAGESET_H
#define PAGESET_H

#include <linux/gfp.h>

/*
 * A block of 2^order pages, or NULL. Of the flags, __GFP_DIRECT_RECLAIM also searches other CPUs' pagesets before it fails, and
 * __GFP_MOVABLE and __GFP_THISNODE count; __GFP_ZERO is not supported and fails.
 */
struct page *pageset_alloc(gfp_t flags, unsigned int order);
struct page *pageset_alloc_node(int node, gfp_t flags, unsigned int order);

/* Frees a block. A wrong free (not allocated, another order, another owner's page) changes nothing and returns -EINVAL. */
int pageset_free(struct page *page, unsigned int order);

/* Single pages; returns how many it wrote. */
unsigned long pageset_alloc_bulk(gfp_t flags, unsigned long count, struct page **pages);

/* Frees single pages, and overwrites the array. A wrong free returns -EINVAL; nothing has been freed then. */
int pageset_free_bulk(unsigned long count, struct page **pages);

/* The huge pages whose pages are all free, outside the caches of CPUs, at a recent moment. Takes no lock. */
unsigned long pageset_free_huge(void);

/* What an audit of all zones found. All zones together: free + cached + in_use = managed pages. */
struct pageset_books {
	u64 free, cached, in_use, holds;
};

/* Checks the allocator from end to end: 0, or -EIO after a line in the log. May not run in an interrupt. */
int pageset_audit(struct pageset_books *books);

#endif
