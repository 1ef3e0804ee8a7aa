//! The driver: starts everything, makes the faults of the plan, and looks at what is left in the end.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use parking_lot::Mutex;
use redlatch::Protocol;
use redlatch_testing::{eventually, now, own_port};

use crate::bounds::{OFF_MS, SERVERS};
use crate::class::Class;
use crate::crew::Crew;
use crate::keys::{self, Key};
use crate::managers;
use crate::node::Node;
use crate::options::{CALM, Clients, Options};
use crate::plan::{self, Episode};
use crate::proxy::Proxy;
use crate::record::Record;
use crate::report::Report;
use crate::site::{Made, Site};

/// For bytes that are on their way through the proxy when the last worker says that it has released everything. The last
/// locks have a longer ttl, so a key that was not given back is still there then.
const GRACE: Duration = Duration::from_secs(15);
/// Within this time, the keys of those who wait for a lock end by themselves, of which none lasts half a second.
const HINTS_END: Duration = Duration::from_secs(5);
/// How long the opening of new nodes may take on a busy machine.
const OPENED: Duration = Duration::from_secs(30);

pub(crate) fn run(options: &Options) -> Report {
    let groups = groups();
    let mut rng = Rng::with_seed(options.seed);
    let mut start = |i| Node::start(i, options, rng.i64(-OFF_MS..=OFF_MS));
    let nodes: Vec<Node> = (0..SERVERS).map(&mut start).collect();
    let ports: Vec<u16> = (0..SERVERS).map(|_| port_for(&groups)).collect();
    let own_ports: Vec<u16> = nodes.iter().map(|node| node.server().port()).collect();
    let proxy = Proxy::start(&groups, &ports, &own_ports);
    open(options, &groups, &ports, keys::PREFIX);
    let record = Arc::new(Mutex::new(Record::new(options)));
    let mut site = Site {
        proxy,
        crew: Crew::start(&groups, &ports, options, &record),
        up: vec![true; nodes.len()],
        nodes,
        fast: BTreeMap::new(),
        record,
        options: options.clone(),
        made: Made::default(),
    };

    let soak_ms = u64::try_from(options.length.saturating_sub(CALM).as_millis()).unwrap();
    let plan = if options.planted {
        plan::forgetful(options.seed, soak_ms)
    } else {
        plan::make(options, soak_ms, groups.len())
    };
    let started = now();
    site.suffer(&plan, started, soak_ms);
    let mut leaked = Vec::new();
    if !options.planted {
        for node in &site.nodes {
            node.server().command(&["PING"]);
        }
        site.record.lock().is_calm();
        site.crew.tell("calm");
        site.wait(started + options.length);
        site.recover();
        leaked = end(&mut site, &groups, &ports);
    }

    let kept = site.proxy.kept();
    let Site {
        crew, record, made, ..
    } = site;
    let abrupt = crew.abrupt;
    if options.planted {
        drop(crew);
    } else {
        crew.finish();
    }
    record.lock().ends();
    let record = Arc::into_inner(record).unwrap().into_inner();
    Report {
        all_at_once: plan.iter().filter(|e| strikes_all(e)).count(),
        made,
        plan,
        kept,
        abrupt,
        groups: groups.len(),
        leaked,
        record,
    }
}

/// The addresses of the proxy, one for each group of workers.
fn groups() -> Vec<Ipv4Addr> {
    let second = Ipv4Addr::new(127, 0, 0, 2);
    if let Err(error) = TcpListener::bind((second, 0)) {
        println!(
            "soak: {second} can't be used here ({error}): all workers are on one side of each partition, \
             and the rest is as ever"
        );
        return vec![Ipv4Addr::LOCALHOST];
    }
    vec![Ipv4Addr::LOCALHOST, second]
}

/// A port that is free on all addresses: the workers of all groups ask the nodes in one order, that of their names.
fn port_for(groups: &[Ipv4Addr]) -> u16 {
    for _ in 0..100 {
        let port = own_port();
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
    let class = episode.class;
    !class.is_of_links() && class != Class::RunFast && episode.targets.len() == SERVERS
}

/// Opens the nodes, which are new to clients of the fenced protocol with this prefix.
fn open(options: &Options, groups: &[Ipv4Addr], ports: &[u16], prefix: &str) {
    if options.clients == Clients::Classic {
        return;
    }
    let urls: Vec<String> = managers::urls(groups[0], ports);
    let manager = managers::builder(&urls, prefix, Protocol::Fenced, *options.ttl_ms().end())
        .node_timeout(Duration::from_secs(1))
        .build()
        .unwrap();
    let mut result = Ok(());
    let is_open = || {
        result = manager.open_nodes();
        result.is_ok()
    };
    assert!(eventually(OPENED, is_open), "{result:?}");
}

/// Lets the workers give back everything, and returns the keys that are left then.
fn end(site: &mut Site, groups: &[Ipv4Addr], ports: &[u16]) -> Vec<String> {
    site.crew.tell("stop");
    site.crew.wait_until_done(1);
    open(&site.options, groups, ports, keys::LAST);
    site.crew.tell("last");
    site.crew.wait_until_done(2);
    let mut leaked = Vec::new();
    let mut expect = |limit, is_over: &dyn Fn(&[Key]) -> bool| {
        for node in &site.nodes {
            let server = node.server();
            let mut left = Vec::new();
            if !eventually(limit, || {
                left = keys::all(server);
                left.retain(|key| !key.stays());
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
