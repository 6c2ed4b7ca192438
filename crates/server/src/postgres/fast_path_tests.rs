use super::*;

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

const BIND: &[u8] = b"\0s\0\0\x01\0\x01\0\x02\0\0\0\x03abc\xff\xff\xff\xff\0\0";
const EXECUTE: &[u8] = b"\0\0\0\0\0";

fn run_of(bind: &[u8], execute: &[u8]) -> Vec<u8> {
    [message(b'B', bind), message(b'E', execute), message(b'S', b"")].concat()
}

#[test]
fn a_run_is_taken_apart() {
    let mut buffer = run_of(BIND, EXECUTE);
    let messages = buffer.len();
    buffer.extend(message(b'X', b""));
    let run = run_at(&buffer).unwrap();
    assert_eq!((run.statement, run.bytes), ("s", messages - HEAD_BYTES));
    assert_eq!(run.parameters.values, [Some(&b"abc"[..]), None]);
    assert!(run.parameters.format.is_binary(0) && run.parameters.format.is_binary(1));
    assert_eq!(run.formats, (1, 0));
    assert!(run.result_format.is_text(0));
    assert!(!run.is_described);
}

#[test]
fn what_is_no_run_is_left() {
    let whole = run_of(BIND, EXECUTE);
    for bytes in 0..=whole.len() - HEAD_BYTES {
        assert!(run_at(&whole[..bytes]).is_none(), "the first {bytes} bytes");
    }
    assert!(run_at(&run_of(&[b"p", BIND].concat(), EXECUTE)).is_none(), "a portal with a name");
    assert!(run_at(&run_of(BIND, b"\0\0\0\0\x05")).is_none(), "part of the rows");
    assert!(run_at(&run_of(&[BIND, b"x"].concat(), EXECUTE)).is_none(), "more than a Bind");
    let again = [message(b'B', BIND), message(b'E', EXECUTE), message(b'E', EXECUTE)].concat();
    assert!(run_at(&again).is_none(), "the portal is asked again");
}

#[test]
fn runs_of_a_pipeline_are_taken_one_by_one() {
    let one = [message(b'B', BIND), message(b'E', EXECUTE)].concat();
    let pipeline = [one.as_slice(), &one, &message(b'S', b"")].concat();
    assert_eq!(run_at(&pipeline).unwrap().bytes, one.len());
    assert_eq!(run_at(&pipeline[one.len()..]).unwrap().bytes, one.len());
}

#[test]
fn the_columns_may_be_asked_for() {
    let described =
        |body| [message(b'B', BIND), message(b'D', body), message(b'E', EXECUTE), message(b'S', b"")].concat();
    let whole = described(b"P\0");
    let run = run_at(&whole).unwrap();
    assert!(run.is_described);
    assert_eq!(run.bytes, whole.len() - HEAD_BYTES);
    for bytes in 0..=run.bytes {
        assert!(run_at(&whole[..bytes]).is_none(), "the first {bytes} bytes");
    }
    assert!(run_at(&described(b"S\0")).is_none(), "a statement's");
    assert!(run_at(&described(b"Pp\0")).is_none(), "another portal's");
    let twice = [message(b'B', BIND), message(b'D', b"P\0"), message(b'D', b"P\0"), message(b'E', EXECUTE)].concat();
    assert!(run_at(&twice).is_none(), "two");
}
