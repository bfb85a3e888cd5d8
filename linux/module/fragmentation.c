// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
/*
 * Fragmentation, as LLFree's benchmark of kernels counts it: single pages fill the memory of pageset, half of them go at random, and each
 * round frees a tenth of the others, at random, and allocates as many. How many huge pages are free after a round? Allocates as many
 * pages from alloc_pages. ../run.sh reads the lines.
 */
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/vmalloc.h>

#include "bench.h"
#include "pageset.h"

#define HUGE_ORDER 9
#define ROUNDS 20

static unsigned long kernels_huge(void)
{
	unsigned long huge = 0;
	int node, zone, order;

	for_each_online_node(node)
		for (zone = 0; zone < MAX_NR_ZONES; zone++) {
			struct zone *of = &NODE_DATA(node)->node_zones[zone];

			for (order = HUGE_ORDER; populated_zone(of) && order < ARRAY_SIZE(of->free_area); order++)
				huge += READ_ONCE(of->free_area[order].nr_free) << (order - HUGE_ORDER);
		}
	return huge;
}

static struct page *kernels_page(void)
{
	return alloc_pages(FLAGS, 0);
}

static void free_kernels(struct page *page)
{
	__free_page(page);
}

static struct page *our_page(void)
{
	return pageset_alloc(FLAGS, 0);
}

static void free_ours(struct page *page)
{
	pageset_free(page, 0);
}

static const struct allocator {
	const char *name;
	struct page *(*alloc)(void);
	void (*free)(struct page *page);
	unsigned long (*huge)(void);
} allocators[] = {
	{ "pageset", our_page, free_ours, pageset_free_huge },
	{ "alloc_pages", kernels_page, free_kernels, kernels_huge },
};

static unsigned long fill(const struct allocator *a, struct page **pages, unsigned long used, unsigned long wanted)
{
	for (; used < wanted; used++) {
		pages[used] = a->alloc();
		if (!pages[used])
			break;
		if (!(used % 1024))
			cond_resched();
	}
	return used;
}

static unsigned long empty(const struct allocator *a, struct page **pages, unsigned long used, unsigned long wanted, u64 *random)
{
	while (used > wanted) {
		struct page **chosen = &pages[next_random(random) % used];

		a->free(*chosen);
		*chosen = pages[--used];
		if (!(used % 1024))
			cond_resched();
	}
	return used;
}

/* Returns the pages that it filled memory with: at most `most`. */
static unsigned long one(const struct allocator *a, struct page **pages, unsigned long most)
{
	unsigned long full = fill(a, pages, 0, most), used = full / 2, before = a->huge();
	u64 random = 0x9e3779b97f4a7c15ULL;
	unsigned int round;

	used = empty(a, pages, full, used, &random);
	for (round = 0;; round++) {
		unsigned long kept;

		/* The kernel has more memory. What was free before counts for neither. */
		pr_info("pageset_bench: fragmentation allocator=%s pages=%lu round=%u huge=%ld\n", a->name, full, round,
			(long)(a->huge() - before));
		if (round == ROUNDS)
			break;
		empty(a, pages, used, used - used / 10, &random);
		kept = fill(a, pages, used - used / 10, used);
		if (kept < used) {
			pr_err("pageset_bench: failed: %s refuses a page of those that it got back\n", a->name);
			used = kept;
			break;
		}
	}
	empty(a, pages, used, 0, &random);
	return full;
}

void fragmentation(void)
{
	struct pageset_books books;
	struct page **pages;
	unsigned int i;
	u64 most;

	if (pageset_audit(&books)) {
		pr_err("pageset_bench: failed: the audit before the pattern fragmentation\n");
		return;
	}
	most = books.free + books.cached + books.in_use;
	pages = vmalloc(most * sizeof(*pages));
	if (!pages) {
		pr_err("pageset_bench: failed: no memory for the table of %llu pages\n", most);
		return;
	}
	for (i = 0; i < ARRAY_SIZE(allocators); i++)
		most = one(&allocators[i], pages, most);
	vfree(pages);
}
