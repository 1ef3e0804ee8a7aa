//! The driver: starts everything, makes the faults of the plan and repairs them, and looks at what is left in the end.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use redlatch_testing::{Server, eventually, free_port, now, pause};

use crate::crew::Crew;
use crate::event::clock;
use crate::keys::{self, HINT_MS, Key};
use crate::options::{CALM, Options};
use crate::plan::{self, Class, Episode, SERVERS};
use crate::proxy::{Mode, Proxy};
use crate::report::Report;
use crate::witness::Witness;

/// How often the keys of a server are looked at.
const SAMPLE: Duration = Duration::from_millis(100);
/// For bytes that are on their way through the proxy when the last worker says that it has released everything. The last
/// locks have a longer ttl, so a key that was not given back is still there then.
const GRACE: Duration = Duration::from_secs(2);
/// Within this time, the keys of those who wait for a lock end by themselves.
const HINTS_END: Duration = Duration::from_millis(HINT_MS + 100);

/// Something that has to be done at some time.
struct Step {
    at_ms: u64,
    /// Else the fault begins.
    is_end: bool,
    /// Which episode.
    episode: usize,
}

/// All that faults strike. Dropped in this order.
struct Site {
    crew: Crew,
    proxy: Proxy,
    servers: Vec<Server>,
    /// Which servers neither are down nor stopped.
    up: Vec<bool>,
    witness: Arc<Mutex<Witness>>,
}

pub(crate) fn run(options: &Options) -> Report {
    let groups = groups();
    let servers = Server::cluster(SERVERS);
    let ports: Vec<u16> = (0..SERVERS).map(|_| port_for(&groups)).collect();
    let own_ports: Vec<u16> = servers.iter().map(Server::port).collect();
    let witness = Arc::new(Mutex::new(Witness::default()));
    let mut site = Site {
        proxy: Proxy::start(&groups, &ports, &own_ports),
        crew: Crew::start(&groups, &ports, options.seed, &witness),
        up: vec![true; servers.len()],
        servers,
        witness,
    };

    let chaos_ms = u64::try_from(options.length.saturating_sub(CALM).as_millis()).unwrap();
    let plan = if options.forget {
        plan::forgetful(options.seed, chaos_ms)
    } else {
        plan::make(options.seed, chaos_ms, groups.len())
    };
    let started = now();
    let (faults, samples) = site.suffer(&plan, started, chaos_ms, options.verbose);
    for server in &site.servers {
        server.command(&["PING"]);
    }
    let calm = clock();
    site.crew.tell("calm");
    site.wait(started + options.length);
    let leaked = site.end();

    let Site { crew, witness, .. } = site;
    let abrupt = crew.abrupt;
    crew.finish();
    let witness = std::mem::take(&mut *witness.lock());
    Report {
        faults,
        all_at_once: plan.iter().filter(|e| strikes_all(e)).count(),
        abrupt,
        groups: groups.len(),
        samples,
        leaked,
        calm,
        witness,
    }
}

/// The addresses of the proxy, one for each group of workers.
fn groups() -> Vec<Ipv4Addr> {
    let second = Ipv4Addr::new(127, 0, 0, 2);
    if let Err(error) = TcpListener::bind((second, 0)) {
        println!(
            "chaos: {second} can't be used here ({error}): all workers are on one side of each partition, \
             and the rest is as ever"
        );
        return vec![Ipv4Addr::LOCALHOST];
    }
    vec![Ipv4Addr::LOCALHOST, second]
}

/// A port that is free on all addresses: the workers of all groups ask the nodes in one order, that of their names.
fn port_for(groups: &[Ipv4Addr]) -> u16 {
    for _ in 0..100 {
        let port = free_port();
        if groups
            .iter()
            .all(|&host| TcpListener::bind((host, port)).is_ok())
        {
            return port;
        }
    }
    panic!("no port is free on {groups:?}");
}

fn strikes_all(episode: &Episode) -> bool {
    matches!(episode.class, Class::StopServers | Class::KillServers)
        && episode.targets.len() == SERVERS
}

impl Site {
    /// Goes through the plan. Returns how often each fault was made, and how many keys were looked at meanwhile.
    fn suffer(
        &mut self,
        plan: &[Episode],
        started: Instant,
        length_ms: u64,
        verbose: bool,
    ) -> (BTreeMap<Class, u32>, u64) {
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

        let mut faults = BTreeMap::new();
        // When the fault of each episode had been made, since it may be late.
        let mut made: Vec<Option<Instant>> = vec![None; plan.len()];
        let mut samples = 0;
        for step in steps {
            samples += self.wait(started + Duration::from_millis(step.at_ms));
            let episode = &plan[step.episode];
            if verbose {
                let what = if step.is_end { "ends" } else { "begins" };
                println!("chaos: at {} ms {what} {episode:?}", step.at_ms);
            }
            if step.is_end {
                // A server that forgot has to stay away for its whole time, however late it was killed.
                let length = Duration::from_millis(episode.to_ms - episode.from_ms);
                let since = made[step.episode].unwrap();
                samples += self.wait(since + length);
                self.end_fault(episode);
            } else {
                self.begin_fault(episode);
                made[step.episode] = Some(now());
                *faults.entry(episode.class).or_insert(0) += 1;
            }
        }
        samples += self.wait(started + Duration::from_millis(length_ms));
        (faults, samples)
    }

    fn begin_fault(&mut self, episode: &Episode) {
        let delay = Duration::from_millis(episode.delay_ms);
        for &target in &episode.targets {
            let set = |mode| self.proxy.set(episode.group, target, mode);
            match episode.class {
                Class::StopServers => {
                    self.servers[target].stop();
                    self.up[target] = false;
                }
                Class::KillServers => {
                    self.servers[target].kill();
                    self.up[target] = false;
                }
                Class::StopWorker => self.crew.stop(target),
                Class::KillWorker => self.crew.replace(target),
                Class::PartitionFromMinority | Class::PartitionFromMajority => set(Mode::Hold),
                Class::Delay => set(Mode::Delay(delay)),
                Class::Reset => self.proxy.reset(episode.group, target),
                Class::Refuse => set(Mode::Refuse),
                Class::LoseReplies => set(Mode::LoseReplies),
                Class::LoseRequests => set(Mode::LoseRequests),
            }
        }
    }

    fn end_fault(&mut self, episode: &Episode) {
        for &target in &episode.targets {
            match episode.class {
                Class::StopServers => {
                    self.servers[target].resume();
                    self.up[target] = true;
                }
                Class::KillServers => {
                    self.servers[target].restart();
                    self.up[target] = true;
                }
                Class::StopWorker => self.crew.resume(target),
                Class::KillWorker | Class::Reset => {}
                Class::PartitionFromMinority
                | Class::PartitionFromMajority
                | Class::Delay
                | Class::Refuse
                | Class::LoseReplies
                | Class::LoseRequests => self.proxy.set(episode.group, target, Mode::Pass),
            }
        }
    }

    /// Looks after the workers and looks at keys until some time. Returns how many keys it saw.
    fn wait(&mut self, until: Instant) -> u64 {
        let mut seen = 0;
        let mut next_sample = now();
        while now() < until {
            self.crew.look_after();
            assert!(self.proxy.is_well(), "the proxy has panicked");
            if now() >= next_sample {
                seen += self.sample();
                next_sample = now() + SAMPLE;
            }
            let left = until.saturating_duration_since(now());
            pause(left.min(Duration::from_millis(5)));
        }
        seen
    }

    /// Looks at all keys of the servers that answer: each has to expire, within the longest ttl, and to be what its name says.
    fn sample(&self) -> u64 {
        let mut seen = 0;
        for (server, _) in self.servers.iter().zip(&self.up).filter(|(_, up)| **up) {
            for key in keys::all(server) {
                seen += 1;
                if let Some(fault) = key.fault() {
                    let text = format!("{} on {} {fault}", key.name, server.name());
                    self.witness.lock().wrong(text);
                }
            }
        }
        seen
    }

    /// Lets the workers give back everything, and returns the keys that are left then.
    fn end(&mut self) -> Vec<String> {
        self.crew.tell("stop");
        self.crew.wait_until_done(1);
        self.crew.tell("last");
        self.crew.wait_until_done(2);
        let mut leaked = Vec::new();
        let mut expect = |limit, is_over: &dyn Fn(&[Key]) -> bool| {
            for server in &self.servers {
                let mut left = Vec::new();
                if !eventually(limit, || {
                    left = keys::all(server);
                    is_over(&left)
                }) {
                    leaked.push(format!("{}: {left:?}", server.name()));
                }
            }
        };
        expect(GRACE, &|left| left.iter().all(Key::is_hint));
        expect(HINTS_END, &<[Key]>::is_empty);
        leaked
    }
}
