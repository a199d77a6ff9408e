/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Lists the TCP sockets between pairs of ULIDs that wait for a timer, and has those send that could not send. The
 * program is an object of its own: if a kernel cannot load it, nothing else is missing.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

#include "lib/types.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* Types of the kernel: only the fields that the program reads. libbpf finds them by name at load time. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr {
	union {
		__u8 u6_addr8[16];
	} in6_u;
};

struct sock_common {
	__u16 skc_family;
	volatile unsigned char skc_state;
	__u16 skc_num;
	__be16 skc_dport;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct ipv6_pinfo___before_6_7 {
	__u8 recverr : 1;
};

struct inet_sock {
	unsigned long inet_flags;
	struct ipv6_pinfo___before_6_7 *pinet6;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	__u8 icsk_retransmits;
	__u8 icsk_backoff;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 write_seq;
};

struct tcp6_sock {
	struct tcp_sock tcp;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
};

#pragma clang attribute pop

/* include/net/tcp_states.h */
enum {
	TCP_ESTABLISHED = 1,
	TCP_FIN_WAIT1 = 4,
	TCP_CLOSE_WAIT = 8,
	TCP_LAST_ACK = 9,
	TCP_CLOSING = 11,
};

/* include/uapi/linux/in.h and include/uapi/linux/tcp.h */
enum {
	SOL_TCP = 6,
	TCP_NODELAY = 1,
};

/* include/net/inet_sock.h, since Linux 6.7. The enum has no name, so libbpf cannot find it at load time. */
enum {
	INET_FLAGS_RECVERR6 = 26,
};

/* Entry that the program writes for each socket. */
struct stalled {
	struct pair ulids;
	/* Host order. */
	__u16 local_port;
	__u16 peer_port;
	/* Sequence numbers: the oldest octet without an acknowledgement, and the next octet to send. If these
	 * are equal, the socket had nothing in flight, and could not send.
	 */
	__u32 snd_una;
	__u32 snd_nxt;
	__u8 retransmits;
	/* Number of times that the timer has been doubled. */
	__u8 backoff;
	__u8 state;
	__u8 zero;
};

_Static_assert(sizeof(struct stalled) == 48, "stalled");

/* Brings the type into BTF, for the Rust side. */
const volatile struct stalled stalled_type;

/* ULID pairs whose sockets the program lists: WANTED, or WANTED_SENDING if it also has them send. */
SPARSE_TABLE(wanted, 65536, struct pair, __u8);

/* The same numbers as in io/bpf/src/stalled.rs. */
enum {
	WANTED = 1,
	WANTED_SENDING = 2,
};

/* Whether a socket in this state may wait and may be told to retransmit. For a socket that is not connected
 * yet, the notice would be an error. The sockets in these states are connected and can have octets to send
 * again.
 */
static __always_inline int may_wait(__u8 state)
{
	return state == TCP_ESTABLISHED || state == TCP_FIN_WAIT1 || state == TCP_CLOSE_WAIT ||
	       state == TCP_LAST_ACK || state == TCP_CLOSING;
}

/* Whether the application has asked for errors (IPV6_RECVERR): then the notice would reach it as an error. */
static __always_inline int wants_errors(const struct inet_sock *inet)
{
	struct ipv6_pinfo___before_6_7 *pinet6 = inet->pinet6;
	if (bpf_core_field_exists(pinet6->recverr))
		return BPF_CORE_READ_BITFIELD_PROBED(pinet6, recverr);
	return inet->inet_flags >> INET_FLAGS_RECVERR6 & 1;
}

/* Has a socket send what it has not sent. While the host had no route, nothing of it left, so it is not in
 * flight: the socket waits for the timer of window probes (RFC 9293 s3.8.6.1), for which RFC 6069 has no notice.
 * The kernel sends when TCP_NODELAY is set, also if the program has corked the socket, as far as the window of
 * the peer lets it: a socket whose peer has no window sends nothing. The kernel holds the lock of the socket.
 */
static __always_inline void send_now(struct sock_common *socket)
{
	int before = 0;
	int on = 1;

	if (bpf_getsockopt(socket, SOL_TCP, TCP_NODELAY, &before, sizeof(before)))
		return;
	bpf_setsockopt(socket, SOL_TCP, TCP_NODELAY, &on, sizeof(on));
	if (!before)
		bpf_setsockopt(socket, SOL_TCP, TCP_NODELAY, &before, sizeof(before));
}

SEC("iter/tcp")
int stalled_sockets(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	if (!common)
		return 0;
	/* NULL for IPv4, connection requests and TIME_WAIT. */
	struct tcp6_sock *socket = bpf_skc_to_tcp6_sock(common);
	if (!socket)
		return 0;
	const struct inet_connection_sock *connection = &socket->tcp.inet_conn;
	struct stalled out = {
		.local_port = common->skc_num,
		.peer_port = bpf_ntohs(common->skc_dport),
		.snd_una = socket->tcp.snd_una,
		.snd_nxt = socket->tcp.snd_nxt,
		.retransmits = connection->icsk_retransmits,
		.backoff = connection->icsk_backoff,
		.state = common->skc_state,
	};
	int is_in_flight = out.snd_una != out.snd_nxt;
	int is_unsent = !is_in_flight && out.backoff && socket->tcp.write_seq != out.snd_nxt;
	if (!may_wait(out.state) || (!is_in_flight && !is_unsent))
		return 0;
	bpf_probe_read_kernel(&out.ulids.local, sizeof(out.ulids.local), &common->skc_v6_rcv_saddr);
	bpf_probe_read_kernel(&out.ulids.peer, sizeof(out.ulids.peer), &common->skc_v6_daddr);
	const __u8 *how = bpf_map_lookup_elem(&wanted, &out.ulids);
	if (!how)
		return 0;
	if (is_unsent && *how == WANTED_SENDING)
		send_now(common);
	else if (!is_unsent && wants_errors(&connection->icsk_inet))
		return 0;
	bpf_seq_write(ctx->meta->seq, &out, sizeof(out));
	return 0;
}
