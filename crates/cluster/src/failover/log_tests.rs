use super::*;
use crate::unreliable::Unreliable;
use fleetdb_engine::Code;

fn header(place: Place) -> Header {
    Header { database_id: "d".into(), place, file: Some((Generation(3), 24)), redefined: None, closed_by: None }
}

#[test]
fn an_object_is_read_as_it_was_written_and_damage_is_told() {
    let object = LogObject { header: header((2, 7)), piece: Bytes::from_static(b"frames") };
    let bytes = object.encode().unwrap();
    assert_eq!(LogObject::decode("here", &bytes).unwrap(), object);
    for cut in 0..bytes.len() {
        LogObject::decode("here", &bytes.slice(..cut)).unwrap_err();
    }
    for at in 0..bytes.len() {
        let mut damaged = bytes.to_vec();
        damaged[at] ^= 0x40;
        assert!(LogObject::decode("here", &damaged.into()).is_err(), "byte {at}");
    }
    let mut newer = bytes.to_vec();
    newer[8] = 9;
    assert_eq!(LogObject::decode("here", &newer.into()).unwrap_err().code(), Code::Invalid);
}

#[test]
fn a_log_is_closed_at_its_first_free_number_and_stays_closed() {
    let (_, bucket) = Unreliable::new(1);
    let requests = Requests::new(bucket).unwrap();
    let put = |number| {
        let object = LogObject { header: header((1, number)), piece: Bytes::from(vec![number as u8]) };
        append(&requests, (1, number), &object.encode().unwrap()).unwrap()
    };
    assert!((0..3).all(put));
    let closing = |node: &str| Header { file: None, closed_by: Some((2, node.into())), ..header((1, 0)) };
    let pieces = |objects: Vec<LogObject>| objects.iter().map(|object| object.piece[0]).collect::<Vec<_>>();
    assert_eq!(pieces(close(&requests, (1, 1), &closing("a")).unwrap()), [1, 2]);
    assert!(!put(3), "the log is closed");
    assert_eq!(pieces(close(&requests, (1, 0), &closing("b")).unwrap()), [0, 1, 2]);
    // What closes it is not trimmed.
    assert_eq!(trim(&requests, (2, 0), (0, 0)).unwrap(), 3);
    assert_eq!(pieces(close(&requests, (1, 3), &closing("c")).unwrap()), [] as [u8; 0]);
    assert!(!put(3), "the log stays closed");
}
