//! Examines the nodes: what they say of themselves, whether a lock can be taken, extended and given back there, and how many of
//! them have the keys of each held lock.

use std::sync::Arc;
use std::time::Duration;

mod survey;

use self::survey::survey;
use super::acquire::{call_off, new_claim};
use crate::claim::{Kind, Resource};
use crate::cluster::{Cluster, places};
use crate::error::{Error, Vote};
use crate::fencing::MARKER;
use crate::health::answers::{Answers, Limits, Question};
use crate::health::facts::{self, Facts, Trial};
use crate::health::{Health, Stranger};
use crate::node::verbs::{acquire, extend_all, raw_all, show_all};
use crate::node::{Attempt, Node, Purpose, command};
use crate::token::Token;

/// For how long the lock that is tried stays where it can't be given back.
const TTL: Duration = Duration::from_secs(1);

/// The first time to live of the key. It is shorter, so that the extension changes something.
const FIRST_TTL: Duration = Duration::from_millis(900);

/// Asks all nodes, tries a lock at those that may vote, and looks at the locks that are held.
pub(crate) fn examine(cluster: &Cluster) -> Result<Health, Error> {
    let mut nodes = ask_questions(cluster);
    let as_stranger = Stranger::commands(&key_of_trial(cluster)?);
    for (node, facts) in cluster.nodes().iter().zip(&mut nodes) {
        if facts.answers() {
            let replies = node.ask_without_login(&as_stranger);
            facts.stranger = replies.map(|replies| Stranger::of(&replies));
        }
    }
    try_a_lock(cluster, &mut nodes)?;
    let rules = cluster.rules.as_deref();
    let survey = survey(cluster, facts::voters(&nodes, rules))?;
    Ok(Health::of(nodes, rules, &survey))
}

/// Asks every node every question about itself. Each question goes to all nodes before any reply to it is read: one round trip a
/// question. A node that does not answer is asked nothing more.
fn ask_questions(cluster: &Cluster) -> Vec<Facts> {
    let limits = Limits {
        answer: cluster.options.node_timeout,
        connection: cluster.options.connect_timeout(),
    };
    let answers = |node: &Arc<Node>| Answers::of(Arc::clone(node.name()), limits);
    let mut all: Vec<Answers> = cluster.nodes().iter().map(answers).collect();
    for question in Question::ALL {
        let command = question.command(&cluster.key(MARKER));
        let asked = places(&all, Answers::is_to_be_asked);
        let reports = raw_all(cluster.asking(&asked), &command, question.is_answer());
        let answers = all.iter_mut().zip(reports).enumerate();
        for (_, (so_far, answer)) in answers.filter(|(place, _)| asked.contains(place)) {
            let ago = cluster.clock.now().saturating_since(answer.at).as_micros();
            let wall_us = cluster.clock.wall_micros();
            let then_us = wall_us.saturating_sub(u64::try_from(ago).unwrap_or(u64::MAX));
            so_far.note(question, answer.elapsed(), then_us, answer.reply());
        }
    }
    for (node, answers) in cluster.nodes().iter().zip(&mut all) {
        answers.connection = node.last_connection();
    }
    all.into_iter().map(Facts::of).collect()
}

/// A key that nobody else has.
fn key_of_trial(cluster: &Cluster) -> Result<String, Error> {
    let name = Token::random(&cluster.clock).map_err(Error::no_randomness)?;
    Ok(cluster.key_of_trial(&name))
}

/// Tries a lock, and then a read lock where nothing was wrong. The key is new each time, so that it meets no other lock, nor that of
/// another client that looks. With fencing, the first lock leaves the counter that a reader raises.
fn try_a_lock(cluster: &Cluster, nodes: &mut [Facts]) -> Result<(), Error> {
    let rules = cluster.rules.as_deref();
    // A node that may have forgotten locks begins its quarantine with any fenced command.
    let is_in_use = rules.is_some_and(|rules| facts::are_in_use(nodes, rules));
    let is_asked = |node: &Facts| node.is_to_be_tried(rules) || node.is_to_begin(rules, is_in_use);
    let tried = places(nodes, is_asked);
    if tried.is_empty() {
        return Ok(());
    }
    let mut resource = Resource::of_key(&key_of_trial(cluster)?);
    let trials = whole_life(cluster, &Arc::new(resource.clone()), &tried)?;
    let is_whole = places(&trials, |trial| trial.iter().all(Vote::is_granted));
    for (node, trial) in nodes.iter_mut().zip(trials) {
        match rules {
            Some(rules) if node.is_to_begin(Some(rules), is_in_use) => {
                node.note_begin(&trial, rules);
            }
            _ => node.note_trial(&trial),
        }
    }
    resource.kind = Kind::Read;
    let trials = whole_life(cluster, &Arc::new(resource), &is_whole)?;
    for (node, trial) in nodes.iter_mut().zip(trials) {
        node.note_trial_of_reader(&trial);
    }
    Ok(())
}

/// Takes a lock on these nodes, extends it and gives it back, by the commands of any other lock.
fn whole_life(
    cluster: &Cluster,
    resource: &Arc<Resource>,
    tried: &[usize],
) -> Result<Vec<Trial>, Error> {
    let ttl = FIRST_TTL;
    let attempt = Attempt::new(new_claim(cluster, resource, None)?, ttl, Purpose::Trial);
    let asked = cluster.asking(tried);
    let mut taken = asked.unasked();
    acquire(asked, &attempt, &mut taken);
    let granted = places(&taken, |report| report.vote.is_granted());
    let extension = command::keep(&attempt.claim, TTL);
    let connect_by = cluster.clock.now().saturating_add(ttl);
    let asked = cluster.asking(&granted);
    let extended = extend_all(asked, &[extension], connect_by);
    let mut extended = extended.into_iter().next().unwrap_or_default();
    if resource.is_read() {
        // A writer that meets readers asks how many there are, by commands that they don't need themselves.
        let shown = show_all(asked, &command::show(resource.keys()));
        for ((_, report), keys) in asked.with(&mut extended).zip(shown) {
            let mut keys = keys.into_iter();
            if let Some(failed) = keys.find(|key| key.vote.is_failure()) {
                *report = failed;
            }
        }
    }
    let released = call_off(cluster, &attempt, ttl, &taken);
    let reports = taken.into_iter().zip(extended).zip(released);
    let trials = reports.map(|((taken, extended), released)| {
        [taken, extended, released].map(|report| report.vote.into())
    });
    Ok(trials.collect())
}
