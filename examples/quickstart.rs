//! One lock, two clients: who gets it, what each node says, how long it is valid, and what happens when nodes fail.
//!
//! `cargo run --example quickstart` runs on five nodes inside this process, without any server.
//! `cargo run --example quickstart -- --nodes redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3` runs on real ones.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example talks to its reader"
)]

use std::process::ExitCode;
use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Error, LockGuard, LockManager, NodeReport, Vote};

const RESOURCE: &str = "nightly-report";
const USAGE: &str = "usage: quickstart [--nodes url,url,...]";

/// Two managers over the same nodes, as two programs would have.
struct Clients {
    a: LockManager,
    b: LockManager,
    /// Empty when the nodes are real servers.
    fakes: Vec<FakeNode>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let clients = match clients(&arguments) {
        Ok(clients) => clients,
        Err(problem) => {
            eprintln!("quickstart: {problem}");
            return ExitCode::from(2);
        }
    };
    match run(&clients) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quickstart: {error}");
            ExitCode::FAILURE
        }
    }
}

fn clients(arguments: &[String]) -> Result<Clients, String> {
    let (builder, fakes) = match arguments {
        [] => {
            let fakes = FakeNode::cluster(5);
            println!("Five nodes inside this process. Real servers: --nodes url,url,...");
            (LockManager::builder().fakes(&fakes), fakes)
        }
        [option, urls] if option == "--nodes" => {
            let builder = LockManager::builder()
                .nodes(urls.split(','))
                .key_prefix("redlatch-example:");
            (builder, Vec::new())
        }
        // They are not repeated: a URL can hold a password.
        _ => return Err(format!("can't make sense of the arguments; {USAGE}")),
    };
    let build = || builder.clone().build().map_err(|error| error.to_string());
    Ok(Clients {
        a: build()?,
        b: build()?,
        fakes,
    })
}

fn run(Clients { a, b, fakes }: &Clients) -> Result<(), Error> {
    println!("\nClient A takes the lock on {RESOURCE:?} for 10 s.");
    let guard = a.lock(RESOURCE, Duration::from_secs(10))?;
    show_guard("A", &guard);

    println!("\nClient B tries while A has it.");
    show_refusal(b.try_lock(RESOURCE, Duration::from_secs(10)))?;

    println!("\nA needs longer, and extends the lock to one minute.");
    guard.extend(Duration::from_secs(60))?;
    println!("  valid for another {:.3?}", guard.remaining());

    println!("\nA gives the lock back, and B tries again.");
    guard.unlock()?;
    let guard = b.try_lock(RESOURCE, Duration::from_secs(10))?;
    show_guard("B", &guard);
    // Dropping a guard gives its lock back as well; `unlock` only tells how that went.
    drop(guard);

    let [first, second, third, ..] = fakes.as_slice() else {
        println!("\nTo see a node fail, stop one of the servers and run this again.");
        return Ok(());
    };
    println!(
        "\n{} stops answering. A majority is left, so A gets the lock.",
        first.name()
    );
    first.hang();
    let guard = a.lock(RESOURCE, Duration::from_secs(10))?;
    show_guard("A", &guard);
    drop(guard);

    println!(
        "\n{} and {} refuse connections as well. No majority is left.",
        second.name(),
        third.name()
    );
    println!(
        "({} failed a moment ago, so it is asked last, and only because a majority needs it.)",
        first.name()
    );
    second.refuse();
    third.refuse();
    show_refusal(a.try_lock(RESOURCE, Duration::from_secs(10)))
}

fn show_guard(client: &str, guard: &LockGuard) {
    show_votes(&guard.votes());
    let granted = guard
        .votes()
        .iter()
        .filter(|report| matches!(report.vote, Vote::Granted))
        .count();
    println!(
        "  {client} has the lock: {granted} of {} nodes, token {}",
        guard.votes().len(),
        guard.token()
    );
    println!("  valid for another {:.3?}", guard.remaining());
}

/// Shows a "no"; passes every other error on.
fn show_refusal(result: Result<LockGuard, Error>) -> Result<(), Error> {
    match result {
        Ok(guard) => {
            println!("  unexpected: the lock was free");
            show_votes(&guard.votes());
        }
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

fn show_votes(nodes: &[NodeReport]) {
    for report in nodes {
        // The words are those of the library's own error messages.
        print!("  {:<16} {}", report.node, report.vote);
        if !matches!(report.vote, Vote::NotAsked) {
            print!(" ({:.1?})", report.elapsed);
        }
        println!();
    }
}
