//! Plots of a figure over a number that grows, which is on a logarithmic scale.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::figures::short;
use crate::plot::colour;
use crate::who::Who;

/// The figures of one side.
pub(crate) struct Curve {
    label: &'static str,
    colour: RGBColor,
    points: Vec<(f64, f64)>,
}

impl Curve {
    pub(crate) fn new(who: Who, label: &'static str) -> Self {
        Self {
            label,
            colour: colour(who),
            points: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, x: f64, y: f64) {
        self.points.push((x, y));
    }
}

/// The text of an SVG.
pub(crate) fn draw(title: &str, [x_name, y_name]: [&str; 2], curves: &[Curve]) -> String {
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, (820, 480)).into_drawing_area();
    root.fill(&WHITE).unwrap();
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let x_high = points().map(|(x, _)| *x).fold(1.0, f64::max);
    let y_high = points().map(|(_, y)| *y).fold(0.0, f64::max);
    let whole = |value: &f64| format!("{value:.0}");
    // The names of the curves stand behind their last points.
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 21))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(70)
        .margin_right(250)
        .build_cartesian_2d((0.9..x_high * 1.1).log_scale().base(2.0), 0.0..y_high * 1.1)
        .unwrap();
    chart
        .configure_mesh()
        .max_light_lines(1)
        .x_desc(x_name)
        .y_desc(y_name)
        .x_label_formatter(&whole)
        .y_label_formatter(&whole)
        .label_style(("sans-serif", 16))
        .bold_line_style(BLACK.mix(0.18))
        .light_line_style(BLACK.mix(0.06))
        .draw()
        .unwrap();
    let mut named = Vec::new();
    for curve in curves {
        let line = PathElement::new(curve.points.clone(), curve.colour.stroke_width(2));
        chart.draw_series([line]).unwrap();
        let circle = |point: &(f64, f64)| Circle::new(*point, 4, curve.colour.filled());
        chart.draw_series(curve.points.iter().map(circle)).unwrap();
        let last = *curve.points.last().unwrap();
        named.push((chart.backend_coord(&last), curve, last.1));
    }
    // From the top down, and none upon another.
    named.sort_by_key(|((_, y), ..)| *y);
    let mut free = 0;
    for ((x, y), curve, value) in named {
        let y = y.max(free);
        free = y + 20;
        let style = ("sans-serif", 16).into_font().color(&curve.colour);
        let style = style.pos(Pos::new(HPos::Left, VPos::Center));
        let text = format!("{}: {}", curve.label, short(value));
        root.draw(&Text::new(text, (x + 10, y), style)).unwrap();
    }
    root.present().unwrap();
    drop(chart);
    drop(root);
    svg
}
