//! Servers that are far away, with and without TLS, and no options.

use std::fs;
use std::time::Duration;

use redlatch::{Error, LockManager, Tls};
use redlatch_testing::{Server, SlowLink, free_port, now};
use tempfile::TempDir;

use crate::ended::Ended;
use crate::nodes::bare;
use crate::process::end_of;

const MS: Duration = Duration::from_millis(1);

/// The round trips of the links.
const LINKS: [u32; 5] = [0, 5, 20, 60, 100];

/// Beyond this round trip, no answer can come within the default `node_timeout` of the library.
const LONGEST_OF_THE_LIBRARY: u32 = 50;

/// Three servers with both kinds of ports, and their certificate.
struct Far {
    servers: Vec<(Server, [u16; 2])>,
    folder: TempDir,
}

impl Far {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        for (name, text) in [
            ("ca.pem", made.cert.pem()),
            ("key", made.signing_key.serialize_pem()),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let file = |name| folder.path().join(name).display().to_string();
        let (cert, key) = (file("ca.pem"), file("key"));
        let servers = [(); 3].map(|()| {
            let port = free_port();
            let text = port.to_string();
            let options = [
                ["--tls-port", &text],
                ["--tls-cert-file", &cert],
                ["--tls-key-file", &key],
                ["--tls-auth-clients", "no"],
            ];
            let server = Server::start_with(&options.concat());
            let ports = [server.port(), port];
            (server, ports)
        });
        let servers = Vec::from(servers);
        Self { servers, folder }
    }

    fn ca(&self) -> String {
        self.folder.path().join("ca.pem").display().to_string()
    }
}

/// Links to the servers, and the URLs behind them.
struct Path<'f> {
    far: &'f Far,
    round_trip: u32,
    has_tls: bool,
    _links: Vec<SlowLink>,
    urls: Vec<String>,
}

impl<'f> Path<'f> {
    fn start(far: &'f Far, round_trip: u32, has_tls: bool) -> Self {
        let span = MS * round_trip;
        let (scheme, first) = if has_tls {
            // For the handshake of TCP.
            ("rediss", span)
        } else {
            ("redis", Duration::ZERO)
        };
        let ports = far.servers.iter().map(|(_, ports)| ports);
        let links = ports.map(|ports| SlowLink::start(ports[usize::from(has_tls)], span, first));
        let links: Vec<SlowLink> = links.collect();
        let url = |link: &SlowLink| format!("{scheme}://127.0.0.1:{}", link.port());
        Self {
            far,
            round_trip,
            has_tls,
            urls: links.iter().map(url).collect(),
            _links: links,
        }
    }

    fn redlatch(&self, line: &str) -> Ended {
        let mut command = bare(line);
        command.env("REDLATCH_NODES", self.urls.join(","));
        if self.has_tls {
            command.env("SSL_CERT_FILE", self.far.ca());
        }
        end_of(&mut command)
    }

    /// A client of the library with its defaults, which waits for so long.
    fn manager(&self, wait: Duration) -> LockManager {
        let mut builder = LockManager::builder().nodes(&self.urls);
        if self.has_tls {
            let ca = fs::read(self.far.ca()).unwrap();
            builder = builder.tls(Tls::default().root_certificates(ca));
        }
        builder.acquire_timeout(wait).build().unwrap()
    }

    /// Returns a row of a table: what the command and the library do without options.
    fn row(&self) -> String {
        let Self {
            round_trip,
            has_tls,
            ..
        } = self;
        let case = format!("{round_trip} ms, TLS: {has_tls}");
        let began = now();
        self.redlatch("run job -- true").ends_with(0);
        let run = began.elapsed().as_millis();
        let health = self.redlatch("health");
        let is_well = health.stdout.contains("3 of 3 can vote");
        assert!(
            is_well && !health.stdout.contains("critical"),
            "{case}: {health:?}"
        );

        let is_too_far = *round_trip > LONGEST_OF_THE_LIBRARY;
        let manager = self.manager(if is_too_far { MS * 1_000 } else { MS * 40_000 });
        let locked = manager.lock("job", MS * 10_000);
        let judged = manager.health().unwrap();
        assert_eq!(locked.is_err(), is_too_far, "{case}: {locked:?}");
        assert!(!is_too_far || judged.margin < 0, "{case}: {judged}");
        let library = match &locked {
            Ok(_) => "grants".to_owned(),
            Err(error) => raises(error),
        };
        let verdict = |text: &str| text.lines().last().unwrap_or_default().to_owned();
        format!(
            "| {case} | granted, {run} ms in all | {} | {library} | {} |",
            verdict(&health.stdout),
            verdict(&judged.to_string()),
        )
    }
}

/// Returns what the error says of the first node. Checks that the text of each node names the limit and what to raise.
#[track_caller]
fn raises(error: &Error) -> String {
    let Error::Unavailable { nodes, .. } = error else {
        panic!("{error}");
    };
    let texts = nodes.iter().map(ToString::to_string);
    let mut silent =
        texts.filter(|text| text.contains("no answer") || text.contains("no connection"));
    assert!(silent.clone().count() >= 2, "{error}");
    let options = ["raise node_timeout", "raise connect_timeout"];
    assert!(
        silent.all(|text| options.iter().any(|option| text.contains(option))),
        "{error}"
    );
    nodes[0].to_string()
}

/// Prints the table with `--nocapture`.
#[test]
fn with_no_options_a_command_runs_over_any_link_and_the_library_says_what_to_raise() {
    let far = Far::start();
    println!("| link | run | health | lock | health of the library |");
    for round_trip in LINKS {
        for has_tls in [false, true] {
            println!("{}", Path::start(&far, round_trip, has_tls).row());
        }
    }
}

/// `status` and others wait longer than `node_timeout`. `health` must not, because programs don't either.
#[test]
fn the_timeouts_of_the_configuration_limit_jobs_and_are_those_of_health() {
    let far = Far::start();
    let [plain, encrypted] = [false, true].map(|has_tls| Path::start(&far, 60, has_tls));
    let config = far.folder.path().join("redlatch.toml");
    fs::write(&config, "node_timeout = '50ms'\n").unwrap();
    let config = config.display();
    let health = plain.redlatch(&format!("health --config {config}"));
    health.ends_with(2).shows("the node timeout is 50ms");
    fs::write(config.to_string(), "connect_timeout = '10ms'\n").unwrap();
    let run = |options: &str| encrypted.redlatch(&format!("run -n {options} job -- true"));
    run("").ends_with(0);
    run("--connect-timeout 10ms").ends_with(69);
    run(&format!("--config {config}")).ends_with(69);
    run(&format!("--config {config} --connect-timeout 5s")).ends_with(0);
}
