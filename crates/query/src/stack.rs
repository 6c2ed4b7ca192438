//! Stack for statements that are deep: what goes through a tree, or drops it, runs where there is enough of it.

use std::ops::{Deref, DerefMut};

/// What any statement takes.
const MIN_BYTES: usize = 256 << 10;
/// What a step takes for each level of a tree; steps of debug builds take more. Steps that take yet more look after
/// themselves (DataFusion's `recursive_protection`).
const LEVEL_BYTES: usize = if cfg!(debug_assertions) { 24 << 10 } else { 12 << 10 };
/// The same for an operator in a text, whose tree is only parsed, changed and dropped.
const LINK_BYTES: usize = if cfg!(debug_assertions) { 6 << 10 } else { 3 << 10 };

/// Runs a step over a tree of so many levels.
pub(crate) fn with_stack<R>(levels: usize, step: impl FnOnce() -> R) -> R {
    grown(MIN_BYTES + levels * LEVEL_BYTES, step)
}

/// Runs the parser, and what goes through its tree, of a text with so many operators in a row.
pub(crate) fn with_stack_to_parse<R>(links: usize, step: impl FnOnce() -> R) -> R {
    grown(MIN_BYTES + links * LINK_BYTES, step)
}

/// A new stack is some more, so that a step within the step needs no other one. The system gives its memory when it is used.
fn grown<R>(bytes: usize, step: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(bytes, bytes + bytes / 2 + (1 << 20), step)
}

/// Something that is, or holds, a tree of so many levels: it is copied and dropped where there is stack for it.
#[derive(Debug)]
pub(crate) struct Deep<T> {
    /// There until it is dropped.
    inner: Option<T>,
    levels: usize,
}

impl<T> Deep<T> {
    pub(crate) fn new(inner: T, levels: usize) -> Self {
        Self { inner: Some(inner), levels }
    }

    pub(crate) fn levels(&self) -> usize {
        self.levels
    }

    /// From now on it has so many levels.
    pub(crate) fn set_levels(&mut self, levels: usize) {
        self.levels = levels;
    }

    pub(crate) fn into_inner(mut self) -> T {
        self.inner.take().expect("it is taken only here and when this is dropped")
    }
}

impl<T> Deref for Deep<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_ref().expect("it is taken only when this is dropped")
    }
}

impl<T> DerefMut for Deep<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("it is taken only when this is dropped")
    }
}

impl<T: Clone> Clone for Deep<T> {
    fn clone(&self) -> Self {
        with_stack(self.levels, || Self { inner: self.inner.clone(), levels: self.levels })
    }
}

impl<T> Drop for Deep<T> {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take() {
            with_stack(self.levels, || drop(inner));
        }
    }
}
