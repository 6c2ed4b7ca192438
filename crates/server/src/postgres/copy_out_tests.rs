use super::*;

fn line(format: CopyFormat, delimiter: u8, null: &str, values: &[Option<&str>]) -> String {
    let form = CopyForm { format, header: false, delimiter, null: null.to_owned() };
    let mut out = BytesMut::new();
    put_line(values.iter().map(|value| value.map(str::as_bytes)), &form, &mut out);
    String::from_utf8(out.to_vec()).unwrap()
}

#[test]
fn text_has_backslashes() {
    let values = [Some("a\tb"), None, Some(""), Some("\\N"), Some("1|2\n")];
    assert_eq!(line(CopyFormat::Text, b'\t', "\\N", &values), "a\\tb\t\\N\t\t\\\\N\t1|2\\n\n");
    assert_eq!(line(CopyFormat::Text, b'|', "-", &[Some("1|2"), None]), "1\\|2|-\n");
}

#[test]
fn csv_has_quotes_where_a_value_could_be_something_else() {
    let values = [Some("a b"), None, Some(""), Some("x,y"), Some("say \"no\""), Some("1\n2"), Some("\\.")];
    let expected = "a b,,\"\",\"x,y\",\"say \"\"no\"\"\",\"1\n2\",\"\\.\"\n";
    assert_eq!(line(CopyFormat::Csv, b',', "", &values), expected);
    assert_eq!(line(CopyFormat::Csv, b';', "NULL", &[Some("NULL"), None, Some("a,b")]), "\"NULL\";NULL;a,b\n");
}

#[test]
fn the_binary_form_is_what_rows_are_already() {
    let mut data = BytesMut::new();
    data.put_i32(2);
    data.put_slice(b"ab");
    data.put_i32(-1);
    let form = CopyForm { format: CopyFormat::Binary, header: false, delimiter: 0, null: String::new() };
    let bytes = row_of(&DataRow::new(data, 2), b"head", &form);
    assert_eq!(&bytes[..], b"head\0\x02\0\0\0\x02ab\xff\xff\xff\xff");
}
