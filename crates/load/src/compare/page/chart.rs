//! Charts as SVG, each with the table of its numbers.

use std::fmt::Write;

use super::text::{escape, number};

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

impl Lines {
    /// The chart and its table.
    pub(super) fn figure(&self) -> String {
        figure(&self.title, &self.svg(), &self.table())
    }

    fn svg(&self) -> String {
        let values: Vec<f64> = self.lines.iter().flat_map(|line| line.values.iter().flatten().copied()).collect();
        let (marks, height) = self.axis.divided(&values);
        let x = |at: usize| {
            let gaps = self.places.len().max(2) as f64 - 1.0;
            let inset = 16.0;
            LEFT + inset + (WIDTH - LEFT - RIGHT - 2.0 * inset) * at as f64 / gaps
        };
        let columns = self.legend_columns();
        let ceiling = TOP + LEGEND_ROW * self.lines.len().div_ceil(columns) as f64;
        let y = |value: f64| HEIGHT - BOTTOM - (HEIGHT - BOTTOM - ceiling) * height(value);
        let mut svg = opening(HEIGHT, &format!("{}. {} by {}.", self.title, self.up, self.across));
        for value in marks {
            let _ = write!(
                svg,
                r#"<line class="grid" x1="{LEFT}" x2="{:.1}" y1="{y:.1}" y2="{y:.1}"/><text x="{:.1}" y="{:.1}" class="right">{}</text>"#,
                WIDTH - RIGHT,
                LEFT - 6.0,
                y(value) + 3.5,
                number(value),
                y = y(value),
            );
        }
        for (at, place) in self.places.iter().enumerate() {
            let _ = write!(
                svg,
                r#"<text x="{:.1}" y="{:.1}" class="middle">{}</text>"#,
                x(at),
                HEIGHT - BOTTOM + 16.0,
                escape(place)
            );
        }
        let _ = write!(
            svg,
            r#"<text x="{:.1}" y="{:.1}" class="middle axis">{}</text><text transform="translate(12 {:.1}) rotate(-90)" class="middle axis">{}</text>"#,
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 8.0,
            escape(self.across),
            (ceiling + HEIGHT - BOTTOM) / 2.0,
            escape(self.up),
        );
        let room = (WIDTH - LEFT - RIGHT) / columns as f64;
        for (at, line) in self.lines.iter().enumerate() {
            let (row, column) = (at / columns, at % columns);
            svg.push_str(&line.legend(LEFT + room * column as f64, LEGEND_ROW * (row as f64 + 1.0)));
            let points = line.values.iter().enumerate();
            let points: Vec<(f64, f64)> = points.filter_map(|(at, value)| Some((x(at), y((*value)?)))).collect();
            svg.push_str(&line.drawn(&points));
        }
        svg + "</svg>"
    }

    /// Names of the legend that stand beside each other.
    fn legend_columns(&self) -> usize {
        let longest = self.lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0);
        LEGEND_COLUMNS.iter().find(|(characters, _)| longest <= *characters).map_or(1, |(_, columns)| *columns)
    }

    fn table(&self) -> String {
        let mut table = format!("<table><thead><tr><th scope=\"col\">{}</th>", escape(self.across));
        for line in &self.lines {
            let _ = write!(table, "<th scope=\"col\">{}</th>", escape(&line.name));
        }
        table.push_str("</tr></thead><tbody>");
        for (at, place) in self.places.iter().enumerate() {
            let _ = write!(table, "<tr><th scope=\"row\">{}</th>", escape(place));
            for line in &self.lines {
                let value = line.values.get(at).copied().flatten();
                let _ = write!(table, "<td>{}</td>", value.map_or_else(|| "–".to_owned(), number));
            }
            table.push_str("</tr>");
        }
        table + "</tbody></table>"
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
    fn drawn(&self, points: &[(f64, f64)]) -> String {
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let dashed = if self.is_dashed { " dashed" } else { "" };
        let style = self.style % STYLES;
        let mut svg = format!(r#"<polyline class="line c{style}{dashed}" points="{}"/>"#, path.join(" "));
        points.iter().for_each(|(x, y)| svg.push_str(&mark(style, *x, *y)));
        svg
    }

    fn legend(&self, x: f64, y: f64) -> String {
        let style = self.style % STYLES;
        let dashed = if self.is_dashed { " dashed" } else { "" };
        format!(
            r#"<polyline class="line c{style}{dashed}" points="{x:.1},{y} {:.1},{y}"/>{}<text x="{:.1}" y="{:.1}">{}</text>"#,
            x + 20.0,
            mark(style, x + 10.0, y),
            x + 25.0,
            y + 3.5,
            escape(&self.name)
        )
    }
}

impl Shares {
    /// The chart and its table.
    pub(super) fn figure(&self) -> String {
        figure(&self.title, &self.svg(), &self.table())
    }

    fn svg(&self) -> String {
        let height = BAR * self.bars.len() as f64 + 24.0;
        let mut svg = opening(height, &format!("{}. Each bar is all bytes; each part is one channel.", self.title));
        for (at, (name, parts)) in self.bars.iter().enumerate() {
            let y = 4.0 + BAR * at as f64;
            let _ = write!(
                svg,
                r#"<text x="{:.1}" y="{:.1}" class="right">{}</text>"#,
                BAR_LEFT - 6.0,
                y + 12.0,
                escape(name)
            );
            let mut x = BAR_LEFT;
            for (style, part) in parts.iter().enumerate() {
                let width = (WIDTH - BAR_LEFT - RIGHT) * part.clamp(0.0, 1.0);
                let _ = write!(
                    svg,
                    r#"<rect class="part c{}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{:.1}"/>"#,
                    style % STYLES,
                    BAR - 6.0
                );
                x += width;
            }
        }
        for at in 0..=4 {
            let part = f64::from(at) / 4.0;
            let _ = write!(
                svg,
                r#"<text x="{:.1}" y="{:.1}" class="middle">{:.0} %</text>"#,
                BAR_LEFT + (WIDTH - BAR_LEFT - RIGHT) * part - if at == 4 { 8.0 } else { 0.0 },
                height - 4.0,
                part * 100.0
            );
        }
        svg + "</svg>"
    }

    fn table(&self) -> String {
        let most = self.bars.iter().map(|(_, parts)| parts.len()).max().unwrap_or(0);
        let mut table = "<table><thead><tr><th scope=\"col\">case</th>".to_owned();
        for channel in 1..=most {
            let _ = write!(table, "<th scope=\"col\">channel {channel}</th>");
        }
        table.push_str("</tr></thead><tbody>");
        for (name, parts) in &self.bars {
            let _ = write!(table, "<tr><th scope=\"row\">{}</th>", escape(name));
            for at in 0..most {
                let part = parts.get(at).map_or_else(|| "–".to_owned(), |part| format!("{:.0} %", part * 100.0));
                let _ = write!(table, "<td>{part}</td>");
            }
            table.push_str("</tr>");
        }
        table + "</tbody></table>"
    }
}

/// Colours and marks that can be told apart.
const STYLES: usize = 6;

/// A different shape for each style, so that nobody depends on colours.
fn mark(style: usize, x: f64, y: f64) -> String {
    let path = match style {
        0 => return format!(r#"<circle class="mark c0" cx="{x:.1}" cy="{y:.1}" r="3.2"/>"#),
        1 => "m-3,-3h6v6h-6z",
        2 => "m0,-4l4,7h-8z",
        3 => "m0,-4.5l4.5,4.5l-4.5,4.5l-4.5,-4.5z",
        4 => "m0,4l4,-7h-8z",
        _ => "m-4,-1.2h2.8v-2.8h2.4v2.8h2.8v2.4h-2.8v2.8h-2.4v-2.8h-2.8z",
    };
    format!(r#"<path class="mark c{style}" d="M{x:.1},{y:.1}{path}"/>"#)
}

fn opening(height: f64, description: &str) -> String {
    format!(
        r#"<svg role="img" viewBox="0 0 {WIDTH} {height:.0}" xmlns="http://www.w3.org/2000/svg"><title>{}</title>"#,
        escape(description)
    )
}

fn figure(title: &str, svg: &str, table: &str) -> String {
    format!("<figure><figcaption>{}</figcaption>{svg}{table}</figure>\n", escape(title))
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
        let figure = lines.figure();
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
            assert!(!chart.figure().contains("NaN"));
        }
    }

    #[test]
    fn shares_fill_the_bar() {
        let shares = Shares { title: "Share".to_owned(), bars: vec![("4 KiB".to_owned(), vec![0.75, 0.25])] };
        let figure = shares.figure();
        assert!(figure.contains("<td>75 %</td><td>25 %</td>"), "{figure}");
        assert!(figure.contains("width=\"237.0\"") && figure.contains("width=\"79.0\""), "{figure}");
    }
}
