//! Exact decimal numbers, the values of NUMERIC columns.

use std::fmt;

/// The maximum number of digits of a decimal number: all numbers with this many fit in 64 bits.
pub const MAX_DECIMAL_DIGITS: u8 = 18;

/// An exact decimal number of up to [`MAX_DECIMAL_DIGITS`] digits.
///
/// ```
/// use fleetdb_engine::Decimal;
/// let price = Decimal { unscaled: 1250, scale: 2 };
/// assert_eq!(price.to_string(), "12.50");
/// assert_eq!(Decimal::parse("12.499", 4, 2), Ok(price));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    /// The number without its decimal point.
    pub unscaled: i64,
    /// The number of digits after the decimal point.
    pub scale: u8,
}

/// Why a text is not a decimal number of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecimalError {
    /// It is no number.
    Malformed,
    /// It has more digits before the decimal point than the type.
    OutOfRange,
}

impl Decimal {
    /// Parses a number like `-12.5` or `1.25e3`, rounded to `scale` digits after the decimal point;
    /// halves are rounded away from zero.
    ///
    /// # Errors
    /// The text is no number, or the rounded number has more than `precision` digits.
    pub fn parse(text: &str, precision: u8, scale: u8) -> Result<Self, DecimalError> {
        let text = text.trim();
        let (is_negative, unsigned) = match text.strip_prefix('-') {
            Some(unsigned) => (true, unsigned),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().map_err(|_| DecimalError::Malformed)?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = || whole.bytes().chain(fraction.bytes());
        if digits().count() == 0 || !digits().all(|digit| digit.is_ascii_digit()) {
            return Err(DecimalError::Malformed);
        }
        // The number of digits that are kept, as counted from the first one of the text.
        let kept = whole.len() as i64 + i64::from(exponent) + i64::from(scale);
        let zeros = digits().take_while(|digit| *digit == b'0').count() as i64;
        if digits().count() as i64 == zeros || kept < zeros {
            return Ok(Self { unscaled: 0, scale });
        }
        if kept - zeros > i64::from(MAX_DECIMAL_DIGITS) {
            return Err(DecimalError::OutOfRange);
        }
        let mut rest = digits().skip(zeros as usize).map(|digit| i64::from(digit - b'0'));
        let mut unscaled = 0i64;
        for _ in zeros..kept {
            unscaled = unscaled * 10 + rest.next().unwrap_or(0);
        }
        unscaled += i64::from(rest.next().is_some_and(|digit| digit >= 5));
        let unscaled = if is_negative { -unscaled } else { unscaled };
        let number = Self { unscaled, scale };
        number.fits(precision).then_some(number).ok_or(DecimalError::OutOfRange)
    }

    /// Parses a number with the digits that it has; `None` if it is no number, or has more than
    /// [`MAX_DECIMAL_DIGITS`].
    ///
    /// ```
    /// use fleetdb_engine::Decimal;
    /// assert_eq!(Decimal::read("-1.250"), Some(Decimal { unscaled: -1250, scale: 3 }));
    /// ```
    pub fn read(text: &str) -> Option<Self> {
        let (mantissa, exponent) = text.trim().split_once(['e', 'E']).unwrap_or((text.trim(), "0"));
        let fraction = mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len() as i64);
        let scale = fraction.checked_sub(exponent.parse::<i32>().ok()?.into())?.max(0);
        let scale = u8::try_from(scale).ok().filter(|scale| *scale <= MAX_DECIMAL_DIGITS)?;
        Self::parse(text, MAX_DECIMAL_DIGITS, scale).ok()
    }

    /// Whether the number has at most `precision` digits.
    pub fn fits(self, precision: u8) -> bool {
        10u64.checked_pow(u32::from(precision)).is_none_or(|limit| self.unscaled.unsigned_abs() < limit)
    }

    /// The same number with another scale, if that is exact and has at most `precision` digits.
    pub fn with_scale(self, precision: u8, scale: u8) -> Option<Self> {
        let unscaled = match scale.checked_sub(self.scale) {
            Some(more) => self.unscaled.checked_mul(10i64.checked_pow(u32::from(more))?)?,
            None => {
                let divisor = 10i64.checked_pow(u32::from(self.scale - scale))?;
                (self.unscaled % divisor == 0).then_some(self.unscaled / divisor)?
            }
        };
        Some(Self { unscaled, scale }).filter(|number| number.fits(precision))
    }

    /// The nearest floating point number.
    pub fn to_f64(self) -> f64 {
        // A text is rounded once, a quotient of two floats up to three times.
        self.to_string().parse().unwrap_or(f64::NAN)
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:0width$}", self.unscaled.unsigned_abs(), width = usize::from(self.scale) + 1);
        let (whole, fraction) = digits.split_at(digits.len() - usize::from(self.scale));
        let sign = if self.unscaled < 0 { "-" } else { "" };
        match fraction {
            "" => write!(f, "{sign}{whole}"),
            fraction => write!(f, "{sign}{whole}.{fraction}"),
        }
    }
}

#[cfg(test)]
#[path = "decimal_tests.rs"]
mod tests;
