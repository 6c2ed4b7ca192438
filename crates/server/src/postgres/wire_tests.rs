use super::*;

#[test]
fn a_message_must_have_the_form_of_its_kind() {
    let well_formed: [(u8, &[u8]); 8] = [
        (b'Q', b"SELECT 1\0"),
        (b'P', b"s\0SELECT $1\0\0\x01\0\0\0\x17"),
        (b'B', b"\0s\0\0\x01\0\x01\0\x02\0\0\0\x01a\xff\xff\xff\xff\0\0"),
        (b'D', b"Ss\0"),
        (b'E', b"\0\0\0\0\0"),
        (b'S', b""),
        (b'd', b"anything"),
        (b'f', b"why\0"),
    ];
    for (kind, body) in well_formed {
        assert!(is_message(kind, body, false), "{}", char::from(kind));
        assert!(kind == b'd' || !is_message(kind, &[body, b"x"].concat(), false), "{} with more", char::from(kind));
        if kind != b'd' && !body.is_empty() {
            assert!(!is_message(kind, &body[..body.len() - 1], false), "{} cut off", char::from(kind));
        }
    }
    assert!(!is_message(b'B', b"\0s\0\0\0\0\x01\x7f\xff\xff\xffa\0\0", false), "a value longer than the message");
    assert!(!is_message(b'z', b"", false));
    assert!(is_message(b'p', b"SCRAM-SHA-256\0\0\0\0\x02n,", true));
    assert!(!is_message(b'p', b"SCRAM-SHA-256\0\0\0\0\x09n,", true));
}

#[test]
fn a_startup_is_a_version_and_texts() {
    assert!(is_startup(b"\0\x03\0\0user\0me\0\0"));
    assert!(!is_startup(b"\0\x03\0\0user"));
    assert!(!is_startup(b"\0\x03"));
    assert!(is_startup(&[&CANCEL_REQUEST.to_be_bytes()[..], &[0; 8]].concat()));
    assert!(!is_startup(&[&CANCEL_REQUEST.to_be_bytes()[..], &[0; 7]].concat()));
}
