use super::*;
use pgwire::messages::{DecodeContext, PgWireFrontendMessage};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

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

/// Well-formed message bodies with their types; 0 stands for the first message, which has none.
const WELL_FORMED: [(u8, &[u8]); 14] = [
    (0, b"\0\x03\0\0user\0me\0database\0fleetdb\0\0"),
    (0, b"\x04\xd2\x16\x2e\0\0\0\x01\0\0\0\x02"),
    (b'Q', b"SELECT 1\0"),
    (b'P', b"s\0SELECT $1\0\0\x01\0\0\0\x17"),
    (b'B', b"p\0s\0\0\0\0\x03\0\0\0\x01a\0\0\0\x132026-01-01 00:00:00\0\0\0\x031.5\0\x01\0\0"),
    (b'B', b"\0s\0\0\x01\0\x01\0\x02\0\0\0\x01a\xff\xff\xff\xff\0\0"),
    (b'D', b"Ss\0"),
    (b'C', b"Pp\0"),
    (b'E', b"\0\0\0\0\0"),
    (b'S', b""),
    (b'd', b"anything"),
    (b'c', b""),
    (b'f', b"why\0"),
    (b'p', b"SCRAM-SHA-256\0\0\0\0\x02n,"),
];

#[test]
fn what_passes_is_read_as_it_was_checked() {
    let seed = std::env::var("FLEETDB_SEED").map_or_else(|_| rand::rng().random(), |seed| seed.parse().unwrap());
    println!("seed {seed}");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut passed = 0;
    for _ in 0..1_000_000 {
        let (kind, body) = WELL_FORMED[random.random_range(0..WELL_FORMED.len())];
        let mut body = body.to_vec();
        for _ in 0..random.random_range(0..4) {
            let at = random.random_range(0..=body.len());
            match random.random_range(0..3) {
                0 if at < body.len() => body[at] = random.random_range(0..4),
                1 if at < body.len() => drop(body.remove(at)),
                _ => body.insert(at, random.random_range(0..4)),
            }
        }
        let is_startup = kind == 0;
        let is_sasl = kind == b'p';
        let passes = if is_startup { super::is_startup(&body) } else { is_message(kind, &body, is_sasl) };
        if !passes {
            continue;
        }
        passed += 1;
        let length = (body.len() as u32 + 4).to_be_bytes();
        let mut bytes = BytesMut::new();
        bytes.extend_from_slice(if is_startup { &[] } else { std::slice::from_ref(&kind) });
        bytes.extend_from_slice(&length);
        bytes.extend_from_slice(&body);
        let mut context = DecodeContext::default();
        (context.awaiting_frontend_ssl, context.awaiting_frontend_startup) = (false, is_startup);
        let Ok(read) = PgWireFrontendMessage::decode(&mut bytes, &context) else { continue };
        assert!(bytes.is_empty(), "seed {seed}: {} of {:?} is left of kind {kind}", bytes.len(), body);
        match read {
            // The kind of SASL answer is not known before it is read.
            Some(PgWireFrontendMessage::PasswordMessageFamily(answer)) => drop(answer.into_sasl_initial_response()),
            Some(_) => {}
            None => panic!("seed {seed}: pgwire waits for more than {body:?} of kind {kind}"),
        }
    }
    assert!(passed > 100_000, "{passed} passed");
}
