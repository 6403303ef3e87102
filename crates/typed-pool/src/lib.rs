//! A free list per type, without the lifetime trap: objects outlive the thread that made them.
#![no_std]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;
