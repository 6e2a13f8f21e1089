// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel around a governor: registration, memory per CPU, the devices and drivers that it is
 * handed, and the answers to what it asks, which all come from the request that is being served.
 */
#include <schedlab/kernel.h>
#include "bridge.h"

_Static_assert(BRIDGE_STATES_MAX == CPUIDLE_STATE_MAX, "both ends know as many states");
_Static_assert(BRIDGE_NAME_LEN == CPUIDLE_NAME_LEN, "names are as long");

/* What the scheduler last told of a CPU. */
struct told {
	unsigned long capacity;
	unsigned long util;
	unsigned int nr_iowait;
};

extern char __start_schedlab_percpu[], __stop_schedlab_percpu[];
extern int (*const __start_schedlab_initcalls[])(void);
extern int (*const __stop_schedlab_initcalls[])(void);
/* So that the section exists in a program without such variables. */
static DEFINE_PER_CPU(long, anchor) __attribute__((used));
static int nothing(void)
{
	return 0;
}
late_initcall(nothing);
/* Everything static, this file's own variables included, which a request sets anew. */
extern char __data_start[], _end[];

unsigned int nr_cpu_ids;
bool tick_nohz_enabled = true;

static struct cpuidle_governor *governor;
static struct cpuidle_driver *drivers;
static struct cpuidle_device *devices;
static struct told *told;
static char *areas;
static unsigned long area_bytes;
/* A CPU's memory and device and all static memory, as they were saved. */
static char *kept;
static struct request now;

static unsigned long static_bytes(void)
{
	return (unsigned long)(_end - __data_start);
}

int governor_prepare(unsigned int cpus)
{
	unsigned int cpu;

	if (cpus < 1 || cpus > NR_CPUS || nr_cpu_ids)
		return -EINVAL;
	nr_cpu_ids = cpus;
	area_bytes = (unsigned long)(__stop_schedlab_percpu - __start_schedlab_percpu);
	area_bytes = (area_bytes + 63) & ~63UL;
	drivers = transport_memory(cpus * sizeof(*drivers));
	devices = transport_memory(cpus * sizeof(*devices));
	told = transport_memory(cpus * sizeof(*told));
	areas = transport_memory(cpus * area_bytes);
	kept = transport_memory(area_bytes + sizeof(*devices) + static_bytes());
	for (cpu = 0; cpu < cpus; cpu++) {
		memcpy(areas + cpu * area_bytes, __start_schedlab_percpu,
		       (size_t)(__stop_schedlab_percpu - __start_schedlab_percpu));
		devices[cpu].cpu = cpu;
		devices[cpu].registered = 1;
		drivers[cpu].name = "schedlab";
	}
	return 0;
}

void governor_states(unsigned int cpu, const struct states_record *record)
{
	struct cpuidle_driver *driver = &drivers[cpu];
	unsigned int i;

	told[cpu].capacity = record->capacity;
	driver->state_count = (int)record->count;
	for (i = 0; i < record->count; i++) {
		struct cpuidle_state *state = &driver->states[i];

		state->name[0] = 'S';
		state->name[1] = (char)('0' + i);
		state->exit_latency_ns = record->states[i].exit_latency_ns;
		state->target_residency_ns = record->states[i].target_residency_ns;
		state->exit_latency = (unsigned int)(state->exit_latency_ns / NSEC_PER_USEC);
		state->target_residency =
			(unsigned int)(state->target_residency_ns / NSEC_PER_USEC);
		state->flags = record->states[i].flags;
	}
}

const char *governor_start(void)
{
	int (*const *call)(void);
	int failed;

	for (call = __start_schedlab_initcalls; call < __stop_schedlab_initcalls; call++) {
		failed = (*call)();
		if (failed)
			transport_end(END_INIT_FAILED, failed, "");
	}
	if (!governor || !governor->select)
		transport_end(END_NO_GOVERNOR, 0, "");
	for (now.cpu = 0; now.cpu < nr_cpu_ids; now.cpu++) {
		failed = governor->enable
				 ? governor->enable(&drivers[now.cpu], &devices[now.cpu])
				 : 0;
		if (failed)
			transport_end(END_ENABLE_FAILED, failed, "");
		devices[now.cpu].enabled = 1;
	}
	return governor->name;
}

static struct cpuidle_device *serve(const struct request *request)
{
	struct cpuidle_device *device = &devices[request->cpu];
	int i;

	now = *request;
	told[now.cpu].util = now.cpu_util;
	told[now.cpu].nr_iowait = now.nr_iowait;
	for (i = 0; i < drivers[now.cpu].state_count; i++)
		device->states_usage[i].disable = now.disabled >> i & 1;
	return device;
}

void governor_select(const struct request *request, struct answer *answer)
{
	struct cpuidle_device *device = &devices[request->cpu];
	bool stop_tick = true;

	if (request->flags & FLAG_SAVE) {
		memcpy(kept, areas + request->cpu * area_bytes, area_bytes);
		memcpy(kept + area_bytes, device, sizeof(*device));
		memcpy(kept + area_bytes + sizeof(*device), __data_start, static_bytes());
	}
	serve(request);
	answer->index = governor->select(&drivers[now.cpu], device, &stop_tick);
	answer->stop_tick = stop_tick;
	answer->poll_limit_ns = device->poll_limit_ns;
}

void governor_restore(const struct request *request)
{
	struct cpuidle_device *device = &devices[request->cpu];

	memcpy(areas + request->cpu * area_bytes, kept, area_bytes);
	memcpy(device, kept + area_bytes, sizeof(*device));
	memcpy(__data_start, kept + area_bytes + sizeof(*device), static_bytes());
}

void governor_reflect(const struct request *request)
{
	struct cpuidle_device *device = serve(request);
	int index = now.index;

	device->last_residency_ns = now.residency_ns;
	device->states_usage[index].usage++;
	device->states_usage[index].time_ns += now.residency_ns;
	if (drivers[now.cpu].states[index].flags & CPUIDLE_FLAG_POLLING)
		device->poll_time_limit = !!(now.flags & FLAG_POLL_TIME_LIMIT);
	if (governor->reflect)
		governor->reflect(device, index);
}

void governor_reject(const struct request *request)
{
	serve(request)->last_residency_ns = 0;
}

/* Of several governors in a file, the best rated is used. */
int cpuidle_register_governor(struct cpuidle_governor *registered)
{
	if (!registered || !registered->select)
		return -EINVAL;
	if (!governor || registered->rating > governor->rating)
		governor = registered;
	return 0;
}

s64 cpuidle_governor_latency_req(unsigned int cpu)
{
	(void)cpu;
	return now.latency_req_ns;
}

struct cpuidle_driver *cpuidle_get_cpu_driver(struct cpuidle_device *dev)
{
	return &drivers[dev->cpu];
}

u64 local_clock(void)
{
	return now.now_ns;
}

ktime_t tick_nohz_get_sleep_length(ktime_t *delta_next)
{
	*delta_next = now.delta_next_ns;
	return now.sleep_ns;
}

ktime_t tick_nohz_get_next_hrtimer(void)
{
	return now.delta_next_ns == KTIME_MAX ? KTIME_MAX
					      : (s64)now.now_ns + now.delta_next_ns;
}

bool tick_nohz_idle_got_tick(void)
{
	return now.flags & FLAG_GOT_TICK;
}

int tick_nohz_tick_stopped(void)
{
	return !!(now.flags & FLAG_TICK_STOPPED);
}

int schedlab_this_cpu(void)
{
	return (int)now.cpu;
}

static unsigned int known_cpu(int cpu)
{
	BUG_ON(cpu < 0 || (unsigned int)cpu >= nr_cpu_ids);
	return (unsigned int)cpu;
}

void *schedlab_per_cpu(const void *variable, int cpu)
{
	return areas + known_cpu(cpu) * area_bytes
	       + ((const char *)variable - __start_schedlab_percpu);
}

unsigned int nr_iowait_cpu(int cpu)
{
	return told[known_cpu(cpu)].nr_iowait;
}

unsigned long sched_cpu_util(int cpu)
{
	return told[known_cpu(cpu)].util;
}

unsigned long arch_scale_cpu_capacity(int cpu)
{
	return told[known_cpu(cpu)].capacity;
}

unsigned long int_sqrt(unsigned long x)
{
	unsigned long root = 0, bit;

	for (bit = 1UL << (BITS_PER_LONG / 2 - 1); bit; bit >>= 1)
		if ((root | bit) <= x / (root | bit))
			root |= bit;
	return root;
}
