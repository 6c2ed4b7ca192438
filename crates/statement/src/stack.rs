//! Stack space for deep statements: code that walks or drops a tree runs where there is enough of
//! it.

use fleetdb_functions::expressions::LEVEL_BYTES;
use std::ops::{Deref, DerefMut};

/// The stack any statement needs.
const MIN_BYTES: usize = 256 << 10;
/// The stack a step needs per operator of a text whose tree is only parsed, rewritten and dropped.
const LINK_BYTES: usize = if cfg!(debug_assertions) { 6 << 10 } else { 3 << 10 };

/// Runs a step over a tree of `levels` levels.
pub fn with_stack<R>(levels: usize, step: impl FnOnce() -> R) -> R {
    grown(MIN_BYTES + levels * LEVEL_BYTES, step)
}

/// Runs the parser, and steps over its tree, on a text with `links` consecutive operators.
pub fn with_stack_to_parse<R>(links: usize, step: impl FnOnce() -> R) -> R {
    grown(MIN_BYTES + links * LINK_BYTES, step)
}

/// A new stack has some reserve, so that nested steps need no further one. The system commits its
/// memory only when it is used.
fn grown<R>(bytes: usize, step: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(bytes, bytes + bytes / 2 + (1 << 20), step)
}

/// A value that is or contains a tree of known depth. It is cloned and dropped with enough stack.
#[derive(Debug)]
pub struct Deep<T> {
    /// `None` only while being dropped.
    inner: Option<T>,
    levels: usize,
}

impl<T> Deep<T> {
    /// A value with this many levels.
    pub fn new(inner: T, levels: usize) -> Self {
        Self { inner: Some(inner), levels }
    }

    /// The number of its levels.
    pub fn levels(&self) -> usize {
        self.levels
    }

    /// Sets the depth of the tree.
    pub fn set_levels(&mut self, levels: usize) {
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
