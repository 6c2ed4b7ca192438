use super::*;
use arrow::array::{ArrayRef, FixedSizeBinaryArray, ListArray, RecordBatch};
use arrow::datatypes::Int64Type;
use std::sync::Arc;

fn rows(text: &str, piece_bytes: usize) -> Result<Vec<(u64, Vec<String>)>, CsvError> {
    let mut reader = CsvReader::new(b',');
    let mut rows = Vec::new();
    let mut take = |reader: &mut CsvReader, is_end| {
        while let Some(row) = reader.next_row(is_end)? {
            let cells = row.cells().unwrap().into_iter();
            rows.push((row.line, cells.map(|cell| format!("{}{}", cell.text, u8::from(cell.is_quoted))).collect()));
        }
        Ok(())
    };
    for piece in text.as_bytes().chunks(piece_bytes) {
        reader.push(piece);
        take(&mut reader, false)?;
    }
    take(&mut reader, true)?;
    Ok(rows)
}

#[test]
fn rows_are_those_of_postgresql_in_whatever_pieces_they_come() {
    let text = "a,,b\r\n\"a,b\",\"\",\"x\"\"y\"\n\na\"b,c\"d,e\n\"ä\r\n\"\"\n\",1\rlast,\"\"";
    let expected: [(u64, &[&str]); 6] = [
        (1, &["a0", "0", "b0"]),
        (2, &["a,b1", "1", "x\"y1"]),
        (3, &["0"]),
        (4, &["ab,cd1", "e0"]),
        (5, &["ä\r\n\"\n1", "10"]),
        (8, &["last0", "1"]),
    ];
    for piece_bytes in 1..text.len() + 1 {
        let rows = rows(text, piece_bytes).unwrap();
        assert_eq!(rows.len(), expected.len(), "{rows:?}");
        for ((line, cells), expected) in rows.iter().zip(expected) {
            assert_eq!((*line, cells.iter().map(String::as_str).collect::<Vec<_>>().as_slice()), expected);
        }
    }
}

#[test]
fn an_open_quote_is_named_by_the_line_where_it_begins() {
    for piece_bytes in [1, 7, 1_000] {
        let error = rows("id,text\n1,a\n2,\"b\n3,c\n4,d\n", piece_bytes).unwrap_err();
        assert_eq!(error.line, 3, "{error:?}");
        assert!(error.reason.starts_with("a quote is not closed: it begins in this line"), "{error:?}");
        // After the unclosed quote, each following quote looks like a closing one.
        let error = rows("1,\"a\"\n2,\"b\n3,\"c\"\n4,\"d\"\n", piece_bytes).unwrap_err();
        assert_eq!(error.line, 2, "{error:?}");
        // A doubled quote inside a quoted cell does not open anything.
        assert_eq!(rows("1,a\n2,\"b\n\"\"\n", piece_bytes).unwrap_err().line, 2);
    }
    let long = format!("1,\"{}", "x\n".repeat(9 << 20));
    let error = rows(&long, 1 << 20).unwrap_err();
    assert!(error.line == 1 && error.reason.contains("is a quote open?"), "{error:?}");
}

#[test]
fn uuids_and_arrays_are_texts() {
    let uuid: ArrayRef = Arc::new(FixedSizeBinaryArray::try_from_iter([[1_u8; 16]].into_iter()).unwrap());
    let array = ListArray::from_iter_primitive::<Int64Type, _, _>([Some([Some(1), None])]);
    let rows = RecordBatch::try_from_iter([("u", uuid), ("a", Arc::new(array) as ArrayRef)]).unwrap();
    let mut out = Vec::new();
    csv_rows(&rows, &mut out).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), "01010101-0101-0101-0101-010101010101,\"{1,NULL}\"\n");
}
