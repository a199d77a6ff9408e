/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Tables that programs and user space share. If a table is declared with one entry, user space sets its size at
 * load time.
 */
#ifndef MOORLINE_TABLE_H
#define MOORLINE_TABLE_H

#include <linux/bpf.h>
#include <linux/types.h>

#include <bpf/bpf_helpers.h>

#define TABLE(name, kind, entries, key_type, value_type)                                                       \
	struct {                                                                                               \
		__uint(type, BPF_MAP_TYPE_##kind);                                                             \
		__uint(max_entries, entries);                                                                  \
		__type(key, key_type);                                                                         \
		__type(value, value_type);                                                                     \
	} name SEC(".maps")

/* A hash map that allocates its entries one by one, because few of them are in use. */
#define SPARSE_TABLE(name, entries, key_type, value_type)                                                      \
	struct {                                                                                               \
		__uint(type, BPF_MAP_TYPE_HASH);                                                               \
		__uint(map_flags, BPF_F_NO_PREALLOC);                                                          \
		__uint(max_entries, entries);                                                                  \
		__type(key, key_type);                                                                         \
		__type(value, value_type);                                                                     \
	} name SEC(".maps")

/* A ring buffer of so many octets. */
#define RING(name, octets)                                                                                     \
	struct {                                                                                               \
		__uint(type, BPF_MAP_TYPE_RINGBUF);                                                            \
		__uint(max_entries, octets);                                                                   \
	} name SEC(".maps")

#endif
