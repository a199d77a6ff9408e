//! Filters in the kernel that choose the packets of a socket, such as by the types of Shim6 messages.

use std::io;
use std::os::fd::AsFd;

use crate::shim6::Queue;
use crate::socket::set_option;

/// Attaches a program of the classic packet filter, which decides which packets a socket gets.
///
/// # Errors
/// The kernel refuses the program.
pub fn attach(fd: &impl AsFd, program: &mut [libc::sock_filter]) -> io::Result<()> {
    let filter = libc::sock_fprog {
        len: libc::c_ushort::try_from(program.len()).map_err(io::Error::other)?,
        filter: program.as_mut_ptr(),
    };
    // The kernel copies the program.
    set_option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
}

/// Program that loads the octet with the P bit and the type. The kernel drops packets that are too short. A payload
/// packet has the P bit, so its octet is 128 or more.
pub(crate) const fn program(queue: Queue) -> [libc::sock_filter; 5] {
    let (of_contexts, others) = match queue {
        Queue::Established => (ALL, NONE),
        Queue::Strangers => (NONE, ALL),
    };
    [
        instruction(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, TYPE_AT, 0, 0),
        // Below 64, or from 128 on: jump to the last instruction.
        instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 64, 0, 2),
        instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 128, 1, 0),
        instruction(libc::BPF_RET | libc::BPF_K, of_contexts, 0, 0),
        instruction(libc::BPF_RET | libc::BPF_K, others, 0, 0),
    ]
}

/// Makes an instruction: `code` is a sum of `BPF_*`, and `jt` and `jf` are the instructions to skip if a comparison with `k`
/// is true or false.
#[allow(clippy::cast_possible_truncation, reason = "codes of instructions have 16 bits")]
#[must_use]
pub const fn instruction(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// Offset of the octet with the type in a Shim6 header (RFC 5533 s5.1).
const TYPE_AT: u32 = 2;
/// Number of octets of the packet to pass.
pub const ALL: u32 = u32::MAX;
/// Result of a program that drops the packet.
pub const NONE: u32 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    /// Result of the program for an octet, computed instruction by instruction.
    fn passes(queue: Queue, octet: u8) -> bool {
        let program = program(queue);
        let mut at = 1;
        loop {
            let libc::sock_filter { code, jt, jf, k } = program[at];
            if u32::from(code) == libc::BPF_RET | libc::BPF_K {
                return k == ALL;
            }
            at += 1 + usize::from(if u32::from(octet) >= k { jt } else { jf });
        }
    }

    #[test]
    fn every_type_goes_to_one_of_the_two_sockets() {
        for octet in 0..=u8::MAX {
            let is_of_context = (64..128).contains(&octet);
            assert_eq!(passes(Queue::Established, octet), is_of_context, "{octet}");
            assert_eq!(passes(Queue::Strangers, octet), !is_of_context, "{octet}");
        }
    }
}
