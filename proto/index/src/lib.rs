//! Tables for hosts with very many of something: contexts, correspondents.
//!
//! Whoever handles a packet has little to compute, and waits for memory: each line of it that is in no cache
//! takes as long as some hundreds of instructions. So what counts is how many lines a look-up needs, how many
//! of them one after the other, and that nothing has to be moved when a table grows.
//!
//! [`Index`] finds slots by hashes. All that belongs to a hash lies in one line of 64 octets, seven cells of
//! a hash and a slot, and the line can be asked for ([`Index::touch`]) before its content is needed. It is a
//! linear hash table (Litwin, 1980): each insertion beyond a filling of one half splits one line into two, so
//! that there is no moment in which all of it is moved. A line that is full goes on in another one, which is
//! so for few of them.
//!
//! [`Segments`] is a vector in pieces, each twice as long as the one before, for the same reason: to grow, it
//! allocates the next piece and copies nothing.
//!
//! [`Deadlines`] says which of very many slots is due first. An ordered set says so too, but with four times the
//! memory, and each change walks down a tree that is in no cache; here it is a few entries.
//!
//! [`FloodLimit`] is for work and answers that strangers ask for, by the prefix that they say they come from, in memory that no
//! flood can fill.
//!
//! [`Ilcc`] is the correspondent cache of ILNP (RFC 6741 s5), made of the first two: bounded, and what a flood makes up goes first.
//!
//! [`Validators`] are hashes that strangers bring back, under secrets that change with time.
//!
//! What the others find is hashed by the caller, with a key of his own where peers can choose what is hashed. Nothing here
//! has an order that could be seen: an index is asked for one hash at a time, and equal deadlines come by slot.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod deadlines;
mod flood;
mod ilcc;
mod index;
mod secrets;
mod segments;

pub use deadlines::Deadlines;
pub use flood::FloodLimit;
pub use ilcc::{Class, Ilcc, Removed};
pub use index::{Candidates, Index};
pub use secrets::Validators;
pub use segments::Segments;
