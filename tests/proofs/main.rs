//! The protocols, model-checked: every order of events in small worlds, and in every state what is promised.
//!
//! In `terms` locks are valid for a time; it is about who has a lock, with either protocol. All else is about the tokens and
//! counters of the fenced protocol, without any clock. In both, clients want one resource, or two, or to read.
//!
//! ```text
//! cargo test --locked --release -p redlatch-proofs --test proofs -- --nocapture --test-threads 1
//! cargo test --locked --release -p redlatch-proofs --test proofs -- --nocapture --test-threads 1 --ignored   # larger worlds, minutes each
//! ```
//!
//! A fenced lock comes with a token. A client proposes one; a node grants it if the lock is free and the token is
//! larger than the node's counter, which then becomes the token. A majority of grants is the lock. This is a model of
//! the protocol alone: no code of the library is in it, and the library may or may not offer it.
//!
//! # What is promised
//!
//! - No two winners have the same token.
//! - Whoever begins when another has returned gets the larger token.
//! - When a newer holder has returned, no extension that an older one begins gets a quorum.
//!
//! Of clients that share a resource, that is. A reader has no token. It is newer than a writer that had returned when it began,
//! and older than one that began when it had returned. A node that lets a reader in raises its counter by one, so that no
//! extension of an earlier writer makes its key again. That is enough if each holder extends only where it has counted a vote
//! (`Variant::ExtendsByVotes`), and not if an acquire may arrive when its attempt has returned: the reader does not know how far
//! to raise the counter. The library sends an undo where no reply comes, and extends at no such node. But where a connection
//! breaks before the reply, there is no undo. So what is promised of writers and readers rests on validity, as in `terms`.
//!
//! # What can happen
//!
//! Three nodes, of which two are a quorum. Clients begin attempts, get guards, extend them, give up and give back. A
//! proposal is any number, whatever the client has seen, so nothing depends on a client's clock or memory. A guard
//! believes for ever, and extends whenever it likes. A lock key ends at any step. A message arrives at any later step,
//! before or behind any other, never, and (in `Network::Repeating`) more than once: TCP repeats nothing, but a client
//! sends a command again when a connection broke before the reply. A client that crashes is one that does nothing more.
//!
//! A reply is not a step. A vote counts from the moment when the node gives it, and the client acts on it at any later
//! one, so the time between them is the reply's. A failed attempt and a slow reply look alike to the promises.
//!
//! Nodes can lose data: all of it, or what came after a moment that is on their disk. Such a node stays closed until
//! `open_at`, and never grants a token that is ahead of its clock by more than the skew that is allowed, which is less
//! than it stays closed. So each token that it granted before is below `open_at`, whatever it has forgotten. The model
//! takes the lowest such `open_at`: the largest token that the node granted before. Until then the node has no marker
//! of its own process, or is closed: it grants nothing and makes no key again. Its own key is extended all the same.
//!
//! The clock of a node does not run backwards while it is away. So a key that has ended there is not in a snapshot
//! either (`Node::expire`). A key that a release deleted may be, and so may one that an undo deleted: the release that
//! a client sends behind an acquire when it no longer waits for the reply, while its attempt goes on at other nodes.
//! Such a key would be met again by an extension, so a holder does not extend where it sent an undo.
//!
//! Not in the model: counters that end when they are idle, a node that loses everything and then reads an older
//! snapshot, and one that goes to another process and back while no acquire comes in between.
//!
//! # Where states are left out
//!
//! The number of clients, attempts, proposals and losses is small. Nodes are interchangeable, and so are clients: of
//! all states that differ by their names only, one is looked at (`State::representative`). Answers to extensions that
//! no promise asks about are forgotten (`Answers`). Everything else is exhaustive.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

#[cfg(test)]
mod checks;
#[cfg(test)]
mod fails;
#[cfg(test)]
mod holds;
#[cfg(test)]
mod liveness;
#[cfg(test)]
mod node;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod several;
#[cfg(test)]
mod shared;
#[cfg(test)]
mod state;
#[cfg(test)]
mod subject;
#[cfg(test)]
mod terms;
#[cfg(test)]
mod turns;
#[cfg(test)]
mod variant;
#[cfg(test)]
mod world;
