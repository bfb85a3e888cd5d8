// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
/*
 * Statistics in debugfs: pageset/zoneinfo, in the form of /proc/zoneinfo, and pageset/counters, the allocator's own and the module's.
 * Without debugfs the module does without the files. Also counts free huge pages.
 */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/seq_file.h>

#include "core.h"
#include "memory.h"
#include "pageset.h"

static struct dentry *folder;

void host_write(void *to, const char *text, size_t length)
{
	seq_write(to, text, length);
}

static int zoneinfo_show(struct seq_file *to, void *unused)
{
	core_zoneinfo(to);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(zoneinfo);

static int counters_show(struct seq_file *to, void *unused)
{
	memory_say(to);
	core_counters(to);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(counters);

unsigned long pageset_free_huge(void)
{
	/* Of order 9. The span of a node's blocks may have other pages in between, which count as used. */
	const u64 pages = 512;
	unsigned long huge = 0;
	unsigned int span;
	u64 pfn;

	for (span = 0; span < span_count; span++)
		for (pfn = spans[span].start; pfn < spans[span].start + spans[span].pages; pfn += pages)
			huge += core_is_free(pfn, pages);
	return huge;
}
EXPORT_SYMBOL(pageset_free_huge);

void statistics_begin(void)
{
	folder = debugfs_create_dir("pageset", NULL);
	debugfs_create_file("zoneinfo", 0444, folder, NULL, &zoneinfo_fops);
	debugfs_create_file("counters", 0444, folder, NULL, &counters_fops);
}

void statistics_end(void)
{
	debugfs_remove(folder);
}
