//! Asks the servers about themselves.

use std::sync::Arc;

use super::reply::Said;
use super::request::{Request, Verb};
use super::round::exchange_all;
use super::{Node, command};
use crate::health::Facts;
use crate::health::answers::{Answers, Question};
use crate::wire::pack::Packed;

/// Asks every node every question. Each question goes to all nodes before any reply to it is read: one round trip a
/// question. A node that does not answer is asked nothing more.
///
/// Ignores breakers, because its purpose is to find out what is wrong with a node. Takes no connection beside a pool that is
/// used up.
pub(crate) fn question_all<'n>(
    nodes: impl Iterator<Item = &'n Node>,
    marker_key: &str,
) -> Vec<Facts> {
    let none = |node: &'n Node| (node, Answers::of(Arc::clone(node.name())));
    let mut all: Vec<(&Node, Answers)> = nodes.map(none).collect();
    for question in Question::ALL {
        let command = packed(question, marker_key);
        let request = Request::new(&command, Verb::Ask(question));
        let asked = all
            .iter()
            .map(|(node, so_far)| (*node, so_far.is_to_be_asked()));
        let asked: Vec<_> = asked.collect();
        for ((node, answer), (_, so_far)) in exchange_all(asked.into_iter(), &request).zip(&mut all)
        {
            let Some(answer) = answer else {
                continue;
            };
            // What the wall clock showed when the reply came.
            let ago = node.now().saturating_since(answer.at).as_micros();
            let wall = node.clock.wall_micros();
            let then = wall.saturating_sub(u64::try_from(ago).unwrap_or(u64::MAX));
            let result = answer.result.and_then(|said| {
                if let Said::Fact(content) = said {
                    Ok((content, then))
                } else {
                    Err(Said::misplaced())
                }
            });
            so_far.note(question, answer.elapsed, result);
        }
    }
    let answers = all.into_iter().map(|(_, answers)| answers);
    answers.map(Facts::of).collect()
}

fn packed(question: Question, marker_key: &str) -> Packed {
    match question {
        Question::Marker => command::get(marker_key),
        Question::Info(section) => command::info(section),
        Question::Time => command::time(),
    }
}
