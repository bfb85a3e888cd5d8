/* DPDK's mempool as linkable functions: DPDK's own functions are inline, in headers. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_mempool.h>

/* Neither get nor put touches an object, so its size does not matter: one cache line. */
#define OBJECT_BYTES 64
/* The largest cache that DPDK allows, which its users choose for such loads. */
#define CACHE_OBJECTS RTE_MEMPOOL_CACHE_MAX_SIZE

/* Starts DPDK with 1 GiB, the need of 40 threads' pools, without huge pages, devices or shared files.
 * Keeps the caller's CPU affinity. Returns 0 or an error number. */
int peer_dpdk_start(void)
{
	char *arguments[] = {"pageset-bench-peers", "--no-huge", "--no-shconf", "--no-pci", "--no-telemetry",
			     "-m", "1024", "--log-level=*:critical", NULL};
	cpu_set_t allowed;
	int error;

	sched_getaffinity(0, sizeof(allowed), &allowed);
	error = rte_eal_init(sizeof(arguments) / sizeof(arguments[0]) - 1, arguments) < 0 ? (rte_errno ? rte_errno : EINVAL) : 0;
	sched_setaffinity(0, sizeof(allowed), &allowed);
	return error;
}

struct rte_mempool *peer_dpdk_pool(unsigned objects, unsigned number)
{
	char name[RTE_MEMPOOL_NAMESIZE];

	snprintf(name, sizeof(name), "bench%u", number);
	return rte_mempool_create(name, objects, OBJECT_BYTES, CACHE_OBJECTS, 0, NULL, NULL, NULL, NULL, SOCKET_ID_ANY, 0);
}

void peer_dpdk_end(struct rte_mempool *pool)
{
	rte_mempool_free(pool);
}

/* Registers the calling thread, which gives it its own cache. Returns 0 on success. */
int peer_dpdk_enter(void)
{
	return rte_thread_register();
}

/* Returns the calling thread's cached objects to the pool and unregisters the thread. */
void peer_dpdk_leave(struct rte_mempool *pool)
{
	rte_mempool_cache_flush(NULL, pool);
	rte_thread_unregister();
}

/* Returns 0 if the pool had `count` objects. */
int peer_dpdk_get(struct rte_mempool *pool, void **objects, unsigned count)
{
	return rte_mempool_get_bulk(pool, objects, count);
}

void peer_dpdk_put(struct rte_mempool *pool, void *const *objects, unsigned count)
{
	rte_mempool_put_bulk(pool, objects, count);
}
