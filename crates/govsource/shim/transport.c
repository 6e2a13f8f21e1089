// SPDX-License-Identifier: GPL-2.0-only
/*
 * Requests come on standard input, answers go to standard output, and words to the user to
 * standard error. A crash or a call that does not end is told as a last answer, so that the
 * simulator outlives it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include "bridge.h"

enum { BUFFER_BYTES = 1 << 16, STACK_BYTES = 1 << 16 };

/* On the heap: restoring a governor's static memory leaves it alone. */
struct transport {
	char buffer[BUFFER_BYTES];
	size_t begin, end;
	volatile unsigned int call, cpu;
	/* Requests served, and as many as were when the timer last expired. */
	volatile unsigned long served, seen;
};

static struct transport *transport;

static void send(const void *record, size_t bytes)
{
	const char *from = record;

	while (bytes > 0) {
		ssize_t sent = write(STDOUT_FILENO, from, bytes);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			_exit(0);
		from += sent;
		bytes -= (size_t)sent;
	}
}

static void end(int reason, int detail, const char *text, unsigned long long address)
{
	struct answer answer = { .kind = ANSWER_END, .index = reason };
	struct text_record record = { "" };

	answer.stop_tick = (unsigned int)detail;
	answer.cpu = transport->cpu;
	answer.call = transport->call;
	answer.poll_limit_ns = address;
	for (size_t i = 0; text[i] && i + 1 < sizeof(record.text); i++)
		record.text[i] = text[i];
	send(&answer, sizeof(answer));
	send(&record, sizeof(record));
	_exit(1);
}

void transport_end(int reason, int detail, const char *text)
{
	end(reason, detail, text, 0);
	_exit(1);
}

static unsigned long long place_of(const void *context)
{
	const ucontext_t *interrupted = context;
#if defined(__x86_64__)
	return (unsigned long long)interrupted->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	return interrupted->uc_mcontext.pc;
#else
	(void)interrupted;
	return 0;
#endif
}

static void crashed(int number, siginfo_t *info, void *context)
{
	(void)info;
	end(END_SIGNAL, number, "", place_of(context));
}

/* Expires once per second of this process's own time: a call that is still the same took that. */
static void second_passed(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	if (transport->call && transport->seen == transport->served)
		end(END_TOO_LONG, 0, "", place_of(context));
	transport->seen = transport->served;
}

static void watch(void)
{
	static const int crashes[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP };
	struct rlimit no_core = { 0, 0 };
	struct itimerval second = { { 1, 0 }, { 1, 0 } };
	stack_t stack = { .ss_sp = malloc(STACK_BYTES), .ss_size = STACK_BYTES };
	struct sigaction action = { .sa_sigaction = crashed };

	setrlimit(RLIMIT_CORE, &no_core);
	/* The keyboard's interrupt is for the simulator, which then ends this program. */
	signal(SIGINT, SIG_IGN);
	sigaltstack(&stack, NULL);
	sigemptyset(&action.sa_mask);
	action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
	for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
		sigaction(crashes[i], &action, NULL);
	action.sa_sigaction = second_passed;
	sigaction(SIGPROF, &action, NULL);
	setitimer(ITIMER_PROF, &second, NULL);
}

static void receive(void *record, size_t bytes)
{
	struct transport *t = transport;

	if (t->end - t->begin < bytes) {
		memmove(t->buffer, t->buffer + t->begin, t->end - t->begin);
		t->end -= t->begin;
		t->begin = 0;
	}
	while (t->end - t->begin < bytes) {
		ssize_t got = read(STDIN_FILENO, t->buffer + t->end, BUFFER_BYTES - t->end);

		if (got < 0 && errno == EINTR)
			continue;
		/* The simulator has no more to ask. */
		if (got <= 0)
			_exit(0);
		t->end += (size_t)got;
	}
	memcpy(record, t->buffer + t->begin, bytes);
	t->begin += bytes;
}

void *transport_memory(unsigned long bytes)
{
	void *memory = calloc(1, bytes ? bytes : 1);

	if (!memory)
		transport_end(END_PROTOCOL, ENOMEM, "out of memory");
	return memory;
}

void schedlab_print(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
}

void schedlab_bug(const char *file, int line, const char *function)
{
	char text[BRIDGE_TEXT_LEN];

	snprintf(text, sizeof(text), "%s:%d, in %s()", file, line, function);
	transport_end(END_BUG, 0, text);
}

static void start(void)
{
	struct answer answer = { .kind = ANSWER_READY };
	struct text_record record = { "" };

	snprintf(record.text, sizeof(record.text), "%.*s", BRIDGE_NAME_LEN, governor_start());
	send(&answer, sizeof(answer));
	send(&record, sizeof(record));
}

static void serve(const struct request *request)
{
	struct answer answer = { .kind = ANSWER_CHOICE };
	struct states_record states;

	switch (request->kind) {
	case REQUEST_CPUS:
		if (governor_prepare((unsigned int)request->index))
			transport_end(END_PROTOCOL, 0, "CPUs");
		break;
	case REQUEST_STATES:
		receive(&states, sizeof(states));
		governor_states(request->cpu, &states);
		break;
	case REQUEST_START:
		start();
		break;
	case REQUEST_SELECT:
		governor_select(request, &answer);
		answer.cpu = request->cpu;
		send(&answer, sizeof(answer));
		break;
	case REQUEST_REFLECT:
		governor_reflect(request);
		break;
	case REQUEST_REJECT:
		governor_reject(request);
		break;
	case REQUEST_RESTORE:
		governor_restore(request);
		break;
	default:
		transport_end(END_PROTOCOL, 0, "request");
	}
}

int main(void)
{
	struct request request;

	transport = calloc(1, sizeof(*transport));
	if (!transport)
		return 1;
	watch();
	for (;;) {
		receive(&request, sizeof(request));
		transport->cpu = request.cpu;
		transport->call = request.kind;
		serve(&request);
		transport->call = 0;
		transport->served++;
	}
}
