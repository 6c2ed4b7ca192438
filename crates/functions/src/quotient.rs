//! The quotient of decimal numbers, rounded to its last digit, halves away from zero. DataFusion cuts it.

use crate::errors::query_error;
use arrow::array::{ArrayRef, AsArray, Decimal128Array};
use arrow::datatypes::{DataType, Decimal128Type, DecimalType, i256};
use datafusion::error::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{
    ColumnarValue, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use fleetdb_engine::{Code, Error};
use std::sync::{Arc, LazyLock};

/// The function. It takes and returns what DataFusion's division of the same types does.
pub static QUOTIENT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::user_defined(Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(Quotient { signature }))
});

#[derive(Debug, PartialEq, Eq, Hash)]
struct Quotient {
    signature: Signature,
}

impl ScalarUDFImpl for Quotient {
    fn name(&self) -> &'static str {
        "quotient"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let (left, right) = BinaryTypeCoercer::new(&types[0], &Operator::Divide, &types[1]).get_input_types()?;
        Ok(vec![left, right])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        BinaryTypeCoercer::new(&types[0], &Operator::Divide, &types[1]).get_result_type()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let to = args.return_field.data_type().clone();
        make_scalar_function(move |args: &[ArrayRef]| quotients(args, &to), Vec::new())(&args.args)
    }
}

fn quotients(args: &[ArrayRef], to: &DataType) -> Result<ArrayRef> {
    let (&DataType::Decimal128(_, left), &DataType::Decimal128(_, right), &DataType::Decimal128(precision, scale)) =
        (args[0].data_type(), args[1].data_type(), to)
    else {
        // Numbers with more digits are divided as they are.
        return Ok(arrow::compute::kernels::numeric::div(&args[0], &args[1])?);
    };
    let shift = i256::from_i128(10).wrapping_pow((scale - left + right).max(0) as u32);
    let quotient = |left: i128, right: i128| -> Result<i128> {
        if right == 0 {
            return Err(query_error(Error::new(Code::DivisionByZero, "division by zero")));
        }
        let overflow = || query_error(Error::new(Code::OutOfRange, "numeric field overflow"));
        let dividend = i256::from_i128(left).checked_mul(shift).ok_or_else(overflow)?;
        let divisor = i256::from_i128(right);
        let (quotient, rest) = (dividend.wrapping_div(divisor), dividend.wrapping_rem(divisor));
        let is_up = rest.wrapping_abs().wrapping_mul(i256::from_i128(2)) >= divisor.wrapping_abs();
        let away = if (left < 0) == (right < 0) { i256::ONE } else { i256::MINUS_ONE };
        let rounded = if is_up { quotient.wrapping_add(away) } else { quotient };
        let rounded = rounded.to_i128().ok_or_else(overflow)?;
        Decimal128Type::validate_decimal_precision(rounded, precision, scale).map_err(|_| overflow())?;
        Ok(rounded)
    };
    let (left, right) = (args[0].as_primitive::<Decimal128Type>(), args[1].as_primitive::<Decimal128Type>());
    let both = left.iter().zip(right).map(|(left, right)| left.zip(right));
    let quotients = both.map(|both| both.map(|(left, right)| quotient(left, right)).transpose());
    Ok(Arc::new(quotients.collect::<Result<Decimal128Array>>()?.with_data_type(to.clone())))
}

#[cfg(test)]
#[path = "quotient_tests.rs"]
mod tests;
