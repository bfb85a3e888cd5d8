/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/* What host.c calls: memory.c, the blocks of the kernel's that the module took; statistics.c, the files in debugfs. */
#ifndef PAGESET_MEMORY_H
#define PAGESET_MEMORY_H

#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>

#include "core.h"

/* The largest order of a block; kernels before 6.8 have other names for it, and before 6.4 one more than the order. */
#ifdef MAX_PAGE_ORDER
#define LARGEST MAX_PAGE_ORDER
#else
#define LARGEST 10
#endif
#define BLOCK_PAGES (1UL << LARGEST)
/* The most nodes, each of which has one span. */
#define MAX_SPANS 16
/* 16 TiB: the table of blocks then has 64 MiB. */
#define MAX_MIB (1 << 24)

extern unsigned long block_count;
extern struct core_span spans[MAX_SPANS];
extern unsigned int span_count;

/* Takes blocks of `mib` MiB from each node, and fills `spans`. An error has said in the log what is missing. */
int memory_take(unsigned int mib);
/* Gives all blocks to the allocator. */
int memory_online(void);
/* The shrinker. An error of memory_begin is the kernel's. */
int memory_begin(void);
void memory_end(void);
/* Gives blocks to the kernel, or takes those that it gave, until each node has `mib` MiB. At most one caller at a time. */
int memory_resize(unsigned int mib);
/* The blocks that a node has at a recent moment. */
unsigned long memory_held(unsigned int span);
/* What each node has at a recent moment, in MiB; the least, if they differ. */
unsigned int memory_mib(void);
void memory_say(struct seq_file *to);
/*
 * Held by whoever calls core_online, core_offline or core_cpu while the allocator runs: one such call may wait for another, which must
 * not be a preempted one. A holder allocates no memory from the kernel.
 */
extern struct mutex changes;

/*
 * Takes back what the allocator has. Returns the blocks that it gave, those that the kernel has already among them; the log names each of the others,
 * which stay lost.
 */
unsigned long memory_offline(void);
/* Frees all blocks but those that stay lost. The allocator is gone. */
void memory_return(void);

/* The allocator is there from the first call to the second. The second waits for readers. */
void statistics_begin(void);
void statistics_end(void);

#endif
