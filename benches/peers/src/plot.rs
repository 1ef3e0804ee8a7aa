//! Plots: a dot for each figure, on a logarithmic scale.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::mode::Mode;
use crate::report::short;
use crate::who::Who;

/// One line of a plot; without a figure, it is the head of those below it.
pub(crate) struct Dot {
    pub(crate) label: String,
    pub(crate) colour: RGBColor,
    pub(crate) value: Option<f64>,
    /// The other end of a line that begins at the dot.
    pub(crate) upper: Option<f64>,
}

impl Dot {
    pub(crate) fn head(label: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            colour: BLACK,
            value: None,
            upper: None,
        }
    }

    pub(crate) fn new(who: Who, value: f64) -> Self {
        Self {
            label: who.name().to_owned(),
            colour: colour(who),
            value: Some(value),
            upper: None,
        }
    }

    pub(crate) fn up_to(mut self, upper: f64) -> Self {
        self.upper = Some(upper);
        self
    }
}

fn colour(who: Who) -> RGBColor {
    match who {
        Who::RawSequential | Who::RawOverlapped => RGBColor(120, 120, 120),
        Who::Redlatch(Mode::Sequential) => RGBColor(0, 90, 181),
        Who::Redlatch(Mode::Overlapped | Mode::HandOver) => RGBColor(60, 150, 230),
        Who::Redlock => RGBColor(213, 94, 0),
        Who::Rslock | Who::RslockThreads => RGBColor(0, 130, 90),
    }
}

const WIDTH: u32 = 820;
const LINE: u32 = 24;
const LABELS: u32 = 170;

/// The text of an SVG.
pub(crate) fn draw(title: &str, unit: &str, dots: &[Dot]) -> String {
    let lines = u32::try_from(dots.len()).unwrap();
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, (WIDTH, lines * LINE + 110)).into_drawing_area();
    root.fill(&WHITE).unwrap();

    let figures = || {
        dots.iter()
            .flat_map(|dot| dot.value.into_iter().chain(dot.upper))
    };
    let low = figures().fold(f64::INFINITY, f64::min) / 1.5;
    // The figures stand behind the dots.
    let high = figures().fold(0.0, f64::max) * 2.5;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(LABELS)
        .build_cartesian_2d((low..high).log_scale(), f64::from(lines)..0.0)
        .unwrap();
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(0)
        .x_desc(unit)
        .x_label_formatter(&|x| {
            short(*x)
                .trim_end_matches(".00")
                .trim_end_matches(".0")
                .to_owned()
        })
        .label_style(("sans-serif", 13))
        .bold_line_style(BLACK.mix(0.18))
        .light_line_style(BLACK.mix(0.06))
        .draw()
        .unwrap();

    let place = |horizontal| Pos::new(horizontal, VPos::Center);
    let font = || ("sans-serif", 13).into_font();
    for (n, dot) in (0..).zip(dots) {
        let y = f64::from(n) + 0.5;
        let style = font().color(&BLACK).pos(place(HPos::Right));
        let style = match dot.value {
            Some(_) => style,
            None => font()
                .style(FontStyle::Bold)
                .color(&BLACK)
                .pos(place(HPos::Right)),
        };
        let label = EmptyElement::at((low, y)) + Text::new(dot.label.clone(), (-8, 0), style);
        chart.draw_series([label]).unwrap();
        let Some(value) = dot.value else { continue };

        let far = dot.upper.unwrap_or(value).max(value);
        if let Some(upper) = dot.upper {
            let line = PathElement::new([(value, y), (upper, y)], dot.colour.stroke_width(2));
            chart.draw_series([line]).unwrap();
            let end = EmptyElement::at((upper, y))
                + PathElement::new([(0, -5), (0, 5)], dot.colour.stroke_width(2));
            chart.draw_series([end]).unwrap();
        }
        let circle = Circle::new((value, y), 5, dot.colour.filled());
        chart.draw_series([circle]).unwrap();
        let style = font().color(&dot.colour).pos(place(HPos::Left));
        let figure = EmptyElement::at((far, y)) + Text::new(short(value), (9, 0), style);
        chart.draw_series([figure]).unwrap();
    }
    root.present().unwrap();
    drop(chart);
    drop(root);
    svg
}
