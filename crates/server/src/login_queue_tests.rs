use super::*;
use std::time::Duration;

#[test]
fn those_of_one_address_keep_no_other_waiting() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(one_address_and_another());
}

async fn one_address_and_another() {
    let queue = Arc::new(LoginQueue::new(16));
    let (many, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
    let first = queue.acquire(many).await.unwrap();
    let waiting: Vec<_> = (0..16)
        .map(|_| {
            let queue = Arc::clone(&queue);
            tokio::spawn(async move { queue.acquire(many).await.is_ok() })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(queue.acquire(many).await.is_err(), "one more waits");
    assert!(queue.acquire(other).await.is_ok());
    drop(first);
    for one in waiting {
        assert!(one.await.unwrap());
    }
    assert!(queue.addresses.lock().is_empty());
}

#[test]
fn an_address_of_ipv6_is_its_network() {
    let of = |text: &str| network(text.parse().unwrap());
    assert_eq!(of("2001:db8::1"), of("2001:db8::2:3"));
    assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
    assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
}
