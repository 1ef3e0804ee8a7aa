//! What is asked once more after a round, for the thread that wants it.

use std::io;

use super::super::Node;
use super::super::exchange::{Answer, Asked};
use super::{Answers, NodeLanes, Nodes, exchange_with_others, lead};
use crate::wire::transport::closed;

/// Asks the nodes again that have no answer because the thread that led has panicked, and, where the request allows it, those that
/// were silent on an old connection: something on the way may have forgotten it.
pub(super) fn ask_again(
    lanes: &NodeLanes,
    nodes: &Nodes<'_>,
    own: Asked<'_>,
    mut answers: Answers,
) -> Answers {
    let asked = || nodes.iter().zip(&answers).filter(|((_, asked), _)| *asked);
    let is_answered = |answer: &Answer| answer.result.is_ok();
    if asked().all(|(_, answer)| answer.as_ref().is_some_and(is_answered)) {
        return answers;
    }
    if asked().any(|(_, answer)| answer.is_none()) {
        let missing = those(nodes, &answers, |_, answer| answer.is_none());
        let again = lead(&missing, own, None, Vec::new());
        return replace(answers, again);
    }
    let answered = answers.iter().flatten().filter(|one| is_answered(one));
    if own.request.is_content_with(nodes.len(), answered.count()) {
        return answers;
    }
    let (Some(idle), Some((node, _))) = (own.request.is_asked_again_after(), nodes.first()) else {
        return answers;
    };
    let silent = those(nodes, &answers, |node, answer| {
        let is_silence = |answer: &Answer| answer.is_silence_after(idle);
        node.connector.is_remote() && answer.as_ref().is_some_and(is_silence)
    });
    if silent.iter().any(|(_, is_asked)| *is_asked) {
        let request = own.request.on_a_new_connection();
        // It waits for other threads anew.
        let own = Asked {
            request: &request,
            since: node.now(),
            ..own
        };
        let again = if request.is_for_others() {
            exchange_with_others(lanes, &silent, own)
        } else {
            lead(&silent, own, None, Vec::new())
        };
        answers = replace(answers, again);
    }
    answers
}

/// All nodes, with whether they were asked and are meant.
fn those<'n>(
    nodes: &Nodes<'n>,
    answers: &Answers,
    is_meant: impl Fn(&Node, &Option<Answer>) -> bool,
) -> Vec<(&'n Node, bool)> {
    let all = nodes.iter().zip(answers);
    let all = all.map(|((node, asked), answer)| (*node, *asked && is_meant(node, answer)));
    all.collect()
}

/// Puts the new answers in the place of the first ones.
fn replace(first: Answers, again: Answers) -> Answers {
    let both = first.into_iter().zip(again);
    let newest = both.map(|(first, again)| {
        let Some(mut again) = again else {
            return first;
        };
        // The node may have executed it already.
        let (elapsed, result) = first.map(|first| (first.elapsed, first.result)).unzip();
        let failure = match result {
            Some(Err(failure)) => failure,
            _ => closed(io::ErrorKind::ConnectionAborted),
        };
        again.elapsed = again.elapsed.saturating_add(elapsed.unwrap_or_default());
        again.first_failure.get_or_insert(Box::new(failure));
        Some(again)
    });
    newest.collect()
}
