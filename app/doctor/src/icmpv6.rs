/// Type (RFC 4443 s3.1).
pub(crate) const DESTINATION_UNREACHABLE: u8 = 1;
/// Type (RFC 4443 s3.2).
pub(crate) const PACKET_TOO_BIG: u8 = 2;
/// Type (RFC 4443 s3.4).
pub(crate) const PARAMETER_PROBLEM: u8 = 4;
/// Type (RFC 4443 s4.1).
pub(crate) const ECHO_REQUEST: u8 = 128;
/// Type (RFC 4443 s4.2).
pub(crate) const ECHO_REPLY: u8 = 129;
