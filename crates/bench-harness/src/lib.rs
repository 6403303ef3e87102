//! Compares allocators.
