/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Between the two halves of the program that a governor's source becomes: governor.c, which knows
 * the kernel's types, and transport.c, which knows the C library's. Records cross the pipes as they
 * lie in memory; `wire.rs` writes and reads the same.
 */
#ifndef SCHEDLAB_BRIDGE_H
#define SCHEDLAB_BRIDGE_H

enum { BRIDGE_STATES_MAX = 10, BRIDGE_NAME_LEN = 16, BRIDGE_TEXT_LEN = 168 };

enum request_kind {
	REQUEST_CPUS = 1,	/* How many CPUs; one REQUEST_STATES for each follows. */
	REQUEST_STATES = 2,	/* A CPU's idle states and capacity. */
	REQUEST_START = 3,	/* Answered by ANSWER_READY. */
	REQUEST_SELECT = 4,	/* Answered by ANSWER_CHOICE. */
	REQUEST_REFLECT = 5,
	REQUEST_REJECT = 6,
	REQUEST_RESTORE = 7,
};

enum request_flag {
	FLAG_TICK_STOPPED = 1,
	FLAG_GOT_TICK = 2,
	FLAG_POLL_TIME_LIMIT = 4,
	FLAG_SAVE = 8,
};

enum answer_kind { ANSWER_READY = 1, ANSWER_CHOICE = 2, ANSWER_END = 3 };

/* Why a program ends. */
enum end_reason {
	END_SIGNAL = 1,		/* detail: the signal */
	END_BUG = 2,		/* text: place */
	END_TOO_LONG = 3,
	END_NO_GOVERNOR = 4,
	END_INIT_FAILED = 5,	/* detail: the initcall's value */
	END_ENABLE_FAILED = 6,	/* detail: its value */
	END_PROTOCOL = 7,
};

struct request {
	unsigned int kind;
	unsigned int cpu;
	unsigned int flags;
	unsigned int disabled;		/* a bit per state */
	unsigned long long now_ns;
	long long sleep_ns;
	long long delta_next_ns;
	long long latency_req_ns;
	unsigned long long cpu_util;
	unsigned long long residency_ns;
	unsigned int nr_iowait;
	int index;			/* the state entered; the number of CPUs */
};

struct state_record {
	long long exit_latency_ns;
	long long target_residency_ns;
	unsigned int flags;
	unsigned int pad;
};

/* Follows REQUEST_STATES. */
struct states_record {
	unsigned long long capacity;
	unsigned int count;
	unsigned int pad;
	struct state_record states[BRIDGE_STATES_MAX];
};

struct answer {
	unsigned int kind;
	int index;			/* the state chosen; why the program ends */
	unsigned int stop_tick;		/* or what the reason's detail is */
	unsigned int cpu;
	unsigned long long poll_limit_ns;	/* or the address of a crash */
	unsigned int call;		/* the request that was being served */
	unsigned int pad;
};

/* Follows ANSWER_READY (the governor's name) and ANSWER_END. */
struct text_record {
	char text[BRIDGE_TEXT_LEN];
};

/* governor.c, to transport.c. */
int governor_prepare(unsigned int cpus);
void governor_states(unsigned int cpu, const struct states_record *record);
const char *governor_start(void);
void governor_select(const struct request *request, struct answer *answer);
void governor_reflect(const struct request *request);
void governor_reject(const struct request *request);
void governor_restore(const struct request *request);

/* transport.c, to governor.c. */
void transport_end(int reason, int detail, const char *text) __attribute__((noreturn));
void *transport_memory(unsigned long bytes);

#endif
