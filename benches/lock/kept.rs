//! Thousands of locks that are kept alive: whether all stay held, and what that costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redlatch::{KeepAlive, LockGuard, LockManager};
use redlatch_testing::{Server, now, pause};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region};

use crate::effort::{Effort, TTL, patient_manager};
use crate::link;
use crate::table::{Row, Samples, Table};

const KEPT_TTL: Duration = Duration::from_secs(10);

pub(crate) fn all(table: &mut Table, servers: &[Server], effort: Effort) {
    check(table, servers);
    thousands(table, servers, effort);
}

/// What `check` costs, which is asked before each side effect.
fn check(table: &mut Table, servers: &[Server]) {
    const CALLS: u32 = 100_000;
    let manager = patient_manager(servers);
    let guard = manager.try_lock("bench:check", TTL).unwrap();
    let watch = guard.watch();
    let mut samples = <[Samples; 2]>::default();
    for _ in 0..100 {
        samples[0].time(|| (0..CALLS).for_each(|_| guard.check().unwrap()));
        samples[1].time(|| (0..CALLS).for_each(|_| watch.check().unwrap()));
    }
    table.section("check [ns]", ["p50", "p90", "p99"]);
    for (label, samples) in ["guard", "watch"].iter().zip(&samples) {
        let nanos = |percent| 1e9 * samples.percentile(percent).as_secs_f64() / f64::from(CALLS);
        let figures = [50, 90, 99].map(|percent| format!("{:.1}", nanos(percent)));
        table.row(Row::new(*label, figures).at_most(nanos(50), 50.0, "50 ns"));
    }
}

fn thousands(table: &mut Table, servers: &[Server], effort: Effort) {
    let direct: Vec<String> = servers.iter().map(Server::url).collect();
    for (urls, over) in [(direct, ""), (link::urls(servers), " over 1 ms")] {
        let title = format!(
            "{} kept locks{over}, ttl {} s, for {} s",
            effort.kept,
            KEPT_TTL.as_secs(),
            effort.kept_for.as_secs()
        );
        table.section(&title, ["", "", ""]);
        // The defaults of the builder: a stall of the machine is to be survived.
        hold(table, &LockManager::new(urls).unwrap(), effort);
    }
}

fn hold(table: &mut Table, manager: &LockManager, effort: Effort) {
    let lost = Arc::new(AtomicUsize::new(0));
    let threads = own_threads().len();
    let names: Vec<String> = (0..effort.kept)
        .map(|i| format!("bench:kept:{i:05}"))
        .collect();
    // The first lock connects and starts the thread.
    drop(kept(manager, "bench:kept:first"));
    let mut guards: Vec<LockGuard> = Vec::with_capacity(names.len());
    let region = Region::new(&INSTRUMENTED_SYSTEM);
    guards.extend(names.iter().map(|name| kept(manager, name)));
    let change = region.change();
    let bytes = change
        .bytes_allocated
        .saturating_sub(change.bytes_deallocated);
    let each = bytes / names.len() + size_of::<LockGuard>();
    let beyond_strings = each.saturating_sub(names[0].len());

    for guard in &guards {
        let lost = Arc::clone(&lost);
        guard.on_lost(move |_| {
            lost.fetch_add(1, Ordering::Relaxed);
        });
    }
    let (began, before) = (now(), own_time());
    while began.elapsed() < effort.kept_for {
        pause(Duration::from_millis(50));
    }
    let share = own_time().saturating_sub(before).as_secs_f64() / began.elapsed().as_secs_f64();
    let more = own_threads().len() - threads;
    let still = guards.iter().filter(|guard| guard.check().is_ok()).count();
    let gone = names.len() - still + lost.load(Ordering::Relaxed);

    let row = |label: &str, value: String| Row::new(label, [String::new(), String::new(), value]);
    let figure = |n: usize| f64::from(u32::try_from(n).unwrap());
    table.row(row("lost", gone.to_string()).at_most(figure(gone), 0.0, "0"));
    let percent = 100.0 * share;
    table.row(row("% of one core", format!("{percent:.2}")).at_most(percent, 5.0, "5 %"));
    table.row(row("more threads", more.to_string()).at_most(figure(more), 2.0, "2"));
    let label = "bytes for each, its name left out";
    let size = figure(beyond_strings);
    table.row(row(label, beyond_strings.to_string()).at_most(size, 1024.0, "1 KiB"));
}

fn kept(manager: &LockManager, name: &str) -> LockGuard {
    let request = manager.request(name).ttl(KEPT_TTL);
    request.keep_alive(KeepAlive::unbounded()).lock().unwrap()
}

/// The threads of the library, where the system lists them.
fn own_threads() -> Vec<std::path::PathBuf> {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        return Vec::new();
    };
    let tasks = tasks.filter_map(|task| Some(task.ok()?.path()));
    let is_own = |task: &std::path::PathBuf| {
        let name = std::fs::read_to_string(task.join("comm"));
        name.is_ok_and(|name| name.starts_with("redlatch"))
    };
    tasks.filter(is_own).collect()
}

/// For how long they have been on a processor.
fn own_time() -> Duration {
    let time = |task: &std::path::PathBuf| {
        let text = std::fs::read_to_string(task.join("schedstat")).unwrap_or_default();
        let nanos = text.split(' ').next().and_then(|nanos| nanos.parse().ok());
        Duration::from_nanos(nanos.unwrap_or(0))
    };
    own_threads().iter().map(time).sum()
}
