//! How slow a node may be.

use std::time::Duration;

use super::{but, health, node, silence, silent};

/// How long an answer of each of five nodes takes, in milliseconds, or `-` for no answer; then the finding, and the number of
/// voters. The limits are 50 ms for an answer and 200 ms for a connection.
const SLOW: &[(&str, &str, usize)] = &[
    ("1 1 1 1 25", "", 5),
    (
        "1 1 1 1 26",
        "warning slow n4: an answer takes 26.0ms, and the node timeout is 50ms;",
        5,
    ),
    (
        "1 1 1 61 50",
        "warning slow n3: an answer takes 61.0ms, and the node timeout is 50ms;",
        4,
    ),
    (
        "1 1 51 61 61",
        "critical slow n2: an answer takes 51.0ms, and the node timeout is 50ms, so no majority answers in time;",
        2,
    ),
    (
        "1 1 - - 51",
        "critical slow n4: an answer takes 51.0ms, and the node timeout is 50ms, so no majority",
        2,
    ),
    ("1 1 - - -", "", 2),
    (
        "1/100 1/101 1 1 1",
        "warning slow n1: a connection takes 101.0ms, and the connect timeout is 200ms;",
        5,
    ),
];

#[test]
fn a_node_that_takes_most_of_the_time_is_slow_and_one_that_takes_more_can_not_vote() {
    let ms = Duration::from_millis;
    for (pace, expected, voters) in SLOW {
        let nodes = pace.split(' ').zip(0..).map(|(pace, place)| {
            let name = format!("n{place}");
            let Some(answer) = pace.split('/').next().and_then(|pace| pace.parse().ok()) else {
                return silent(&name, silence());
            };
            but(node(&name, ""), |it| {
                it.round_trip = Some(ms(answer));
                let connection = pace.split('/').nth(1);
                it.connection = connection.map(|span| ms(span.parse().unwrap()));
                (it.limits.answer, it.limits.connection) = (ms(50), ms(200));
            })
        });
        let health = health(nodes.collect(), None);
        let slow = health.findings.iter().filter(|it| it.code == "slow");
        let lines = slow.map(|it| format!("{} {} {it}", it.severity, it.code));
        let found = lines.collect::<Vec<_>>().join("\n");
        assert_eq!(found.is_empty(), expected.is_empty(), "{pace}: {found}");
        assert!(found.starts_with(expected), "{pace}: {found}");
        assert_eq!(health.voters, *voters, "{pace}: {health}");
    }
}
