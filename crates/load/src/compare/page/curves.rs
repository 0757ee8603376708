//! What our server costs as it has more to keep: charts over the steps.

use maud::{Markup, html};

use super::chart::{Axis, Line, Lines};
use super::text::number;
use crate::growth::{Curve, Curves, Point};

/// The section; empty where nothing was measured.
pub(super) fn section(curves: Option<&Curves>) -> Markup {
    html! {
        @if let Some(curves) = curves {
            h2 id="curves" { "What our server costs as it has more to keep" }
            (curve("connections", &curves.connections))
            (curve("open files", &curves.open_files))
        }
    }
}

fn curve(across: &'static str, curve: &Curve) -> Markup {
    html! {
        p { (curve.description) }
        @if let Some(bytes) = curve.memory_bytes_each {
            p { "Each one more takes " (number(bytes.max(0.0))) " bytes of memory." }
        }
        @if let Some(why) = &curve.ended { p { "It ends early: " (why) "." } }
        @if !curve.points.is_empty() { div.figures { (figures(across, curve)) } }
    }
}

fn figures(across: &'static str, curve: &Curve) -> Markup {
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
    html! {
        (figure(format!("Memory by {across}"), "MiB", vec![memory]))
        (figure(format!("CPU time of a read by {across}"), "µs", vec![read]))
        (figure(format!("CPU time of adding one by {across}"), "µs", vec![each]))
    }
}
