//! Size classes of the pooled allocators. Pure arithmetic.
//!
//! Strides are the multiples of 8 up to 64. From there each doubling has four strides, up to 1,024.
//! A layout belongs to the first class whose stride holds its size, rounded up to its alignment.
//! That stride is a multiple of the alignment: between two powers of two, strides are multiples of
//! a quarter of the smaller one. The rounded size either is a stride or has an alignment below that
//! quarter.
#![forbid(unsafe_code)]

use core::alloc::Layout;

use crate::geometry::unit_of;

/// The number of classes.
pub(crate) const CLASSES: usize = 24;
/// The largest size and alignment that has a class.
pub(crate) const CLASS_MAX: usize = 1_024;

/// Strides up to this one are the multiples of 8.
const FINE_MAX: usize = 64;

/// Returns the class of a layout. `None` for size zero and for layouts that the backing allocator
/// serves.
#[inline]
pub(crate) const fn of(layout: Layout) -> Option<usize> {
    // A size of zero wraps around and exceeds the maximum.
    if layout.size().wrapping_sub(1) >= CLASS_MAX || layout.align() > CLASS_MAX {
        return None;
    }
    let align = if cfg!(ephemera_weaken = "class_ignores_alignment") { 1 } else { layout.align() };
    let last = ((layout.size() + align - 1) & !(align - 1)) - 1;
    // The mask never changes the index. It removes the bounds check.
    Some(OF[(last / STEP) & (OF.len() - 1)] as usize)
}

/// Every stride is a multiple of this.
const STEP: usize = 8;

/// The class of each multiple of `STEP`, from the first on. It is a table because a branch on a
/// random size is mispredicted.
const OF: [u8; CLASS_MAX / STEP] = {
    let mut of = [0; CLASS_MAX / STEP];
    let (mut at, mut class) = (0, 0);
    while at < of.len() {
        if (at + 1) * STEP > stride(class) {
            class += 1;
        }
        of[at] = class as u8;
        at += 1;
    }
    of
};

/// Returns the distance between the slots of a class.
#[inline]
pub(crate) const fn stride(class: usize) -> usize {
    if class < 8 {
        return (class + 1) * 8;
    }
    let (doubling, quarter) = ((class - 8) / 4, (class - 8) % 4);
    (FINE_MAX << doubling) / 4 * (5 + quarter)
}

/// Returns the largest layout that a slot of a class holds: its stride, and the largest alignment
/// that divides it.
pub(crate) const fn layout(class: usize) -> Layout {
    let stride = stride(class);
    match Layout::from_size_align(stride, 1 << stride.trailing_zeros()) {
        Ok(layout) => layout,
        Err(_) => panic!("strides are small"),
    }
}

/// The alignment of the units of each class.
const UNITS: [usize; CLASSES] = {
    let mut units = [0; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        units[class] = unit_of(layout(class));
        class += 1;
    }
    units
};

/// Returns the alignment of the units of a class. The address of a slot is masked with it.
#[inline]
pub(crate) const fn unit_size(class: usize) -> usize {
    UNITS[class]
}

#[cfg(test)]
mod tests {
    use super::{CLASS_MAX, CLASSES, layout, of, stride, unit_size};
    use crate::geometry::UnitSpec;
    use core::alloc::Layout;

    fn all(mut check: impl FnMut(Layout)) {
        let step = if cfg!(miri) { 19 } else { 1 };
        for align in (0..11).map(|power| 1 << power) {
            for size in (1..=CLASS_MAX).step_by(step).chain([CLASS_MAX]) {
                check(Layout::from_size_align(size, align).expect("a layout"));
            }
        }
    }

    #[test]
    fn each_layout_goes_to_the_first_class_that_holds_it() {
        all(|wanted| {
            let padded = wanted.pad_to_align();
            let Some(class) = of(wanted) else {
                panic!("{wanted:?} has no class");
            };
            assert!(class < CLASSES && stride(class) >= padded.size());
            assert!(class == 0 || stride(class - 1) < padded.size(), "{wanted:?} fits a smaller class");
            assert_eq!(stride(class) % wanted.align(), 0, "{wanted:?}");
            assert!(layout(class).align() >= wanted.align());
        });
    }

    #[test]
    fn strides_grow_up_to_the_largest_size() {
        assert!((1..CLASSES).all(|class| stride(class - 1) < stride(class)));
        assert_eq!((stride(0), stride(7), stride(8), stride(CLASSES - 1)), (8, 64, 80, CLASS_MAX));
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
        for (size, align) in
            [(0, 1), (0, 4_096), (CLASS_MAX + 1, 1), (1, CLASS_MAX * 2), (isize::MAX as usize, 1)]
        {
            assert_eq!(of(Layout::from_size_align(size, align).expect("a layout")), None);
        }
    }
}
