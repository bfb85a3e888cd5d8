// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
/*
 * A user of pageset: the same loops over alloc_pages and over pageset_alloc (what=compare), and random operations of all CPUs and
 * their timers with an audit at the end (what=survive). All work is done while the module loads. ../run.sh reads the lines.
 */
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/hrtimer.h>
#include <linux/kprobes.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/module.h>
#include <linux/pagemap.h>
#include <linux/slab.h>
#include <linux/timex.h>
#include <linux/version.h>
#include <linux/vmalloc.h>

#if __has_include(<asm/cpuid/api.h>)
#include <asm/cpuid/api.h>
#else
#include <asm/processor.h>
#endif

#include "bench.h"
#include "pageset.h"

static char *what = "compare";
module_param(what, charp, 0444);
MODULE_PARM_DESC(what, "compare or survive");
static unsigned long operations = 1000000;
module_param(operations, ulong, 0444);
MODULE_PARM_DESC(operations, "survive: operations of each CPU (1000000)");
static bool lose;
module_param(lose, bool, 0444);
MODULE_PARM_DESC(lose, "survive: plants a fault: one page is never freed");

#define SLOTS 512
/* Pages that all CPUs together keep in the pattern churn, and how many of them a CPU replaces at a time, as in crates/pageset-bench. */
#define KEPT 65536
#define REPLACED 512
/* Pairs of a cell. */
#define PAIRS 8192
/* And where times are measured: some milliseconds. */
#define TIMED_PAIRS (16 * PAIRS)
/* Pairs before a cell is measured. */
#define WARM 2048
/*
 * Where one thread of a host runs all CPUs, a CPU's turn ends no later than the next timer. Without timers a turn outlasts most holds of
 * a lock, and no CPU ever waits. A guess: some ten calls.
 */
#define TURN_NS 10000

static const u8 orders[] = { 0, 1, 3, 4, 9 };

struct slot {
	struct page *page;
	unsigned int order;
};

/* What a CPU has of its own. */
struct worker {
	struct slot slots[SLOTS];
	struct page *pages[SLOTS];
	struct page *kept[KEPT];
	/* Whether a call without pairs allocates what is kept. */
	bool fills;
	u64 random, pairs, refused;
	u64 (*work)(struct worker *worker, unsigned int order, unsigned int held, unsigned long pairs);
	unsigned int order, held, cpu;
	unsigned long count;
	u64 begin, end, begin_ns, end_ns;
	bool masked, short_turns, failed;
	struct completion ready, done;
	struct hrtimer timer;
	struct slot of_timer;
	u64 in_timer;
};

/* ---- the allocators, by the same names */

static __always_inline struct page *ours_alloc(unsigned int order)
{
	return pageset_alloc(FLAGS, order);
}

static __always_inline void ours_free(struct page *page, unsigned int order)
{
	pageset_free(page, order);
}

static __always_inline unsigned long ours_alloc_bulk(unsigned long count, struct page **pages)
{
	return pageset_alloc_bulk(FLAGS, count, pages);
}

static __always_inline void ours_free_bulk(unsigned long count, struct page **pages)
{
	pageset_free_bulk(count, pages);
}

static __always_inline struct page *kernels_alloc(unsigned int order)
{
	return alloc_pages(FLAGS, order);
}

static __always_inline void kernels_free(struct page *page, unsigned int order)
{
	__free_pages(page, order);
}

static __always_inline unsigned long kernels_alloc_bulk(unsigned long count, struct page **pages)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 14, 0)
	return alloc_pages_bulk(FLAGS, count, pages);
#else
	return alloc_pages_bulk_array(FLAGS, count, pages);
#endif
}

static __always_inline void kernels_free_bulk(unsigned long count, struct page **pages)
{
	release_pages(pages, count);
}

/* The loops alone: what the table's figures contain besides the calls. */
static __always_inline struct page *no_alloc(unsigned int order)
{
	barrier();
	return ZERO_PAGE(0);
}

static __always_inline void no_free(struct page *page, unsigned int order)
{
	barrier();
}

static __always_inline unsigned long no_alloc_bulk(unsigned long count, struct page **pages)
{
	barrier();
	return count;
}

static __always_inline void no_free_bulk(unsigned long count, struct page **pages)
{
	barrier();
}

/* ---- the patterns: each returns the pairs that it did */

/* Allocates `held` blocks, then frees them in the same order. */
#define HOLD(WHO)                                                                                                    \
	static noinline u64 WHO##_hold(struct worker *w, unsigned int order, unsigned int held, unsigned long pairs)  \
	{                                                                                                             \
		unsigned long done;                                                                                   \
		unsigned int i;                                                                                       \
                                                                                                                      \
		for (done = 0; done < pairs; done += held) {                                                          \
			for (i = 0; i < held; i++) {                                                                  \
				w->pages[i] = WHO##_alloc(order);                                                     \
				w->refused += !w->pages[i];                                                           \
			}                                                                                             \
			for (i = 0; i < held; i++)                                                                    \
				if (w->pages[i])                                                                      \
					WHO##_free(w->pages[i], order);                                               \
		}                                                                                                     \
		return done;                                                                                          \
	}

/* `held` single pages with one call each way. */
#define BULK(WHO)                                                                                                    \
	static noinline u64 WHO##_bulk(struct worker *w, unsigned int order, unsigned int held, unsigned long pairs)  \
	{                                                                                                             \
		unsigned long done;                                                                                   \
                                                                                                                      \
		for (done = 0; done < pairs; done += held) {                                                          \
			unsigned long got;                                                                            \
                                                                                                                      \
			memset(w->pages, 0, held * sizeof(w->pages[0]));                                              \
			got = WHO##_alloc_bulk(held, w->pages);                                                       \
			w->refused += held - got;                                                                     \
			WHO##_free_bulk(got, w->pages);                                                               \
		}                                                                                                     \
		return done;                                                                                          \
	}

/* Random slots: a full one is freed, an empty one gets a block of a random order. All slots are empty at the end. */
#define RANDOM(WHO)                                                                                                  \
	static noinline u64 WHO##_random(struct worker *w, unsigned int order, unsigned int held, unsigned long pairs) \
	{                                                                                                             \
		u64 allocations = 0, random = w->random;                                                              \
		unsigned long i;                                                                                      \
                                                                                                                      \
		for (i = 0; i < 2 * pairs; i++) {                                                                     \
			u32 number = next_random(&random);                                                            \
			struct slot *slot = &w->slots[number % held];                                                 \
                                                                                                                      \
			if (slot->page) {                                                                             \
				WHO##_free(slot->page, slot->order);                                                  \
				slot->page = NULL;                                                                    \
				continue;                                                                             \
			}                                                                                             \
			slot->order = orders[(number >> 16) % ARRAY_SIZE(orders)];                                    \
			slot->page = WHO##_alloc(slot->order);                                                        \
			w->refused += !slot->page;                                                                    \
			allocations += !!slot->page;                                                                  \
		}                                                                                                     \
		for (i = 0; i < held; i++) {                                                                          \
			if (w->slots[i].page)                                                                         \
				WHO##_free(w->slots[i].page, w->slots[i].order);                                      \
			w->slots[i].page = NULL;                                                                      \
		}                                                                                                     \
		return allocations;                                                                                   \
	}

/*
 * Frees 512 scattered pages of the `held` that it keeps, then allocates as many. Without pairs it allocates the pages that it keeps, or
 * frees them.
 */
#define CHURN(WHO)                                                                                                   \
	static noinline u64 WHO##_churn(struct worker *w, unsigned int order, unsigned int held, unsigned long pairs) \
	{                                                                                                             \
		bool fills = !pairs && w->fills;                                                                      \
		unsigned int at = 0, step = pairs ? 40503 : 1, count = pairs ? REPLACED : held, i;                    \
		unsigned long done = 0;                                                                               \
                                                                                                                      \
		do {                                                                                                  \
			if (pairs)                                                                                    \
				at = next_random(&w->random);                                                         \
			for (i = 0; i < count && !fills; i++) {                                                       \
				struct page **page = &w->kept[(at + i * step) % held];                                \
                                                                                                                      \
				if (*page)                                                                            \
					WHO##_free(*page, order);                                                     \
				*page = NULL;                                                                         \
			}                                                                                             \
			for (i = 0; i < count && (fills || pairs); i++) {                                             \
				struct page **page = &w->kept[(at + i * step) % held];                                \
                                                                                                                      \
				*page = WHO##_alloc(order);                                                           \
				w->refused += !*page;                                                                 \
			}                                                                                             \
			done += count;                                                                                \
		} while (done < pairs);                                                                               \
		return done;                                                                                          \
	}

#define PATTERNS(WHO) HOLD(WHO) BULK(WHO) RANDOM(WHO) CHURN(WHO)
PATTERNS(ours)
PATTERNS(kernels)
PATTERNS(no)

/* ---- comparison */

static atomic_t waiting;
/* Whether the CPU runs what is measured: its waits for other work do not count. */
static DEFINE_PER_CPU(bool, measured);

static enum hrtimer_restart end_turn(struct hrtimer *timer)
{
	hrtimer_forward_now(timer, ns_to_ktime(TURN_NS));
	return HRTIMER_RESTART;
}

static void start_timer(struct hrtimer *timer, enum hrtimer_restart (*call)(struct hrtimer *), u64 ns)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(timer, call, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
#else
	hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	timer->function = call;
#endif
	hrtimer_start(timer, ns_to_ktime(ns), HRTIMER_MODE_REL_PINNED_HARD);
}

static int run_worker(void *argument)
{
	struct worker *w = argument;
	unsigned long flags = 0;

	if (w->short_turns)
		start_timer(&w->timer, end_turn, TURN_NS);
	if (w->masked)
		local_irq_save(flags);
	w->work(w, w->order, w->held, WARM);
	w->refused = 0;
	/* All begin together. */
	atomic_dec(&waiting);
	while (atomic_read(&waiting) > 0)
		cpu_relax();
	this_cpu_write(measured, true);
	w->begin_ns = ktime_get_ns();
	w->begin = rdtsc();
	w->pairs = w->work(w, w->order, w->held, w->count);
	w->end = rdtsc();
	w->end_ns = ktime_get_ns();
	this_cpu_write(measured, false);
	if (w->masked)
		local_irq_restore(flags);
	if (w->short_turns)
		hrtimer_cancel(&w->timer);
	complete(&w->done);
	return 0;
}

/* Allocates or frees what a pattern keeps. */
static int run_keep(void *argument)
{
	struct worker *w = argument;

	w->work(w, w->order, w->held, 0);
	complete(&w->done);
	return 0;
}

static int run_fragmentation(void *argument)
{
	struct worker *w = argument;

	fragmentation();
	complete(&w->done);
	return 0;
}

/* Runs one thread on each of the first `cpus` CPUs. */
static void on_cpus(struct worker **workers, unsigned int cpus, int (*run)(void *), const char *name)
{
	unsigned int i;

	atomic_set(&waiting, cpus);
	for (i = 0; i < cpus; i++) {
		struct task_struct *task = kthread_create_on_cpu(run, workers[i], i, name);

		init_completion(&workers[i]->done);
		if (IS_ERR(task)) {
			/* The others must not wait for it. */
			atomic_dec(&waiting);
			workers[i]->failed = true;
			complete(&workers[i]->done);
			continue;
		}
		wake_up_process(task);
	}
	for (i = 0; i < cpus; i++)
		wait_for_completion(&workers[i]->done);
}

/* ---- zone locks: how often the kernel takes one, and how often anybody waits for a spinlock */

static atomic64_t holds, waits;
static spinlock_t *zone_locks[MAX_NUMNODES * MAX_NR_ZONES > 64 ? 64 : MAX_NUMNODES * MAX_NR_ZONES];
static unsigned int zone_lock_count;

static void find_zone_locks(void)
{
	int node, zone;

	for_each_online_node(node)
		for (zone = 0; zone < MAX_NR_ZONES && zone_lock_count < ARRAY_SIZE(zone_locks); zone++)
			if (populated_zone(&NODE_DATA(node)->node_zones[zone]))
				zone_locks[zone_lock_count++] = &NODE_DATA(node)->node_zones[zone].lock;
}

static int on_lock(struct kprobe *probe, struct pt_regs *regs)
{
	unsigned int i;

	for (i = 0; i < zone_lock_count; i++)
		if (regs_get_kernel_argument(regs, 0) == (unsigned long)zone_locks[i])
			atomic64_inc(&holds);
	return 0;
}

static int on_wait(struct kprobe *probe, struct pt_regs *regs)
{
	if (this_cpu_read(measured))
		atomic64_inc(&waits);
	return 0;
}

/* What a CPU calls that finds a spinlock held. Enabled only while waits are counted: it costs a CPU that waits time. */
static struct kprobe wait_probe;

static int find_waits(void)
{
	static const char *const names[] = { "native_queued_spin_lock_slowpath", "queued_spin_lock_slowpath" };
	unsigned int i;
	int result = -ENOENT;

	for (i = 0; i < ARRAY_SIZE(names) && result; i++) {
		wait_probe = (struct kprobe){ .pre_handler = on_wait, .symbol_name = names[i], .flags = KPROBE_FLAG_DISABLED };
		result = register_kprobe(&wait_probe);
	}
	return result;
}

/* The functions that take a spinlock. A failed try counts as a hold: the kernel tries and then waits, or gives up. */
static struct kprobe lock_probes[] = {
	{ .symbol_name = "_raw_spin_lock_irqsave", .pre_handler = on_lock },
	{ .symbol_name = "_raw_spin_lock_irq", .pre_handler = on_lock },
	{ .symbol_name = "_raw_spin_lock", .pre_handler = on_lock },
	{ .symbol_name = "_raw_spin_trylock", .pre_handler = on_lock },
};

typedef u64 work_fn(struct worker *, unsigned int, unsigned int, unsigned long);

/*
 * Whether QEMU emulates the processor. Under its -icount the clock counts instructions, so ns measure nothing. The words of `cpuid` spell
 * TCGTCGTCGTCG.
 */
static bool emulated(void)
{
	return boot_cpu_has(X86_FEATURE_HYPERVISOR) && cpuid_ebx(0x40000000) == 0x54474354;
}

/* What a pair takes, in tenths. */
struct spent {
	u64 instructions, ns;
};

/*
 * Measures one CPU with interrupts off, or several CPUs together. Under -icount one thread of the host runs all CPUs, so the clock counts
 * the instructions of all.
 */
static struct spent measure(struct worker **workers, unsigned int cpus, work_fn *work, unsigned int order, unsigned int held,
		   unsigned long count, bool short_turns, u64 *refused)
{
	u64 begin = U64_MAX, end = 0, begin_ns = U64_MAX, end_ns = 0, pairs = 0;
	unsigned int i;

	for (i = 0; i < cpus; i++) {
		struct worker *w = workers[i];

		w->work = work;
		w->order = order;
		w->held = held;
		w->count = count;
		w->masked = cpus == 1;
		w->short_turns = short_turns;
		w->random = 0x9e3779b97f4a7c15ULL + i;
		w->refused = 0;
	}
	on_cpus(workers, cpus, run_worker, "pageset_bench/%u");
	for (i = 0; i < cpus; i++) {
		pairs += workers[i]->pairs;
		begin = min(begin, workers[i]->begin);
		end = max(end, workers[i]->end);
		begin_ns = min(begin_ns, workers[i]->begin_ns);
		end_ns = max(end_ns, workers[i]->end_ns);
		*refused += workers[i]->refused;
	}
	if (!pairs)
		return (struct spent){};
	return (struct spent){ div64_u64((end - begin) * 10, pairs), div64_u64((end_ns - begin_ns) * 10, pairs) };
}

/*
 * Allocates, before a measurement, or frees, after it, the pages that each CPU keeps: only churn has more than a CPU's slots. Returns how
 * many were refused.
 */
static u64 keep(struct worker **workers, unsigned int cpus, work_fn *work, unsigned int order, unsigned int held, bool fills)
{
	unsigned int i;
	u64 refused = 0;

	if (held <= SLOTS)
		return 0;
	for (i = 0; i < cpus; i++) {
		workers[i]->work = work;
		workers[i]->order = order;
		workers[i]->held = held;
		workers[i]->fills = fills;
		workers[i]->refused = 0;
	}
	on_cpus(workers, cpus, run_keep, "pageset_bench/%u");
	for (i = 0; i < cpus; i++)
		refused += workers[i]->refused;
	return refused;
}

static void cell(struct worker **workers, unsigned int cpus, const char *pattern, work_fn *none, work_fn *kernels,
		 work_fn *ours, unsigned int order, unsigned int held)
{
	struct pageset_books before = {}, after = {};
	u64 refused_ours = 0, refused_kernels = 0, nothing = 0, held_kernels = 0, held_ours, waited[2] = {};
	const unsigned long count = emulated() ? PAIRS : TIMED_PAIRS;
	struct spent spent[3] = {};
	char said[120];
	struct kprobe *probes[ARRAY_SIZE(lock_probes)];
	unsigned int i;

	/* The loop is the same for all CPUs. */
	if (cpus == 1) {
		keep(workers, cpus, none, order, held, true);
		spent[0] = measure(workers, cpus, none, order, held, count, false, &nothing);
		keep(workers, cpus, none, order, held, false);
	}
	refused_kernels += keep(workers, cpus, kernels, order, held, true);
	spent[1] = measure(workers, cpus, kernels, order, held, count, false, &refused_kernels);
	keep(workers, cpus, kernels, order, held, false);
	refused_ours += keep(workers, cpus, ours, order, held, true);
	spent[2] = measure(workers, cpus, ours, order, held, count, false, &refused_ours);
	/* Once more, for holds, as the kernel's are counted below: what the pattern before has left in the pagesets is gone. */
	pageset_audit(&before);
	measure(workers, cpus, ours, order, held, PAIRS, false, &nothing);
	pageset_audit(&after);
	keep(workers, cpus, ours, order, held, false);
	held_ours = after.holds - before.holds;
	/* Once more, for waits: the timers and the probe cost instructions. One CPU has nobody to wait for. */
	if (cpus > 1 && enable_kprobe(&wait_probe)) {
		pr_err("pageset_bench: failed: the probe of waits cannot be enabled\n");
	} else if (cpus > 1) {
		keep(workers, cpus, kernels, order, held, true);
		atomic64_set(&waits, 0);
		measure(workers, cpus, kernels, order, held, PAIRS, true, &nothing);
		waited[0] = atomic64_xchg(&waits, 0);
		keep(workers, cpus, kernels, order, held, false);
		keep(workers, cpus, ours, order, held, true);
		measure(workers, cpus, ours, order, held, PAIRS, true, &nothing);
		waited[1] = atomic64_read(&waits);
		disable_kprobe(&wait_probe);
		keep(workers, cpus, ours, order, held, false);
	}
	keep(workers, cpus, kernels, order, held, true);
	/* Once more, with probes, which cost instructions. */
	for (i = 0; i < ARRAY_SIZE(lock_probes); i++) {
		probes[i] = &lock_probes[i];
		probes[i]->addr = NULL;
		probes[i]->flags = 0;
	}
	if (!register_kprobes(probes, ARRAY_SIZE(probes))) {
		atomic64_set(&holds, 0);
		measure(workers, cpus, kernels, order, held, PAIRS, false, &nothing);
		held_kernels = atomic64_read(&holds);
		unregister_kprobes(probes, ARRAY_SIZE(probes));
	} else {
		pr_err("pageset_bench: cannot count holds of the kernel's zone locks: no kprobes\n");
	}
	keep(workers, cpus, kernels, order, held, false);
	/* Times where they are times, else instructions. */
	if (emulated())
		snprintf(said, sizeof(said), "loop=%llu alloc_pages=%llu pageset=%llu", spent[0].instructions, spent[1].instructions,
			 spent[2].instructions);
	else
		snprintf(said, sizeof(said), "ns=%llu,%llu,%llu", spent[0].ns, spent[1].ns, spent[2].ns);
	pr_info("pageset_bench: cell cpus=%u pattern=%s order=%u held=%u %s holds=%llu,%llu waits=%llu,%llu refused=%llu,%llu\n", cpus,
		pattern, order, held, said, held_kernels, held_ours, waited[0], waited[1], refused_kernels, refused_ours);
}

static int compare(struct worker **workers, unsigned int cpus)
{
	static const u16 held[] = { 1, 32, 512 };
	unsigned int i, j, n;
	int result;

	find_zone_locks();
	result = find_waits();
	if (result) {
		pr_err("pageset_bench: cannot count waits: no probe where a CPU waits for a spinlock: error %d\n", result);
		return result;
	}
	for (n = 1; n <= cpus; n *= 2) {
		for (i = 0; i < ARRAY_SIZE(orders); i++)
			for (j = 0; j < ARRAY_SIZE(held); j++)
				/* 512 blocks of order 9 are 1 GiB for one CPU. */
				if (orders[i] < 9 || held[j] * n <= 512)
					cell(workers, n, "hold", no_hold, kernels_hold, ours_hold, orders[i], held[j]);
		for (j = 1; j < ARRAY_SIZE(held); j++)
			cell(workers, n, "bulk", no_bulk, kernels_bulk, ours_bulk, 0, held[j]);
		cell(workers, n, "random", no_random, kernels_random, ours_random, 0, 512 / n);
		cell(workers, n, "churn", no_churn, kernels_churn, ours_churn, 0, KEPT / n);
	}
	unregister_kprobe(&wait_probe);
	on_cpus(workers, 1, run_fragmentation, "pageset_bench/%u");
	return 0;
}

/* ---- survival */

static enum hrtimer_restart on_timer(struct hrtimer *timer)
{
	struct worker *w = container_of(timer, struct worker, timer);
	struct slot *slot = &w->of_timer;

	if (slot->page) {
		if (pageset_free(slot->page, slot->order))
			w->failed = true;
		slot->page = NULL;
	} else {
		slot->order = w->in_timer % 4;
		slot->page = pageset_alloc(GFP_ATOMIC, slot->order);
	}
	w->in_timer++;
	hrtimer_forward_now(timer, ns_to_ktime(20 * NSEC_PER_USEC));
	return HRTIMER_RESTART;
}

static int run_survival(void *argument)
{
	struct worker *w = argument;
	unsigned long i;

	start_timer(&w->timer, on_timer, 20 * NSEC_PER_USEC);
	w->pairs = 0;
	for (i = 0; i < operations; i += 2048) {
		w->pairs += ours_random(w, 0, SLOTS / num_online_cpus(), 1024);
		w->random ^= w->random << 13;
		w->random ^= w->random >> 7;
		w->random ^= w->random << 17;
		w->pairs += ours_hold(w, i / 2048 % 5, 64, 64);
		cond_resched();
	}
	hrtimer_cancel(&w->timer);
	if (w->of_timer.page && pageset_free(w->of_timer.page, w->of_timer.order))
		w->failed = true;
	w->of_timer.page = NULL;
	complete(&w->done);
	return 0;
}

static void survive(struct worker **workers, unsigned int cpus)
{
	u64 pairs = 0, refused = 0, in_timer = 0;
	struct pageset_books books;
	bool failed = false;
	unsigned int i;

	if (lose && !pageset_alloc(GFP_KERNEL, 0))
		pr_err("pageset_bench: cannot plant a fault: no page\n");
	for (i = 0; i < cpus; i++)
		workers[i]->random = 0x9e3779b97f4a7c15ULL + i;
	on_cpus(workers, cpus, run_survival, "pageset_bench/%u");
	for (i = 0; i < cpus; i++) {
		pairs += workers[i]->pairs;
		refused += workers[i]->refused;
		in_timer += workers[i]->in_timer;
		failed |= workers[i]->failed;
	}
	failed |= pageset_audit(&books) != 0;
	pr_info("pageset_bench: survive cpus=%u pairs=%llu interrupts=%llu refused=%llu in_use=%llu\n", cpus, pairs,
		in_timer, refused, books.in_use);
	if (failed || books.in_use)
		pr_err("pageset_bench: failed: %llu pages are in use after all were freed%s\n", books.in_use,
		       failed ? "; a free or the audit failed" : "");
}

static int __init bench_load(void)
{
	unsigned int cpus = num_online_cpus(), i;
	struct worker **workers = kcalloc(cpus, sizeof(*workers), GFP_KERNEL);
	int result = -ENOMEM;

	if (!workers)
		return result;
	for (i = 0; i < cpus; i++) {
		workers[i] = vzalloc(sizeof(*workers[i]));
		if (!workers[i])
			goto out;
	}
	if (!strcmp(what, "compare"))
		result = compare(workers, cpus);
	else if (!strcmp(what, "survive"))
		survive(workers, cpus), result = 0;
	else
		result = -EINVAL;
out:
	for (i = 0; i < cpus; i++)
		vfree(workers[i]);
	kfree(workers);
	return result;
}

static void __exit bench_unload(void)
{
}

module_init(bench_load);
module_exit(bench_unload);
MODULE_DESCRIPTION("Counts what pageset and alloc_pages cost a caller");
MODULE_LICENSE("Dual MIT/GPL");
