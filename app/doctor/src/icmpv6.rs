/// ICMPv6 type of Destination Unreachable (RFC 4443 s3.1).
pub(crate) const DESTINATION_UNREACHABLE: u8 = 1;
/// ICMPv6 type of Packet Too Big (RFC 4443 s3.2).
pub(crate) const PACKET_TOO_BIG: u8 = 2;
/// ICMPv6 type of Parameter Problem (RFC 4443 s3.4).
pub(crate) const PARAMETER_PROBLEM: u8 = 4;
/// ICMPv6 type of Echo Request (RFC 4443 s4.1).
pub(crate) const ECHO_REQUEST: u8 = 128;
/// ICMPv6 type of Echo Reply (RFC 4443 s4.2).
pub(crate) const ECHO_REPLY: u8 = 129;
