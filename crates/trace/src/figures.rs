//! The file with the figures of a replay. A replay writes the file beside its trace, and the advice
//! reads it.

use std::path::{Path, PathBuf};
use std::{fs, io};

use ephemera_recorder::Trace;
use serde::{Deserialize, Serialize};

use crate::replay::{Digest, Replayed};

/// The contents of a file with figures.
#[derive(Debug, Serialize, Deserialize)]
struct FiguresFile {
    /// The digest of the trace's operations. Older files have none.
    #[serde(default)]
    digest: String,
    #[serde(flatten)]
    figures: Replayed,
}

/// Returns the path of the file with the figures of a trace.
fn path(trace: &Path) -> PathBuf {
    let mut name = trace.as_os_str().to_owned();
    name.push(".replay.json");
    name.into()
}

/// Writes the figures of a trace with this digest. Returns the path of the file.
///
/// # Errors
///
/// Returns an error if the file cannot be written.
pub fn keep(trace: &Path, digest: Digest, figures: Replayed) -> io::Result<PathBuf> {
    let out = path(trace);
    let kept = FiguresFile { digest: digest.to_string(), figures };
    let told = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", out.display()));
    fs::write(&out, serde_json::to_string_pretty(&kept)? + "\n").map_err(told)?;
    Ok(out)
}

/// Returns the figures of an earlier replay of this trace; `None` if there are none, or if their
/// command or operations differ from the trace's. The times of the files do not matter.
pub fn of(path_of_trace: &Path, trace: &Trace) -> Option<Replayed> {
    let figures = path(path_of_trace);
    let text = fs::read_to_string(&figures).ok()?;
    match usable(&text, trace) {
        Ok(replayed) => Some(replayed),
        Err(why) => {
            eprintln!("note: {} is not used: {why}", figures.display());
            None
        }
    }
}

fn usable(text: &str, trace: &Trace) -> Result<Replayed, String> {
    let FiguresFile { digest, figures } = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if figures.command != trace.command {
        return Err(format!("it is about another command, not about `{}`", trace.command));
    }
    let found = Digest::of(trace).map_err(|error| error.to_string())?;
    if digest != found.to_string() {
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
