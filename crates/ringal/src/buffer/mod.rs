//! Buffers: the handles that a ring returns.
//!
//! A handle contains a pointer to its bytes, its lengths, and a pointer to the store's header. The
//! pointer to the bytes may access the whole store, so code reaches the guard through it.
//!
//! # Invariant
//! * **B1** A handle's region is taken, and only this handle accesses it. The handles of a frozen
//!   buffer share the region and only read it. The region has the length that `region_of` computes
//!   for `cap` bytes or elements, and the first `len` of them are initialised.

mod fixed;
mod frozen;
mod generic;

pub use fixed::FixedBufMut;
pub use frozen::FixedBuf;
pub use generic::GenericBufMut;
