//! Ring of chunks for memory that does not live long.
#![no_std]
