//! What can't be done is said in one line that says what to do, has an exit code of its own, and leaves no lock.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::process::{Nodes, ask, bare, end_of, set_mode, try_run};

/// Command lines, word by word, with a part of the advice. Unit tests have more. `LONG` is a name that is too long.
const WRONG: &str = "
 => --help
dance => --help
run => <NAME>
run job => <COMMAND>
run job -- => <COMMAND>
run --wiat 5s job -- true => --wait
run --no-wait --wait 5s job -- true => --wait
run --ttl 1s --ttl 2s job -- true => --ttl
run --ttl 0s job -- true => more than zero
run --ttl 2ms job -- true => see --ttl and --node-timeout
run --ttl 899ms job -- true => 900ms
run --ttl 2h job -- true => see max_ttl in redlatch.toml
run --node-timeout 2h job -- true => node_timeout
run --wait 0s job -- true => --no-wait
run --max-hold 5s --ttl 10s job -- true => leave --ttl out
run --max-hold 100ms job -- true => --max-hold 100ms
run --ttl 2h --max-hold 2h job -- true => invalid ttl: 7200s is too long
run --on-loss panic job -- true => ignore
run '' -- true => at least one character
run LONG -- true => 65536
run -q -v job -- true => --verbose
run --also job job -- true => \"job\" is given twice
run --also a --also a job -- true => \"a\" is given twice
run --also '' job -- true => at least one character
run --also a:fence job -- true => a:fence
run --also a --max 3 job -- true => --max
run --also a --shared job -- true => --shared
run --shared --max 3 job -- true => --max
run --shared --at-least 1m job -- true => --at-least
run --shared --forever job -- true => --forever
run --forever --no-wait job -- true => --no-wait
run --forever --ttl 1ms job -- true => ttl
run --forever --on-wanted TERM job -- true => --on-wanted
run --at-least 0s job -- true => more than zero
run --at-least 2h job -- true => --at-least can't be used: 7200s is too long: the longest is max_ttl
run --at-least-on-failure job -- true => --at-least
run --max 0 job -- true => --max
run --max=257 job -- true => --max
run --max=-1 job -- true => --max
run --label a\u{202e}b job -- true => the character \\u{202e}
run --label x --no-label job -- true => --no-label
status => <NAME>
status -q --json job => --json
status --max x job => --max
status --config /no/such/file job => /no/such/file
status --password-file /no/such/file job => /no/such/file
status --password-file /dev/null job => /dev/null
hold => <NAME>
hold --ttl 899ms job => standard input
open-nodes job => --help
list --prefix LONG => at most 65536 bytes
health --color maybe => auto, always, never
unlock job => --token
unlock job --token => --token
unlock job --token foo => --foreign
unlock job --foreign --token a\\q => backslash
";

#[test]
fn usage_that_is_wrong_is_64() {
    let nodes = Nodes::start(3).hasty();
    let long = "x".repeat(70_000);
    let cut = "begins so\u{2026} (300 bytes)";
    let cases = WRONG.trim_matches('\n').lines().map(|line| {
        let (words, advice) = line.split_once(" => ").unwrap();
        let words = words.split(' ').filter(|word| !word.is_empty());
        let words = words.map(|word| match word {
            "LONG" => &*long,
            word => word.trim_matches('\''),
        });
        (words.collect(), advice)
    });
    let more: [(Vec<&str>, &str); 2] = [
        (
            vec!["run", "--also", "a\nb", "job", "--", "true"],
            "\"a\\nb\"",
        ),
        (
            vec!["unlock", "job", "--foreign", "--token", cut],
            "redlatch status",
        ),
    ];
    for (arguments, advice) in cases.chain(more) {
        let ended = ask(&nodes, &arguments);
        ended.is_refused_in_one_line(64, advice);
        assert!(!ended.stderr.contains("builder"), "{ended:?}");
    }
    let many: Vec<String> = (0..64).map(|n| format!("--also=name-{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    try_run(&nodes, &many, "true").is_refused_in_one_line(64, "64 resources at most");
    try_run(&nodes, &many[1..], "true").is_quiet(0);
    assert!(nodes.servers.iter().all(|server| server.keys() == 0));
}

#[test]
fn a_name_that_is_not_utf_8_is_refused() {
    let nodes = Nodes::start(1);
    let name = OsStr::from_bytes(b"job\xff");
    for (before, after) in [
        (&["run"][..], &["--", "true"][..]),
        (&["run", "--"], &["--", "true"]),
        (&["hold"], &[]),
        (&["status"], &[]),
        (&["status", "--"], &[]),
        (&["unlock", "--token", "x"], &[]),
    ] {
        let mut command = nodes.redlatch(before);
        command.arg(name).args(after);
        end_of(&mut command).is_refused_in_one_line(64, "UTF-8");
    }
}

#[test]
fn a_command_that_does_not_exist_is_127_and_one_that_can_not_be_run_is_126() {
    let nodes = Nodes::start(3);
    let plain = nodes.file("plain");
    std::fs::write(&plain, "echo ran\n").unwrap();
    let orphan = nodes.file("orphan");
    std::fs::write(&orphan, "#!/no/such/interpreter\n").unwrap();
    let odd = nodes.file("odd");
    std::fs::write(&odd, [0_u8; 64]).unwrap();
    for file in [&orphan, &odd] {
        set_mode(file, 0o755);
    }
    let text = |path: &std::path::Path| path.display().to_string();
    for (command, code, advice) in [
        ("no-such-command".to_owned(), 127, "PATH"),
        ("/no/such/command".to_owned(), 127, "name"),
        (String::new(), 127, "name"),
        (text(&orphan), 127, "interpreter"),
        (text(&plain), 126, "chmod +x"),
        (text(&odd), 126, "kind of file"),
        ("/".to_owned(), 126, "rights"),
    ] {
        ask(&nodes, &["run", "job", "--", &command]).is_refused_in_one_line(code, advice);
        assert_eq!(nodes.locked(), 0, "{command}");
    }
}

#[test]
fn without_servers_each_way_to_name_them_is_told() {
    for arguments in [
        &["run", "job", "--", "true"][..],
        &["status", "job"],
        &["hold", "job"],
        &["health"],
        &["open-nodes"],
    ] {
        let ended = end_of(&mut bare(arguments));
        ended.is_refused_in_one_line(64, "--node URL");
        assert!(ended.stderr.contains("REDLATCH_NODES") && ended.stderr.contains("redlatch.toml"));
    }
    // A variable of a script that was not set: other servers are not meant.
    let nodes = Nodes::start(1);
    let url = nodes.servers[0].url();
    for more in [&["--node", ""][..], &["--node", &url, "--node", ""]] {
        let mut command = nodes.redlatch(&["status", "job"]);
        end_of(command.args(more)).is_refused_in_one_line(64, "--node is empty");
    }
}

#[test]
fn a_url_that_can_not_be_used_is_64_also_where_the_password_comes_from_elsewhere() {
    for (urls, advice) in [
        ("redis://s3cret@", "node 1"),
        ("redis://a,mysql://u:s3cret@b", "node 2"),
        ("redis://a redis://:s3cret@a", "twice"),
        ("redis://:s3cret#x@a", "node 1"),
        ("redis://:s3cret@a:0", "port 0"),
        // Parts that nobody reads.
        ("redis://127.0.0.1:1?database=2", "?db=2"),
        ("redis://u@127.0.0.1:1/1?protocol=3", "leave protocol out"),
        ("redis://127.0.0.1:1?password=s3cret", "user:password@"),
        ("redis://127.0.0.1:1#x", "%23"),
        ("unix:///p?database=2", "user and pass"),
        ("redis://a;b", "one server in each URL"),
    ] {
        for password in ["", "s3cret"] {
            let mut command = bare(&["status", "job"]);
            command.env("REDLATCH_NODES", urls);
            command.env("REDLATCH_PASSWORD", password);
            let ended = end_of(&mut command);
            ended.is_refused_in_one_line(64, advice);
            assert!(!ended.stderr.contains("s3cret"), "{ended:?}");
        }
    }
}

#[cfg(not(feature = "tls-rustls"))]
#[test]
fn tls_without_its_feature_names_the_feature() {
    end_of(bare(&["status", "job"]).env("REDLATCH_NODES", "rediss://a"))
        .is_refused_in_one_line(64, "tls-rustls");
    let node = ["status", "job", "--node", "redis://127.0.0.1:1"];
    for option in ["--tls-ca", "--tls-cert", "--tls-key", "--tls-name"] {
        end_of(&mut bare(&[&node[..], &[option, "x"]].concat()))
            .is_refused_in_one_line(64, "tls-rustls");
    }
}

#[cfg(feature = "tls-rustls")]
#[test]
fn certificates_that_the_environment_names_and_that_can_not_be_read_are_named() {
    let nodes = Nodes::start(1);
    let file = |name: &str, text: &str| {
        let path = nodes.file(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let none = file("none.pem", "");
    let garbled = file("garbled.pem", "-----BEGIN CERTIFICATE-----\n!\n");
    let other = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
    let other = file("other.pem", other);
    let missing = nodes.file("missing.pem").display().to_string();
    // Where certificates are looked for otherwise.
    let system = "/etc/ssl/certs";
    for (named, also, variable) in [
        (&*missing, None, "SSL_CERT_FILE"),
        (&*missing, Some(system), "SSL_CERT_FILE"),
        ("/", Some(system), "SSL_CERT_FILE"),
        (&*none, Some(system), "SSL_CERT_FILE"),
        (&*garbled, Some(system), "SSL_CERT_FILE"),
        (&*other, Some(system), "SSL_CERT_FILE"),
        ("", Some(&*missing), "SSL_CERT_DIR"),
    ] {
        let mut command = bare(&["status", "job"]);
        command.env("REDLATCH_NODES", "rediss://127.0.0.1:1");
        command
            .env_remove("SSL_CERT_FILE")
            .env_remove("SSL_CERT_DIR");
        if !named.is_empty() {
            command.env("SSL_CERT_FILE", named);
        }
        if let Some(also) = also {
            command.env("SSL_CERT_DIR", also);
        }
        end_of(&mut command).is_refused_in_one_line(64, variable);
    }
}
