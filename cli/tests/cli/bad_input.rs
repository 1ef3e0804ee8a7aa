//! What can't be done is said in one line that says what to do, has an exit code of its own, and leaves no lock.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::nodes::{Nodes, TOKEN, bare};
use crate::process::end_of;

/// Command lines with a part of the advice: what the parser takes, and others refuse. `LONG` is a name that is too long.
const WRONG: &str = "
 => --help
run --ttl 2ms job -- true => see --ttl and --node-timeout
run --ttl 899ms job -- true => 900ms
run --ttl 2h job -- true => see max_ttl in redlatch.toml
run --node-timeout 2h job -- true => node_timeout
run --node-timeout 10001ms job -- true => 30s is too short
run --max-hold 5s --ttl 10s job -- true => leave --ttl out
run --max-hold 100ms job -- true => --max-hold 100ms
run --ttl 2h --max-hold 2h job -- true => invalid ttl: 7200s is too long
run LONG -- true => 65536
run --also job job -- true => \"job\" is given twice
run --also a:fence job -- true => a:fence
run --at-least 2h job -- true => --at-least can't be used: 7200s is too long: the longest is max_ttl
run --label a\u{202e}b job -- true => the character \\u{202e}
status --config /no/such/file job => /no/such/file
status --password-file /no/such/file job => /no/such/file
status --password-file /dev/null job => /dev/null
hold job => standard input is at its end
unlock job --token foo => --foreign
unlock job --foreign --token a\\q => backslash
";

#[test]
fn usage_that_is_wrong_is_64() {
    let nodes = Nodes::hasty();
    let long = "x".repeat(70_000);
    let cases = WRONG.trim_matches('\n').lines();
    let cases = cases.map(|line| line.split_once(" => ").unwrap());
    for (line, advice) in cases.chain([("run --also a\nb job -- true", "\"a\\nb\"")]) {
        let ended = nodes.ask(&line.replace("LONG", &long));
        ended.is_refused(64, advice);
        assert!(!ended.stderr.contains("builder"), "{ended:?}");
    }
    let token = "begins so\u{2026} (300 bytes)";
    let mut unlock = nodes.redlatch("unlock job --foreign --token");
    end_of(unlock.arg(token)).is_refused(64, "redlatch status");
    let many = |n| {
        let names = (0..n).map(|n| format!("--also=name-{n}"));
        names.collect::<Vec<_>>().join(" ")
    };
    let ended = nodes.try_run(&many(64), "true");
    ended.is_refused(64, "64 resources at most");
    nodes.try_run(&many(63), "true").is_silent(0);
    // A ttl that was not given is that of --max-hold only if it is shorter.
    nodes.try_run("--max-hold 2h", "true").is_silent(0);
    assert!(nodes.servers.iter().all(|server| server.keys() == 0));
}

#[test]
fn a_name_that_is_not_utf_8_is_refused() {
    let name = OsStr::from_bytes(b"job\xff");
    for line in ["run", "run --", "hold", "status --", "unlock --token x"] {
        let mut command = bare(line);
        command.arg(name);
        if line.starts_with("run") {
            command.args(["--", "true"]);
        }
        end_of(&mut command).is_refused(64, "UTF-8");
    }
}

#[test]
fn a_command_that_does_not_exist_is_127_and_one_that_can_not_be_run_is_126() {
    let nodes = Nodes::start(3);
    let plain = nodes.write("plain", 0o644, "echo ran\n");
    let orphan = nodes.write("orphan", 0o755, "#!/no/such/interpreter\n");
    let odd = nodes.write("odd", 0o755, &"\0".repeat(64));
    for (command, code, advice) in [
        ("no-such-command", 127, "PATH"),
        ("/no/such/command", 127, "name"),
        ("", 127, "name"),
        (&orphan, 127, "interpreter"),
        (&plain, 126, "chmod +x"),
        (&odd, 126, "kind of file"),
        ("/", 126, "rights"),
    ] {
        let mut run = nodes.redlatch("run job --");
        end_of(run.arg(command)).is_refused(code, advice);
        assert_eq!(nodes.locked(), 0, "{command}");
    }
}

#[test]
fn without_servers_each_way_to_name_them_is_told() {
    for line in ["run job -- true", "health"] {
        let ended = end_of(&mut bare(line));
        for way in ["--node URL", "REDLATCH_NODES", "redlatch.toml"] {
            ended.is_refused(64, way);
        }
    }
    // A variable of a script that was not set: other servers are not meant.
    let nodes = Nodes::start(1);
    for more in [
        &["--node", ""][..],
        &["--node", &nodes.urls(), "--node", ""],
    ] {
        let mut command = nodes.redlatch("status job");
        end_of(command.args(more)).is_refused(64, "--node is empty");
    }
}

#[test]
fn a_url_that_can_not_be_used_is_64_also_where_the_password_comes_from_elsewhere() {
    for (urls, advice) in [
        ("redis://a,mysql://u:s3cret@b", "node 2"),
        ("redis://:s3cret#x@a", "node 1"),
        ("redis://127.0.0.1:1?password=s3cret", "user:password@"),
        #[cfg(not(feature = "tls-rustls"))]
        ("rediss://a", "tls-rustls"),
    ] {
        for password in ["", "s3cret"] {
            let mut command = bare("status job");
            command.env("REDLATCH_NODES", urls);
            let ended = end_of(command.env("REDLATCH_PASSWORD", password));
            ended.is_refused(64, advice);
            assert!(!ended.stderr.contains("s3cret"), "{ended:?}");
        }
    }
}

#[cfg(not(feature = "tls-rustls"))]
#[test]
fn certificates_without_the_feature_for_tls_name_the_feature() {
    for option in ["--tls-ca", "--tls-cert", "--tls-key", "--tls-name"] {
        let line = format!("status job --node redis://127.0.0.1:1 {option} x");
        end_of(&mut bare(&line)).is_refused(64, "tls-rustls");
    }
}

#[test]
fn a_system_that_gives_no_thread_is_71() {
    let nodes = Nodes::hasty();
    let unlock = format!("unlock job --token {TOKEN}");
    let lines = ["run job -- true", "status job", "list", "health", "watch"];
    for line in lines.into_iter().chain([&*unlock, "open-nodes"]) {
        let mut command = nodes.redlatch(line);
        // No thread has such a stack.
        command.env("RUST_MIN_STACK", usize::MAX.div_ceil(4).to_string());
        end_of(&mut command).is_refused(71, "gave no thread; look at its limits: Resource");
    }
    assert!(nodes.servers.iter().all(|server| server.keys() == 0));
}
