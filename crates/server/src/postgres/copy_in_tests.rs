use super::*;

#[test]
fn cells_of_csv_are_those_of_postgresql() {
    let cells = |row| {
        let cells = csv_cells(row, ',')?;
        Some(cells.into_iter().map(|(cell, has_quotes)| format!("{cell}{}", u8::from(has_quotes))).collect::<Vec<_>>())
    };
    let same = |row, expected: &[&str]| assert_eq!(cells(row).unwrap(), expected, "{row}");
    same("", &["0"]);
    same("a,,b", &["a0", "0", "b0"]);
    same(r#""a,b","","x""y""#, &["a,b1", "1", "x\"y1"]);
    // As in PostgreSQL, quotes within a cell are taken out.
    same(r#"a"b,c"d,e"#, &["ab,cd1", "e0"]);
    assert_eq!(cells(r#"a,"b"#), None);
}
