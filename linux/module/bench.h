/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0 */
/* What the files of pageset_bench.ko share. */
#ifndef BENCH_H
#define BENCH_H

#include <linux/gfp.h>
#include <linux/types.h>

#define FLAGS (GFP_NOWAIT | __GFP_MOVABLE | __GFP_HIGHMEM | __GFP_NOWARN)

static __always_inline u32 next_random(u64 *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state >> 32;
}

/* The pattern fragmentation, on the caller's CPU. */
void fragmentation(void);

#endif
