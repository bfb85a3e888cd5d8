// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
/*
 * pageset_settings.ko: sets batch and high of every pageset of the running kernel, as no sysctl does. Unloading it sets the values from
 * before.
 *
 * Only the sizes change: no page moves until the next refill, drain or tick of its CPU. The kernel computes the sizes anew, and so
 * forgets these, when an administrator writes a sysctl that they follow from, or memory or a CPU comes or goes.
 */
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/module.h>
#include <linux/nodemask.h>
#include <linux/percpu.h>
#include <linux/slab.h>
#include <linux/version.h>

/* Since 6.7 the kernel moves high between two bounds. */
#define HAS_BOUNDS (LINUX_VERSION_CODE >= KERNEL_VERSION(6, 7, 0))
/* The largest batch, in pages: beyond it a refill holds the zone lock for milliseconds. A guess. */
#define MAX_BATCH 65536
/* The largest high, in pages: 1 TiB of pages of 4 KiB. */
#define MAX_HIGH (1 << 28)
/* As the kernel computes it, high is at least so many batches. */
#define HIGH_BATCHES 4
#define LEAVE (-1)

static int batch = LEAVE, high = LEAVE, high_min = LEAVE, high_max = LEAVE;
module_param(batch, int, 0444);
MODULE_PARM_DESC(batch, "pages that a refill or a drain moves; high becomes at least 4 batches where it is not set");
module_param(high, int, 0444);
MODULE_PARM_DESC(high, "pages that a CPU may keep; both bounds where the kernel has bounds");
module_param(high_min, int, 0444);
MODULE_PARM_DESC(high_min, "the lower bound of high, since 6.7, with high_max");
module_param(high_max, int, 0444);
MODULE_PARM_DESC(high_max, "the upper bound of high, since 6.7, with high_min");

/* As the kernel's own walk, which calls what a module may not call. */
#define for_each_zone_of_nodes(node, zone)                                                           \
	for_each_online_node(node)                                                                   \
		for (zone = NODE_DATA(node)->node_zones; zone < NODE_DATA(node)->node_zones + MAX_NR_ZONES; zone++) \
			if (populated_zone(zone))

/* The sizes of a pageset, and before them whose they are. */
struct sizes {
	struct per_cpu_pages *of;
	int batch, high, high_min, high_max;
};

static struct sizes *before;
static unsigned int count;

static struct sizes sizes_of(struct per_cpu_pages *of)
{
	struct sizes now = { .of = of, .batch = READ_ONCE(of->batch), .high = READ_ONCE(of->high) };

#if HAS_BOUNDS
	now.high_min = READ_ONCE(of->high_min);
	now.high_max = READ_ONCE(of->high_max);
#endif
	return now;
}

static void set(const struct sizes *to)
{
	WRITE_ONCE(to->of->batch, to->batch);
#if HAS_BOUNDS
	WRITE_ONCE(to->of->high_min, to->high_min);
	WRITE_ONCE(to->of->high_max, to->high_max);
#endif
	WRITE_ONCE(to->of->high, to->high);
}

/* What the parameters make of the sizes of a pageset. */
static struct sizes changed(struct sizes sizes)
{
	if (batch != LEAVE)
		sizes.batch = batch;
	if (high_min != LEAVE) {
		sizes.high_min = high_min;
		sizes.high_max = high_max;
	} else if (high != LEAVE) {
		sizes.high = sizes.high_min = sizes.high_max = high;
	} else {
		sizes.high_min = max(sizes.high_min, HIGH_BATCHES * batch);
		sizes.high_max = max(sizes.high_max, HIGH_BATCHES * batch);
		sizes.high = max(sizes.high, HIGH_BATCHES * batch);
	}
	if (HAS_BOUNDS)
		sizes.high = clamp(sizes.high, sizes.high_min, sizes.high_max);
	return sizes;
}

/* What is wrong with the parameters, or NULL. */
static const char *wrong(void)
{
	if (batch == LEAVE && high == LEAVE && high_min == LEAVE && high_max == LEAVE)
		return "give batch, high, or high_min with high_max";
	if (batch != LEAVE && (batch < 1 || batch > MAX_BATCH))
		return "batch is 1 to 65536 pages";
	if (high != LEAVE && (high < 0 || high > MAX_HIGH))
		return "high is 0 to 268435456 pages";
	if ((high_min == LEAVE) != (high_max == LEAVE))
		return "high_min and high_max go together";
	if (high_min == LEAVE)
		return NULL;
	if (!HAS_BOUNDS)
		return "this kernel has no bounds of high; give high";
	if (high != LEAVE)
		return "high sets both bounds; leave out high_min and high_max";
	if (high_min < 0 || high_min > high_max || high_max > MAX_HIGH)
		return "high_min is 0 to high_max, and high_max at most 268435456 pages";
	return NULL;
}

static int __init settings_init(void)
{
	const char *fault = wrong();
	struct zone *zone;
	unsigned int cpu, i = 0;
	int node;

	if (fault) {
		pr_err("pageset_settings: cannot load: %s\n", fault);
		return -EINVAL;
	}
	for_each_zone_of_nodes(node, zone)
		count += num_possible_cpus();
	before = kvcalloc(count, sizeof(*before), GFP_KERNEL);
	if (!before) {
		pr_err("pageset_settings: cannot load: no memory for the sizes of %u pagesets\n", count);
		return -ENOMEM;
	}
	/* A zone that was populated meanwhile does not fit. */
	for_each_zone_of_nodes(node, zone) {
		if (i + num_possible_cpus() > count)
			break;
		for_each_possible_cpu(cpu)
			before[i++] = sizes_of(per_cpu_ptr(zone->per_cpu_pageset, cpu));
	}
	count = i;
	for (i = 0; i < count; i++) {
		struct sizes now = changed(before[i]);

		set(&now);
	}
	pr_info("pageset_settings: %u pagesets set\n", count);
	return 0;
}

static void __exit settings_exit(void)
{
	unsigned int i;

	for (i = 0; i < count; i++)
		set(&before[i]);
	kvfree(before);
	pr_info("pageset_settings: %u pagesets as before\n", count);
}

module_init(settings_init);
module_exit(settings_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Sets batch and high of the running kernel's pagesets");
