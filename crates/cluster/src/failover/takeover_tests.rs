use super::*;

fn object(place: Place, file: (u64, u64), piece: &'static [u8]) -> LogObject {
    let file = Some((Generation(file.0), file.1));
    let header = Header { database_id: String::new(), place, file, redefined: None, closed_by: None };
    LogObject { header, piece: Bytes::from_static(piece) }
}

fn files(objects: &[LogObject]) -> Result<Vec<(u64, Vec<u8>)>> {
    let mut found = FoundLog::new(State::default());
    objects.iter().try_for_each(|object| found.add(object))?;
    Ok(found.files.into_iter().map(|(generation, bytes)| (generation.0, bytes)).collect())
}

#[test]
fn what_an_owner_has_left_incomplete_is_cut_off_by_the_first_object_of_the_next_epoch() {
    let torn = [object((1, 0), (1, 0), b"frame fra")];
    assert_eq!(files(&torn).unwrap(), [(1, b"frame fra".to_vec())]);
    // Nothing more was written to this generation.
    let cut = object((2, 0), (1, 6), b"");
    let next = object((2, 1), (2, 0), b"next");
    let all = [torn[0].clone(), cut.clone(), next.clone()];
    assert_eq!(files(&all).unwrap(), [(1, b"frame ".to_vec()), (2, b"next".to_vec())]);
    // Only the first object of an epoch may cut.
    files(&[torn[0].clone(), next.clone(), object((2, 2), (2, 1), b"")]).unwrap_err();
}

#[test]
fn a_gap_is_damage() {
    for gap in [object((1, 1), (1, 10), b"x"), object((1, 1), (3, 0), b"x"), object((1, 1), (1, 8), b"x")] {
        let error = files(&[object((1, 0), (1, 0), b"frame fra"), gap]).unwrap_err();
        assert_eq!(error.code(), Code::Damaged, "{error}");
    }
    files(&[object((1, 0), (2, 0), b"x")]).unwrap_err();
}
