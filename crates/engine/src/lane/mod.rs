//! A lane: one column of raw 64-bit values with NULLs, plain while it grows, packed when it rests.
//!
//! What a raw value means is the column type's affair: integers, dates and timestamps are
//! sign-extended (zero-extended without sign), floats are their bits, a boolean is 0 or 1, text and
//! bytes are the code of an entry in a dictionary beside the lane. A NULL's raw value is 0.
//!
//! A packed lane keeps `value = base + scale * small` with `small` in 0, 1, 2, 4 or 8 bytes, so
//! that each value still is read on its own. Used by memtable blocks, the WAL and pages.

pub(crate) mod codec;

/// Which values of a lane are NULL; empty as long as none is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NullMask {
    words: Vec<u64>,
    nulls: usize,
}

impl NullMask {
    pub(crate) fn is_null(&self, index: usize) -> bool {
        self.words.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    pub(crate) fn set(&mut self, index: usize, null: bool) {
        if self.is_null(index) == null {
            return;
        }
        let word = index / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] ^= 1 << (index % 64);
        if null { self.nulls += 1 } else { self.nulls -= 1 }
    }

    /// How many values are NULL.
    pub(crate) fn nulls(&self) -> usize {
        self.nulls
    }

    fn bytes(&self) -> usize {
        self.words.capacity() * 8
    }
}

#[derive(Clone, Debug)]
enum Small {
    Constant,
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
}

/// One column of raw values; see the module's head.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    base: u64,
    scale: u64,
    small: Small,
    len: usize,
    nulls: NullMask,
}

impl Default for Lane {
    fn default() -> Self {
        Self::plain(Vec::new(), NullMask::default())
    }
}

impl Lane {
    /// A plain lane of these values.
    pub(crate) fn plain(values: Vec<u64>, nulls: NullMask) -> Self {
        Self { base: 0, scale: 1, len: values.len(), small: Small::U64(values), nulls }
    }

    /// An empty lane with room for `len` values.
    pub(crate) fn with_capacity(len: usize) -> Self {
        Self::plain(Vec::with_capacity(len), NullMask::default())
    }

    /// `len` times the same value.
    pub(crate) fn constant(value: Option<u64>, len: usize) -> Self {
        let mut nulls = NullMask::default();
        if value.is_none() {
            (0..len).for_each(|i| nulls.set(i, true));
        }
        Self { base: value.unwrap_or(0), scale: 0, small: Small::Constant, len, nulls }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn nulls(&self) -> &NullMask {
        &self.nulls
    }

    /// The raw value at `index`; 0 if it is NULL.
    pub(crate) fn value(&self, index: usize) -> u64 {
        let small = match &self.small {
            Small::Constant => return self.base,
            Small::U8(v) => u64::from(v[index]),
            Small::U16(v) => u64::from(v[index]),
            Small::U32(v) => u64::from(v[index]),
            Small::U64(v) => v[index],
        };
        self.base.wrapping_add(self.scale.wrapping_mul(small))
    }

    /// The value at `index`, `None` if it is NULL.
    pub(crate) fn get(&self, index: usize) -> Option<u64> {
        (!self.nulls.is_null(index)).then(|| self.value(index))
    }

    /// The values of a plain lane; `None` if the lane is packed.
    pub(crate) fn as_plain(&self) -> Option<&[u64]> {
        match &self.small {
            Small::U64(values) if self.base == 0 && self.scale == 1 => Some(values),
            _ => None,
        }
    }

    /// The values of a lane, plain, and its NULLs.
    pub(crate) fn into_plain(self) -> (Vec<u64>, NullMask) {
        match self.small {
            Small::U64(values) if self.base == 0 && self.scale == 1 => (values, self.nulls),
            _ => ((0..self.len).map(|i| self.value(i)).collect(), self.nulls),
        }
    }

    /// Turns a packed lane into a plain one.
    fn make_plain(&mut self) -> &mut Vec<u64> {
        if self.as_plain().is_none() {
            let lane = std::mem::take(self);
            let (values, nulls) = lane.into_plain();
            *self = Self::plain(values, nulls);
        }
        match &mut self.small {
            Small::U64(values) => values,
            // The line above made it plain.
            _ => unreachable!("a plain lane holds 64-bit values"),
        }
    }

    pub(crate) fn push(&mut self, value: Option<u64>) {
        if value.is_none() {
            self.nulls.set(self.len, true);
        }
        self.make_plain().push(value.unwrap_or(0));
        self.len += 1;
    }

    /// Replaces the value at `index`.
    pub(crate) fn set(&mut self, index: usize, value: Option<u64>) {
        self.nulls.set(index, value.is_none());
        self.make_plain()[index] = value.unwrap_or(0);
    }

    /// Appends NULLs until the lane is `len` long.
    pub(crate) fn pad(&mut self, len: usize) {
        while self.len < len {
            self.push(None);
        }
    }

    /// Appends `len` values of `other` from `start`.
    pub(crate) fn extend(&mut self, other: &Self, start: usize, len: usize) {
        let at = self.len;
        let (base, scale) = (other.base, other.scale);
        let values = self.make_plain();
        let range = start..start + len;
        let widen = |small: u64| base.wrapping_add(scale.wrapping_mul(small));
        match &other.small {
            Small::Constant => values.resize(at + len, base),
            Small::U8(v) => values.extend(v[range].iter().map(|&x| widen(u64::from(x)))),
            Small::U16(v) => values.extend(v[range].iter().map(|&x| widen(u64::from(x)))),
            Small::U32(v) => values.extend(v[range].iter().map(|&x| widen(u64::from(x)))),
            Small::U64(v) if base == 0 && scale == 1 => values.extend_from_slice(&v[range]),
            Small::U64(v) => values.extend(v[range].iter().map(|&x| widen(x))),
        }
        self.len += len;
        if other.nulls.nulls() > 0 {
            for i in 0..len {
                if other.nulls.is_null(start + i) {
                    self.nulls.set(at + i, true);
                }
            }
        }
    }

    /// Appends the values of a plain lane at these places, in their order.
    pub(crate) fn gather(&mut self, from: &Self, places: &[u32]) {
        let at = self.len;
        let Some(source) = from.as_plain() else {
            return places.iter().for_each(|&place| self.push(from.get(place as usize)));
        };
        self.make_plain().extend(places.iter().map(|&place| source[place as usize]));
        self.len += places.len();
        if from.nulls.nulls() > 0 {
            for (i, &place) in places.iter().enumerate() {
                if from.nulls.is_null(place as usize) {
                    self.nulls.set(at + i, true);
                }
            }
        }
    }

    /// Bytes of memory the lane holds.
    pub(crate) fn bytes(&self) -> usize {
        let values = match &self.small {
            Small::Constant => 0,
            Small::U8(v) => v.capacity(),
            Small::U16(v) => v.capacity() * 2,
            Small::U32(v) => v.capacity() * 4,
            Small::U64(v) => v.capacity() * 8,
        };
        size_of::<Self>() + values + self.nulls.bytes()
    }

    /// The lane in its smallest form that still reads each value on its own.
    pub(crate) fn pack(&self) -> Self {
        let (values, nulls) = self.clone().into_plain();
        let frame = codec::Frame::of(&values);
        let small = |i: usize| frame.small(values[i]);
        let len = values.len();
        let small = match frame.width_bits() {
            0 => Small::Constant,
            1..=8 => Small::U8((0..len).map(|i| small(i) as u8).collect()),
            9..=16 => Small::U16((0..len).map(|i| small(i) as u16).collect()),
            17..=32 => Small::U32((0..len).map(|i| small(i) as u32).collect()),
            _ => return Self::plain(values, nulls),
        };
        Self { base: frame.base, scale: frame.scale, small, len, nulls }
    }
}

#[cfg(test)]
#[path = "lane_tests.rs"]
mod tests;
