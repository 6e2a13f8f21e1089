/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What an idle governor's source finds of the kernel here.
 *
 * Every header that governors include leads to this one. Types and meanings are those of Linux 6.1
 * to 6.12, as far as governors see them; what is not here, a governor cannot use, and the compiler
 * says so. Answers come from the request that is being served; see governor.c.
 */
#ifndef SCHEDLAB_KERNEL_H
#define SCHEDLAB_KERNEL_H

/* Types. u64 is long long on every architecture, as in the kernel. */
typedef signed char s8;
typedef unsigned char u8;
typedef short s16;
typedef unsigned short u16;
typedef int s32;
typedef unsigned int u32;
typedef long long s64;
typedef unsigned long long u64;
typedef s8 int8_t;
typedef u8 uint8_t;
typedef s16 int16_t;
typedef u16 uint16_t;
typedef s32 int32_t;
typedef u32 uint32_t;
typedef s64 int64_t;
typedef u64 uint64_t;
typedef s8 __s8;
typedef u8 __u8;
typedef s16 __s16;
typedef u16 __u16;
typedef s32 __s32;
typedef u32 __u32;
typedef s64 __s64;
typedef u64 __u64;
typedef __SIZE_TYPE__ size_t;
typedef long ssize_t;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef _Bool bool;
typedef s64 ktime_t;
#define true 1
#define false 0
#define NULL ((void *)0)

#define U8_MAX ((u8)~0U)
#define U16_MAX ((u16)~0U)
#define U32_MAX ((u32)~0U)
#define S32_MAX ((s32)(U32_MAX >> 1))
#define S32_MIN ((s32)(-S32_MAX - 1))
#define U64_MAX ((u64)~0ULL)
#define S64_MAX ((s64)(U64_MAX >> 1))
#define S64_MIN ((s64)(-S64_MAX - 1))
#define INT_MAX 2147483647
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX 4294967295U
#define LONG_MAX ((long)(~0UL >> 1))
#define LONG_MIN (-LONG_MAX - 1)
#define ULONG_MAX (~0UL)
#define LLONG_MAX S64_MAX
#define LLONG_MIN S64_MIN
#define ULLONG_MAX U64_MAX

#define ENOENT 2
#define EIO 5
#define ENOMEM 12
#define EBUSY 16
#define EEXIST 17
#define ENODEV 19
#define EINVAL 22
#define EOPNOTSUPP 95

/* The build. */
#define CONFIG_64BIT 1
#define CONFIG_SMP 1
#define CONFIG_CPU_IDLE 1
#define CONFIG_NO_HZ_COMMON 1
#define CONFIG_NO_HZ_IDLE 1
#define CONFIG_HIGH_RES_TIMERS 1
#define CONFIG_HZ HZ

/* The compiler. */
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define barrier() __asm__ __volatile__("" ::: "memory")
#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, value) (*(volatile __typeof__(x) *)&(x) = (value))
#define __always_inline inline __attribute__((always_inline))
#define noinline __attribute__((noinline))
#define __maybe_unused __attribute__((unused))
#define __always_unused __attribute__((unused))
#define __must_check __attribute__((warn_unused_result))
#define __packed __attribute__((packed))
#define __aligned(bytes) __attribute__((aligned(bytes)))
#define ____cacheline_aligned __aligned(64)
#define ____cacheline_aligned_in_smp __aligned(64)
#define fallthrough __attribute__((fallthrough))
#define __init
#define __exit
#define __initdata
#define __read_mostly
#define __ro_after_init
#define __cpuidle
#define __user
#define __percpu
#define notrace

#define offsetof(type, member) __builtin_offsetof(type, member)
#define container_of(pointer, type, member) \
	((type *)((char *)(pointer) - offsetof(type, member)))
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define BUILD_BUG_ON(condition) _Static_assert(!(condition), "BUILD_BUG_ON: " #condition)
#define static_assert(condition, ...) _Static_assert(condition, "" __VA_ARGS__)
#define swap(a, b) \
	do { \
		__typeof__(a) swapped_ = (a); \
		(a) = (b); \
		(b) = swapped_; \
	} while (0)

/* Arithmetic. */
#define min(a, b) \
	({ __auto_type min_a_ = (a); __auto_type min_b_ = (b); min_a_ < min_b_ ? min_a_ : min_b_; })
#define max(a, b) \
	({ __auto_type max_a_ = (a); __auto_type max_b_ = (b); max_a_ > max_b_ ? max_a_ : max_b_; })
#define min_t(type, a, b) min((type)(a), (type)(b))
#define max_t(type, a, b) max((type)(a), (type)(b))
#define min3(a, b, c) min(min(a, b), c)
#define max3(a, b, c) max(max(a, b), c)
#define clamp(value, low, high) min(max(value, low), high)
#define clamp_t(type, value, low, high) min_t(type, max_t(type, value, low), high)
#define clamp_val(value, low, high) clamp_t(__typeof__(value), value, low, high)
#define abs(x) ({ __auto_type abs_ = (x); abs_ < 0 ? -abs_ : abs_; })
#define abs_diff(a, b) \
	({ __auto_type diff_a_ = (a); __auto_type diff_b_ = (b); \
	   diff_a_ > diff_b_ ? diff_a_ - diff_b_ : diff_b_ - diff_a_; })
#define DIV_ROUND_UP(n, d) (((n) + (d) - 1) / (d))
#define DIV_ROUND_UP_ULL(n, d) (((u64)(n) + (d) - 1) / (d))
#define DIV_ROUND_CLOSEST_ULL(n, d) (((u64)(n) + (d) / 2) / (d))
#define DIV_ROUND_DOWN_ULL(n, d) ((u64)(n) / (d))
#define BIT(nr) (1UL << (nr))
#define BIT_ULL(nr) (1ULL << (nr))
#define BITS_PER_LONG (8 * (int)sizeof(long))
#define GENMASK(high, low) ((~0UL >> (BITS_PER_LONG - 1 - (high))) & (~0UL << (low)))
#define do_div(n, base) \
	({ u32 base_ = (base); u32 rest_ = (u64)(n) % base_; (n) = (u64)(n) / base_; rest_; })

static inline u64 div_u64(u64 n, u32 d) { return n / d; }
static inline s64 div_s64(s64 n, s32 d) { return n / d; }
static inline u64 div64_u64(u64 n, u64 d) { return n / d; }
static inline s64 div64_s64(s64 n, s64 d) { return n / d; }
static inline u64 div64_ul(u64 n, unsigned long d) { return n / d; }
static inline u64 mul_u64_u32_shr(u64 a, u32 b, unsigned int shift)
{
	return (u64)(((unsigned __int128)a * b) >> shift);
}
static inline u64 mul_u64_u64_div_u64(u64 a, u64 b, u64 c)
{
	return (u64)((unsigned __int128)a * b / c);
}
static inline int fls(unsigned int x) { return x ? 32 - __builtin_clz(x) : 0; }
static inline int fls64(u64 x) { return x ? 64 - __builtin_clzll(x) : 0; }
static inline unsigned long __ffs(unsigned long x) { return (unsigned long)__builtin_ctzl(x); }
static inline int ffs(int x) { return __builtin_ffs(x); }
static inline int ilog2(u64 x) { return fls64(x) - 1; }
static inline bool is_power_of_2(unsigned long x) { return x && !(x & (x - 1)); }
static inline unsigned int hweight32(unsigned int x) { return (unsigned int)__builtin_popcount(x); }
unsigned long int_sqrt(unsigned long x);

/* Strings and memory. There is no allocator: a governor's memory is static or per CPU. */
void *memset(void *to, int byte, size_t count);
void *memcpy(void *to, const void *from, size_t count);
void *memmove(void *to, const void *from, size_t count);
int memcmp(const void *a, const void *b, size_t count);
size_t strlen(const char *text);
int strcmp(const char *a, const char *b);
int strncmp(const char *a, const char *b, size_t count);

struct list_head {
	struct list_head *next, *prev;
};

/* Words to the user, on standard error, and ends. */
void schedlab_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
void schedlab_bug(const char *file, int line, const char *function)
	__attribute__((noreturn));
#define KERN_ERR ""
#define KERN_WARNING ""
#define KERN_NOTICE ""
#define KERN_INFO ""
#define KERN_DEBUG ""
#define printk schedlab_print
#ifndef pr_fmt
#define pr_fmt(format) format
#endif
#define pr_err(format, ...) schedlab_print(pr_fmt(format), ##__VA_ARGS__)
#define pr_warn pr_err
#define pr_notice pr_err
#define pr_info pr_err
#define pr_debug(format, ...) \
	do { \
		if (0) \
			pr_err(format, ##__VA_ARGS__); \
	} while (0)
#define trace_printk schedlab_print
#define BUG() schedlab_bug(__FILE__, __LINE__, __func__)
#define BUG_ON(condition) \
	do { \
		if (unlikely(condition)) \
			BUG(); \
	} while (0)
#define panic(...) \
	do { \
		schedlab_print(__VA_ARGS__); \
		BUG(); \
	} while (0)
#define WARN(condition, ...) \
	({ \
		bool warned_ = !!(condition); \
		if (unlikely(warned_)) { \
			schedlab_print("WARNING: %s:%d %s\n", __FILE__, __LINE__, __func__); \
			schedlab_print(__VA_ARGS__); \
		} \
		warned_; \
	})
#define WARN_ON(condition) WARN(condition, "%s", "")
#define WARN_ON_ONCE(condition) \
	({ \
		static bool told_; \
		bool holds_ = !!(condition); \
		if (unlikely(holds_ && !told_)) { \
			told_ = true; \
			WARN(true, "%s", ""); \
		} \
		holds_; \
	})
#define WARN_ONCE(condition, ...) WARN_ON_ONCE(condition)

/* Time. TICK_NSEC is the tick of the machine that is studied. */
#define NSEC_PER_USEC 1000L
#define NSEC_PER_MSEC 1000000L
#define NSEC_PER_SEC 1000000000L
#define USEC_PER_MSEC 1000L
#define USEC_PER_SEC 1000000L
#define MSEC_PER_SEC 1000L
#define TICK_NSEC (SCHEDLAB_TICK_NSEC)
#define TICK_USEC (TICK_NSEC / NSEC_PER_USEC)
#define HZ ((NSEC_PER_SEC + TICK_NSEC / 2) / TICK_NSEC)
#define KTIME_MAX S64_MAX
#define KTIME_MIN S64_MIN

static inline s64 ktime_to_ns(ktime_t time) { return time; }
static inline s64 ktime_to_us(ktime_t time) { return time / NSEC_PER_USEC; }
static inline s64 ktime_to_ms(ktime_t time) { return time / NSEC_PER_MSEC; }
static inline ktime_t ns_to_ktime(u64 ns) { return (s64)ns; }
static inline ktime_t us_to_ktime(u64 us) { return (s64)(us * NSEC_PER_USEC); }
static inline ktime_t ms_to_ktime(u64 ms) { return (s64)(ms * NSEC_PER_MSEC); }
static inline s64 ktime_us_delta(ktime_t later, ktime_t earlier)
{
	return ktime_to_us(later - earlier);
}
static inline int ktime_compare(ktime_t a, ktime_t b) { return a < b ? -1 : a > b; }
static inline bool ktime_before(ktime_t a, ktime_t b) { return a < b; }
static inline bool ktime_after(ktime_t a, ktime_t b) { return a > b; }
#define ktime_add(a, b) ((a) + (b))
#define ktime_sub(a, b) ((a) - (b))
#define ktime_add_ns(a, ns) ((a) + (s64)(ns))
#define ktime_sub_ns(a, ns) ((a) - (s64)(ns))

u64 local_clock(void);
#define sched_clock local_clock
#define ktime_get_ns local_clock
#define ktime_get() ((ktime_t)local_clock())
#define jiffies ((unsigned long)(local_clock() / TICK_NSEC))
#define jiffies_64 ((u64)(local_clock() / TICK_NSEC))

extern bool tick_nohz_enabled;
ktime_t tick_nohz_get_sleep_length(ktime_t *delta_next);
ktime_t tick_nohz_get_next_hrtimer(void);
bool tick_nohz_idle_got_tick(void);
int tick_nohz_tick_stopped(void);

/* CPUs. Memory per CPU is copied from what the section holds when a run starts. */
#define NR_CPUS 2048
extern unsigned int nr_cpu_ids;
int schedlab_this_cpu(void);
void *schedlab_per_cpu(const void *variable, int cpu);
#define smp_processor_id() schedlab_this_cpu()
#define raw_smp_processor_id() schedlab_this_cpu()
#define num_possible_cpus() nr_cpu_ids
#define num_online_cpus() nr_cpu_ids
#define for_each_possible_cpu(cpu) for ((cpu) = 0; (cpu) < (int)nr_cpu_ids; (cpu)++)
#define for_each_online_cpu for_each_possible_cpu
#define for_each_present_cpu for_each_possible_cpu
#define DEFINE_PER_CPU(type, name) \
	__attribute__((section("schedlab_percpu"), aligned(64))) __typeof__(type) name
#define DEFINE_PER_CPU_READ_MOSTLY DEFINE_PER_CPU
#define DEFINE_PER_CPU_ALIGNED DEFINE_PER_CPU
#define DEFINE_PER_CPU_SHARED_ALIGNED DEFINE_PER_CPU
#define DECLARE_PER_CPU(type, name) extern __typeof__(type) name
#define per_cpu_ptr(pointer, cpu) ((__typeof__(pointer))schedlab_per_cpu(pointer, cpu))
#define this_cpu_ptr(pointer) per_cpu_ptr(pointer, schedlab_this_cpu())
#define raw_cpu_ptr this_cpu_ptr
#define per_cpu(name, cpu) (*per_cpu_ptr(&(name), cpu))
#define this_cpu_read(name) (*this_cpu_ptr(&(name)))
#define this_cpu_write(name, value) (*this_cpu_ptr(&(name)) = (value))
#define this_cpu_add(name, value) (*this_cpu_ptr(&(name)) += (value))
#define this_cpu_inc(name) this_cpu_add(name, 1)
#define __this_cpu_read this_cpu_read
#define __this_cpu_write this_cpu_write
#define __this_cpu_add this_cpu_add
#define __this_cpu_inc this_cpu_inc
#define get_cpu_var(name) per_cpu(name, schedlab_this_cpu())
#define put_cpu_var(name) ((void)&(name))

/* What the scheduler tells of a CPU; of another than the one that is served, what it told last. */
unsigned int nr_iowait_cpu(int cpu);
unsigned long sched_cpu_util(int cpu);
unsigned long arch_scale_cpu_capacity(int cpu);
#define SCHED_CAPACITY_SHIFT 10
#define SCHED_CAPACITY_SCALE (1L << SCHED_CAPACITY_SHIFT)

/* Modules. */
struct module;
struct device;
#define schedlab_join_(a, b) a##b
#define schedlab_join(a, b) schedlab_join_(a, b)
#define schedlab_initcall(function) \
	static int (*const schedlab_join(initcall_, function))(void) \
		__attribute__((used, section("schedlab_initcalls"))) = function
#define core_initcall schedlab_initcall
#define postcore_initcall schedlab_initcall
#define arch_initcall schedlab_initcall
#define subsys_initcall schedlab_initcall
#define fs_initcall schedlab_initcall
#define device_initcall schedlab_initcall
#define late_initcall schedlab_initcall
#define module_init schedlab_initcall
#define module_exit(function) _Static_assert(1, "")
#define module_param(name, type, mode) _Static_assert(1, "")
#define module_param_named(name, variable, type, mode) _Static_assert(1, "")
#define MODULE_PARM_DESC(name, text) _Static_assert(1, "")
#define MODULE_LICENSE(text) _Static_assert(1, "")
#define MODULE_AUTHOR(text) _Static_assert(1, "")
#define MODULE_DESCRIPTION(text) _Static_assert(1, "")
#define EXPORT_SYMBOL(name) _Static_assert(1, "")
#define EXPORT_SYMBOL_GPL(name) _Static_assert(1, "")
#define THIS_MODULE ((struct module *)NULL)

/* A guest, as haltpoll wants to be in one. */
#define kvm_para_available() true
#define trace_guest_halt_poll_ns_grow(new, old) ((void)(new), (void)(old))
#define trace_guest_halt_poll_ns_shrink(new, old) ((void)(new), (void)(old))

/* cpuidle. */
#define CPUIDLE_STATE_MAX 10
#define CPUIDLE_NAME_LEN 16
#define CPUIDLE_DESC_LEN 32
#define CPUIDLE_STATE_DISABLED_BY_USER BIT(0)
#define CPUIDLE_STATE_DISABLED_BY_DRIVER BIT(1)
#define CPUIDLE_FLAG_NONE 0
#define CPUIDLE_FLAG_POLLING BIT(0)
#define CPUIDLE_FLAG_COUPLED BIT(1)
#define CPUIDLE_FLAG_TIMER_STOP BIT(2)
#define CPUIDLE_FLAG_UNUSABLE BIT(3)
#define CPUIDLE_FLAG_OFF BIT(4)

struct cpuidle_device;
struct cpuidle_driver;

struct cpuidle_state_usage {
	unsigned long long disable;
	unsigned long long usage;
	u64 time_ns;
	unsigned long long above;
	unsigned long long below;
	unsigned long long rejected;
};

struct cpuidle_state {
	char name[CPUIDLE_NAME_LEN];
	char desc[CPUIDLE_DESC_LEN];
	s64 exit_latency_ns;
	s64 target_residency_ns;
	unsigned int flags;
	unsigned int exit_latency;
	int power_usage;
	unsigned int target_residency;
};

struct cpuidle_device {
	unsigned int registered : 1;
	unsigned int enabled : 1;
	unsigned int poll_time_limit : 1;
	unsigned int cpu;
	ktime_t next_hrtimer;
	int last_state_idx;
	u64 last_residency_ns;
	u64 poll_limit_ns;
	u64 forced_idle_latency_limit_ns;
	struct cpuidle_state_usage states_usage[CPUIDLE_STATE_MAX];
	struct list_head device_list;
};

struct cpuidle_driver {
	const char *name;
	struct module *owner;
	struct cpuidle_state states[CPUIDLE_STATE_MAX];
	int state_count;
	int safe_state_index;
	const char *governor;
};

struct cpuidle_governor {
	char name[CPUIDLE_NAME_LEN];
	struct list_head governor_list;
	unsigned int rating;
	int (*enable)(struct cpuidle_driver *drv, struct cpuidle_device *dev);
	void (*disable)(struct cpuidle_driver *drv, struct cpuidle_device *dev);
	int (*select)(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick);
	void (*reflect)(struct cpuidle_device *dev, int index);
};

int cpuidle_register_governor(struct cpuidle_governor *governor);
s64 cpuidle_governor_latency_req(unsigned int cpu);
struct cpuidle_driver *cpuidle_get_cpu_driver(struct cpuidle_device *dev);

#endif
