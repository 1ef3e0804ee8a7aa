//! What a held lock takes of memory, in a process that holds ten thousand of them: in each measurement a process of its own,
//! so that nothing that was freed before is used again.

use std::process::Command;

use redlatch::{KeepAlive, LockGuard};
use redlatch_testing::Server;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region};

use crate::effort::{Effort, TTL, patient_builder};
use crate::table::{Row, Table};

/// What a process that holds locks is started with, and then how many, whether they are kept alive, and the servers.
const HOLDER: &str = "--holder";

/// In bytes: with the name of 16 bytes, the guard in a vector, and what is left free between allocations.
const MOST_PLAIN: f64 = 400.0;
const MOST_KEPT: f64 = 650.0;

pub(crate) fn memory(table: &mut Table, servers: &[Server], effort: Effort) {
    let title = format!("bytes per held lock, of {}, 5 nodes", effort.kept);
    table.section(&title, ["", "allocated", "resident"]);
    for (how, most) in [("plain", MOST_PLAIN), ("kept alive", MOST_KEPT)] {
        let Some([allocated, resident]) = in_a_process(how, servers, effort) else {
            table.remark("not measured, this system does not tell the size of a process");
            return;
        };
        let figures = [String::new(), allocated.to_string(), resident.to_string()];
        let value = f64::from(u32::try_from(resident).unwrap());
        table.row(Row::new(how, figures).at_most(value, most, &format!("{most}")));
    }
}

fn in_a_process(how: &str, servers: &[Server], effort: Effort) -> Option<[usize; 2]> {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([HOLDER, &effort.kept.to_string(), how])
        .args(servers.iter().map(Server::url))
        .output()
        .unwrap();
    assert!(output.status.success(), "a holder failed: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut figures = text.split_whitespace().map(|figure| figure.parse().ok());
    Some([figures.next()??, figures.next()??])
}

/// Holds locks and prints what each takes, if the command line says so.
pub(crate) fn is_holder() -> bool {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some(HOLDER) {
        return false;
    }
    let locks: usize = arguments.next().unwrap().parse().unwrap();
    let is_kept = arguments.next().unwrap() != "plain";
    let manager = patient_builder(arguments).build().unwrap();
    let hold = |name: &str| {
        // Longer than the process lives: nothing is renewed while it is measured.
        let request = manager.request(name).ttl(TTL);
        let request = if is_kept {
            request.keep_alive(KeepAlive::unbounded())
        } else {
            request
        };
        request.try_lock().unwrap()
    };
    // The first locks connect, start threads, and let buffers grow.
    drop(
        (0..100)
            .map(|i| hold(&format!("bench:first:{i:04}")))
            .collect::<Vec<_>>(),
    );

    let Some(before) = resident() else {
        println!("unknown unknown");
        return true;
    };
    let region = Region::new(&INSTRUMENTED_SYSTEM);
    let guards: Vec<LockGuard> = (0..locks)
        .map(|i| hold(&format!("bench:held:{i:05}")))
        .collect();
    let change = region.change();
    let resident = resident().unwrap() - before;
    let allocated = change.bytes_allocated - change.bytes_deallocated;
    println!("{} {}", allocated / locks, resident / locks);
    drop(guards);
    true
}

/// The bytes of this process that are in memory and of no file, where the system tells them.
fn resident() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Anonymous:"))?;
    let kib: usize = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}
