//! Packs and unpacks operations. A packed operation is a byte for action and alignment, then
//! varints, as in the format of traces.
//!
//! ```text
//! action and alignment u8 | slot ± | size | resize: size before | waits: generation
//! ```
#![forbid(unsafe_code)]

use ephemera_recorder::format;

use super::op::{Action, ProgramOp};

/// The maximum size of a packed operation in bytes: one byte, and four varints of at most 33
/// bits.
pub(super) const LONGEST: usize = 1 + 4 * 5;

/// The action of each code. The last two codes stand for operations that wait.
pub(super) const KINDS: [Action; 7] = [
    Action::Alloc,
    Action::Zeroed,
    Action::Free,
    Action::Resize,
    Action::Epoch,
    Action::Free,
    Action::Resize,
];
/// The first code of operations that wait.
const WAITING: usize = 5;

/// Clears `out` and packs operations into it. The flag `publish` is not packed, because it may
/// change later.
pub(super) fn pack(ops: &[ProgramOp], out: &mut Vec<u8>) {
    out.clear();
    let mut before = 0;
    for op in ops {
        let from = if op.wait > 0 { WAITING } else { 0 };
        let code = KINDS.iter().skip(from).position(|action| *action == op.action).unwrap_or(0) + from;
        let distance = i64::from(op.slot) - before;
        before = i64::from(op.slot);
        let numbers = [
            Some((distance << 1 ^ distance >> 63).cast_unsigned()),
            Some(u64::from(op.size)),
            (op.action == Action::Resize).then_some(op.old.into()),
            (op.wait > 0).then_some(op.wait.into()),
        ];
        out.push(format::lead(code as u8, op.align_log2));
        for number in numbers.into_iter().flatten() {
            let mut bytes = [0; 10];
            let length = format::put(&mut bytes, number);
            out.extend_from_slice(&bytes[..length]);
        }
    }
}

/// Clears `ops` and unpacks into it the bytes that [`pack`] wrote.
pub(super) fn unpack(bytes: &[u8], ops: &mut Vec<ProgramOp>) {
    ops.clear();
    let (mut at, mut slot) = (0, 0_u32);
    while let Some(&lead) = bytes.get(at) {
        at += 1;
        let (code, align_log2) = format::unlead(lead);
        let (action, waits) = (KINDS[usize::from(code)], usize::from(code) >= WAITING);
        let mut number = |wanted: bool| {
            if wanted { format::take(bytes, &mut at).expect("`pack` wrote it") } else { 0 }
        };
        let distance = number(true);
        slot = slot.wrapping_add((distance >> 1 ^ (distance & 1).wrapping_neg()) as u32);
        let size = number(true) as u32;
        let old = number(action == Action::Resize) as u32;
        let wait = number(waits) as u32;
        ops.push(ProgramOp { action, align_log2, slot, size, old, wait, publish: false });
    }
}
