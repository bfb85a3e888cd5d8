// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
/*
 * The module: takes memory from the kernel, gives it to the allocator in Rust, serves other modules, and gives all back.
 */
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/hardirq.h>
#include <linux/irqflags.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/nodemask.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/topology.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

#include "core.h"
#include "memory.h"
#include "pageset.h"

/* As in src/lib.rs. */
#define MAX_CPUS 512

static unsigned int mib = 64;
static bool loaded;

/* After the load: gives blocks to the kernel, or takes them again. The kernel has one such call at a time. */
static int set_mib(const char *text, const struct kernel_param *parameter)
{
	unsigned int wanted;
	int result = kstrtouint(text, 0, &wanted);

	if (!result && READ_ONCE(loaded))
		result = memory_resize(wanted);
	if (!result)
		mib = wanted;
	return result;
}

/* What is held, not what was wished: the shrinker gives, and a resize may fail in part. */
static int get_mib(char *text, const struct kernel_param *parameter)
{
	return scnprintf(text, PAGE_SIZE, "%u\n", READ_ONCE(loaded) ? memory_mib() : mib);
}

static const struct kernel_param_ops mib_ops = { .set = set_mib, .get = get_mib };
module_param_cb(mib, &mib_ops, &mib, 0644);
MODULE_PARM_DESC(mib, "memory to take from each node, in MiB (64); later at most as much as at the load. Reads what each node has");

static char *fault = "";
module_param(fault, charp, 0);
MODULE_PARM_DESC(fault, "plants a fault: cpus, nodes or hotplug, which the load finds; or mask, which check finds");
static bool check;
module_param(check, bool, 0);
MODULE_PARM_DESC(check, "each time that a zone's lock is taken, looks whether interrupts are masked");

static u32 *cpu_nodes;
static void *metadata;
static int cpu_state = -1;

/* ---- what the allocator needs from its machine */

u32 host_cpu(void)
{
	return raw_smp_processor_id();
}

/* While it is off, a lock costs a no-operation more. */
static DEFINE_STATIC_KEY_FALSE(checks);

/* An interrupt that wants a lock which its CPU holds waits for ever. Says so, and masks interrupts. */
static __cold noinline void check_mask(void)
{
	if (!check || irqs_disabled())
		return;
	local_irq_disable();
	pr_err_once("pageset: a zone's lock would be held with interrupts on\n");
}

/* The planted fault: as host_lock without its mask. The check comes first: an interrupt must not meet the lock. */
static __cold noinline unsigned long lock_unmasked(raw_spinlock_t *lock)
{
	unsigned long flags;

	local_save_flags(flags);
	check_mask();
	raw_spin_lock(lock);
	return flags;
}

unsigned long host_lock(raw_spinlock_t *lock)
{
	unsigned long flags;

	if (static_branch_unlikely(&checks) && *fault == 'm')
		return lock_unmasked(lock);
	raw_spin_lock_irqsave(lock, flags);
	if (static_branch_unlikely(&checks))
		check_mask();
	return flags;
}

bool host_try_lock(raw_spinlock_t *lock, unsigned long *flags)
{
	bool taken = raw_spin_trylock_irqsave(lock, *flags);

	if (static_branch_unlikely(&checks) && taken)
		check_mask();
	return taken;
}

void host_unlock(raw_spinlock_t *lock, unsigned long flags)
{
	raw_spin_unlock_irqrestore(lock, flags);
}

/* ---- what other modules call */

static __always_inline u32 wait_of(gfp_t flags)
{
	if (in_nmi())
		return CORE_WAIT_NOTHING;
	/* The search of other CPUs' pagesets waits for their locks, whose holders may be interrupted. */
	return flags & __GFP_DIRECT_RECLAIM && !in_interrupt() && !irqs_disabled() ? CORE_WAIT_MEMORY : CORE_WAIT_LOCK;
}

static __always_inline struct page *alloc(u32 node, gfp_t flags, unsigned int order)
{
	u64 pfn;

	if (unlikely(flags & __GFP_ZERO))
		return NULL;
	preempt_disable();
	pfn = core_alloc(order, node, wait_of(flags), flags & __GFP_MOVABLE, flags & __GFP_THISNODE);
	preempt_enable();
	return likely(pfn != CORE_NO_PAGE) ? pfn_to_page(pfn) : NULL;
}

struct page *pageset_alloc(gfp_t flags, unsigned int order)
{
	return alloc(CORE_ANY_NODE, flags, order);
}
EXPORT_SYMBOL(pageset_alloc);

struct page *pageset_alloc_node(int node, gfp_t flags, unsigned int order)
{
	return alloc(node == NUMA_NO_NODE ? CORE_ANY_NODE : node, flags, order);
}
EXPORT_SYMBOL(pageset_alloc_node);

int pageset_free(struct page *page, unsigned int order)
{
	int result;

	preempt_disable();
	if (unlikely(in_nmi()))
		result = core_free_deferred(page_to_pfn(page), order);
	else
		result = core_free(page_to_pfn(page), order);
	preempt_enable();
	return likely(!result) ? 0 : -EINVAL;
}
EXPORT_SYMBOL(pageset_free);

unsigned long pageset_alloc_bulk(gfp_t flags, unsigned long count, struct page **pages)
{
	u64 *pfns = (u64 *)pages;
	unsigned long got, i;

	if (flags & __GFP_ZERO)
		return 0;
	preempt_disable();
	got = core_alloc_bulk(pfns, count, wait_of(flags), flags & __GFP_MOVABLE);
	preempt_enable();
	for (i = 0; i < got; i++)
		pages[i] = pfn_to_page(pfns[i]);
	return got;
}
EXPORT_SYMBOL(pageset_alloc_bulk);

int pageset_free_bulk(unsigned long count, struct page **pages)
{
	u64 *pfns = (u64 *)pages;
	unsigned long i;
	int result;

	for (i = 0; i < count; i++)
		pfns[i] = page_to_pfn(pages[i]);
	preempt_disable();
	result = core_free_bulk(pfns, count);
	preempt_enable();
	return result ? -EINVAL : 0;
}
EXPORT_SYMBOL(pageset_free_bulk);

int pageset_audit(struct pageset_books *books)
{
	unsigned int zone;

	memset(books, 0, sizeof(*books));
	for (zone = 0; zone < span_count; zone++) {
		struct core_books found;
		int result;

		preempt_disable();
		result = core_audit(zone, &found);
		preempt_enable();
		if (result) {
			pr_err("pageset: audit of zone %u failed: %.*s: expected %llu, found %llu\n", zone,
			       (int)found.length, found.what, found.expected, found.found);
			return -EIO;
		}
		books->free += found.free;
		books->cached += found.cached;
		books->in_use += found.in_use;
		books->holds += found.holds;
	}
	return 0;
}
EXPORT_SYMBOL(pageset_audit);

/* ---- CPUs that come and go, and the tick of each second */

static int cpu_comes(unsigned int cpu)
{
	mutex_lock(&changes);
	preempt_disable();
	core_cpu(cpu, true);
	preempt_enable();
	mutex_unlock(&changes);
	return 0;
}

static int cpu_goes(unsigned int cpu)
{
	mutex_lock(&changes);
	preempt_disable();
	core_cpu(cpu, false);
	preempt_enable();
	mutex_unlock(&changes);
	return 0;
}

static void tick(struct work_struct *work);
static DECLARE_DELAYED_WORK(ticker, tick);

static void tick(struct work_struct *work)
{
	unsigned int cpu;

	for_each_online_cpu(cpu) {
		preempt_disable();
		core_tick(cpu);
		preempt_enable();
		cond_resched();
	}
	schedule_delayed_work(&ticker, HZ);
}

/* ---- load and unload */

/* Runs core_build with a painted stack. Returns the bytes of stack that it used, or a negative error. */
static noinline long __init build(size_t bytes)
{
	const u64 paint = 0x57ac57ac57ac57acULL;
	/* The frames of this function and of its callees until the paint begins. */
	const unsigned long own = 512;
	unsigned long top = (unsigned long)__builtin_frame_address(0), flags, words, i;
	volatile u64 *stack;
	int result;

	/* As much as is there above the end of the stack, where the kernel keeps a mark. */
	stack = (volatile u64 *)((unsigned long)task_stack_page(current) + 64);
	words = (top - own - (unsigned long)stack) / sizeof(u64);
	local_irq_save(flags);
	for (i = 0; i < words; i++)
		stack[i] = paint;
	result = core_build(spans, span_count, cpu_nodes, nr_cpu_ids, metadata, bytes);
	for (i = 0; i < words && stack[i] == paint; i++)
		;
	local_irq_restore(flags);
	return result ? -EINVAL : (long)(top - (unsigned long)&stack[i]);
}

static void free_all(void)
{
	memory_return();
	vfree(metadata);
	kfree(cpu_nodes);
}

static int __init pageset_load(void)
{
	/* A write to the parameter may come at any time. */
	const unsigned int size = READ_ONCE(mib);
	enum cpuhp_state state = CPUHP_AP_ONLINE_DYN;
	unsigned int cpus;
	size_t bytes = 0;
	long stack;
	int cpu, result;

	BUILD_BUG_ON(sizeof(raw_spinlock_t) != sizeof(u32));
	if (num_node_state(N_MEMORY) > MAX_SPANS || !size || size > MAX_MIB || nr_cpu_ids > MAX_CPUS) {
		pr_err("pageset: cannot load: %d nodes, %u CPUs and %u MiB; at most %d nodes and %d CPUs, 1 to %d MiB\n",
		       num_node_state(N_MEMORY), nr_cpu_ids, size, MAX_SPANS, MAX_CPUS, MAX_MIB);
		return -EINVAL;
	}
	if (*fault && strcmp(fault, "cpus") && strcmp(fault, "nodes") && strcmp(fault, "hotplug") && strcmp(fault, "mask")) {
		pr_err("pageset: cannot load: unknown fault \"%s\"; allowed: cpus, nodes, hotplug, mask\n", fault);
		return -EINVAL;
	}
	if (check || !strcmp(fault, "mask"))
		static_branch_enable(&checks);
	cpu_nodes = kcalloc(nr_cpu_ids, sizeof(*cpu_nodes), GFP_KERNEL);
	result = -ENOMEM;
	if (!cpu_nodes) {
		pr_err("pageset: cannot load: no memory for the table of CPUs\n");
		goto failed;
	}
	for_each_possible_cpu(cpu)
		cpu_nodes[cpu] = max(cpu_to_node(cpu), 0);
	result = memory_take(size);
	if (result)
		goto failed;
	result = -EINVAL;
	if (!strcmp(fault, "nodes"))
		cpu_nodes[0] = U16_MAX;
	cpus = strcmp(fault, "cpus") ? nr_cpu_ids : 0;
	bytes = core_metadata(spans, span_count, cpu_nodes, cpus);
	if (!bytes) {
		pr_err("pageset: cannot load: the allocator refuses the blocks of %u nodes for %u CPUs, the first on node %u\n",
		       span_count, cpus, cpu_nodes[0]);
		goto failed;
	}
	metadata = vmalloc(bytes);
	if (!metadata) {
		pr_err("pageset: cannot load: no memory for %zu bytes of metadata; try a smaller mib=\n", bytes);
		result = -ENOMEM;
		goto failed;
	}
	stack = build(bytes);
	if (stack < 0) {
		pr_err("pageset: cannot load: the allocator refuses its metadata\n");
		goto failed;
	}
	result = memory_online();
	if (result)
		goto built;
	/* The kernel refuses callbacks for this state. */
	if (!strcmp(fault, "hotplug"))
		state = CPUHP_ONLINE;
	cpu_state = cpuhp_setup_state(state, "pageset:online", cpu_comes, cpu_goes);
	if (cpu_state < 0) {
		pr_err("pageset: cannot load: no state for CPUs that come and go: error %d\n", cpu_state);
		result = cpu_state;
		goto built;
	}
	result = memory_begin();
	if (result) {
		pr_err("pageset: cannot load: no shrinker: error %d\n", result);
		goto counted;
	}
	schedule_delayed_work(&ticker, HZ);
	statistics_begin();
	WRITE_ONCE(loaded, true);
	pr_info("pageset: %lu pages of %u nodes in %lu blocks; %zu bytes of metadata; built on %ld bytes of stack\n",
		block_count * BLOCK_PAGES, span_count, block_count, bytes, stack);
	return 0;
counted:
	cpuhp_remove_state_nocalls(cpu_state);
built:
	core_drop();
failed:
	free_all();
	return result;
}

static void __exit pageset_unload(void)
{
	struct pageset_books books;
	unsigned long back;

	kernel_param_lock(THIS_MODULE);
	loaded = false;
	kernel_param_unlock(THIS_MODULE);
	memory_end();
	statistics_end();
	cancel_delayed_work_sync(&ticker);
	cpuhp_remove_state_nocalls(cpu_state);
	core_drain();
	if (!pageset_audit(&books) && books.in_use)
		pr_err("pageset: %llu pages are in use; their blocks stay lost to the kernel\n", books.in_use);
	back = memory_offline();
	core_drop();
	pr_info("pageset: %lu of %lu pages went back; %llu in use\n", back * BLOCK_PAGES,
		block_count * BLOCK_PAGES, books.in_use);
	free_all();
}

module_init(pageset_load);
module_exit(pageset_unload);
MODULE_DESCRIPTION("A page allocator with per-CPU page caches, next to the kernel's");
MODULE_LICENSE("Dual MIT/GPL");
