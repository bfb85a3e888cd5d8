/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/* The blocks of the kernel's that the module took: memory.c. */
#ifndef PAGESET_MEMORY_H
#define PAGESET_MEMORY_H

#include <linux/mm.h>

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
/* Takes back what the allocator has. Returns the blocks that it gave; the log names each of the others, which stay lost. */
unsigned long memory_offline(void);
/* Frees all blocks but those that stay lost. The allocator is gone. */
void memory_return(void);

#endif
