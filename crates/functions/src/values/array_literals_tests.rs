use super::array_of_text;
use crate::values::zone::Zone;
use arrow::datatypes::DataType;

#[test]
fn an_element_of_another_type_says_which() {
    let error = array_of_text("{1,x}", &DataType::Int64, Zone::Utc).unwrap_err().to_string();
    assert!(error.contains("'x'"), "{error}");
}
