//! What our server costs as it has more to keep: charts over the steps.

use std::fmt::Write;

use super::chart::{Axis, Line, Lines};
use super::text::{escape, number};
use crate::growth::{Curve, Curves, Point};

/// The section; empty where nothing was measured.
pub(super) fn section(curves: Option<&Curves>) -> String {
    let Some(curves) = curves else { return String::new() };
    let mut text = "<h2 id=\"curves\">What our server costs as it has more to keep</h2>\n".to_owned();
    text.push_str(&curve("connections", &curves.connections));
    text.push_str(&curve("open files", &curves.open_files));
    text
}

fn curve(across: &'static str, curve: &Curve) -> String {
    let mut text = format!("<p>{}</p>\n", escape(&curve.description));
    if let Some(bytes) = curve.memory_bytes_each {
        let _ = writeln!(text, "<p>Each one more takes {} bytes of memory.</p>", number(bytes.max(0.0)));
    }
    if let Some(why) = &curve.ended {
        let _ = writeln!(text, "<p>It ends early: {}.</p>", escape(why));
    }
    if curve.points.is_empty() {
        return text;
    }
    let line = |name: &str, style, value: fn(&Point) -> f64| Line {
        name: name.to_owned(),
        style,
        is_dashed: false,
        values: curve.points.iter().map(|point| Some(value(point))).collect(),
    };
    let figure = |title: String, up, lines| {
        let places = curve.points.iter().map(|point| number(point.count as f64)).collect();
        Lines { title, across, up, axis: Axis::Linear, places, lines }.figure()
    };
    let memory = line("the server", 0, |point| point.memory_bytes as f64 / f64::from(1 << 20));
    let read = line("a 4-KiB read beside them", 0, |point| point.cpu_us_per_read);
    let each = line("adding one", 1, |point| point.cpu_us_each);
    text.push_str("<div class=\"figures\">\n");
    text.push_str(&figure(format!("Memory by {across}"), "MiB", vec![memory]));
    text.push_str(&figure(format!("CPU time of a read by {across}"), "µs", vec![read]));
    text.push_str(&figure(format!("CPU time of adding one by {across}"), "µs", vec![each]));
    text + "</div>\n"
}
