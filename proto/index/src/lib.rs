//! Tables for hosts with very many entries of a kind, such as contexts or correspondents.
//!
//! The work for a packet is little computation and much waiting for memory: a line that is in no cache takes
//! as long as some hundreds of instructions. So the cost of a look-up is the number of lines that it reads,
//! and the number of those that it must read one after the other. And no operation may move a whole table
//! when it grows.
//!
//! [`Index`] finds slots by hashes. All slots of a hash are in one line of 64 octets, which has seven cells
//! of a hash and a slot. The line can be requested ([`Index::touch`]) before its content is needed. The index
//! is a linear hash table (Litwin, 1980): beyond a filling of one half, each insertion splits one line into
//! two, so the table is never moved as a whole. A line that is full continues in another line; few lines are
//! full.
//!
//! [`Segments`] is a vector in pieces, each twice as long as the one before. To grow, it allocates the next
//! piece and copies nothing.
//!
//! [`Deadlines`] tells which of very many slots is due first. An ordered set does so too, but takes four
//! times the memory, and each change walks down a tree that is in no cache. Here a change touches a few
//! entries.
//!
//! [`FloodLimit`] limits work and answers that strangers ask for, by the source prefix that they claim. No
//! flood can fill its memory. [`FairLimit`] does so by address and by the prefixes around it.
//!
//! [`FairShares`] counts entries by address, /64, /56 and /48, so that no site fills a table.
//!
//! [`Lately`] remembers very many keys for a time, by a digest each.
//!
//! [`Round`] is a walk over all slots of a table, in slices.
//!
//! [`Ilcc`] is the correspondent cache of ILNP (RFC 6741 s5), made of the first two. It is bounded, and
//! evicts invented correspondents of a flood first.
//!
//! [`Validators`] are hashes that strangers return, under secrets that change with time.
//!
//! The caller hashes the keys of an index, with a secret key if peers can choose the input. The tables show
//! no order of their own: an index answers for one hash at a time, and equal deadlines come in order of
//! slots.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod deadlines;
mod flood;
mod ilcc;
mod index;
mod lately;
mod round;
mod secrets;
mod segments;
mod shares;

pub use deadlines::Deadlines;
pub use flood::{FairLimit, FloodLimit};
pub use ilcc::{Class, Ilcc, Removed};
pub use index::{Candidates, Index};
pub use lately::Lately;
pub use round::Round;
pub use secrets::Validators;
pub use segments::Segments;
pub use shares::FairShares;
