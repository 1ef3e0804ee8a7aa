//! All that faults strike, and how each of them is made, ended, and seen to have happened.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use redlatch_history::{Does, Restart, What};
use redlatch_testing::{now, pause};

use crate::bounds::{RESOURCES, SEMAPHORES};
use crate::class::Class;
use crate::crew::{Crew, is_stopped};
use crate::keys;
use crate::node::{Memory, Node};
use crate::on::semaphore;
use crate::options::Options;
use crate::plan::Episode;
use crate::proxy::{Mode, Proxy};
use crate::record::Shared;

/// How often the keys of a server are looked at.
const SAMPLE: Duration = Duration::from_millis(100);
/// A clock that is too fast gains a millisecond in this time: 0.4 %, less than half of the drift.
const GAIN: Duration = Duration::from_millis(250);

/// Within this time each place is had again: five of the longest ttl on a machine that has nothing else to do.
const RECOVERED: Duration = Duration::from_mins(3);

/// What a plan came to.
#[derive(Default)]
pub(crate) struct Made {
    /// How many faults there were of each kind.
    pub(crate) faults: BTreeMap<Class, u32>,
    /// Those of them that were seen to have happened.
    pub(crate) seen: BTreeSet<usize>,
    /// How many keys were looked at.
    pub(crate) samples: u64,
}

/// Something that has to be done at some time.
struct Step {
    at_ms: u64,
    /// Whether the fault ends. Otherwise it begins.
    is_end: bool,
    /// Which episode.
    episode: usize,
}

/// Dropped in this order.
pub(crate) struct Site {
    pub(crate) crew: Crew,
    pub(crate) proxy: Proxy,
    pub(crate) nodes: Vec<Node>,
    /// Which servers neither are down nor stopped.
    pub(crate) up: Vec<bool>,
    /// The clocks that are too fast, and when they gain next.
    pub(crate) fast: BTreeMap<usize, Instant>,
    pub(crate) record: Shared,
    pub(crate) options: Options,
    pub(crate) made: Made,
}

impl Site {
    /// Goes through the plan; where violations are planted, until there is one.
    pub(crate) fn suffer(&mut self, plan: &[Episode], started: Instant, length_ms: u64) {
        let mut steps: Vec<Step> = Vec::new();
        for (episode, planned) in plan.iter().enumerate() {
            for (at_ms, is_end) in [(planned.from_ms, false), (planned.to_ms, true)] {
                steps.push(Step {
                    at_ms,
                    is_end,
                    episode,
                });
            }
        }
        steps.sort_by_key(|step| (step.at_ms, step.episode, step.is_end));

        // When the fault of each episode had been made, since it may be late.
        let mut made: Vec<Option<Instant>> = vec![None; plan.len()];
        for step in steps {
            self.wait(started + Duration::from_millis(step.at_ms));
            if self.is_found() {
                return;
            }
            let episode = &plan[step.episode];
            if self.options.verbose {
                let what = if step.is_end { "ends" } else { "begins" };
                println!("soak: at {} ms {what} {episode:?}", step.at_ms);
            }
            let is_seen = if step.is_end {
                // A server that forgot has to stay away for its whole time, however late it was killed.
                let length = Duration::from_millis(episode.to_ms - episode.from_ms);
                let since = made[step.episode].unwrap();
                self.wait(since + length);
                self.end_fault(episode)
            } else {
                let is_seen = self.begin_fault(step.episode, episode);
                made[step.episode] = Some(now());
                *self.made.faults.entry(episode.class).or_insert(0) += 1;
                is_seen
            };
            if is_seen {
                self.made.seen.insert(step.episode);
            }
        }
        self.wait(started + Duration::from_millis(length_ms));
        self.made.seen.extend(self.proxy.struck());
    }

    /// The planted violation was found.
    fn is_found(&self) -> bool {
        self.options.planted && self.record.lock().overlaps() > 0
    }

    /// Returns whether it was seen to happen, if that can be told now.
    fn begin_fault(&mut self, number: usize, episode: &Episode) -> bool {
        let mut is_seen = false;
        for &target in &episode.targets {
            is_seen |= if episode.class.is_of_links() {
                self.strike_link(number, episode, target);
                false
            } else {
                self.strike(episode, target)
            };
        }
        is_seen
    }

    fn strike_link(&self, number: usize, episode: &Episode, target: usize) {
        let set = |mode| self.proxy.set(episode.group, target, mode, number);
        match episode.class {
            Class::PartitionFromMinority | Class::PartitionFromMajority => set(Mode::Hold),
            Class::Delay => set(Mode::Delay(Duration::from_millis(episode.by_ms))),
            Class::Refuse => set(Mode::Refuse),
            Class::LoseReplies => set(Mode::LoseReplies),
            Class::LoseRequests => set(Mode::LoseRequests),
            _ => self.proxy.reset(episode.group, target, number),
        }
    }

    fn strike(&mut self, episode: &Episode, target: usize) -> bool {
        let class = episode.class;
        if matches!(class, Class::StopWorker | Class::KillWorker) {
            return self.strike_worker(class, target);
        }
        match class {
            Class::StopServers => self.note(target, Does::Stops),
            Class::LoseMemory | Class::Wipe | Class::KeepMemory => self.note(target, Does::Dies),
            Class::Flush => self.note(target, Does::IsFlushed),
            Class::SetBack => {
                let by = i64::try_from(episode.by_ms).unwrap() * -1_000_000;
                self.note(target, Does::IsSet(by));
            }
            _ => {}
        }
        let node = &mut self.nodes[target];
        match class {
            Class::StopServers => {
                node.server().stop();
                self.up[target] = false;
                is_stopped(node.server().pid())
            }
            Class::LoseMemory | Class::Wipe | Class::KeepMemory => {
                node.kill(memory_after(class).0);
                self.up[target] = false;
                false
            }
            Class::GoBack => {
                node.put_aside();
                false
            }
            Class::Promote => {
                node.replicate(&self.options, episode.ahead_ms);
                false
            }
            Class::Flush => node.flush(),
            Class::SetBack => {
                let before = node.ahead_ms();
                node.set_clock(before - i64::try_from(episode.by_ms).unwrap());
                node.ahead_ms() < before && node.tells_its_time()
            }
            Class::RunFast => {
                self.fast.insert(target, now() + GAIN);
                false
            }
            _ => false,
        }
    }

    /// Notes in the history what happens to a node.
    fn note(&self, node: usize, does: Does) {
        let node = u32::try_from(node).unwrap();
        self.record.lock().notes_now(What::Node { node, does });
    }

    fn strike_worker(&mut self, class: Class, target: usize) -> bool {
        if class == Class::StopWorker {
            self.crew.stop(target)
        } else {
            self.crew.replace(target);
            true
        }
    }

    fn end_fault(&mut self, episode: &Episode) -> bool {
        if is_of_processes(episode.class) {
            return self.revive(episode);
        }
        let mut is_seen = false;
        for &target in &episode.targets {
            if episode.class.is_of_links() {
                if episode.class != Class::Reset {
                    self.proxy.pass(episode.group, target);
                }
            } else if episode.class == Class::StopWorker {
                self.crew.resume(target);
            } else if episode.class != Class::KillWorker {
                is_seen |= self.repair(episode, target);
            }
        }
        is_seen
    }

    fn repair(&mut self, episode: &Episode, target: usize) -> bool {
        match episode.class {
            Class::StopServers => self.note(target, Does::GoesOn),
            Class::Promote => self.note(target, Does::IsReplaced),
            _ => {}
        }
        let node = &mut self.nodes[target];
        match episode.class {
            Class::StopServers => {
                node.server().resume();
                self.up[target] = true;
                false
            }
            Class::Promote => {
                let is_seen = node.promote();
                self.proxy.moved(target, node.server().port());
                is_seen
            }
            Class::RunFast => {
                self.fast.remove(&target);
                node.has_gained() && node.tells_its_time()
            }
            _ => false,
        }
    }

    /// Servers that are killed come back, all at the same time: what they have forgotten together, they forget at once.
    fn revive(&mut self, episode: &Episode) -> bool {
        let (memory, restart) = memory_after(episode.class);
        if episode.class == Class::GoBack {
            for &target in &episode.targets {
                self.nodes[target].kill(memory);
            }
        }
        let is_pardoned = self.options.planted;
        let come_back = |node: &mut Node| {
            if memory != Memory::All {
                node.set_clock(episode.ahead_ms);
            }
            let is_seen = node.come_back(memory);
            // That would be another fault, which not every protocol survives.
            assert!(
                is_seen || memory != Memory::All,
                "it has lost data: {node:?}"
            );
            if is_pardoned {
                node.pardon();
            }
            is_seen
        };
        let nodes = self.nodes.iter_mut().enumerate();
        let nodes = nodes.filter(|(i, _)| episode.targets.contains(i));
        let seen: Vec<bool> = thread::scope(|scope| {
            let threads: Vec<_> = nodes
                .map(|(_, node)| scope.spawn(|| come_back(node)))
                .collect();
            let ended = threads.into_iter().map(|thread| thread.join().unwrap());
            ended.collect()
        });
        for &target in &episode.targets {
            self.note(target, Does::Starts(restart));
            self.up[target] = true;
        }
        seen.contains(&true)
    }

    /// Looks after the workers and looks at keys until some time; where violations are planted, until there is one.
    pub(crate) fn wait(&mut self, until: Instant) {
        let mut next_sample = now();
        while now() < until {
            self.crew.look_after();
            assert!(self.proxy.is_well(), "the proxy has panicked");
            self.let_clocks_gain();
            if now() >= next_sample {
                if self.is_found() {
                    return;
                }
                self.sample();
                next_sample = now() + SAMPLE;
            }
            let left = until.saturating_duration_since(now());
            pause(left.min(Duration::from_millis(5)));
        }
    }

    /// Waits until each place was had again, which a slow machine may take long for.
    pub(crate) fn recover(&mut self) {
        let limit = now() + RECOVERED;
        while now() < limit && places().any(|what| self.record.lock().recovered(what).is_none()) {
            self.wait(now() + SAMPLE);
        }
    }

    /// A clock whose driver was late does not make up for it: that would be a jump.
    fn let_clocks_gain(&mut self) {
        for (&target, next) in &mut self.fast {
            if now() >= *next {
                self.nodes[target].gain();
                *next = now() + GAIN;
            }
        }
    }

    /// Looks at all keys of the servers that answer: each has to expire, within the longest ttl, and to be what its name says.
    fn sample(&mut self) {
        let longest_ms = *self.options.ttl_ms().end();
        for (node, _) in self.nodes.iter().zip(&self.up).filter(|(_, up)| **up) {
            for key in keys::all(node.server()) {
                self.made.samples += 1;
                if let Some(fault) = key.fault(longest_ms, node.set_back_ms()) {
                    let text = format!("{} on {} {fault}", key.name, node.server().name());
                    self.record.lock().wrong(text);
                }
            }
        }
    }
}

/// All places, and whether they are to be had alone or not.
pub(crate) fn places() -> impl Iterator<Item = (u32, bool)> {
    let resources = (0..RESOURCES).flat_map(|place| [(place, false), (place, true)]);
    resources.chain((0..SEMAPHORES).map(|i| (semaphore(i), false)))
}

/// What a server of such a fault finds when it starts again.
fn memory_after(class: Class) -> (Memory, Restart) {
    match class {
        Class::KeepMemory => (Memory::All, Restart::Whole),
        Class::GoBack => (Memory::Older, Restart::Older),
        _ => (Memory::Nothing, Restart::Empty),
    }
}

fn is_of_processes(class: Class) -> bool {
    matches!(
        class,
        Class::LoseMemory | Class::KeepMemory | Class::Wipe | Class::GoBack
    )
}
