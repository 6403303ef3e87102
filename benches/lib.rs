//! Criterion benches over the workloads of the harness; see the bench targets beside this file.
