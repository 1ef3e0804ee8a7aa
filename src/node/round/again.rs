//! What is asked once more after a round, by the thread that wants it.

use std::io;

use super::super::Node;
use super::super::exchange::{Answer, Asked};
use super::{Answers, Nodes, lead};
use crate::wire::transport::closed;

/// Asks the nodes again that have no answer because the thread that led has panicked, and, where the request allows it, those that
/// were silent on a connection of an earlier request: something on the way may have forgotten it.
pub(super) fn ask_again(nodes: &Nodes<'_>, own: Asked<'_>, mut answers: Answers) -> Answers {
    let is_answered = |answer: &&Answer| answer.result.is_ok();
    let has_all = |((_, asked), answer): (&(_, bool), &Option<Answer>)| {
        !asked || answer.as_ref().is_some_and(|answer| is_answered(&answer))
    };
    if nodes.iter().zip(&answers).all(has_all) {
        return answers;
    }
    let answered = answers.iter().flatten().filter(is_answered).count();
    let asks_the_silent = own.request.is_asked_again(nodes.len(), answered);
    let is_missing = |node: &Node, answer: &Option<Answer>| match answer {
        None => true,
        Some(answer) => asks_the_silent && node.connector.is_remote() && answer.may_be_forgotten(),
    };
    let missing = nodes.iter().zip(&answers);
    let missing: Vec<(&Node, bool)> = missing
        .map(|((node, asked), answer)| (*node, *asked && is_missing(node, answer)))
        .collect();
    if !missing.iter().any(|(_, is_missing)| *is_missing) {
        return answers;
    }
    let again = lead(&missing, own, None, Vec::new());
    for (answer, again) in answers.iter_mut().zip(again) {
        if let Some(mut again) = again {
            // The node may have executed it already.
            let failure = match answer.take().map(|first| first.result) {
                Some(Err(failure)) => failure,
                _ => closed(io::ErrorKind::ConnectionAborted),
            };
            again.first_failure.get_or_insert(Box::new(failure));
            *answer = Some(again);
        }
    }
    answers
}
