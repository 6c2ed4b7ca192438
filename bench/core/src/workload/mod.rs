//! Rows generated from seeds. A seed gives the same rows to every target, and any part can be
//! generated anywhere.

pub mod cpu;
pub mod lateness;
pub mod meters;
pub mod own;
pub mod series;
pub mod trucks;

/// The mixing function of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", 2014).
pub(crate) fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tsbs_tests;
