//! Tests the errors that the command `replay` reports before it measures. The harness tests whole
//! replays.

mod support;

use std::fs;
use std::path::Path;

use clap::Parser;
use ephemera_trace::replay::{Field, REFERENCE, ReplayOptions, ReplayProgram, run};
use ephemera_trace::{Trace, TraceProfile, figures};

use self::support::TestDir;

/// A program with the command `replay`.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(flatten)]
    options: ReplayOptions,
}

/// Runs a replay of the trace. The replay must fail before it calls `field`. Returns the error.
fn refused(trace: &Path) -> String {
    let arguments = Arguments::try_parse_from([Path::new("replay"), trace]).expect("a trace suffices");
    let field = |_, _: &[String]| -> Field { panic!("the trace was read") };
    run(&arguments.options, &[REFERENCE], field).expect_err("the figures cannot be kept").to_string()
}

#[test]
fn the_number_of_rounds_has_a_limit() {
    let rounds = |rounds: &str| Arguments::try_parse_from(["replay", "trace", "--rounds", rounds]);
    for few in ["1", "10000"] {
        assert!(rounds(few).is_ok(), "{few}");
    }
    for many in ["0", "10001", "4294967295", "4294967296"] {
        let said = rounds(many).expect_err("there are too few or too many").to_string();
        assert!(said.contains("--rounds"), "{said}");
    }
}

#[test]
fn a_file_of_another_program_is_not_replaced_by_figures() {
    let dir = TestDir::new("foreign");
    let trace = dir.four_threads();
    let out = figures::path(&trace);
    for text in ["my notes", "{}", "[1, 2]"] {
        fs::write(&out, text).expect("cargo's directory is writable");
        let said = refused(&trace);
        assert!(said.contains("trace.replay.json: ") && said.contains("no replay wrote this file"), "{said}");
        assert_eq!(fs::read_to_string(&out).expect("the test wrote it"), text);
    }
    fs::write(&out, "").expect("cargo's directory is writable");
    figures::check(&trace).expect("an empty file has nothing to lose");
}

#[test]
fn figures_that_cannot_be_written_are_an_error_before_the_measurement() {
    let dir = TestDir::new("unwritable");
    let trace = dir.four_threads();
    fs::create_dir(figures::path(&trace)).expect("cargo's directory is writable");
    let said = refused(&trace);
    assert!(said.contains("trace.replay.json: ") && said.contains("directory"), "{said}");
}

/// The advice computes the digest in the same pass as the profile.
#[test]
fn a_profile_has_the_digest_of_its_program() {
    let dir = TestDir::new("digest");
    let trace = Trace::open(&dir.four_threads()).expect("the test wrote it");
    let profile = TraceProfile::of(&trace, |_| ()).expect("the trace is whole");
    let program = ReplayProgram::of(&trace).expect("the trace is whole");
    assert_eq!(profile.digest, program.digest);
    assert_ne!(profile.digest, TraceProfile::default().digest);
}
