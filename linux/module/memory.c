// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
/*
 * Memory: blocks of the largest order, from each node.
 */
#include <linux/mm.h>
#include <linux/nodemask.h>
#include <linux/slab.h>

#include "memory.h"

/* A block of the kernel's. `taken` is false after it went back. */
struct block {
	struct page *page;
	bool taken;
};

static struct block *blocks;
unsigned long block_count;
struct core_span spans[MAX_SPANS];
unsigned int span_count;

/* Takes blocks of one node until it has `count` of them, or the node has no more. */
static int take_blocks(int node, unsigned long count)
{
	u64 first = U64_MAX, end = 0;
	unsigned long i;

	for (i = 0; i < count; i++) {
		struct page *page = alloc_pages_node(node, GFP_KERNEL | __GFP_THISNODE | __GFP_NORETRY | __GFP_NOWARN,
						     LARGEST);

		if (!page) {
			pr_err("pageset: cannot load: node %d has %lu of %lu MiB in blocks of %lu MiB; try a smaller mib=\n",
			       node, i * BLOCK_PAGES >> 8, count * BLOCK_PAGES >> 8, BLOCK_PAGES >> 8);
			return -ENOMEM;
		}
		blocks[block_count++] = (struct block){ page, true };
		first = min_t(u64, first, page_to_pfn(page));
		end = max_t(u64, end, page_to_pfn(page) + BLOCK_PAGES);
	}
	spans[span_count++] = (struct core_span){ node, first, end - first };
	return 0;
}

int memory_take(unsigned int mib)
{
	unsigned long per_node = DIV_ROUND_UP((unsigned long)mib << 8, BLOCK_PAGES);
	int node, result;

	blocks = kvcalloc(per_node * num_node_state(N_MEMORY), sizeof(*blocks), GFP_KERNEL);
	if (!blocks) {
		pr_err("pageset: cannot load: no memory for the table of blocks\n");
		return -ENOMEM;
	}
	for_each_node_state(node, N_MEMORY) {
		result = take_blocks(node, per_node);
		if (result)
			return result;
	}
	return 0;
}

int memory_online(void)
{
	unsigned long i;

	for (i = 0; i < block_count; i++) {
		unsigned long pfn = page_to_pfn(blocks[i].page);
		int result;

		preempt_disable();
		result = core_online(pfn, BLOCK_PAGES);
		preempt_enable();
		if (result) {
			pr_err("pageset: cannot load: the allocator refuses the block at page %lu\n", pfn);
			return -EINVAL;
		}
	}
	return 0;
}

unsigned long memory_offline(void)
{
	unsigned long i, back = 0;

	for (i = 0; i < block_count; i++) {
		unsigned long pfn = page_to_pfn(blocks[i].page);

		if (!core_offline(pfn, BLOCK_PAGES)) {
			back++;
			continue;
		}
		pr_err("pageset: the block at page %lu does not go back: a page of it is in use\n", pfn);
		blocks[i].taken = false;
	}
	return back;
}

void memory_return(void)
{
	unsigned long i;

	for (i = 0; i < block_count; i++)
		if (blocks[i].taken)
			__free_pages(blocks[i].page, LARGEST);
	kvfree(blocks);
}
