//! Values as texts: [`times`], [`intervals`], numbers ([`literals`], [`rounding`]) and arrays
//! ([`array_literals`]) are read, [`texts`] writes them. [`zone`] has the time zones.

mod array_elements;
pub mod array_literals;
pub mod intervals;
pub mod literals;
pub mod rounding;
pub mod texts;
pub mod times;
pub mod zone;
