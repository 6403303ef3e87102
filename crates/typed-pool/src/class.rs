//! Size classes of the pooled allocators. The module is pure arithmetic.
//!
//! The strides are the multiples of 8 up to 64, then four strides for each doubling, up to 32 KiB.
//! Classes of up to 1,024 bytes are *small*, and the fast paths look them up in a table. Larger
//! classes are *medium*; a second table maps sizes to them.
//!
//! A layout belongs to the first class whose stride is at least its size, rounded up to its
//! alignment. This stride is always a multiple of the alignment. Between two powers of two, the
//! strides are the multiples of a quarter of the smaller power, or of 8 if that is more. An
//! alignment of up to this step divides all of these strides. With a larger alignment, the rounded
//! size is itself a stride.
#![forbid(unsafe_code)]

use core::alloc::Layout;

use crate::geometry::{ALIGN_MAX, STRIDE_MAX, unit_of};

pub(crate) const CLASSES: usize = 44;
const SMALL: usize = 24;
/// The largest size, and the largest alignment, of a layout with a small class, in bytes.
pub(crate) const CLASS_MAX: usize = 1_024;

/// The largest of the strides that are consecutive multiples of 8, in bytes.
const FINE_MAX: usize = 64;

/// Returns the offset of the last byte of a layout, after the layout's size is rounded up to its
/// alignment. For size zero, the offset wraps around and exceeds the offsets of all classes.
#[inline]
const fn last_byte(layout: Layout) -> usize {
    // The alignment is a power of two, so the offset of the last byte before a multiple of the
    // alignment has all bits of `align - 1` set.
    layout.size().wrapping_sub(1) | (layout.align() - 1)
}

/// Returns the small class of a layout, or `None` for size zero and for layouts that have a medium
/// class or no class.
#[inline]
pub(crate) const fn of(layout: Layout) -> Option<usize> {
    let last = last_byte(layout);
    if last >= CLASS_MAX {
        return None;
    }
    Some(OF[last / STEP] as usize)
}

/// Returns the medium class of a layout, or `None` for size zero and for layouts that have a small
/// class or no class.
#[inline]
pub(crate) const fn medium(layout: Layout) -> Option<usize> {
    if layout.align() > ALIGN_MAX {
        return None;
    }
    // Size zero wraps around in `last_byte`, and a small size wraps around here. Both results are
    // at least the length of the table.
    let step = (last_byte(layout) / MEDIUM_STEP).wrapping_sub(CLASS_MAX / MEDIUM_STEP);
    if step >= OF_MEDIUM.len() {
        return None;
    }
    Some(OF_MEDIUM[step] as usize)
}

/// Returns the class of a layout, small or medium, or `None` for size zero and for layouts without
/// a class.
#[inline]
pub(crate) const fn any(layout: Layout) -> Option<usize> {
    match of(layout) {
        Some(class) => Some(class),
        None => medium(layout),
    }
}

/// The number of bytes that an element of [`OF`] covers. Every stride is a multiple of it.
const STEP: usize = 8;

/// The small classes by size: element n is the class of sizes above n × `STEP` and up to (n + 1) ×
/// `STEP`. A table look-up has no branches. A processor would often mispredict the branches of a
/// computation if the sizes are random.
const OF: [u8; CLASS_MAX / STEP] = classes(0, STEP, 0);

/// The number of bytes that an element of [`OF_MEDIUM`] covers. Every medium stride is a multiple
/// of it.
const MEDIUM_STEP: usize = 256;

/// The medium classes by size: element n is the class of sizes above 1,024 + 256 × n and up to
/// 1,024 + 256 × (n + 1).
const OF_MEDIUM: [u8; (STRIDE_MAX - CLASS_MAX) / MEDIUM_STEP] = classes(CLASS_MAX, MEDIUM_STEP, SMALL);

/// Returns a table of classes by size: element n is the class of sizes above `above` + n × `step`
/// and up to `above` + (n + 1) × `step`. `class` is the class of element 0.
const fn classes<const LEN: usize>(above: usize, step: usize, mut class: usize) -> [u8; LEN] {
    let mut of = [0; LEN];
    let mut at = 0;
    while at < LEN {
        if above + (at + 1) * step > stride(class) {
            class += 1;
        }
        of[at] = class as u8;
        at += 1;
    }
    of
}

/// Returns the distance between the starts of neighbouring slots of a class, in bytes.
#[inline]
pub(crate) const fn stride(class: usize) -> usize {
    if class < 8 {
        return (class + 1) * 8;
    }
    let (doubling, quarter) = ((class - 8) / 4, (class - 8) % 4);
    (FINE_MAX << doubling) / 4 * (5 + quarter)
}

/// Returns the largest layout that fits in a slot of a class. Its size is the stride. Its alignment
/// is the largest power of two that divides the stride and is at most [`ALIGN_MAX`].
pub(crate) const fn layout(class: usize) -> Layout {
    let stride = stride(class);
    let align = 1 << stride.trailing_zeros();
    match Layout::from_size_align(stride, if align > ALIGN_MAX { ALIGN_MAX } else { align }) {
        Ok(layout) => layout,
        Err(_) => panic!("strides are small"),
    }
}

/// The alignment of the units of each class, in bytes. The length of the table is a power of two,
/// so that a bitwise AND can replace the bounds check.
const UNITS: [usize; CLASSES.next_power_of_two()] = {
    let mut units = [0; CLASSES.next_power_of_two()];
    let mut class = 0;
    while class < CLASSES {
        units[class] = unit_of(layout(class));
        class += 1;
    }
    units
};

/// Returns the alignment of the units of a class, in bytes. This alignment determines the mask that
/// turns the address of a slot into that of its unit.
#[inline]
pub(crate) const fn unit_size(class: usize) -> usize {
    // A class is less than `CLASSES`, so the AND does not change the index.
    UNITS[class & (UNITS.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::{CLASS_MAX, CLASSES, SMALL, any, layout, medium, of, stride, unit_size};
    use crate::geometry::{ALIGN_MAX, STRIDE_MAX, UnitSpec, inverse_of, start_at};
    use core::alloc::Layout;

    #[test]
    fn a_slot_of_a_class_is_found_at_its_first_byte_only() {
        let step = if cfg!(miri) { 1_009 } else { 1 };
        for class in 0..CLASSES {
            let spec = UnitSpec::of(layout(class)).expect("a class has units");
            let (inverse, first) = (inverse_of(spec.stride), spec.first(spec.slots));
            for byte in (0..spec.end(spec.slots)).step_by(step).chain([first, first + spec.stride]) {
                let (index, rest) =
                    (byte.wrapping_sub(first) / spec.stride, byte.wrapping_sub(first) % spec.stride);
                let expected = (byte >= first && rest == 0).then_some(index);
                let found = start_at(byte.wrapping_sub(first), inverse).filter(|index| *index < spec.slots);
                assert_eq!(found, expected, "byte {byte} of {spec:?}");
            }
        }
    }

    fn all(mut check: impl FnMut(Layout)) {
        // Each range has its own `step_by`, because `step_by` on the chain would walk through all
        // sizes.
        let step = if cfg!(miri) { 997 } else { 1 };
        for align in (0..13).map(|power| 1 << power) {
            let larger = (CLASS_MAX..STRIDE_MAX).step_by(7 * step);
            for size in (1..=CLASS_MAX).step_by(step).chain(larger) {
                check(Layout::from_size_align(size, align).expect("a layout"));
            }
            for class in SMALL..CLASSES {
                for size in [stride(class) - 1, stride(class), stride(class - 1) + 1] {
                    check(Layout::from_size_align(size, align).expect("a layout"));
                }
            }
        }
    }

    #[test]
    fn each_layout_goes_to_the_first_class_that_holds_it() {
        all(|wanted| {
            let padded = wanted.pad_to_align();
            let Some(class) = any(wanted) else {
                assert!(padded.size() > STRIDE_MAX, "{wanted:?} has no class");
                return;
            };
            assert!(class < CLASSES && stride(class) >= padded.size());
            assert!(class == 0 || stride(class - 1) < padded.size(), "{wanted:?} fits a smaller class");
            assert_eq!(stride(class) % wanted.align(), 0, "{wanted:?}");
            assert!(layout(class).align() >= wanted.align());
            assert_eq!(of(wanted).is_some(), class < SMALL);
            assert_eq!(of(wanted).is_some(), wanted.size() <= CLASS_MAX && wanted.align() <= CLASS_MAX);
        });
    }

    #[test]
    fn strides_grow_by_at_most_a_quarter_up_to_the_largest_size() {
        assert!((1..CLASSES).all(|class| stride(class - 1) < stride(class)));
        assert_eq!((stride(0), stride(7), stride(8), stride(SMALL - 1)), (8, 64, 80, CLASS_MAX));
        assert_eq!((stride(SMALL), stride(CLASSES - 1)), (1_280, STRIDE_MAX));
        assert!((8..CLASSES).all(|class| stride(class) * 4 <= stride(class - 1) * 5));
    }

    #[test]
    fn a_slot_has_the_unit_of_its_class() {
        for class in 0..CLASSES {
            let Some(spec) = UnitSpec::of(layout(class)) else { panic!("class {class} has no units") };
            assert_eq!((spec.stride, spec.unit), (stride(class), unit_size(class)));
        }
    }

    #[test]
    fn zero_and_too_large_layouts_have_no_class() {
        for (size, align) in [
            (0, 1),
            (0, 4_096),
            (STRIDE_MAX + 1, 1),
            (STRIDE_MAX - 1, ALIGN_MAX * 2),
            (1, ALIGN_MAX * 2),
            (isize::MAX as usize, 1),
        ] {
            assert_eq!(any(Layout::from_size_align(size, align).expect("a layout")), None);
        }
        assert_eq!(medium(Layout::new::<[u8; CLASS_MAX]>()), None);
    }
}
