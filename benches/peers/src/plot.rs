//! Plots: a dot for each figure, on a logarithmic scale.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::figures::short;
use crate::mode::Mode;
use crate::who::Who;

/// One line of a plot; a black one without a figure is the head of those below it.
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

    /// Somebody without a figure.
    pub(crate) fn without(who: Who, why: &str) -> Self {
        Self {
            colour: colour(who),
            ..Self::head(format!("{}: {why}", who.name()))
        }
    }

    pub(crate) fn up_to(mut self, upper: f64) -> Self {
        self.upper = Some(upper);
        self
    }
}

pub(crate) fn colour(who: Who) -> RGBColor {
    match who {
        Who::Raw(_) => RGBColor(120, 120, 120),
        Who::Redlatch(Mode::Sequential) => RGBColor(0, 90, 181),
        Who::Redlatch(Mode::Overlapped) => RGBColor(60, 150, 230),
        Who::Redlock => RGBColor(213, 94, 0),
        Who::Rslock(_) => RGBColor(0, 130, 90),
    }
}

const WIDTH: u32 = 820;
const LINE: u32 = 24;
const LABELS: u32 = 200;

/// The text of an SVG.
#[expect(clippy::too_many_lines, reason = "one picture, from top to bottom")]
pub(crate) fn draw(title: &str, unit: &str, dots: &[Dot]) -> String {
    let lines = u32::try_from(dots.len()).unwrap();
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, (WIDTH, lines * LINE + 110)).into_drawing_area();
    root.fill(&WHITE).unwrap();

    let figures = || {
        dots.iter()
            .flat_map(|dot| dot.value.into_iter().chain(dot.upper))
    };
    // From a power of ten on, so that one of them is labelled.
    let low = figures().fold(f64::INFINITY, f64::min) / 1.1;
    let low = 10.0_f64.powf(low.log10().floor());
    // The figures stand behind the dots.
    let far = figures().fold(0.0, f64::max);
    let high = far * (far / low).powf(0.35);
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 21))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(LABELS)
        .build_cartesian_2d((low..high).log_scale(), f64::from(lines)..0.0)
        .unwrap();
    chart
        .configure_mesh()
        .disable_y_mesh()
        .x_labels(5)
        .x_max_light_lines(9)
        .y_labels(0)
        .x_desc(unit)
        .x_label_formatter(&|x| {
            short(*x)
                .trim_end_matches(".00")
                .trim_end_matches(".0")
                .to_owned()
        })
        .label_style(("sans-serif", 16))
        .bold_line_style(BLACK.mix(0.18))
        .light_line_style(BLACK.mix(0.06))
        .draw()
        .unwrap();

    let place = |horizontal| Pos::new(horizontal, VPos::Center);
    let font = || ("sans-serif", 16).into_font();
    for (n, dot) in (0..).zip(dots) {
        let y = f64::from(n) + 0.5;
        let font_of_label = match dot.colour {
            BLACK => font().style(FontStyle::Bold),
            _ => font(),
        };
        let style = font_of_label.color(&BLACK).pos(place(HPos::Right));
        let label = EmptyElement::at((low, y)) + Text::new(dot.label.clone(), (-8, 0), style);
        chart.draw_series([label]).unwrap();
        let Some(value) = dot.value else { continue };

        let text = match dot.upper {
            Some(upper) => format!("{} to {}", short(value), short(upper)),
            None => short(value),
        };
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
        let figure = EmptyElement::at((far, y)) + Text::new(text, (9, 0), style);
        chart.draw_series([figure]).unwrap();
    }
    root.present().unwrap();
    drop(chart);
    drop(root);
    svg
}
