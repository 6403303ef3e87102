//! Hostile backing allocators, a naive oracle and one property suite.
