/* SPDX-License-Identifier: GPL-2.0-only */
/* How many sleeps are remembered. */
#define STEADY_SLEEPS 4
