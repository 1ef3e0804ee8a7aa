//! The driver: starts everything, makes the faults of the plan, sees each of them happen, and looks at what is left in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use redlatch::Protocol;
use redlatch_history::What;
use redlatch_testing::{IdleClient, LinkMode, Proxy, eventually, free_port, now, pause};

use crate::crew::{Crew, is_stopped};
use crate::keys::{self, Key};
use crate::node::{Memory, Node};
use crate::options::{GROUPS, LAST, OFF_MS, Options, PREFIX, SERVERS, builder};
use crate::plan::{self, Class, Episode};
use crate::record::{Record, Shared, is_overlap};
use crate::told::clock;

/// How often the keys of a server are looked at.
const SAMPLE: Duration = Duration::from_millis(100);
/// After so many faults each, the judge looks for two holders where these must be found.
const LOOK: usize = 10;
/// Within this time each place is had again: five of the longest ttl on a machine that has nothing else to do.
const RECOVERED: Duration = Duration::from_mins(3);
/// For bytes that are on their way through the proxy when the last worker says that it has released everything. The last
/// locks have a longer ttl, so a key that was not given back is still there then.
const GRACE: Duration = Duration::from_secs(15);
/// Within this time, the keys of those who wait for a lock end by themselves, of which none lasts half a second.
const HINTS_END: Duration = Duration::from_secs(5);
/// How long the opening of new nodes may take on a busy machine.
const OPENED: Duration = Duration::from_secs(30);

pub(crate) struct Made {
    pub(crate) record: Record,
    /// How many faults there were of each kind, and how many of them were seen to have happened.
    pub(crate) faults: BTreeMap<Class, (usize, usize)>,
    pub(crate) samples: usize,
    /// How many clients the proxy kept when a server became another process.
    pub(crate) kept: usize,
    pub(crate) leaked: Vec<String>,
}

/// All that faults strike. Dropped in this order.
struct Site {
    crew: Crew,
    /// For each group of workers one in front of each server.
    proxies: [Vec<Proxy>; GROUPS],
    nodes: Vec<Node>,
    urls: Vec<String>,
    record: Shared,
    options: Options,
    samples: usize,
}

pub(crate) fn run(options: &Options) -> Made {
    let mut rng = Rng::with_seed(options.seed);
    let mut start = |i| Node::start(i, options, rng.i64(-OFF_MS..=OFF_MS));
    let nodes: Vec<Node> = (0..SERVERS).map(&mut start).collect();
    // The workers of all groups ask the nodes in one order, that of their names.
    let mut ports: Vec<u16> = (0..GROUPS * SERVERS).map(|_| free_port()).collect();
    ports.sort_unstable();
    let ports: [&[u16]; GROUPS] = std::array::from_fn(|group| &ports[group * SERVERS..][..SERVERS]);
    let urls = ports.map(|ports| {
        let url = |port| format!("redis://127.0.0.1:{port}");
        ports.iter().map(url).collect::<Vec<_>>()
    });
    let proxies = std::array::from_fn(|group| {
        // Each server is behind a proxy that keeps clients, for one of the groups.
        let idle_client = |i| [IdleClient::Stays, IdleClient::Goes][(group + i) % 2];
        let nodes = nodes.iter().zip(ports[group]).enumerate();
        let proxy = |(i, (node, port)): (usize, (&Node, &u16))| {
            Proxy::start_at(*port, node.server().port(), idle_client(i))
        };
        nodes.map(proxy).collect()
    });
    open(options, &urls[0], PREFIX);
    let record = Shared::default();
    let plan = plan::of(options);
    let mut site = Site {
        urls: urls[0].clone(),
        crew: Crew::start(urls, options, &record),
        proxies,
        nodes,
        record: Arc::clone(&record),
        options: options.clone(),
        samples: 0,
    };
    let started = now();
    let mut seen = site.suffer(&plan, started);
    seen.extend(site.proxies.iter().flatten().flat_map(Proxy::struck));
    let leaked = if options.is_planted() {
        Vec::new()
    } else {
        site.ends(started)
    };
    let mut faults: BTreeMap<Class, (usize, usize)> = BTreeMap::new();
    for (i, episode) in plan.iter().enumerate() {
        let (count, of_it) = faults.entry(episode.class).or_default();
        *count += 1;
        *of_it += usize::from(seen.contains(&i));
    }
    let samples = site.samples;
    let kept = site.proxies.iter().flatten().map(Proxy::kept).sum();
    site.crew.finish();
    Made {
        record: std::mem::take(&mut *record.lock()),
        faults,
        samples,
        kept,
        leaked,
    }
}

/// Opens the nodes, which are new to clients of the fenced protocol with this prefix.
fn open(options: &Options, urls: &[String], prefix: &str) {
    if !options.has_fenced_workers() {
        return;
    }
    let builder = builder(urls, prefix, Protocol::Fenced, *options.ttl_ms().end());
    let builder = builder.node_timeout(Duration::from_secs(1));
    let manager = builder.build().unwrap();
    let mut result = Ok(());
    let is_open = || {
        result = manager.open_nodes();
        result.is_ok()
    };
    assert!(eventually(OPENED, is_open), "{result:?}");
}

impl Site {
    /// Goes through the plan, or up to two holders where these must be found. Returns which faults were seen to happen.
    fn suffer(&mut self, plan: &[Episode], started: Instant) -> BTreeSet<usize> {
        let mut steps: Vec<(u64, usize, bool)> = Vec::new();
        for (i, episode) in plan.iter().enumerate() {
            steps.extend([(episode.from_ms, i, false), (episode.to_ms, i, true)]);
        }
        steps.sort_unstable();
        // When the fault of each episode had been made, since it may be late.
        let mut made: Vec<Instant> = vec![started; plan.len()];
        let mut seen = BTreeSet::new();
        for (at_ms, i, is_end) in steps {
            self.wait(started + Duration::from_millis(at_ms));
            let episode = &plan[i];
            let is_seen = if is_end {
                // A server that forgot has to stay away for its whole time, however late it was killed.
                let length = Duration::from_millis(episode.to_ms - episode.from_ms);
                self.wait(made[i] + length);
                self.note("ends", episode);
                self.end_fault(episode)
            } else {
                self.note("begins", episode);
                let mut is_seen = false;
                for &target in &episode.targets {
                    is_seen |= self.strike(i, episode, target);
                }
                made[i] = now();
                is_seen
            };
            if is_seen {
                seen.insert(i);
            }
            if self.options.is_planted() && is_end && i % LOOK == LOOK - 1 && self.has_overlap() {
                return seen;
            }
        }
        self.wait(started + Duration::from_millis(self.options.faults_ms()));
        seen
    }

    fn has_overlap(&self) -> bool {
        let mut told = self.record.lock().up_to_now();
        told.judge(&self.options).iter().any(is_overlap)
    }

    fn note(&self, what: &str, episode: &Episode) {
        let text = format!("{what}: {:?} of {:?}", episode.class, episode.targets);
        self.record.lock().notes(clock(), What::Beside(text));
    }

    /// Returns whether it was seen to happen, if that can be told now.
    fn strike(&mut self, number: usize, episode: &Episode, target: usize) -> bool {
        let set = |mode| self.proxies[episode.group][target].set(mode, number);
        match episode.class {
            Class::Partition => set(LinkMode::Hold),
            Class::Reset | Class::Refuse => set(LinkMode::Refuse),
            Class::LoseReplies => set(LinkMode::LoseReplies),
            Class::LoseRequests => set(LinkMode::LoseRequests),
            Class::StopWorker => return self.crew.stop(target),
            Class::KillWorker => {
                self.crew.replace(target);
                return true;
            }
            Class::StopServers => {
                let node = &mut self.nodes[target];
                node.server().stop();
                node.is_up = false;
                return is_stopped(node.server().pid());
            }
            Class::LoseMemory | Class::Wipe | Class::KeepMemory => {
                self.nodes[target].kill(memory_after(episode.class));
            }
            Class::GoBack => self.nodes[target].put_aside(),
            Class::Promote => self.nodes[target].replicate(),
            Class::Flush => return self.nodes[target].flush(),
        }
        false
    }

    fn end_fault(&mut self, episode: &Episode) -> bool {
        let mut is_seen = false;
        for &target in &episode.targets {
            match episode.class {
                class if class.is_of_links() => self.proxies[episode.group][target].pass(),
                Class::StopWorker => self.crew.resume(target),
                Class::StopServers => {
                    self.nodes[target].server().resume();
                    self.nodes[target].is_up = true;
                }
                Class::Promote => {
                    let node = &mut self.nodes[target];
                    is_seen |= node.promote();
                    let port = node.server().port();
                    for proxies in &self.proxies {
                        proxies[target].moved(port);
                    }
                }
                Class::KillWorker | Class::Flush => {}
                _ => return self.revive(episode),
            }
        }
        is_seen
    }

    /// Servers that are killed come back, all at the same time: what they have forgotten together, they forget at once.
    fn revive(&mut self, episode: &Episode) -> bool {
        let memory = memory_after(episode.class);
        if episode.class == Class::GoBack {
            for &target in &episode.targets {
                self.nodes[target].kill(memory);
            }
        }
        let is_pardoned = self.options.is_planted();
        let come_back = |node: &mut Node| {
            let is_seen = node.come_back(memory, episode.ahead_ms);
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
            let threads = nodes.map(|(_, node)| scope.spawn(|| come_back(node)));
            let threads: Vec<_> = threads.collect();
            let ended = threads.into_iter().map(|thread| thread.join().unwrap());
            ended.collect()
        });
        seen.contains(&true)
    }

    /// Looks after the workers and looks at keys until some time.
    fn wait(&mut self, until: Instant) {
        let mut next_sample = now();
        while now() < until {
            self.crew.look_after();
            if now() >= next_sample {
                self.sample();
                next_sample = now() + SAMPLE;
            }
            let left = until.saturating_duration_since(now());
            pause(left.min(Duration::from_millis(5)));
        }
    }

    /// Looks at all keys of the servers that answer: each has to expire within the longest ttl.
    fn sample(&mut self) {
        let longest_ms = *self.options.ttl_ms().end();
        for node in self.nodes.iter().filter(|node| node.is_up) {
            for key in keys::all(node.server()) {
                self.samples += 1;
                if let Some(fault) = key.fault(longest_ms) {
                    let text = format!("P7: on {}, {fault}", node.server().name());
                    self.record.lock().wrong(text);
                }
            }
        }
    }

    /// Lets the workers have each place again, and give back everything. Returns the keys that are left then.
    fn ends(&mut self, started: Instant) -> Vec<String> {
        self.crew.tell();
        self.wait(started + self.options.length);
        // A slow machine may take long for it.
        let limit = now() + RECOVERED;
        while now() < limit && !self.record.lock().stuck().is_empty() {
            self.wait(now() + SAMPLE);
        }
        self.crew.tell();
        self.crew.wait_until_done(1);
        open(&self.options, &self.urls, LAST);
        self.crew.tell();
        self.crew.wait_until_done(2);
        let mut leaked = self.keys_that_stay(GRACE, |left| left.iter().all(Key::is_hint));
        leaked.extend(self.keys_that_stay(HINTS_END, <[Key]>::is_empty));
        leaked
    }

    fn keys_that_stay(&self, limit: Duration, is_over: impl Fn(&[Key]) -> bool) -> Vec<String> {
        let mut stay = Vec::new();
        for node in &self.nodes {
            let server = node.server();
            let mut left = Vec::new();
            let is_over = || {
                left = keys::all(server);
                left.retain(|key| !key.stays());
                is_over(&left)
            };
            if !eventually(limit, is_over) {
                stay.push(format!("{}: {left:?}", server.name()));
            }
        }
        stay
    }
}

/// What a server of such a fault finds when it starts again.
fn memory_after(class: Class) -> Memory {
    match class {
        Class::KeepMemory => Memory::All,
        Class::GoBack => Memory::Older,
        _ => Memory::Nothing,
    }
}
