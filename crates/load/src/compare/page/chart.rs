//! Charts as SVG, each with the table of its numbers.

use std::fmt::Write;

use maud::{Markup, Render, html};

use super::text::{number, perhaps};

/// The drawing's size in its own units; the page scales it.
const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 270.0;
/// Room around the plot for axes and legend.
const LEFT: f64 = 70.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 20.0;
/// Height of a row of the legend, and how many characters of names fit into it beside their marks.
const LEGEND_ROW: f64 = 14.0;
const LEGEND_COLUMNS: [(usize, usize); 2] = [(10, 4), (24, 2)];
const BOTTOM: f64 = 42.0;
/// Steps of the value axis, about.
const STEPS: f64 = 5.0;
/// Height of one bar and the gap below it.
const BAR: f64 = 22.0;
/// Room for a bar's name.
const BAR_LEFT: f64 = 130.0;

/// Lines over a few named places, such as block sizes.
pub(super) struct Lines {
    pub(super) title: String,
    /// What the places are.
    pub(super) across: &'static str,
    /// What the values are, with their unit.
    pub(super) up: &'static str,
    pub(super) axis: Axis,
    pub(super) places: Vec<String>,
    pub(super) lines: Vec<Line>,
}

/// How the values' axis is divided.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Axis {
    /// From 0, in equal steps.
    Linear,
    /// In powers of ten, where the least of the values would lie on the ground otherwise.
    Logarithmic,
}

/// One line.
pub(super) struct Line {
    pub(super) name: String,
    /// Decides on colour and mark; the same number is the same thing in every chart.
    pub(super) style: usize,
    pub(super) is_dashed: bool,
    /// One for each place; `None` where nothing was measured.
    pub(super) values: Vec<Option<f64>>,
}

/// Bars of parts that sum to 1.
pub(super) struct Shares {
    pub(super) title: String,
    /// A name and its parts.
    pub(super) bars: Vec<(String, Vec<f64>)>,
}

/// A length or a place in the drawing's units: more than a tenth of one nobody sees.
struct Units(f64);

impl Render for Units {
    fn render_to(&self, buffer: &mut String) {
        // Writing to a String cannot fail.
        let _ = write!(buffer, "{:.1}", self.0);
    }
}

impl Lines {
    /// The chart and its table.
    pub(super) fn figure(&self) -> Markup {
        figure(&self.title, &self.svg(), &self.table())
    }

    fn svg(&self) -> Markup {
        let values: Vec<f64> = self.lines.iter().flat_map(|line| line.values.iter().flatten().copied()).collect();
        let (marks, height) = self.axis.divided(&values);
        let x = |at: usize| {
            let gaps = self.places.len().max(2) as f64 - 1.0;
            let inset = 16.0;
            LEFT + inset + (WIDTH - LEFT - RIGHT - 2.0 * inset) * at as f64 / gaps
        };
        let ceiling = TOP + LEGEND_ROW * self.lines.len().div_ceil(self.legend_columns()) as f64;
        let y = |value: f64| HEIGHT - BOTTOM - (HEIGHT - BOTTOM - ceiling) * height(value);
        let drawing = html! {
            @for value in marks { (grid_line(y(value), &number(value))) }
            @for (at, place) in self.places.iter().enumerate() {
                text.middle x=(Units(x(at))) y=(Units(HEIGHT - BOTTOM + 16.0)) { (place) }
            }
            (self.axis_names(ceiling))
            (self.legend())
            @for line in &self.lines {
                @let points = line.values.iter().enumerate().filter_map(|(at, value)| Some((x(at), y((*value)?))));
                (line.drawn(&points.collect::<Vec<_>>()))
            }
        };
        svg(HEIGHT, &format!("{}. {} by {}.", self.title, self.up, self.across), &drawing)
    }

    fn axis_names(&self, ceiling: f64) -> Markup {
        let middle = Units((ceiling + HEIGHT - BOTTOM) / 2.0);
        html! {
            text.middle.axis x=(Units((LEFT + WIDTH - RIGHT) / 2.0)) y=(Units(HEIGHT - 8.0)) { (self.across) }
            text.middle.axis transform={ "translate(12 " (middle) ") rotate(-90)" } { (self.up) }
        }
    }

    fn legend(&self) -> Markup {
        let columns = self.legend_columns();
        let room = (WIDTH - LEFT - RIGHT) / columns as f64;
        html! {
            @for (at, line) in self.lines.iter().enumerate() {
                @let (row, column) = (at / columns, at % columns);
                (line.legend(LEFT + room * column as f64, LEGEND_ROW * (row as f64 + 1.0)))
            }
        }
    }

    /// Names of the legend that stand beside each other.
    fn legend_columns(&self) -> usize {
        let longest = self.lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0);
        LEGEND_COLUMNS.iter().find(|(characters, _)| longest <= *characters).map_or(1, |(_, columns)| *columns)
    }

    fn table(&self) -> Markup {
        html! {
            table {
                thead {
                    tr {
                        th scope="col" { (self.across) }
                        @for line in &self.lines { th scope="col" { (line.name) } }
                    }
                }
                tbody {
                    @for (at, place) in self.places.iter().enumerate() {
                        tr {
                            th scope="row" { (place) }
                            @for line in &self.lines { td { (perhaps(line.values.get(at).copied().flatten())) } }
                        }
                    }
                }
            }
        }
    }
}

impl Axis {
    /// The values that are marked, and where between the ground (0) and the ceiling (1) a value lies.
    fn divided(self, values: &[f64]) -> (Vec<f64>, Box<dyn Fn(f64) -> f64>) {
        let highest = values.iter().copied().fold(0.0, f64::max);
        let positive = values.iter().copied().filter(|value| *value > 0.0);
        match (self, positive.min_by(f64::total_cmp)) {
            (Axis::Logarithmic, Some(lowest)) => {
                let ground = lowest.log10().floor() as i32;
                let ceiling = (highest.log10().ceil() as i32).max(ground + 1);
                let marks = (ground..=ceiling).map(|power| 10f64.powi(power)).collect();
                let (ground, decades) = (f64::from(ground), f64::from(ceiling - ground));
                (marks, Box::new(move |value: f64| ((value.log10() - ground) / decades).clamp(0.0, 1.0)))
            }
            (Axis::Linear | Axis::Logarithmic, _) => {
                let (step, steps) = scale(highest);
                let top = step * f64::from(steps);
                ((0..=steps).map(|at| step * f64::from(at)).collect(), Box::new(move |value| value / top))
            }
        }
    }
}

impl Line {
    fn drawn(&self, points: &[(f64, f64)]) -> Markup {
        html! {
            (self.stroke(points))
            @for (x, y) in points { (mark(self.style % STYLES, *x, *y)) }
        }
    }

    fn legend(&self, x: f64, y: f64) -> Markup {
        html! {
            (self.stroke(&[(x, y), (x + 20.0, y)]))
            (mark(self.style % STYLES, x + 10.0, y))
            text x=(Units(x + 25.0)) y=(Units(y + 3.5)) { (self.name) }
        }
    }

    fn stroke(&self, points: &[(f64, f64)]) -> Markup {
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        html! { polyline.line.{ "c" (self.style % STYLES) }.dashed[self.is_dashed] points=(path.join(" ")) {} }
    }
}

impl Shares {
    /// The chart and its table.
    pub(super) fn figure(&self) -> Markup {
        figure(&self.title, &self.svg(), &self.table())
    }

    fn svg(&self) -> Markup {
        let height = BAR * self.bars.len() as f64 + 24.0;
        let mark = |part: f64| BAR_LEFT + (WIDTH - BAR_LEFT - RIGHT) * part - if part == 1.0 { 8.0 } else { 0.0 };
        let drawing = html! {
            @for (at, (name, parts)) in self.bars.iter().enumerate() { (bar(4.0 + BAR * at as f64, name, parts)) }
            @for part in [0.0, 0.25, 0.5, 0.75, 1.0] {
                text.middle x=(Units(mark(part))) y=(Units(height - 4.0)) { (percent(part)) }
            }
        };
        svg(height, &format!("{}. Each bar is all bytes; each part is one channel.", self.title), &drawing)
    }

    fn table(&self) -> Markup {
        let most = self.bars.iter().map(|(_, parts)| parts.len()).max().unwrap_or(0);
        let shown = |part: Option<&f64>| part.map_or_else(|| "–".to_owned(), |part| percent(*part));
        html! {
            table {
                thead {
                    tr {
                        th scope="col" { "case" }
                        @for channel in 1..=most { th scope="col" { "channel " (channel) } }
                    }
                }
                tbody {
                    @for (name, parts) in &self.bars {
                        tr {
                            th scope="row" { (name) }
                            @for at in 0..most { td { (shown(parts.get(at))) } }
                        }
                    }
                }
            }
        }
    }
}

/// One bar, its name before it.
fn bar(y: f64, name: &str, parts: &[f64]) -> Markup {
    let mut end = BAR_LEFT;
    let parts = parts.iter().enumerate().map(|(style, part)| {
        let (x, width) = (end, (WIDTH - BAR_LEFT - RIGHT) * part.clamp(0.0, 1.0));
        end += width;
        html! {
            rect.part.{ "c" (style % STYLES) } x=(Units(x)) y=(Units(y)) width=(Units(width)) height=(Units(BAR - 6.0)) {}
        }
    });
    html! {
        text.right x=(Units(BAR_LEFT - 6.0)) y=(Units(y + 12.0)) { (name) }
        @for part in parts { (part) }
    }
}

fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

/// A line across the plot, and the value that it stands for.
fn grid_line(y: f64, value: &str) -> Markup {
    html! {
        line.grid x1=(Units(LEFT)) x2=(Units(WIDTH - RIGHT)) y1=(Units(y)) y2=(Units(y)) {}
        text.right x=(Units(LEFT - 6.0)) y=(Units(y + 3.5)) { (value) }
    }
}

/// Colours and marks that can be told apart.
const STYLES: usize = 6;

/// A different shape for each style, so that nobody depends on colours.
fn mark(style: usize, x: f64, y: f64) -> Markup {
    let path = match style {
        0 => return html! { circle.mark.c0 cx=(Units(x)) cy=(Units(y)) r="3.2" {} },
        1 => "m-3,-3h6v6h-6z",
        2 => "m0,-4l4,7h-8z",
        3 => "m0,-4.5l4.5,4.5l-4.5,4.5l-4.5,-4.5z",
        4 => "m0,4l4,-7h-8z",
        _ => "m-4,-1.2h2.8v-2.8h2.4v2.8h2.8v2.4h-2.8v2.8h-2.4v-2.8h-2.8z",
    };
    html! { path.mark.{ "c" (style) } d={ "M" (Units(x)) "," (Units(y)) (path) } {} }
}

fn svg(height: f64, description: &str, drawing: &Markup) -> Markup {
    html! {
        svg role="img" viewBox={ "0 0 " (WIDTH) " " (format_args!("{height:.0}")) } xmlns="http://www.w3.org/2000/svg" {
            title { (description) }
            (drawing)
        }
    }
}

fn figure(title: &str, svg: &Markup, table: &Markup) -> Markup {
    html! { figure { figcaption { (title) } (svg) (table) } }
}

/// A step of 1, 2 or 5 times a power of ten, and how many of them reach above `highest`.
fn scale(highest: f64) -> (f64, u32) {
    if highest.is_nan() || highest <= 0.0 {
        return (1.0, 1);
    }
    let rough = highest / STEPS;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= rough);
    let step = step.unwrap_or(10.0 * power);
    (step, (highest / step).ceil().max(1.0) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_reach_above_the_highest_value_in_round_steps() {
        for highest in [0.003, 0.7, 1.0, 9.99, 10.0, 123.0, 98_765.0, 4.2e6] {
            let (step, steps) = scale(highest);
            assert!(step * f64::from(steps) >= highest, "{highest}: {steps} of {step}");
            assert!((2..=6).contains(&steps), "{highest}: {steps} of {step}");
        }
        assert_eq!(scale(123.0), (50.0, 3));
        assert_eq!((scale(0.0), scale(f64::NAN)), ((1.0, 1), (1.0, 1)));
    }

    #[test]
    fn a_chart_has_a_title_for_who_cannot_see_it_and_a_table_of_its_numbers() {
        let lines = Lines {
            title: "Reads <fast>".to_owned(),
            across: "I/O size",
            up: "IOPS",
            axis: Axis::Linear,
            places: vec!["4 KiB".to_owned(), "1 MiB".to_owned()],
            lines: vec![Line {
                name: "4 channels".to_owned(),
                style: 2,
                is_dashed: false,
                values: vec![Some(123_456.0), None],
            }],
        };
        let figure = lines.figure().into_string();
        assert!(figure.contains("role=\"img\"") && figure.contains("<title>Reads &lt;fast&gt;."), "{figure}");
        assert!(figure.contains("<td>123,456</td>") && figure.contains("<td>–</td>"), "{figure}");
        assert!(!figure.contains("<fast>") && !figure.contains("NaN"), "{figure}");
    }

    #[test]
    fn a_logarithmic_axis_has_the_powers_of_ten_around_the_values() {
        let (marks, height) = Axis::Logarithmic.divided(&[250.0, 2.0, 30.0]);
        assert_eq!(marks, [1.0, 10.0, 100.0, 1000.0]);
        let near = |value: f64, wanted: f64| (height(value) - wanted).abs() < 1e-9;
        assert!(near(1.0, 0.0) && near(10.0, 1.0 / 3.0) && near(1000.0, 1.0));
        assert!(near(0.0, 0.0), "what cannot be shown lies on the ground");
        assert_eq!(Axis::Logarithmic.divided(&[10.0]).0, [10.0, 100.0]);
        assert_eq!(Axis::Logarithmic.divided(&[]).0, [0.0, 1.0]);
    }

    #[test]
    fn one_place_is_drawn_too() {
        let line = Line { name: String::new(), style: 0, is_dashed: true, values: vec![Some(1.0)] };
        for axis in [Axis::Linear, Axis::Logarithmic] {
            let lines = vec![Line { values: line.values.clone(), name: String::new(), ..line }];
            let chart = Lines { title: String::new(), across: "", up: "", axis, places: vec![String::new()], lines };
            assert!(!chart.figure().into_string().contains("NaN"));
        }
    }

    #[test]
    fn shares_fill_the_bar() {
        let shares = Shares { title: "Share".to_owned(), bars: vec![("4 KiB".to_owned(), vec![0.75, 0.25])] };
        let figure = shares.figure().into_string();
        assert!(figure.contains("<td>75 %</td><td>25 %</td>"), "{figure}");
        assert!(figure.contains("width=\"237.0\"") && figure.contains("width=\"79.0\""), "{figure}");
    }
}
