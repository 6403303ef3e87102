//! Starts a recording, and creates the file of a process.

use core::ffi::CStr;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Relaxed, Release};

use super::lease::leave;
use super::{ASKED, CLOCK, FILE, KEY, LIMIT, PATH, PROCESS, RECORDING, Recording, clocks};
use crate::error::StartError;
use crate::format::{self, FILE_HEADER, Origin, PACKET, header};
use crate::os;

/// The maximum size of a file, in bytes.
const MOST: u64 = 1 << 46;
/// The maximum length of a suffix, in bytes.
pub(super) const SUFFIX: usize = 24;
/// The maximum number of programs that one process can run and record, one after another.
const IMAGES: u32 = 10_000;

/// Whether this process has started a recording. The flag stays set when the recording ends.
static STARTED: AtomicBool = AtomicBool::new(false);

impl Recording {
    /// Creates and maps a file for this process, and writes the file's header.
    pub(super) fn open(&self, origin: Origin, limit: usize) -> Result<(), StartError> {
        let (pid, parent) = os::pids();
        self.pid.store(pid, Relaxed);
        let mut made = Err(StartError::System { call: "open", errno: libc::EEXIST });
        for image in 0..IMAGES {
            let mut suffix = [0; SUFFIX];
            let length = write_suffix(&mut suffix, pid, image);
            // SAFETY: the recording is not published, or the caller holds the lock, so no other
            // thread uses the text.
            unsafe { FILE.set(ASKED.get().to_bytes(), &suffix[..length]) };
            made = self.file.make(FILE.get());
            if !matches!(made, Err(StartError::System { errno: libc::EEXIST, .. })) {
                break;
            }
        }
        let base = made?;
        CLOCK.store(os::clock(), Relaxed);
        let mut bytes = [0; FILE_HEADER];
        let command = os::command(&mut bytes[header::COMMAND..header::START_PROCESSOR]) as u32;
        bytes[..8].copy_from_slice(&format::MAGIC);
        let words = [
            (header::VERSION, format::VERSION),
            (header::PACKET, PACKET as u32),
            (header::PID, pid),
            (header::PARENT, parent),
            (header::ORIGIN, origin as u32),
            (header::COMMAND_LENGTH, command),
        ];
        for (at, word) in words {
            bytes[at..][..4].copy_from_slice(&word.to_le_bytes());
        }
        bytes[header::CLOCK..][..8].copy_from_slice(&CLOCK.load(Relaxed).to_le_bytes());
        bytes[header::LIMIT..][..8].copy_from_slice(&(limit as u64).to_le_bytes());
        bytes[header::CLOCK_COST..][..4].copy_from_slice(&clocks::cost().to_le_bytes());
        bytes[header::START_PROCESSOR..][..8].copy_from_slice(&clocks::start().to_le_bytes());
        // SAFETY: the mapping begins with the header, and no other thread has its address yet.
        unsafe { base.copy_from_nonoverlapping(bytes.as_ptr(), FILE_HEADER) };
        // ORDERING: Release. Pairs with the Acquire in `tell_dropped`. Publishes: the header.
        self.base.store(base, Release);
        self.tell_dropped();
        Ok(())
    }
}

/// Writes `.pid`, then `.image` unless `image` is 0. Returns the length in bytes.
pub(super) fn write_suffix(out: &mut [u8; SUFFIX], pid: u32, image: u32) -> usize {
    let mut at = 0;
    for (number, wanted) in [(pid, true), (image, image > 0)] {
        if !wanted {
            continue;
        }
        out[at] = b'.';
        let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
        let mut rest = number;
        for place in (1..=digits).rev() {
            out[at + place] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        at += 1 + digits;
    }
    at
}

/// Starts recording this process into a file of at most `limit` bytes, rounded up to a multiple of
/// 4 KiB. The file's name is `path`, a dot and the process ID. If that file exists already, a dot
/// and a number follow.
///
/// # Errors
///
/// Returns an error if this process has started a recording before, if the path or the limit is
/// unsuitable, or if a call to the kernel or to the C library fails.
pub fn start(path: &CStr, limit: u64) -> Result<(), StartError> {
    launch(path.to_bytes(), limit, Origin::Call)
}

/// Starts recording this process, as [`start`] does, and writes `origin` into the header.
pub(crate) fn launch(path: &[u8], limit: u64, origin: Origin) -> Result<(), StartError> {
    let least = (FILE_HEADER + PACKET) as u64;
    let most = limit.min(MOST).next_multiple_of(FILE_HEADER as u64) as usize;
    if limit < least {
        return Err(StartError::Limit { least });
    }
    if path.is_empty() || path.len() + SUFFIX >= PATH {
        return Err(StartError::Path { length: path.len() });
    }
    if STARTED.swap(true, Relaxed) {
        return Err(StartError::Twice);
    }
    let started = prepare(path, most, origin);
    if started.is_err() {
        STARTED.store(false, Relaxed);
    }
    started
}

/// Creates the state, the key and the file of this process's recording, and publishes them. If one
/// of these steps fails, undoes the earlier ones and returns the error.
pub(super) fn prepare(path: &[u8], most: usize, origin: Origin) -> Result<(), StartError> {
    let process: *mut Recording = os::map_wiped(size_of::<Recording>())?.cast();
    // SAFETY: the mapping is large enough and aligned to a page. An all-zero `Recording` is valid
    // and has no file. A published recording is never unmapped (I1).
    let known = unsafe { &*process };
    // SAFETY: `STARTED` was false, so no other thread runs this function. No thread reads the text
    // before `PROCESS` is published.
    unsafe { ASKED.set(path, &[]) };
    let mut key = 0;
    // SAFETY: `key` is valid for writes, and `leave` accepts any value.
    let made = unsafe { libc::pthread_key_create(&raw mut key, Some(leave)) };
    let opened = if made == 0 {
        KEY.store(key, Relaxed);
        LIMIT.store(most, Relaxed);
        // SAFETY: the key was created above. No thread has a value for it, because threads find the
        // recording only through `PROCESS`, which is not published yet.
        known.open(origin, most).inspect_err(|_| unsafe { _ = libc::pthread_key_delete(key) })
    } else {
        Err(StartError::System { call: "pthread_key_create", errno: made })
    };
    if opened.is_err() {
        // SAFETY: the recording is not published yet, so only this call uses the mapping.
        unsafe { os::unmap(process.cast(), size_of::<Recording>()) };
        return opened;
    }
    known.state.store(RECORDING, Relaxed);
    clocks::register_exits();
    // ORDERING: Release. Pairs with the Acquire in `record`, `leave`, `into_sandbox` and `exits`.
    // Publishes: the recording and its settings.
    PROCESS.store(process, Release);
    Ok(())
}
