//! A lane: one column of raw 64-bit values with NULLs, plain while it grows, packed when complete.
//!
//! The column type defines what a raw value means. Signed integers, dates and timestamps are
//! sign-extended; unsigned integers are zero-extended; floats are their bits; a boolean is 0 or 1;
//! text and binary values are codes in a dictionary outside the lane. NULL has the raw value 0.
//!
//! A packed lane stores `value = base + scale * small`, with `small` in 0, 1, 2, 4 or 8 bytes, so
//! that each value can still be read individually. Used by memtable blocks, the WAL and pages.

pub(crate) mod codec;

/// Which values of a lane are NULL. Empty while none is.
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

    /// Marks values among the 64 from `at` on as NULL, where their bit is 1. None of them may be
    /// NULL yet.
    pub(crate) fn mark(&mut self, at: usize, bits: u64) {
        if bits == 0 {
            return;
        }
        let (word, shift) = (at / 64, at % 64);
        let last = (at + bits.ilog2() as usize) / 64;
        if last >= self.words.len() {
            self.words.resize(last + 1, 0);
        }
        self.words[word] |= bits << shift;
        if last > word {
            self.words[last] |= bits >> (64 - shift);
        }
        self.nulls += bits.count_ones() as usize;
    }

    /// The bits of the 64 values from `start` on.
    fn window(&self, start: usize) -> u64 {
        let (word, shift) = (start / 64, start % 64);
        let at = |word: usize| self.words.get(word).copied().unwrap_or(0);
        let high = if shift == 0 { 0 } else { at(word + 1) << (64 - shift) };
        at(word) >> shift | high
    }

    /// Copies the NULLs of `len` values from another mask. The values from `at` on must not be NULL
    /// yet.
    pub(crate) fn copy(&mut self, at: usize, other: &Self, start: usize, len: usize) {
        if other.nulls == 0 || len == 0 {
            return;
        }
        for from in (0..len).step_by(64) {
            self.mark(at + from, other.window(start + from) & lowest_bits(len - from));
        }
    }

    /// One bit per value for `len` values, 1 if it is not NULL, in words.
    pub(crate) fn validity(&self, len: usize) -> Vec<u64> {
        let mut words: Vec<u64> = self.words.iter().map(|word| !word).collect();
        words.resize(len.div_ceil(64), u64::MAX);
        words
    }

    /// The number of NULLs.
    pub(crate) fn nulls(&self) -> usize {
        self.nulls
    }

    /// The number of NULLs among `len` values from `start`.
    pub(crate) fn nulls_within(&self, start: usize, len: usize) -> usize {
        if self.nulls == 0 {
            return 0;
        }
        let words = (0..len).step_by(64).map(|from| self.window(start + from) & lowest_bits(len - from));
        words.map(|word| word.count_ones() as usize).sum()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.words.capacity() * 8
    }
}

/// A word with its lowest `count` bits set; all bits from 64 on.
pub(crate) fn lowest_bits(count: usize) -> u64 {
    if count < 64 { (1 << count) - 1 } else { u64::MAX }
}

#[derive(Clone, Debug)]
enum Small {
    Constant,
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
}

/// One column of raw values; see the module documentation.
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

    /// A plain lane of `len` values. `values` holds only those that are not NULL.
    pub(crate) fn spread(mut values: Vec<u64>, nulls: NullMask, len: usize) -> Self {
        if nulls.nulls() == 0 {
            return Self::plain(values, nulls);
        }
        // One element past the last is read and masked to 0.
        values.resize(len + 1, 0);
        let (mut all, mut next) = (Vec::with_capacity(len), 0);
        for start in (0..len).step_by(64) {
            let (word, rows) = (nulls.window(start), (len - start).min(64));
            if word == 0 {
                all.extend_from_slice(&values[next..next + rows]);
                next += rows;
                continue;
            }
            // Branch-free: scattered NULLs would cause branch mispredictions.
            all.extend((0..rows).map(|row| {
                let present = !word >> row & 1;
                let value = values[next] & present.wrapping_neg();
                next += present as usize;
                value
            }));
        }
        Self::plain(all, nulls)
    }

    /// An empty lane with room for `len` values.
    pub(crate) fn with_capacity(len: usize) -> Self {
        Self::plain(Vec::with_capacity(len), NullMask::default())
    }

    /// A packed lane of values of a byte each, without NULLs, which are added to `base`.
    pub(crate) fn of_bytes(base: u64, values: Vec<u8>) -> Self {
        let (len, nulls) = (values.len(), NullMask::default());
        let lane = Self { base, scale: 1, small: Small::U8(values), len, nulls };
        if len > 0 && lane.is_constant(0, len) { Self::constant(Some(lane.value(0)), len) } else { lane }
    }

    /// The same value `len` times.
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

    /// The value at `index`; `None` if it is NULL.
    pub(crate) fn get(&self, index: usize) -> Option<u64> {
        (!self.nulls.is_null(index)).then(|| self.value(index))
    }

    /// Whether the `len` values from `start` are all equal, or all NULL.
    pub(crate) fn is_constant(&self, start: usize, len: usize) -> bool {
        /// Compares slices, which the compiler turns into one memory comparison.
        fn is_one<T: PartialEq>(values: &[T]) -> bool {
            values.is_empty() || values[1..] == values[..values.len() - 1]
        }
        if self.nulls.nulls() > 0 {
            return (start..start + len).all(|index| self.get(index) == self.get(start));
        }
        let range = start..start + len;
        match &self.small {
            Small::Constant => true,
            Small::U8(v) => is_one(&v[range]),
            Small::U16(v) => is_one(&v[range]),
            Small::U32(v) => is_one(&v[range]),
            Small::U64(v) => is_one(&v[range]),
        }
    }

    /// The values of a plain lane; `None` if it is packed.
    pub(crate) fn as_plain(&self) -> Option<&[u64]> {
        match &self.small {
            Small::U64(values) if self.base == 0 && self.scale == 1 => Some(values),
            _ => None,
        }
    }

    /// The values in plain form, and the NULLs.
    pub(crate) fn into_plain(self) -> (Vec<u64>, NullMask) {
        match self.small {
            Small::U64(values) if self.base == 0 && self.scale == 1 => (values, self.nulls),
            _ => ((0..self.len).map(|i| self.value(i)).collect(), self.nulls),
        }
    }

    /// Makes a packed lane plain.
    fn make_plain(&mut self) -> &mut Vec<u64> {
        if self.as_plain().is_none() {
            let lane = std::mem::take(self);
            let (values, nulls) = lane.into_plain();
            *self = Self::plain(values, nulls);
        }
        match &mut self.small {
            Small::U64(values) => values,
            // Made plain above.
            _ => unreachable!("a plain lane holds 64-bit values"),
        }
    }

    /// Reserves room for `len` more values.
    pub(crate) fn reserve(&mut self, len: usize) {
        self.make_plain().reserve(len);
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

    /// Appends the raw values of `len` rows from `start`; 0 for NULL.
    pub(crate) fn copy_raw(&self, start: usize, len: usize, out: &mut Vec<u64>) {
        let (base, scale) = (self.base, self.scale);
        let range = start..start + len;
        let widen = |small: u64| base.wrapping_add(scale.wrapping_mul(small));
        match &self.small {
            Small::Constant => out.resize(out.len() + len, base),
            // 64-bit vectors cannot multiply; without the multiplication this vectorizes.
            Small::U8(v) if scale == 1 => out.extend(v[range].iter().map(|&x| base.wrapping_add(u64::from(x)))),
            Small::U16(v) if scale == 1 => out.extend(v[range].iter().map(|&x| base.wrapping_add(u64::from(x)))),
            Small::U8(v) => out.extend(v[range].iter().map(|&x| widen(u64::from(x)))),
            Small::U16(v) => out.extend(v[range].iter().map(|&x| widen(u64::from(x)))),
            Small::U32(v) => out.extend(v[range].iter().map(|&x| widen(u64::from(x)))),
            Small::U64(v) if base == 0 && scale == 1 => out.extend_from_slice(&v[range]),
            Small::U64(v) => out.extend(v[range].iter().map(|&x| widen(x))),
        }
    }

    /// Appends `len` values of `other` from `start`.
    pub(crate) fn extend(&mut self, other: &Self, start: usize, len: usize) {
        let at = self.len;
        other.copy_raw(start, len, self.make_plain());
        self.len += len;
        self.nulls.copy(at, &other.nulls, start, len);
    }

    /// Appends raw values. Their NULLs are in `nulls` from `start` on.
    pub(crate) fn append(&mut self, values: &[u64], nulls: &NullMask, start: usize) {
        let at = self.len;
        self.make_plain().extend_from_slice(values);
        self.len += values.len();
        self.nulls.copy(at, nulls, start, values.len());
    }

    /// Appends the values of `from` at these indexes, in order.
    pub(crate) fn gather(&mut self, from: &Self, places: &[u32]) {
        let at = self.len;
        let (base, scale) = (from.base, from.scale);
        let widen = |small: u64| base.wrapping_add(scale.wrapping_mul(small));
        let out = self.make_plain();
        match &from.small {
            Small::Constant => out.resize(at + places.len(), base),
            Small::U8(v) => out.extend(places.iter().map(|&place| widen(u64::from(v[place as usize])))),
            Small::U16(v) => out.extend(places.iter().map(|&place| widen(u64::from(v[place as usize])))),
            Small::U32(v) => out.extend(places.iter().map(|&place| widen(u64::from(v[place as usize])))),
            Small::U64(v) if base == 0 && scale == 1 => out.extend(places.iter().map(|&place| v[place as usize])),
            Small::U64(v) => out.extend(places.iter().map(|&place| widen(v[place as usize]))),
        }
        self.len += places.len();
        if from.nulls.nulls() > 0 {
            for (i, &place) in places.iter().enumerate() {
                if from.nulls.is_null(place as usize) {
                    self.nulls.set(at + i, true);
                }
            }
        }
    }

    /// Bounds of the values of a packed lane, as signed numbers; `None` if it is plain or wraps around.
    fn span(&self) -> Option<(i64, i64)> {
        let most = match &self.small {
            Small::Constant => 0,
            Small::U8(v) => u64::from(v.iter().fold(0, |most, &x| x.max(most))),
            Small::U16(v) => u64::from(v.iter().fold(0, |most, &x| x.max(most))),
            Small::U32(v) => u64::from(v.iter().fold(0, |most, &x| x.max(most))),
            Small::U64(_) => return None,
        };
        let span = i64::try_from(self.scale.checked_mul(most)?).ok()?;
        Some((self.base as i64, (self.base as i64).checked_add(span)?))
    }

    /// Bounds of the values as signed numbers; `None` without values.
    pub(crate) fn bounds(&self) -> Option<(i64, i64)> {
        if self.len == 0 {
            return None;
        }
        self.span().or_else(|| {
            let values = (0..self.len).map(|index| self.value(index) as i64);
            values.map(|value| (value, value)).reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))
        })
    }

    /// Concatenates packed lanes into the smallest form in which each value is one load away, so
    /// that random reads mostly hit the cache. Each pair gives a lane and its row count; a shorter
    /// lane is padded with NULLs.
    pub(crate) fn concat(lanes: &[(Option<&Self>, usize)]) -> Self {
        let rows: usize = lanes.iter().map(|(_, rows)| rows).sum();
        let present = || lanes.iter().filter_map(|(lane, _)| *lane).filter(|lane| lane.len > 0);
        let spans: Option<Vec<(i64, i64)>> = present().map(Self::span).collect();
        let span = spans.and_then(|spans| {
            let least = spans.iter().map(|span| span.0).min()?.min(0);
            let most = spans.iter().map(|span| span.1).max()?.max(0);
            Some((least, most.checked_sub(least)?))
        });
        let (base, width) = span.map_or((0, i64::MAX), |(base, width)| (base as u64, width));
        // The span includes 0, the raw value of NULL.
        let small = match width {
            0..0x100 => Small::U8(join(lanes, rows, base, |value| value as u8)),
            0x100..0x1_0000 => Small::U16(join(lanes, rows, base, |value| value as u16)),
            0x1_0000..0x1_0000_0000 => Small::U32(join(lanes, rows, base, |value| value as u32)),
            _ => Small::U64(join(lanes, rows, base, |value| value)),
        };
        let mut nulls = NullMask::default();
        let mut at = 0;
        for &(lane, rows) in lanes {
            let have = lane.map_or(0, |lane| lane.len.min(rows));
            if let Some(lane) = lane.filter(|lane| lane.nulls.nulls() > 0) {
                (0..have).filter(|&i| lane.nulls.is_null(i)).for_each(|i| nulls.set(at + i, true));
            }
            (have..rows).for_each(|i| nulls.set(at + i, true));
            at += rows;
        }
        Self { base, scale: 1, small, len: rows, nulls }
    }

    /// Bytes of memory.
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

    /// The lane in its smallest form that allows reading each value individually.
    pub(crate) fn pack(&self) -> Self {
        match self.as_plain() {
            Some(values) => Self::packed(values, &self.nulls).unwrap_or_else(|| self.clone()),
            None => self.clone(),
        }
    }

    /// The same, of a lane that is no longer needed.
    pub(crate) fn into_packed(self) -> Self {
        if self.as_plain().is_none() {
            return self;
        }
        let (values, nulls) = self.into_plain();
        Self::packed(&values, &nulls).unwrap_or_else(|| Self::plain(values, nulls))
    }

    /// A packed lane of these values; `None` if it would not be smaller.
    fn packed(values: &[u64], nulls: &NullMask) -> Option<Self> {
        // Small numbers and codes need no search for the least and the greatest value.
        let (every, any) = values.iter().fold((u64::MAX, 0), |(every, any), value| (every & value, any | value));
        if any <= u8::MAX.into() && every != any {
            let small = Small::U8(values.iter().map(|&value| value as u8).collect());
            return Some(Self { base: 0, scale: 1, small, len: values.len(), nulls: nulls.clone() });
        }
        let frame = codec::Frame::of(values);
        let smalls = values.iter().map(|&value| frame.small(value));
        let small = match frame.width_bits() {
            0 => Small::Constant,
            1..=8 => Small::U8(smalls.map(|small| small as u8).collect()),
            9..=16 => Small::U16(smalls.map(|small| small as u16).collect()),
            17..=32 => Small::U32(smalls.map(|small| small as u32).collect()),
            _ => return None,
        };
        Some(Self { base: frame.base, scale: frame.scale, small, len: values.len(), nulls: nulls.clone() })
    }
}

/// The values of [`Lane::concat`] minus `base`, narrowed to a type that holds them.
fn join<T: Copy>(lanes: &[(Option<&Lane>, usize)], rows: usize, base: u64, narrow: impl Fn(u64) -> T) -> Vec<T> {
    let mut out = Vec::with_capacity(rows);
    let mut raw = Vec::new();
    for &(lane, rows) in lanes {
        let end = out.len() + rows;
        if let Some(lane) = lane {
            let have = lane.len.min(rows);
            let offset = lane.base.wrapping_sub(base);
            match &lane.small {
                Small::U8(v) if lane.scale == 1 => {
                    out.extend(v[..have].iter().map(|&x| narrow(offset.wrapping_add(u64::from(x)))));
                }
                Small::U16(v) if lane.scale == 1 => {
                    out.extend(v[..have].iter().map(|&x| narrow(offset.wrapping_add(u64::from(x)))));
                }
                _ => {
                    raw.clear();
                    lane.copy_raw(0, have, &mut raw);
                    out.extend(raw.iter().map(|value| narrow(value.wrapping_sub(base))));
                }
            }
        }
        out.resize(end, narrow(0u64.wrapping_sub(base)));
    }
    out
}

#[cfg(test)]
#[path = "lane_tests.rs"]
mod tests;
