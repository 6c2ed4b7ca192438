use super::*;

fn lines(body: &str) -> Vec<(usize, &str)> {
    body_lines(body.as_bytes()).map(|line| (line.number, str::from_utf8(line.bytes).unwrap().trim_end())).collect()
}

#[test]
fn a_line_break_within_a_text_does_not_end_the_line() {
    assert_eq!(
        lines("m,t=\"a v=\"b\nc\",w=\"\\\"\n\" 1\n\n m v=1\n# it's \"v=\"x\nlast v=\"1\""),
        [(1, "m,t=\"a v=\"b\nc\",w=\"\\\"\n\" 1"), (4, ""), (5, " m v=1"), (6, "# it's \"v=\"x"), (7, "last v=\"1\"")]
    );
    // A quote in a name, in a tag or after a comma opens no text.
    assert_eq!(lines("m\",t=\"a v=1\nm \"v=1\nm v=1,\"w=2\n").len(), 3);
    assert_eq!(lines("\t=\t \"v=1\nm,t=\" v=2\n").len(), 2);
    assert_eq!(lines(" =\t \"v=1\nm,t=\" v=2\n").len(), 1);
    // An unclosed quote takes everything after it, as in InfluxDB.
    assert_eq!(lines("m v=1\nm v=\"a\nm v=2\n"), [(1, "m v=1"), (2, "m v=\"a\nm v=2")]);
    assert_eq!(lines("m v=\"a\\\\\"\nm v=2").len(), 2);
}

#[test]
fn pieces_of_any_length_give_the_same_lines() {
    let body = b"m,t=a\\ b v=\"x\n\\\"\n\" 1\r\n # \"=\"\nm v=1\n\"\nn w=\"\n\",x=1i\n";
    let whole: Vec<usize> = body_lines(body).map(|line| line.bytes.len()).collect();
    for length in 1..body.len() {
        let (mut ends, mut found, mut open) = (LineSplitter::default(), Vec::new(), 0);
        for mut piece in body.chunks(length) {
            while let Some(end) = ends.find(piece) {
                found.push(open + end);
                (open, piece) = (0, &piece[end..]);
            }
            open += piece.len();
        }
        assert_eq!((found, open), (whole.clone(), 0), "pieces of {length} bytes");
    }
}
