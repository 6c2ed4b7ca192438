use super::*;
use std::time::Duration;

#[test]
fn those_of_one_address_keep_no_other_waiting() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(one_address_and_another());
}

async fn one_address_and_another() {
    let turns = Arc::new(Turns::new(16));
    let (many, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
    let first = turns.turn(many).await.unwrap();
    let waiting: Vec<_> = (0..16)
        .map(|_| {
            let turns = Arc::clone(&turns);
            tokio::spawn(async move { turns.turn(many).await.is_ok() })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(turns.turn(many).await.is_err(), "one more waits");
    assert!(turns.turn(other).await.is_ok());
    drop(first);
    for one in waiting {
        assert!(one.await.unwrap());
    }
    assert!(turns.addresses.lock().is_empty());
}

#[test]
fn an_address_of_ipv6_is_its_network() {
    let of = |text: &str| network(text.parse().unwrap());
    assert_eq!(of("2001:db8::1"), of("2001:db8::2:3"));
    assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
    assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
}
