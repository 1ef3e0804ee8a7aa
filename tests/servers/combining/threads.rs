//! What several threads want of the same nodes at the same time goes in one write to each, and comes back to the thread that asked for
//! it. The threads behind a write: their clocks, the program's logger on one of them, and a fork.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use log::{LevelFilter, Log, Metadata, Record};
use redlatch::{Error, Fanout, LockGuard};
use redlatch_testing::scripted::{Kind, Scripted};
use redlatch_testing::{eventually, is_alone, pause};

use crate::servers::combining::crowd::{
    BOUND, FIRST, Job, TTL, answering_writes, asks, consent, keys_of, together, together_behind,
    with_one_lane,
};
use crate::servers::threads::forks::in_a_child;

/// What a guard's thread comes to.
type End = Result<String, String>;

fn text<T: std::fmt::Debug>(result: Result<T, Error>) -> End {
    result
        .map(|done| format!("{done:?}"))
        .map_err(|error| error.to_string())
}

#[test]
fn releases_extensions_and_acquires_go_together_and_each_gets_its_own_answer() {
    let (server, writes) = answering_writes(|command| match (command.kind(), command.key()) {
        (Kind::Release, "gone") | (Kind::Extend, "lost") => b"*1\r\n:-2\r\n".to_vec(),
        (Kind::Set, "held") => b"$-1\r\n".to_vec(),
        _ => consent(command),
    });
    let manager = with_one_lane([&server]).build().unwrap();
    let lock = |name| manager.try_lock(name, TTL).unwrap();
    let [gone, lost, kept, given] = ["gone", "lost", "kept", "given"].map(lock);
    writes.lock().clear();
    let (lost, kept) = (&lost, &kept);
    let jobs: Vec<Job<'_, End>> = vec![
        Box::new(move || text(gone.unlock())),
        Box::new(|| text(manager.try_lock("held", TTL).map(drop))),
        Box::new(move || text(lost.extend(TTL * 2))),
        Box::new(|| text(manager.try_lock("free", TTL).map(LockGuard::into_lease))),
        Box::new(move || text(given.unlock())),
        Box::new(move || text(kept.extend(TTL * 2))),
    ];
    let results = together(&manager, jobs);
    assert_eq!(
        keys_of(&writes)[0],
        ["gone", "held", "lost", "free", "given", "kept"]
    );
    let are_good: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(
        are_good,
        [false, false, false, true, true, true],
        "{results:?}"
    );
    for (result, word) in results.iter().zip(["gone", "held", "lost"]) {
        assert!(result.as_ref().unwrap_err().contains(word), "{results:?}");
    }
    kept.check().unwrap();
    assert!(lost.check().is_err());
}

#[test]
fn the_wait_for_others_counts_as_elapsed_for_each_thread() {
    let (server, writes) = answering_writes(consent);
    let manager = with_one_lane([&server]).build().unwrap();
    let first = manager.try_lock(FIRST, TTL).unwrap();
    let short = Duration::from_millis(300);
    let lock = |name: &'static str, ttl| -> Job<'_, Result<(), Error>> {
        let manager = &manager;
        Box::new(move || manager.try_lock(name, ttl).map(drop))
    };
    let jobs = vec![lock("a", short), lock("b", TTL), lock("c", short)];
    let leader: Job<'_, ()> = Box::new(|| first.extend(TTL * 2).unwrap());
    let results = together_behind(leader, jobs, || pause(short * 2));
    assert_eq!(keys_of(&writes)[0], ["a", "b", "c"]);
    for result in [&results[0], &results[2]] {
        let Err(Error::TooSlow { elapsed, .. }) = result else {
            panic!("{result:?}");
        };
        assert!(*elapsed >= short * 2, "{elapsed:?}");
    }
    results[1].as_ref().unwrap();
    // Nothing is left of those that came too late.
    let is_released = |name: &str| {
        let releases = server.heard_of(Kind::Release).into_iter();
        releases.filter(|command| command.key() == name).count() == 1
    };
    assert!(eventually(BOUND, || is_released("a") && is_released("c")));
}

/// Takes its time over a node that failed, until other threads are done. Then it panics.
struct Slow;

static DONE: AtomicUsize = AtomicUsize::new(0);
static SEEN: AtomicUsize = AtomicUsize::new(0);

impl Log for Slow {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        if record.args().to_string().contains(" failed (") {
            eventually(BOUND, || DONE.load(Ordering::SeqCst) == 2);
            SEEN.store(DONE.load(Ordering::SeqCst), Ordering::SeqCst);
            panic!("the logger is full");
        }
    }

    fn flush(&self) {}
}

#[test]
fn a_logger_that_takes_long_and_panics_on_the_thread_that_sends_holds_up_no_other() {
    if !is_alone(
        "combining::threads::a_logger_that_takes_long_and_panics_on_the_thread_that_sends_holds_up_no_other",
    ) {
        return;
    }
    log::set_logger(&Slow).unwrap();
    log::set_max_level(LevelFilter::Info);
    let good = [(); 2].map(|()| Scripted::start(|peer, command| peer.say(&consent(command))));
    let bad = Scripted::start(|peer, command| {
        if command.key() == "a" && command.kind() == Kind::Set {
            peer.say(b":7\r\n");
        } else {
            peer.say(&consent(command));
        }
    });
    let builder = with_one_lane(good.iter().chain([&bad]));
    let manager = builder.fanout(Fanout::Overlapped).build().unwrap();
    let lock = |name: &'static str| -> Job<'_, bool> {
        let manager = &manager;
        Box::new(move || {
            let guard = manager.try_lock(name, TTL).map(LockGuard::into_lease);
            DONE.fetch_add(1, Ordering::SeqCst);
            guard.is_ok()
        })
    };
    let results = together(&manager, ["a", "b", "c"].map(lock).into());
    assert_eq!(results, [true; 3]);
    assert_eq!(
        SEEN.load(Ordering::SeqCst),
        2,
        "the others waited for the logger"
    );
    // Nor has the thread kept its lane.
    let results = together(&manager, ["d", "e"].map(|name| asks(&manager, name)).into());
    assert!(results.iter().all(Result::is_ok), "{results:?}");
}

#[test]
fn a_fork_while_threads_wait_for_one_that_sends_harms_neither_process() {
    if !is_alone(
        "combining::threads::a_fork_while_threads_wait_for_one_that_sends_harms_neither_process",
    ) {
        return;
    }
    let (server, writes) = answering_writes(consent);
    let manager = with_one_lane([&server]).build().unwrap();
    let first = manager.try_lock(FIRST, TTL).unwrap();
    let mut kept = manager.try_lock("kept", TTL).ok();
    let leader: Job<'_, ()> = Box::new(|| first.extend(TTL * 2).unwrap());
    let is_refused = |result: Result<_, Error>| matches!(result, Err(Error::Forked));
    let fork = || {
        for _ in 0..5 {
            in_a_child(|| {
                // Nobody of those who have a lane or wait for one is here.
                let are_refused = is_refused(manager.try_lock("job", TTL).map(drop))
                    && is_refused(kept.as_ref().map_or(Ok(()), |kept| kept.extend(TTL)));
                drop((kept.take(), manager.clone()));
                are_refused
            });
        }
    };
    let names = ["a", "b", "c"];
    let jobs = names.map(|name| asks(&manager, name)).into();
    let results = together_behind(leader, jobs, fork);
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert_eq!(keys_of(&writes)[1], names);
    kept.unwrap().unlock().unwrap();
}
