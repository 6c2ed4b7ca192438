//! Hosts of a cluster: this machine, or network namespaces that end with the test.

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Where programs of a test run.
#[derive(Clone)]
pub struct Host {
    pub address: String,
    /// A process in the network namespace of the host.
    namespace: Option<u32>,
}

impl Host {
    /// This machine.
    pub fn here() -> Self {
        Self { address: "127.0.0.1".to_owned(), namespace: None }
    }

    /// A command that runs on the host.
    pub fn command(&self, program: &str) -> Command {
        let Some(namespace) = self.namespace else { return Command::new(program) };
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{namespace}/ns/net")).arg(program);
        command
    }
}

/// Set in a test process that is in a network namespace of its own.
const INSIDE: &str = "FLEETDB_TEST_NETWORK";

/// Hosts that are network namespaces. What they send to each other goes through the namespace of the
/// test, which can lose it.
pub struct Network {
    holders: Vec<Child>,
}

impl Drop for Network {
    fn drop(&mut self) {
        for holder in &mut self.holders {
            holder.kill().ok();
            holder.wait().ok();
        }
    }
}

impl Network {
    /// Makes `N` hosts. The first call of a test named `test` runs it again in a namespace of its own, and
    /// returns `None` after that; so it does, with a message, where namespaces cannot be made.
    pub fn new<const N: usize>(test: &str) -> Option<(Self, [Host; N])> {
        if std::env::var_os(INSIDE).is_none() {
            let can = Command::new("unshare").args(["--net", "ip", "link"]).stdout(Stdio::null()).status();
            if !can.is_ok_and(|status| status.success()) {
                println!("skipped: network namespaces need the rights of root, unshare and ip; .ci/run installs these");
                return None;
            }
            let this = std::env::current_exe().unwrap();
            let mut again = Command::new("unshare");
            again.arg("--net").arg(this).args(["--exact", test, "--nocapture"]).env(INSIDE, "yes");
            assert!(again.status().unwrap().success(), "{test} failed in its namespace");
            return None;
        }
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
        let mut network = Self { holders: Vec::new() };
        ip("link set lo up");
        let hosts = std::array::from_fn(|index| network.add(index + 1));
        Some((network, hosts))
    }

    /// Makes a host with an address, and connects it.
    fn add(&mut self, number: usize) -> Host {
        // `cat` waits for input that does not come, and ends with this process.
        let holder = Command::new("unshare").args(["--net", "cat"]).stdin(Stdio::piped()).spawn().unwrap();
        let namespace = holder.id();
        self.holders.push(holder);
        let own = std::fs::read_link("/proc/self/ns/net").unwrap();
        let begun = Instant::now();
        while std::fs::read_link(format!("/proc/{namespace}/ns/net")).unwrap() == own {
            assert!(begun.elapsed() < super::LIMIT, "no namespace");
            std::thread::sleep(Duration::from_millis(1));
        }
        let host = Host { address: format!("10.77.{number}.2"), namespace: Some(namespace) };
        ip(&format!("link add host{number} type veth peer name eth0 netns {namespace}"));
        ip(&format!("address add 10.77.{number}.1/24 dev host{number}"));
        ip(&format!("link set host{number} up"));
        let there = |arguments: &str| succeeded(host.command("ip").args(arguments.split(' ')).output().unwrap());
        there("link set lo up");
        there(&format!("address add {}/24 dev eth0", host.address));
        there("link set eth0 up");
        there(&format!("route add default via 10.77.{number}.1"));
        host
    }
}

/// Packets that are lost until this is dropped.
#[must_use]
pub struct Lost(Vec<String>);

impl Lost {
    /// What one host sends to another.
    pub fn between(from: &Host, to: &Host) -> Self {
        Self::by_rule(format!("from {} to {} blackhole", from.address, to.address))
    }

    /// What clients send to a host.
    pub fn from_clients(to: &Host) -> Self {
        Self::by_rule(format!("iif lo to {} blackhole", to.address))
    }

    fn by_rule(rule: String) -> Self {
        ip(&format!("rule add {rule}"));
        Self(vec![format!("rule delete {rule}")])
    }

    /// All that a host sends and gets: its cable is out.
    pub fn of(host: &Host) -> Self {
        let number = host.address.split('.').nth(2).unwrap();
        ip(&format!("link set host{number} down"));
        Self(vec![format!("link set host{number} up")])
    }

    /// This and what another one loses.
    pub fn and(mut self, mut other: Self) -> Self {
        self.0.append(&mut other.0);
        self
    }
}

impl Drop for Lost {
    fn drop(&mut self) {
        for undo in self.0.drain(..) {
            ip(&undo);
        }
    }
}

/// Runs `ip` in the namespace of the test.
fn ip(arguments: &str) {
    succeeded(Command::new("ip").args(arguments.split(' ')).output().unwrap());
}

fn succeeded(output: Output) {
    assert!(output.status.success(), "ip: {}", String::from_utf8_lossy(&output.stderr));
}
