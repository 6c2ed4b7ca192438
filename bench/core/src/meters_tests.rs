use super::{Meter, Usage, used, with_children, write_back};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn own_directory() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// A child process that ends with the test.
struct Shell(Child);

impl Drop for Shell {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// A shell that runs a script, reports completion, and stays until it is dropped.
fn shell(script: &str) -> Shell {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{script}; echo done; read _")]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut shell = Shell(command.spawn().unwrap());
    shell.0.stdout.as_mut().unwrap().read_exact(&mut [0; 5]).unwrap();
    shell
}

#[test]
fn the_processor_time_of_what_a_process_started_counts() {
    let idle = shell("true");
    let loops = "(i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done)";
    // The loop runs in a child of the shell, which has ended when the shell reports completion.
    let busy = shell(loops);
    let (idle, busy) = (used(&[idle.0.id()]), used(&[busy.0.id()]));
    assert!(busy.processor_s > idle.processor_s + 0.05, "{idle:?} {busy:?}");
    // A child that is still running.
    let parent = shell("true");
    let both = used(&[std::process::id()]);
    assert!(both.resident_bytes > used(&[parent.0.id()]).resident_bytes, "the children of this process count");
}

#[test]
fn a_helper_counts_as_the_client() {
    let script = "read _; i=0; while [ $i -lt 500000 ]; do i=$((i+1)); done; echo; read _";
    let mut command = Command::new("sh");
    let mut helper = Shell(command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let meter = Meter::start_with(Vec::new(), vec![helper.0.id()], &own_directory());
    helper.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    helper.0.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let used = used(&[helper.0.id()]).processor_s;
    let metered = meter.stop();
    assert!(used > 0.1 && metered.client.processor_s > used - 0.05, "{used} {:?}", metered.client);
    assert_eq!(metered.server, Usage::default(), "it is no server");
}

#[test]
fn written_bytes_are_counted() {
    // Next to the build's outputs, which are on a disk; a file system in memory writes nothing.
    let file = own_directory().join(format!("meters-{}", std::process::id()));
    let meter = Meter::start(Vec::new(), &own_directory());
    let mut written = std::fs::File::create(&file).unwrap();
    written.write_all(&vec![7; 8 << 20]).unwrap();
    written.sync_all().unwrap();
    let metered = meter.stop();
    std::fs::remove_file(&file).unwrap();
    assert!(metered.client.written_bytes >= 8 << 20, "{:?}", metered.client);
    assert!(metered.written_bytes() >= 8 << 20, "{:?}", metered.disk_written_bytes);
    assert_eq!(metered.server, Usage::default(), "there is no server");
}

/// Of a process of its own: threads of other tests end meanwhile, and take their counts with them.
#[test]
fn switches_are_counted() {
    let mut echo = Shell(Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let meter = Meter::start(vec![echo.0.id()], &own_directory());
    for _ in 0..100 {
        echo.0.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        echo.0.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    }
    let metered = meter.stop();
    assert!(metered.server.context_switches > 0, "{:?}", metered.server);
}

#[test]
fn what_was_written_before_is_not_counted() {
    let file = own_directory().join(format!("meters-before-{}", std::process::id()));
    std::fs::write(&file, vec![7; 64 << 20]).unwrap();
    write_back(&own_directory()).unwrap();
    let meter = Meter::start(Vec::new(), &own_directory());
    std::fs::File::open(&file).unwrap().sync_all().unwrap();
    let metered = meter.stop();
    std::fs::remove_file(&file).unwrap();
    assert!(metered.disk_written_bytes.is_none_or(|written| written < 32 << 20), "{:?}", metered.disk_written_bytes);
}

#[test]
fn memory_is_seen_at_its_peak() {
    let meter = Meter::start(Vec::new(), &own_directory());
    let mut held = vec![0_u8; 200 << 20];
    held.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    // Wait until a sample has seen it.
    std::thread::sleep(Duration::from_millis(1_500));
    drop(held);
    let metered = meter.stop();
    assert!(metered.client.peak_bytes > 200 << 20, "{:?}", metered.client);
    assert!(metered.client.resident_bytes < metered.client.peak_bytes);
    assert!(metered.samples.len() >= 2 && metered.samples[0].second > 0.9);
}

#[test]
fn bytes_over_loopback_are_counted() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let meter = Meter::start(Vec::new(), &own_directory());
    let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut taker = listener.accept().unwrap().0;
    let taking = std::thread::spawn(move || {
        let mut all = Vec::new();
        taker.read_to_end(&mut all).map(|count| count as u64).unwrap()
    });
    sender.write_all(&vec![1; 5 << 20]).unwrap();
    drop(sender);
    assert_eq!(taking.join().unwrap(), 5 << 20);
    let metered = meter.stop();
    assert!(metered.network_bytes >= 5 << 20, "{}", metered.network_bytes);
}

#[test]
fn a_process_that_is_given_with_its_parent_is_there_once() {
    let child = shell("true");
    let all = with_children(&[std::process::id(), child.0.id()]);
    assert_eq!(all.iter().filter(|process| **process == child.0.id()).count(), 1, "{all:?}");
}
