//! Pages of slots with a bitfield: a pool of one type that threads can share.
#![no_std]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;
