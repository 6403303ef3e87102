//! Tests of commands: their quoting, their output, and their time limit.

use core::time::Duration;
use std::path::Path;

use super::{Cmd, keeping, quoted};

#[test]
fn words_are_quoted_only_if_a_shell_needs_it() {
    assert_eq!(quoted("--profile=loom"), "--profile=loom");
    assert_eq!(quoted("--cfg a=\"b\""), "'--cfg a=\"b\"'");
    assert_eq!(quoted("it's"), r"'it'\''s'");
    assert_eq!(quoted(""), "''");
}

#[test]
fn an_appended_value_follows_that_of_an_earlier_call() {
    const NAME: &str = "EPHEMERA_FLAGS_OF_A_TEST";
    let command = Cmd::new("cargo", Path::new(".")).env_append(NAME, "-a").env_append(NAME, "-b");
    assert_eq!(command.clone().shown(), format!("{NAME}='-a -b' cargo"));
    assert_eq!(command.env(NAME, "-c").shown(), format!("{NAME}=-c cargo"));
}

#[test]
fn a_captured_command_returns_its_output_and_status() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let good = Cmd::new(&cargo, Path::new(".")).arg("--version").quiet("asking cargo").unwrap();
    assert!(good.success);
    assert!(good.text.starts_with("cargo "), "{}", good.text);
    let bad = Cmd::new(&cargo, Path::new(".")).arg("no-such-command").quiet("asking cargo").unwrap();
    assert!(!bad.success);
    assert!(bad.text.contains("no-such-command"), "{}", bad.text);
}

#[cfg(unix)]
#[test]
fn a_command_beyond_its_limit_is_stopped_and_its_output_printed() {
    let dir = Path::new(".");
    let long = Cmd::new("sh", dir).args(["-c", "echo begun; sleep 600"]).within(Duration::from_secs(2));
    let (result, kept) = keeping(|| long.quiet("sleeping"));
    let said = result.unwrap_err().to_string();
    assert!(said.contains("ran longer than"), "{said}");
    assert_eq!(kept.trim(), "begun");
}

#[test]
fn the_error_for_a_missing_program_names_it() {
    let said = Cmd::new("no-such-program-here", Path::new(".")).run().unwrap_err().to_string();
    assert!(said.contains("no-such-program-here"), "{said}");
}
