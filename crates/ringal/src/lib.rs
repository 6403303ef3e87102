//! A ring of byte buffers in one store: taken guards are skipped, released by one store.
#![no_std]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;
