//! Inspects the file of a program: whether a library can be preloaded into it, and which allocator
//! it contains.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The size in bytes above which a file is not searched for an allocator.
const SEARCHED: u64 = 512 << 20;

/// The number of bytes that are read at the start of a file. They include the ELF header and the
/// program headers.
const HEADS: u64 = 64 << 10;

/// The names of allocators, each with a text that a program with that allocator contains, even if
/// the program is stripped.
const TEXTS: [(&str, &[u8]); 5] = [
    ("jemalloc", b"<jemalloc>"),
    ("mimalloc", b"mimalloc: "),
    ("snmalloc", b"snmalloc"),
    ("tcmalloc", b"tcmalloc"),
    ("typed-pool", b"typed-pool"),
];

/// Returns the file that a shell with the search path `path` runs for `name`, or `None` if the
/// search finds no program.
pub(super) fn find(name: &OsStr, path: Option<&OsStr>) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(name.into());
    }
    env::split_paths(path?).map(|dir| dir.join(name)).find(|file| {
        fs::metadata(file).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    })
}

/// Returns why a library cannot be preloaded into a program. Returns `None` if the file shows no
/// reason.
pub(super) fn obstacle(file: &Path) -> Option<&'static str> {
    let mut head = Vec::new();
    File::open(file).ok()?.take(HEADS).read_to_end(&mut head).ok()?;
    if let Some(script) = head.strip_prefix(b"#!") {
        let line = script.split(|byte| *byte == b'\n').next()?;
        let interpreter = line.split(|byte| byte.is_ascii_whitespace()).find(|word| !word.is_empty())?;
        let interpreter = Path::new(OsStr::from_bytes(interpreter));
        // The search follows one interpreter only, because a chain of scripts could be circular.
        return binary(&fs::read(interpreter).ok()?);
    }
    if fs::metadata(file).is_ok_and(|data| data.permissions().mode() & 0o6000 != 0) {
        return Some(
            "it is set-user-id or set-group-id, and the loader preloads nothing into such a program",
        );
    }
    binary(&head)
}

/// Returns why a library cannot be preloaded into an ELF file that begins with `head`. Returns
/// `None` if the head shows no reason, or does not belong to an ELF file.
fn binary(head: &[u8]) -> Option<&'static str> {
    /// The type of the program header that names the dynamic loader.
    const INTERPRETER: u64 = 3;
    let number = |at: usize, bytes: usize| -> Option<u64> {
        let bytes = head.get(at..at.checked_add(bytes)?)?;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    };
    if !head.starts_with(b"\x7fELF") {
        return None;
    }
    let own = fs::read("/proc/self/exe").ok()?;
    // These bytes hold the class, the byte order, and the machine.
    if head.get(4..6) != own.get(4..6) || head.get(18..20) != own.get(18..20) {
        return Some("it is built for another kind of processor than the recorder, or for 32 bits");
    }
    let (first, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    for index in 0..count {
        let at = usize::try_from(first.checked_add(index * size)?).ok()?;
        if number(at, 4)? == INTERPRETER {
            return None;
        }
    }
    Some("it is linked statically, so no library can be preloaded")
}

/// Returns the names of the allocators that the texts in a program's file reveal. Does not search a
/// file that is larger than [`SEARCHED`] or unreadable.
pub(super) fn allocators_in(file: &Path) -> Vec<&'static str> {
    if fs::metadata(file).is_ok_and(|data| data.len() > SEARCHED) {
        return Vec::new();
    }
    let bytes = fs::read(file).unwrap_or_default();
    let holds = |text: &[u8]| {
        let first = |rest: &[u8]| rest.iter().position(|byte| *byte == text[0]);
        let mut rest = &bytes[..];
        while let Some(at) = first(rest) {
            if rest[at..].starts_with(text) {
                return true;
            }
            rest = &rest[at + 1..];
        }
        false
    };
    TEXTS.into_iter().filter(|(_, text)| holds(text)).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        let path = env::var_os("PATH");
        let sh = find(OsStr::new("sh"), path.as_deref()).unwrap();
        assert!(sh.is_absolute() && sh.ends_with("sh"));
        assert_eq!(find(OsStr::new("./sh"), path.as_deref()), Some("./sh".into()));
        assert_eq!(find(OsStr::new("no-such-program-here"), path.as_deref()), None);
        assert_eq!(obstacle(&sh), None);
        assert_eq!(obstacle(Path::new("/no/such/file")), None);
    }

    #[test]
    fn a_program_without_a_loader_is_linked_statically() {
        let mut head = fs::read("/proc/self/exe").unwrap();
        head.truncate(HEADS as usize);
        assert_eq!(binary(&head), None, "this one is linked dynamically");
        let count = usize::from(head[56]);
        for index in 0..count {
            let at = usize::from(head[32]) + index * usize::from(head[54]);
            if head[at] == 3 {
                head[at] = 0;
            }
        }
        assert!(binary(&head).unwrap().contains("statically"));
        head[18] ^= 1;
        assert!(binary(&head).unwrap().contains("processor"));
    }

    #[test]
    fn an_allocator_is_recognised_by_its_texts() {
        let file = env::temp_dir().join(format!("ephemera-allocators-in-{}", std::process::id()));
        fs::write(&file, b"\0<<jemalloc>: <jemalloc>: Error\0tcmall\0crates/typed-pool/src").unwrap();
        let found = allocators_in(&file);
        fs::remove_file(&file).unwrap();
        assert_eq!(found, ["jemalloc", "typed-pool"]);
        assert!(allocators_in(Path::new("/no/such/file")).is_empty());
    }
}
