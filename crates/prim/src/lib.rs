//! The floor of the ephemera allocators.
#![no_std]
