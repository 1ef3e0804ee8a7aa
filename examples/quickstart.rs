//! One lock, two clients: who gets it, what each node says, how long it is valid, and what happens when nodes fail.
//!
//! `cargo run --example quickstart` runs on five nodes inside this process, without any server.
//! `cargo run --example quickstart -- --nodes redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3` runs on real ones.

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::process::ExitCode;
use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Builder, Error, LockGuard, LockManager, NodeReport, Vote};
use redlatch_testing::{WrongUse, example};

const RESOURCE: &str = "nightly-report";

fn main() -> ExitCode {
    // The library reports nodes that fail as log lines, which need a logger. Without a logger, a wait for servers that don't run is
    // silent.
    env_logger::init_from_env(env_logger::Env::new().default_filter_or("info"));
    example("quickstart", |arguments| match arguments {
        [] => {
            let fakes = FakeNode::cluster(5);
            println!("Five nodes inside this process. Real servers: --nodes url,url,...");
            Ok(run(&LockManager::builder().fakes(&fakes), &fakes)?)
        }
        ["--nodes", urls] => {
            let builder = LockManager::builder().nodes(urls.split(','));
            Ok(run(&builder.key_prefix("redlatch-example:"), &[])?)
        }
        _ => Err(WrongUse("quickstart [--nodes url,url,...]").into()),
    })
}

/// There are no fakes when the nodes are real servers.
fn run(builder: &Builder, fakes: &[FakeNode]) -> Result<(), Error> {
    // Two managers over the same nodes, as two programs have.
    let (a, b) = (builder.clone().build()?, builder.clone().build()?);
    println!("\nClient A takes the lock on {RESOURCE:?} for 10 s.");
    let guard = a.lock(RESOURCE, Duration::from_secs(10))?;
    show_guard("A", &guard);

    println!("\nClient B tries while A has it.");
    show_refusal(b.try_lock(RESOURCE, Duration::from_secs(10)))?;

    println!("\nA needs longer, and extends the lock to one minute.");
    guard.extend(Duration::from_secs(60))?;
    println!("  valid for another {:.3?}", guard.remaining());

    println!("\nA releases the lock, and B tries again.");
    guard.unlock()?;
    let guard = b.try_lock(RESOURCE, Duration::from_secs(10))?;
    show_guard("B", &guard);
    // Dropping a guard releases its lock as well; `unlock` only tells how that went.
    drop(guard);

    let [first, second, third, ..] = fakes else {
        println!("\nTo see a node fail, stop one of the servers and run this again.");
        return Ok(());
    };
    let [first_name, second_name, third_name] = [first, second, third].map(FakeNode::name);
    println!("\n{first_name} stops answering. A majority is left, so A gets the lock.");
    first.hang();
    let guard = a.lock(RESOURCE, Duration::from_secs(10))?;
    show_guard("A", &guard);
    drop(guard);

    println!("\n{second_name} and {third_name} refuse connections as well. No majority is left.");
    println!(
        "({first_name} failed a moment ago, so it is asked last, and only because it is needed.)"
    );
    second.refuse();
    third.refuse();
    show_refusal(a.try_lock(RESOURCE, Duration::from_secs(10)))
}

fn show_guard(client: &str, guard: &LockGuard) {
    let votes = guard.votes();
    show_votes(&votes);
    let is_granted = |report: &&NodeReport| matches!(report.vote, Vote::Granted);
    let granted = votes.iter().filter(is_granted).count();
    let (nodes, token) = (votes.len(), guard.token());
    println!("  {client} has the lock: {granted} of {nodes} nodes, token {token}");
    println!("  valid for another {:.3?}", guard.remaining());
}

/// Shows a "no"; passes every other error on.
fn show_refusal(result: Result<LockGuard, Error>) -> Result<(), Error> {
    match result {
        Ok(guard) => show_guard("Unexpected: B", &guard),
        Err(Error::Held { nodes, .. }) => {
            show_votes(&nodes);
            println!("  Error::Held: someone else has it. This is the normal \"no\".");
        }
        Err(Error::Unavailable { nodes, .. }) => {
            show_votes(&nodes);
            println!("  Error::Unavailable: the lock may be free, but too few nodes can say so.");
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// In the words of the library's own error messages.
fn show_votes(nodes: &[NodeReport]) {
    for report in nodes {
        println!("  {report}");
    }
}
