//! The picture of the rooms, docs/rooms.svg: an arrow for each import from one room to another.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::Path;

use super::rooms::arrows;

/// From one room to the next, to the right and down.
const STEP: usize = 24;
/// For the longest name, left of the first room.
const MARGIN: usize = 96;

const STYLE: &str = "
  text { font: 13px system-ui, sans-serif; fill: #1f2328; text-anchor: end; }
  .legend { text-anchor: start; }
  path { stroke: #818b98; fill: none; }
  .end { fill: #818b98; stroke: none; }
  rect { fill: #59636e; }
  circle { fill: #0969da; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; }
    path { stroke: #656c76; }
    .end { fill: #656c76; }
    rect { fill: #9198a1; }
    circle { fill: #4493f8; }
  }
";

/// The rooms stand on a diagonal. The line to the right of a room turns down, at a dot, to each room that it imports.
fn drawn(rooms: &[String], arrows: &BTreeSet<(String, String)>) -> String {
    let place = |room: &str| rooms.iter().position(|other| other == room).unwrap();
    let x = |at: usize| MARGIN + at * STEP;
    let y = |at: usize| STEP + at * STEP;
    let pairs = arrows.iter().map(|(from, to)| (place(from), place(to)));
    let pairs: BTreeSet<(usize, usize)> = pairs.collect();
    let (width, height) = (x(rooms.len()), y(rooms.len()));
    let mut lines = vec![
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"title\">"
        ),
        "<title id=\"title\">The rooms of the library, and which of them import which</title>"
            .to_owned(),
        format!("<style>{STYLE}</style>"),
    ];
    for (at, room) in rooms.iter().enumerate() {
        let (x_here, y_here) = (x(at), y(at));
        if let Some((_, last)) = pairs.iter().rfind(|(from, _)| *from == at) {
            lines.push(format!("<path d=\"M{x_here} {y_here}H{}\"/>", x(*last)));
        }
        if let Some((first, _)) = pairs.iter().find(|(_, to)| *to == at) {
            let (end, left, right) = (y_here - 5, x_here - 4, x_here + 4);
            lines.push(format!("<path d=\"M{x_here} {}V{end}\"/>", y(*first)));
            let tip = format!("M{x_here} {end}L{left} {}H{right}Z", end - 7);
            lines.push(format!("<path class=\"end\" d=\"{tip}\"/>"));
        }
        let (left, top) = (x_here - 4, y_here - 4);
        lines.push(format!(
            "<rect x=\"{left}\" y=\"{top}\" width=\"8\" height=\"8\"/>"
        ));
        let (end, base) = (left - 4, top + 9);
        lines.push(format!("<text x=\"{end}\" y=\"{base}\">{room}</text>"));
    }
    lines.extend(pairs.iter().map(|(from, to)| {
        let title = format!("{} imports {}", rooms[*from], rooms[*to]);
        let (x, y) = (x(*to), y(*from));
        format!("<circle cx=\"{x}\" cy=\"{y}\" r=\"3.5\"><title>{title}</title></circle>")
    }));
    let legend = [
        "A line goes right from a room,",
        "and down at each dot to a",
        "room that it imports.",
    ];
    lines.extend(legend.iter().enumerate().map(|(line, text)| {
        let y = height - 100 + 18 * line;
        format!("<text class=\"legend\" x=\"16\" y=\"{y}\">{text}</text>")
    }));
    lines.join("\n") + "\n</svg>\n"
}

#[test]
fn the_picture_of_the_rooms_has_an_arrow_for_each_import() {
    let (rooms, arrows) = arrows();
    let svg = drawn(&rooms, &arrows);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/rooms.svg");
    if env::var_os("REDLATCH_DRAW").is_some() {
        fs::write(&path, &svg).unwrap();
    }
    assert!(
        fs::read_to_string(&path).is_ok_and(|there| there == svg),
        "docs/rooms.svg is out of date. To draw it anew:\n\
         REDLATCH_DRAW=1 cargo test --all-features --test it house::picture"
    );
}
