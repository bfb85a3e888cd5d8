// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
/*
 * Memory: blocks of the largest order, from each node. Under memory pressure a shrinker gives free ones back to the kernel; memory_resize
 * takes the same ones again.
 */
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/nodemask.h>
#include <linux/seq_file.h>
#include <linux/shrinker.h>
#include <linux/slab.h>
#include <linux/version.h>

#include "memory.h"

/* A block of the kernel's. `taken` is false while the kernel has it, or when it is lost. `split`: as single pages, not as a block. */
struct block {
	struct page *page;
	bool taken, split;
};

/* The same number from each node, one node after the other. */
static struct block *blocks;
unsigned long block_count;
static unsigned long per_node;
static unsigned long given, retaken, drains;
struct core_span spans[MAX_SPANS];
unsigned int span_count;
/* The idle pages of a node when a drain of all CPUs made no block free. The next one waits for more, or for a second. */
static unsigned long in_vain[MAX_SPANS], in_vain_until[MAX_SPANS];

/* Takes blocks of one node until it has `count` of them, or the node has no more. */
static int __init take_blocks(int node, unsigned long count)
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
		blocks[block_count++] = (struct block){ .page = page, .taken = true };
		first = min_t(u64, first, page_to_pfn(page));
		end = max_t(u64, end, page_to_pfn(page) + BLOCK_PAGES);
	}
	spans[span_count++] = (struct core_span){ node, first, end - first };
	return 0;
}

int __init memory_take(unsigned int mib)
{
	int node, result;

	per_node = DIV_ROUND_UP((unsigned long)mib << 8, BLOCK_PAGES);
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

int __init memory_online(void)
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

/* ---- memory that goes and comes while the allocator runs */

DEFINE_MUTEX(changes);

static void free_block(struct block *block)
{
	unsigned long i;

	if (block->split)
		for (i = 0; i < BLOCK_PAGES; i++)
			__free_page(block->page + i);
	else
		__free_pages(block->page, LARGEST);
	block->taken = false;
}

/*
 * Gives the kernel `count` blocks of a node that look free, or that do after all CPUs have drained. Returns how many it gave. The caller
 * holds `changes`. Preemption is off in all calls: each waits for locks of pagesets whose holders must go on.
 */
static unsigned long give_blocks(unsigned int span, unsigned long count)
{
	struct block *block, *first = &blocks[span * per_node];
	unsigned long gave = 0;
	bool drained = false, went;

	if (!count)
		return 0;
	for (;;) {
		for (block = first; block < first + per_node && gave < count; block++) {
			if (!block->taken)
				continue;
			preempt_disable();
			went = core_is_free(page_to_pfn(block->page), BLOCK_PAGES) &&
			       !core_offline(page_to_pfn(block->page), BLOCK_PAGES);
			preempt_enable();
			if (went) {
				free_block(block);
				gave++;
			}
		}
		if (gave || drained)
			break;
		preempt_disable();
		core_drain();
		preempt_enable();
		drained = true;
		drains++;
	}
	WRITE_ONCE(in_vain[span], gave ? 0 : core_idle(span));
	WRITE_ONCE(in_vain_until[span], jiffies + HZ);
	given += gave;
	return gave;
}

/* Takes the blocks of a node from the kernel again until the module has `count`, or the kernel cannot empty more. */
static void retake_blocks(unsigned int span, unsigned long count)
{
	struct block *block, *first = &blocks[span * per_node];
	unsigned long has = memory_held(span);

	for (block = first; block < first + per_node && has < count; block++) {
		unsigned long pfn = page_to_pfn(block->page);
		int result;

		/* Only the shrinker changes blocks meanwhile, and it only gives. */
		if (READ_ONCE(block->taken))
			continue;
#ifdef ACR_FLAGS_NONE
		result = alloc_contig_range(pfn, pfn + BLOCK_PAGES, ACR_FLAGS_NONE, GFP_KERNEL | __GFP_NOWARN);
#else
		result = alloc_contig_range(pfn, pfn + BLOCK_PAGES, MIGRATE_MOVABLE, GFP_KERNEL | __GFP_NOWARN);
#endif
		if (result)
			continue;
		mutex_lock(&changes);
		block->split = true;
		block->taken = true;
		preempt_disable();
		result = core_online(pfn, BLOCK_PAGES);
		preempt_enable();
		if (result)
			free_block(block);
		else
			retaken++;
		mutex_unlock(&changes);
		has += !result;
	}
}

unsigned long memory_held(unsigned int span)
{
	unsigned long i, held = 0;

	for (i = span * per_node; i < (span + 1) * per_node; i++)
		held += READ_ONCE(blocks[i].taken);
	return held;
}

int memory_resize(unsigned int mib)
{
	unsigned long wanted = DIV_ROUND_UP((unsigned long)mib << 8, BLOCK_PAGES), has;
	unsigned int span;
	int result = 0;

	if (wanted > per_node) {
		pr_err("pageset: cannot take %u MiB from each node; at most the %lu MiB of the load\n", mib,
		       per_node * BLOCK_PAGES >> 8);
		return -EINVAL;
	}
	for (span = 0; span < span_count; span++) {
		mutex_lock(&changes);
		has = memory_held(span);
		while (has > wanted) {
			unsigned long gave = give_blocks(span, has - wanted);

			if (!gave)
				break;
			has -= gave;
		}
		mutex_unlock(&changes);
		if (has < wanted) {
			retake_blocks(span, wanted);
			/* The shrinker may have given some meanwhile. */
			mutex_lock(&changes);
			has = memory_held(span);
			mutex_unlock(&changes);
		}
		if (has != wanted) {
			pr_err("pageset: node %u has %lu MiB, not %lu: pages of the other blocks are in use, or memory is short\n",
			       spans[span].node, has * BLOCK_PAGES >> 8, wanted * BLOCK_PAGES >> 8);
			result = -EBUSY;
		}
	}
	return result;
}

/* The unit of the shrinker is a page. Returns the pages of a node that whole blocks may be made of, as far as is known. */
static unsigned long count_idle(struct shrinker *shrinker, struct shrink_control *control)
{
	unsigned int span;

	for (span = 0; span < span_count; span++) {
		unsigned long idle;

		if (spans[span].node != control->nid)
			continue;
		idle = core_idle(span);
		if (idle < READ_ONCE(in_vain[span]) + BLOCK_PAGES && time_before(jiffies, READ_ONCE(in_vain_until[span])))
			return 0;
		return round_down(idle, BLOCK_PAGES);
	}
	return 0;
}

static unsigned long give_idle(struct shrinker *shrinker, struct shrink_control *control)
{
	unsigned long gave = 0;
	unsigned int span;

	/* Whoever holds it may be the one who waits for memory. */
	if (!mutex_trylock(&changes))
		return SHRINK_STOP;
	for (span = 0; span < span_count; span++)
		if (spans[span].node == control->nid)
			gave = give_blocks(span, DIV_ROUND_UP(control->nr_to_scan, BLOCK_PAGES));
	mutex_unlock(&changes);
	return gave ? gave * BLOCK_PAGES : SHRINK_STOP;
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 7, 0)
static struct shrinker *shrinker;

int __init memory_begin(void)
{
	shrinker = shrinker_alloc(SHRINKER_NUMA_AWARE, "pageset");
	if (!shrinker)
		return -ENOMEM;
	shrinker->count_objects = count_idle;
	shrinker->scan_objects = give_idle;
	shrinker->batch = BLOCK_PAGES;
	shrinker_register(shrinker);
	return 0;
}

void memory_end(void)
{
	shrinker_free(shrinker);
}
#else
static struct shrinker shrinker = {
	.count_objects = count_idle,
	.scan_objects = give_idle,
	.seeks = DEFAULT_SEEKS,
	.batch = BLOCK_PAGES,
	.flags = SHRINKER_NUMA_AWARE,
};

int __init memory_begin(void)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 0, 0)
	return register_shrinker(&shrinker, "pageset");
#else
	return register_shrinker(&shrinker);
#endif
}

void memory_end(void)
{
	unregister_shrinker(&shrinker);
}
#endif

unsigned int memory_mib(void)
{
	unsigned long least = per_node;
	unsigned int span;

	for (span = 0; span < span_count; span++)
		least = min(least, memory_held(span));
	return least * BLOCK_PAGES >> 8;
}

void memory_say(struct seq_file *to)
{
	unsigned long held = 0;
	unsigned int span;

	for (span = 0; span < span_count; span++)
		held += memory_held(span);
	seq_printf(to, "blocks_held %lu\nblocks_given %lu\nblocks_retaken %lu\nshrinker_drains %lu\n", held, READ_ONCE(given),
		   READ_ONCE(retaken), READ_ONCE(drains));
}

unsigned long memory_offline(void)
{
	unsigned long i, back = 0;

	for (i = 0; i < block_count; i++) {
		unsigned long pfn = page_to_pfn(blocks[i].page);

		if (!blocks[i].taken || !core_offline(pfn, BLOCK_PAGES)) {
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
			free_block(&blocks[i]);
	kvfree(blocks);
}
