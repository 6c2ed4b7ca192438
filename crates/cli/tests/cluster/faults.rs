//! Two nodes of a cluster while clients append and read: nodes are killed, paused, stopped and cut off,
//! their clocks jump, and the store goes away. The checks are those of [`history`](super::history).

use super::free_port;
use super::history::check;
use super::host::{Host, Lost, Network};
use super::nodes::{CLOCK, Cluster, Node};
use super::proxy::{Proxy, Way};
use rand::prelude::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::path::Path;
use std::time::Duration;

/// Waits for up to two seconds.
fn wait_for_a_while(random: &mut Xoshiro256PlusPlus) {
    std::thread::sleep(Duration::from_millis(random.random_range(0..2_000)));
}

#[test]
fn a_cluster_loses_nothing_and_reads_never_go_back() {
    let (here, port) = (Host::here(), free_port());
    let proxies = [Proxy::start(port), Proxy::start(port)];
    let through_proxies = proxies.each_ref().map(|proxy| format!("http://127.0.0.1:{}", proxy.port));
    let Some(cluster) = Cluster::on((&here, port), [&here, &here], through_proxies) else { return };
    let last = Node::new(cluster.folder.path(), "c", &here, format!("http://127.0.0.1:{port}"));
    check(cluster, last, 11, |kind, owner, cluster, history, random| match kind {
        0 => {
            cluster.nodes[owner].end("-KILL");
            history.wait_for_takeover(owner, cluster, random);
            cluster.nodes[owner].start(&cluster.url);
            "the owner is killed, and comes back after the other one has taken over"
        }
        1 => {
            cluster.nodes[owner].signal("-STOP");
            history.wait_for_takeover(owner, cluster, random);
            cluster.nodes[owner].signal("-CONT");
            "the owner is paused until the other one has taken over"
        }
        2 => {
            cluster.nodes[owner].end("-KILL");
            cluster.nodes[owner].start(&cluster.url);
            "the owner is killed, and starts again at once"
        }
        3 => {
            cluster.nodes[owner].end("-TERM");
            cluster.nodes[owner].start(&cluster.url);
            "the owner is stopped, and starts again"
        }
        4 => {
            drop(cluster.store.take());
            wait_for_a_while(random);
            cluster.start_store();
            "the store is killed, and starts again"
        }
        5 => {
            history.without(owner, cluster, random, || proxies[owner].only(Way::Cut));
            "the owner is cut off from the store until the other one has taken over"
        }
        6 => {
            history.without(owner, cluster, random, || proxies[owner].only(Way::NoAnswers));
            "the owner gets no answers from the store until the other one has taken over"
        }
        7 => {
            history.without(owner, cluster, random, || proxies[owner].only(Way::Conflict));
            "the store refuses what the owner writes until the other one has taken over"
        }
        8 => {
            for_a_while(&proxies, Way::Busy, random);
            "the store is busy for all"
        }
        9 => {
            for_a_while(&proxies, Way::Cut, random);
            "all are cut off from the store"
        }
        _ => {
            cluster.nodes.iter_mut().for_each(|node| node.end("-KILL"));
            // The disk of the owner is lost.
            std::fs::remove_dir_all(&cluster.nodes[owner].data).unwrap();
            cluster.nodes.iter_mut().for_each(|node| node.start(&cluster.url));
            "both are killed, and the owner loses its disk"
        }
    });
}

fn for_a_while(proxies: &[Proxy; 2], way: Way, random: &mut Xoshiro256PlusPlus) {
    let _failing = proxies.each_ref().map(|proxy| proxy.only(way));
    wait_for_a_while(random);
}

/// What clocks may be wrong by so that the store still takes requests.
const TOLERATED: i64 = 600;
const DAY: i64 = 86_400;

#[test]
fn a_cluster_whose_network_and_clocks_fail_loses_nothing() {
    if !Path::new(CLOCK).exists() {
        println!("skipped: libfaketime is not installed; .ci/run does it");
        return;
    }
    let test = "faults::a_cluster_whose_network_and_clocks_fail_loses_nothing";
    let Some((_network, [a, b, c, store])) = Network::new(test) else { return };
    let port = free_port();
    let endpoint = format!("http://{}:{port}", store.address);
    let both = [endpoint.clone(), endpoint.clone()];
    let Some(mut cluster) = Cluster::on((&store, port), [&a, &b], both) else { return };
    cluster.nodes.iter_mut().for_each(|node| node.set_clock(0));
    let last = Node::new(cluster.folder.path(), "c", &c, endpoint);
    let both_ways = |host: &Host| Lost::between(host, &store).and(Lost::between(&store, host));
    check(cluster, last, 11, |kind, owner, cluster, history, random| {
        let (host, other) = (cluster.nodes[owner].host.clone(), cluster.nodes[1 - owner].host.clone());
        match kind {
            0 => {
                history.without(owner, cluster, random, || Lost::between(&host, &store));
                "requests of the owner to the store are lost until the other one has taken over"
            }
            1 => {
                history.without(owner, cluster, random, || Lost::between(&store, &host));
                "answers of the store to the owner are lost until the other one has taken over"
            }
            2 => {
                history.without(owner, cluster, random, || Lost::of(&host));
                "the owner reaches nobody until the other one has taken over"
            }
            3 => {
                let _lost = Lost::from_clients(&host);
                wait_for_a_while(random);
                "clients do not reach the owner"
            }
            4 => {
                let _lost = both_ways(&other);
                history.wait_for_appends(cluster, 1);
                "the node that stands by does not reach the store"
            }
            5 => {
                let _lost = [both_ways(&host), both_ways(&other)];
                wait_for_a_while(random);
                "nobody reaches the store"
            }
            6 => {
                let lost = both_ways(&other);
                cluster.nodes[owner].end("-KILL");
                wait_for_a_while(random);
                drop(lost);
                history.wait_for_appends(cluster, 1);
                cluster.nodes[owner].start(&cluster.url);
                "the owner is killed while the other one does not reach the store"
            }
            7 => {
                let seconds = random.random_range(-TOLERATED..=TOLERATED);
                cluster.nodes[owner].set_clock(seconds);
                "the clock of the owner jumps by minutes"
            }
            8 => {
                cluster.nodes[owner].signal("-STOP");
                let seconds = random.random_range(-TOLERATED..=TOLERATED);
                cluster.nodes[owner].set_clock(seconds);
                history.wait_for_takeover(owner, cluster, random);
                cluster.nodes[owner].signal("-CONT");
                "the owner is paused until the other one has taken over, and its clock jumps meanwhile"
            }
            9 => {
                cluster.nodes[owner].set_clock(*[-DAY, DAY].choose(random).unwrap());
                history.wait_for_takeover(owner, cluster, random);
                // The store refuses what it asks for as a node that stands by as well.
                wait_for_a_while(random);
                cluster.nodes[owner].set_clock(0);
                "the clock of the owner jumps by a day and back"
            }
            _ => {
                cluster.nodes[1 - owner].set_clock(*[-DAY, DAY].choose(random).unwrap());
                wait_for_a_while(random);
                cluster.nodes[1 - owner].set_clock(0);
                "the clock of the node that stands by jumps by a day and back"
            }
        }
    });
}
