// SPDX-License-Identifier: GPL-2.0-only
/*
 * A tiny governor, to show and to test how one of a kernel tree is run: it expects a sleep as long
 * as the mean of the last four, or until the next timer if that is sooner, and keeps the tick
 * before sleeps shorter than it.
 */
#include <linux/cpuidle.h>
#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/percpu.h>
#include <linux/tick.h>

#include "steady.h"

struct steady_cpu {
	u64 slept_ns[STEADY_SLEEPS];
	unsigned int next;
};

static DEFINE_PER_CPU(struct steady_cpu, steady_cpus);
/* Of all CPUs: every sixteenth choice is state 0, so that memory they share is tested, too. */
static unsigned int choices;

static int steady_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	struct steady_cpu *cpu = this_cpu_ptr(&steady_cpus);
	s64 latency_req = cpuidle_governor_latency_req(dev->cpu);
	ktime_t delta_tick;
	s64 expected_ns = tick_nohz_get_sleep_length(&delta_tick);
	u64 sum_ns = 0;
	int i, chosen = 0;

	for (i = 0; i < STEADY_SLEEPS; i++)
		sum_ns += cpu->slept_ns[i];
	expected_ns = min(expected_ns, (s64)div_u64(sum_ns, STEADY_SLEEPS));
	for (i = 1; i < drv->state_count; i++) {
		if (dev->states_usage[i].disable)
			continue;
		if (drv->states[i].target_residency_ns > expected_ns ||
		    drv->states[i].exit_latency_ns > latency_req)
			break;
		chosen = i;
	}
	if (++choices % 16 == 0)
		chosen = 0;
	*stop_tick = expected_ns >= TICK_NSEC;
	return chosen;
}

static void steady_reflect(struct cpuidle_device *dev, int index)
{
	struct steady_cpu *cpu = per_cpu_ptr(&steady_cpus, dev->cpu);

	cpu->slept_ns[cpu->next] = dev->last_residency_ns + (u64)index;
	cpu->next = (cpu->next + 1) % STEADY_SLEEPS;
}

static struct cpuidle_governor steady_governor = {
	.name = "steady",
	.rating = 1,
	.select = steady_select,
	.reflect = steady_reflect,
};

static int __init steady_init(void)
{
	return cpuidle_register_governor(&steady_governor);
}

postcore_initcall(steady_init);
