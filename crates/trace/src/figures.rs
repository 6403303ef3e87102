//! Reads and writes the file with the figures of a replay. A replay writes the file beside its
//! trace, and the advice reads it.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::output;
use crate::profile::TraceProfile;
use crate::replay::Replayed;

/// Returns the path of the file with the figures of a trace.
pub fn path(trace: &Path) -> PathBuf {
    let mut name = trace.as_os_str().to_owned();
    name.push(".replay.json");
    name.into()
}

/// Checks that [`keep`] can write the figures of a trace, without changing any file.
///
/// # Errors
///
/// Returns an error if the file or its directory cannot be written, or if the file exists and was
/// not written by a replay.
pub fn check(trace: &Path) -> io::Result<()> {
    let out = path(trace);
    refuse_foreign(&out)?;
    output::check(&out)
}

/// Returns an error if `out` has contents that cannot be read, or that no replay wrote. Accepts an
/// empty file, a missing file, and a path to something other than a regular file.
fn refuse_foreign(out: &Path) -> io::Result<()> {
    if !fs::metadata(out).is_ok_and(|found| found.is_file() && found.len() > 0) {
        return Ok(());
    }
    let bytes = output::named(out, fs::read(out))?;
    if serde_json::from_slice::<Replayed>(&bytes).is_ok() {
        return Ok(());
    }
    let why = "the replay writes its figures there, but no replay wrote this file: rename or remove it";
    output::named(out, Err(io::Error::new(io::ErrorKind::AlreadyExists, why)))
}

/// Writes the figures of a trace. Returns the path of the file. If the write fails, an existing
/// file stays unchanged.
///
/// # Errors
///
/// Returns an error if the file cannot be written, or if it exists and was not written by a replay.
pub fn keep(trace: &Path, figures: &Replayed) -> io::Result<PathBuf> {
    let out = path(trace);
    refuse_foreign(&out)?;
    output::replace(&out, &(serde_json::to_string_pretty(figures)? + "\n"))?;
    Ok(out)
}

/// Returns the figures of an earlier replay of the trace at `trace`, whose profile is `profile`, or
/// `None` if the file of figures cannot be read. If that file is damaged or contains control
/// characters, or if its command or operations differ from the trace's, prints a note and returns
/// `None`. Modification times do not matter.
pub fn of(trace: &Path, profile: &TraceProfile) -> Option<Replayed> {
    let figures = path(trace);
    let text = fs::read_to_string(&figures).ok()?;
    match usable(&text, profile) {
        Ok(replayed) => Some(replayed),
        Err(why) => {
            output::note(&format!("note: {} is not used: {why}", figures.display()));
            None
        }
    }
}

fn usable(text: &str, profile: &TraceProfile) -> Result<Replayed, String> {
    let figures: Replayed = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if figures.command != profile.command {
        return Err(format!("it is about another command, not about `{}`", profile.command));
    }
    if figures.digest != profile.digest.to_string() {
        return Err("it is about another recording of the command; replay this one".to_owned());
    }
    // A terminal would obey control characters, which no replay writes.
    let names = figures.rows.iter().flat_map(|row| [&row.key, &row.name]);
    let left_out = figures.left_out.iter().flat_map(|(key, why)| [key, why]);
    if names.chain(left_out).chain(&figures.notes).any(|said| said.contains(char::is_control)) {
        return Err("it has control characters".to_owned());
    }
    Ok(figures)
}
