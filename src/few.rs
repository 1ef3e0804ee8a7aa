//! Pure: `Few`, a short list without an allocation.

use std::iter::once;
use std::ops::{Deref, DerefMut};

/// A list that needs no allocation for up to `N` items, with `N` below 256. A held lock has one of what each node has of it,
/// and a program may hold many locks.
#[derive(Debug, Clone)]
pub(crate) enum Few<T, const N: usize> {
    /// The number of items, and places for as many as possible.
    Inline(u8, [T; N]),
    /// Behind a thin pointer, so that the list is not larger for that.
    Boxed(Box<Box<[T]>>),
}

impl<T: Copy + Default, const N: usize> Default for Few<T, N> {
    fn default() -> Self {
        Self::Inline(0, [T::default(); N])
    }
}

impl<T: Copy + Default, const N: usize> FromIterator<T> for Few<T, N> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut items = items.into_iter();
        let (mut count, mut places) = (0_u8, [T::default(); N]);
        for (place, item) in places.iter_mut().zip(&mut items) {
            *place = item;
            count = count.saturating_add(1);
        }
        match items.next() {
            None => Self::Inline(count, places),
            Some(next) => {
                let all = places.into_iter().chain(once(next)).chain(items);
                Self::Boxed(Box::new(all.collect()))
            }
        }
    }
}

impl<T, const N: usize> Deref for Few<T, N> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::Inline(count, places) => places.get(..usize::from(*count)).unwrap_or_default(),
            Self::Boxed(items) => items,
        }
    }
}

impl<T, const N: usize> DerefMut for Few<T, N> {
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            Self::Inline(count, places) => {
                places.get_mut(..usize::from(*count)).unwrap_or_default()
            }
            Self::Boxed(items) => items,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_any_length_has_all_its_items_and_no_others() {
        for count in 0..12_u32 {
            let items: Vec<u32> = (0..count).collect();
            let mut few: Few<u32, 5> = items.iter().copied().collect();
            assert_eq!(*few, *items);
            assert_eq!(matches!(few, Few::Inline(..)), count <= 5);
            few.iter_mut().for_each(|item| *item = item.wrapping_mul(2));
            assert_eq!(few.iter().sum::<u32>(), items.iter().sum::<u32>() * 2);
        }
    }
}
