/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reads and describes the headers of ILNP packets. */
#ifndef MOORLINE_ILNP_PACKET_H
#define MOORLINE_ILNP_PACKET_H

#include "../label.h"
#include "maps.h"

#include "../drop.h"

/* RFC 8200 s5: every path takes this. */
#define MIN_MTU 1280
/* ROOM_IN_TCP of the contract, octets. */
#define ROOM_IN_TCP 40

#define NONCE_OPTION 0x8b
#define OPTION_PAD1 0
#define OPTION_PADN 1
/* Bits of an option type. If a node does not know the option: 0 means that it skips the option, any other value
 * that it discards the packet.
 */
#define OPTION_REFUSED 0xc0
/* Option of RFC 4727. The first octets of its contents tell our experiment from others; it holds the number of
 * a Locator Update.
 */
#define OPTION_EXPERIMENTAL 0x1e
#define SEQUENCE_LEN 6
/* Options in one header, each octet of Pad1 counted: as in proto/wire. */
#define MAX_OPTIONS 16

#define ICMP_ECHO_REQUEST 128
#define ICMP_ECHO_REPLY 129
#define ICMP_LOCATOR_UPDATE 156
/* Identifier and Sequence Number of Echo Requests of the core: ECHO_MARK of proto/wire. */
#define ICMP_ECHO_MARK 0x4d4c6e6f
#define ICMP_UNRECOGNIZED_OPTION 2
#define ICMP_ERROR_LEN 8
/* Offset of our Nonce option: behind the IPv6 header and two octets. */
#define NONCE_AT 42

#define TCP_FLAGS_AT 13
#define PROTOCOL_DCCP 33
#define PROTOCOL_UDPLITE 136

/* The first octets of an error; the quote is behind them. */
struct icmp_error {
	__u8 type;
	__u8 code;
	__be16 checksum;
	/* MTU or pointer. */
	__be32 info;
};

_Static_assert(sizeof(struct icmp_error) == ICMP_ERROR_LEN, "icmp_error");

/* The upper layer of a packet, behind its extension headers. */
struct ilnp_upper {
	/* Offset from the IPv6 header; 0: the packet has no upper layer, as in a later fragment. */
	__u32 at;
	__u8 protocol;
	/* Type of an ICMPv6 message, if the packet has it. */
	__u8 type;
	__u8 is_icmp;
	/* A TCP segment without SYN: only a socket connected to its sender can use it. */
	__u8 is_within_tcp;
	/* Ports in host order, 0: none. */
	__u16 source;
	__u16 destination;
};

/* A Destination Options header with only a short nonce in it, read as two words. */
struct short_nonce {
	__u8 next;
	__u8 units;
	__u8 option;
	__u8 option_len;
	__u8 nonce[4];
} __attribute__((aligned(4)));

_Static_assert(sizeof(struct short_nonce) == 8, "short_nonce");

/* A Destination Options header, and what the extension headers of the packet lead to. */
struct ilnp_options {
	/* Offset of the header from the IPv6 header. */
	__u32 at;
	__u32 len;
	/* Offset of an ICMPv6 message behind all extension headers, from the IPv6 header; 0: there is none. */
	__u32 icmp_at;
	/* Offset of the Nonce option from the header. */
	__u32 nonce_at;
	struct nonce nonce;
	__u8 next;
	/* The header has options that are neither ours nor padding. */
	__u8 has_others;
	__u8 has_sequence;
	/* A stack that does not know one of the other options discards the packet (RFC 8200 s4.2). */
	__u8 is_refused;
};

static __always_inline bool l64_is_link_local(__u64 l64)
{
	return bpf_be64_to_cpu(l64) >> 54 == 0xfe80 >> 6;
}

static __always_inline bool l64_is_global(__u64 l64)
{
	__u64 upper = bpf_be64_to_cpu(l64);

	return upper && upper >> 56 != 0xff && !l64_is_link_local(l64);
}

/* Whether ILNP may handle a packet. False also for packets that Shim6 has made. */
static __always_inline bool is_ilnp(const struct ip6 *ip6)
{
	return ip6->next != NEXT_SHIM6 && l64_is_global(ip6->source.word[0]) &&
	       l64_is_global(ip6->destination.word[0]);
}

static __always_inline bool load_ilnp(struct __sk_buff *skb, __u32 l2, struct ip6 *ip6)
{
	return load_ip6(skb, l2, ip6) && is_ilnp(ip6);
}

/* Whether the next header is TCP or UDP, which nearly all packets have right behind the IPv6 header. */
static __always_inline bool is_common(__u8 next)
{
	return next == IPPROTO_TCP || next == IPPROTO_UDP;
}

static __always_inline bool has_transport_checksum(__u8 protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == PROTOCOL_DCCP ||
	       protocol == PROTOCOL_UDPLITE;
}

struct tcp_begin {
	__be16 source;
	__be16 destination;
	__u8 rest[TCP_FLAGS_AT - 4];
	__u8 flags;
};

_Static_assert(sizeof(struct tcp_begin) == 14, "tcp_begin");

/* LOAD within its limit, and a call of the kernel beyond it. */
#define LOAD_FAR(skb, place, to)                                                                               \
	((place) <= MAX_PLACE ? LOAD(skb, place, to) : !bpf_skb_load_bytes(skb, place, to, sizeof(*(to))))

static __always_inline void look_into_upper(struct __sk_buff *skb, __u32 begin, struct ilnp_upper *upper)
{
	struct tcp_begin tcp;
	struct ports ports;

	if (upper->protocol == IPPROTO_TCP && LOAD_FAR(skb, begin, &tcp)) {
		upper->source = bpf_ntohs(tcp.source);
		upper->destination = bpf_ntohs(tcp.destination);
		upper->is_within_tcp = !(tcp.flags & TCP_SYN);
		return;
	}
	if (upper->protocol == NEXT_ICMPV6 && !bpf_skb_load_bytes(skb, begin, &upper->type, 1))
		upper->is_icmp = 1;
	if (has_transport_checksum(upper->protocol) && LOAD_FAR(skb, begin, &ports)) {
		upper->source = bpf_ntohs(ports.source);
		upper->destination = bpf_ntohs(ports.destination);
	}
}

/* Finds the upper layer behind up to MAX_CHAIN extension headers. The first of them is `next` and begins at
 * `at`, from the IPv6 header on. Always returns 0. Not static, so that it has a stack of its own.
 */
__noinline int find_upper(struct __sk_buff *skb, __u32 l2, __u32 next, __u32 at, struct ilnp_upper *upper)
{
	__u32 offset;

	if (!upper)
		return 0;
	*upper = (struct ilnp_upper){ .protocol = next };
	offset = skip_extensions(skb, l2 + at, &upper->protocol);
	if (!offset)
		return 0;
	upper->at = offset - l2;
	look_into_upper(skb, offset, upper);
	return 0;
}

static __always_inline bool is_discovery(const struct ilnp_upper *upper)
{
	return upper->is_icmp && upper->type >= ND_FIRST && upper->type <= ND_LAST;
}

/* Whether the upper layer is an echo message (RFC 4443 s4). It is no control message: it says nothing about the
 * session.
 */
static __always_inline bool is_echo(const struct ilnp_upper *upper)
{
	return upper->is_icmp && (upper->type == ICMP_ECHO_REQUEST || upper->type == ICMP_ECHO_REPLY);
}

static __always_inline int take_nonce(struct __sk_buff *skb, __u32 offset, __u32 len, __u32 at,
				      struct ilnp_options *options)
{
	struct nonce *nonce = &options->nonce;

	if (len != 4 && len != 12)
		return -1 - DROP_BAD_LENGTH;
	if (nonce->len)
		return -1 - DROP_DUPLICATE_OPTION;
	nonce->len = len;
	options->nonce_at = at;
	if (len == 4)
		return bpf_skb_load_bytes(skb, offset, nonce->octet, 4) ? -1 - DROP_TRUNCATED : 0;
	return bpf_skb_load_bytes(skb, offset, nonce->octet, 12) ? -1 - DROP_TRUNCATED : 0;
}

static __always_inline bool is_sequence(struct __sk_buff *skb, __u32 offset, __u8 kind, __u32 len)
{
	__u8 magic[2];

	return kind == OPTION_EXPERIMENTAL && len == SEQUENCE_LEN &&
	       !bpf_skb_load_bytes(skb, offset, magic, sizeof(magic)) && magic[0] == 'M' && magic[1] == 'L';
}

/* Takes the option at `at` of the header, whose contents are at `offset` of the packet. Returns 0, or -1 -
 * reason.
 */
static __always_inline int take_option(struct __sk_buff *skb, __u32 offset, __u8 kind, __u32 len, __u32 at,
				       struct ilnp_options *options)
{
	if (kind == NONCE_OPTION)
		return take_nonce(skb, offset, len, at, options);
	if (is_sequence(skb, offset, kind, len)) {
		if (options->has_sequence)
			return -1 - DROP_DUPLICATE_OPTION;
		options->has_sequence = 1;
	} else if (kind != OPTION_PADN) {
		options->has_others = 1;
		if (kind & OPTION_REFUSED)
			options->is_refused = 1;
	}
	return 0;
}

/* Reads the header that nearly all nonces come in, with one load. `octets` is the length of the packet behind
 * the IPv6 header.
 */
static __always_inline bool take_short_nonce(struct __sk_buff *skb, __u32 l2, __u32 octets,
					     struct ilnp_options *options)
{
	__u32 begin = l2 + sizeof(struct ip6);
	struct short_nonce header;

	if (octets < sizeof(header) || !LOAD_FAR(skb, begin, &header) || header.units ||
	    header.option != NONCE_OPTION || header.option_len != sizeof(header.nonce))
		return false;
	/* Another header behind this one may hold a second nonce. */
	if (is_extension(header.next))
		return false;
	options->next = header.next;
	options->at = sizeof(struct ip6);
	options->len = sizeof(header);
	options->icmp_at = header.next == NEXT_ICMPV6 ? options->at + options->len : 0;
	options->nonce_at = offsetof(struct short_nonce, option);
	options->nonce.len = sizeof(header.nonce);
	__builtin_memcpy(options->nonce.octet, header.nonce, sizeof(header.nonce));
	return true;
}

/* Reads the Destination Options header that begins at `begin`, `octets` before the end of the packet. Octets
 * behind the packet are padding of the link. Returns 0, or -1 - reason. Not static, so that the verifier checks
 * it once.
 */
//= rfc6744#2-1 rfc6744#2-6
__noinline int load_options(struct __sk_buff *skb, __u32 begin, __u32 octets, struct ilnp_options *options)
{
	__u8 header[2];
	__u32 at = 2;
	__u32 len;
	int status;

	if (!options)
		return -1 - DROP_TRUNCATED;
	__builtin_memset(options, 0, sizeof(*options));
	if (octets < sizeof(header) || bpf_skb_load_bytes(skb, begin, header, sizeof(header)))
		return -1 - DROP_TRUNCATED;
	len = (header[1] + 1) * 8;
	if (octets < len || skb->len < begin + len)
		return -1 - DROP_TRUNCATED;
	options->next = header[0];
	options->len = len;
	for (int i = 0; i < MAX_OPTIONS; i++) {
		if (at >= len)
			return 0;
		if (bpf_skb_load_bytes(skb, begin + at, header, 1))
			return -1 - DROP_TRUNCATED;
		if (header[0] == OPTION_PAD1) {
			at++;
			continue;
		}
		if (at + 1 >= len || bpf_skb_load_bytes(skb, begin + at, header, 2) || at + 2 + header[1] > len)
			return -1 - DROP_BAD_LENGTH;
		status = take_option(skb, begin + at + 2, header[0], header[1], at, options);
		if (status)
			return status;
		at += 2 + header[1];
	}
	return at >= len ? 0 : -1 - DROP_TOO_MANY;
}

/* Finds a Destination Options header among up to MAX_CHAIN extension headers: the header with the nonce, or the
 * last one if there is no nonce. Two nonces are an error, wherever they are. Returns 0, or -1 - reason. Not
 * static, so that it has a stack of its own.
 */
//= rfc6744#2-1
__noinline int find_options(struct __sk_buff *skb, __u32 l2, __u32 octets, __u32 first, struct ilnp_options *options)
{
	struct ilnp_options one = {};
	__u8 header[4];
	__u32 next = first;
	__u32 at = 0;
	int status;

	if (!options)
		return -1 - DROP_TRUNCATED;
	__builtin_memset(options, 0, sizeof(*options));
	for (int i = 0; i < MAX_CHAIN; i++) {
		__u32 begin = l2 + sizeof(struct ip6) + at;
		__u32 kind = next;

		if (kind == NEXT_DESTINATION) {
			status = load_options(skb, begin, octets > at ? octets - at : 0, &one);
			if (status)
				return status;
			if (options->nonce.len && one.nonce.len)
				return -1 - DROP_DUPLICATE_OPTION;
			if (!options->nonce.len) {
				*options = one;
				options->at = sizeof(struct ip6) + at;
			}
			next = one.next;
			at += one.len;
			continue;
		}
		if (!is_extension(kind) || at + sizeof(header) > octets ||
		    bpf_skb_load_bytes(skb, begin, header, sizeof(header)))
			break;
		next = header[0];
		/* A later fragment has no upper layer behind its header. */
		if (kind == NEXT_FRAGMENT && (header[2] || header[3] >> 3))
			return 0;
		at += kind == NEXT_FRAGMENT ? 8 : (header[1] + 1) * 8;
	}
	options->icmp_at = next == NEXT_ICMPV6 ? sizeof(struct ip6) + at : 0;
	return 0;
}

enum cut {
	NOT_CUT,
	FIRST_FRAGMENT,
	LATER_FRAGMENT,
};

/* RFC 8200 s4.5. Other extension headers are at least as long. */
struct fragment_header {
	__u8 next;
	__u8 units;
	__be16 place;
	__be32 number;
};

_Static_assert(sizeof(struct fragment_header) == 8, "fragment_header");

/* Finds a Fragment header among the first MAX_CHAIN extension headers, and its Identification. Returns an enum cut; a
 * packet with a Fragment header that is whole is not cut. Not static, so that it has a stack of its own.
 */
__noinline int find_fragment(struct __sk_buff *skb, __u32 l2, __u32 first, struct fragmented *packet)
{
	__u32 offset = l2 + sizeof(struct ip6);
	struct fragment_header header;
	__u32 kind = first;

	if (!packet)
		return NOT_CUT;
	for (int i = 0; i < MAX_CHAIN; i++) {
		if (!is_extension(kind) || bpf_skb_load_bytes(skb, offset, &header, sizeof(header)))
			return NOT_CUT;
		if (kind == NEXT_FRAGMENT) {
			packet->number = header.number;
			if (bpf_ntohs(header.place) >> 3)
				return LATER_FRAGMENT;
			return bpf_ntohs(header.place) & 1 ? FIRST_FRAGMENT : NOT_CUT;
		}
		kind = header.next;
		offset += (header.units + 1) * 8;
	}
	return NOT_CUT;
}

/* Returns the offset of an ICMPv6 message, behind the IPv6 header or its extension headers, from the IPv6
 * header on. Returns 0 if there is none, or if the packet is cut off. `options` are the options of the packet.
 */
static __always_inline __u32 message_at(struct __sk_buff *skb, __u32 l2, const struct ip6 *ip6,
					const struct ilnp_options *options)
{
	__u32 end = sizeof(*ip6) + bpf_ntohs(ip6->payload_len);
	__u32 at = ip6->next == NEXT_ICMPV6 ? sizeof(*ip6) : options->icmp_at;

	return skb->len >= l2 + end && at < end ? at : 0;
}

/* Whether the message is an echo message of this type that belongs to the core. */
static __always_inline bool is_echo_of_core(struct __sk_buff *skb, __u32 l2, const struct ip6 *ip6,
					    __u32 message, __u8 type)
{
	struct icmp_error begin;

	if (message + sizeof(begin) > sizeof(*ip6) + bpf_ntohs(ip6->payload_len) ||
	    bpf_skb_load_bytes(skb, l2 + message, &begin, sizeof(begin)))
		return false;
	return begin.type == type && !begin.code && begin.info == bpf_htonl(ICMP_ECHO_MARK);
}

/* Whether the message is a Locator Update, a message of the handshake, or an echo message of type `echo` that
 * belongs to the core.
 */
static __always_inline bool is_control(struct __sk_buff *skb, __u32 l2, const struct ip6 *ip6, __u32 message,
				       __u8 echo)
{
	__u8 type;

	if (!message || bpf_skb_load_bytes(skb, l2 + message, &type, 1))
		return false;
	if (type == echo)
		return is_echo_of_core(skb, l2, ip6, message, echo);
	return type == ICMP_LOCATOR_UPDATE || type == initiator_type || type == responder_type;
}

/* Whether the message is an error about our nonce. It is not for the sockets: they did not send the nonce and
 * would give up.
 */
static __always_inline bool is_about_nonce(struct __sk_buff *skb, __u32 l2, const struct ip6 *ip6,
					   __u32 message)
{
	struct icmp_error error;
	__u32 quoted = message + ICMP_ERROR_LEN + NONCE_AT;
	__u8 option;

	if (!message || quoted >= sizeof(*ip6) + bpf_ntohs(ip6->payload_len) ||
	    bpf_skb_load_bytes(skb, l2 + message, &error, sizeof(error)))
		return false;
	if (error.type != ICMP_PARAMETER_PROBLEM || error.code != ICMP_UNRECOGNIZED_OPTION ||
	    error.info != bpf_htonl(NONCE_AT))
		return false;
	return !bpf_skb_load_bytes(skb, l2 + quoted, &option, 1) && option == NONCE_OPTION;
}

#endif
