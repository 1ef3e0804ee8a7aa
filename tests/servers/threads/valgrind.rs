//! A program under valgrind, which people use to find faults in C code.

use std::process::Command;
use std::time::Duration;

use redlatch::LockManager;
use redlatch::fake::FakeNode;

const INSIDE: &str = "REDLATCH_TEST_INSIDE_VALGRIND";

#[test]
fn a_program_that_takes_a_lock_runs_under_valgrind() {
    if std::env::var_os(INSIDE).is_some() {
        let nodes = FakeNode::cluster(3);
        // Nothing is fast there.
        let patience = Duration::from_secs(10);
        let builder = LockManager::builder().fakes(&nodes);
        let manager = builder.node_timeout(patience).build().unwrap();
        let guard = manager.lock("job", Duration::from_mins(10)).unwrap();
        return guard.unlock().unwrap();
    }
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--quiet", "--error-exitcode=99"]);
    valgrind.arg(std::env::current_exe().unwrap());
    valgrind.args(["--test-threads=1", "--nocapture"]);
    valgrind.arg("a_program_that_takes_a_lock_runs_under_valgrind");
    let Ok(output) = valgrind.env(INSIDE, "1").output() else {
        println!("skipped: there is no valgrind");
        return;
    };
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{}{}", said[0], said[1]);
    assert!(said[0].contains("1 passed"), "{}", said[0]);
}
