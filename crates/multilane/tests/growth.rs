//! The curves of a comparison, over few steps, with the real server.

use std::path::Path;
use std::time::Duration;

use load::compare::Watch;
use load::engine::Stop;
use load::growth::{Curve, Steps, measure};

struct Silent;

impl Watch for Silent {
    fn begins(&self, _runs: usize) {}
    fn next(&self, _what: &str) {}
    fn note(&self, _sentence: &str) {}
}

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_multilane"))
}

fn counts(curve: &Curve) -> Vec<usize> {
    curve.points.iter().map(|point| point.count).collect()
}

#[test]
fn every_step_has_its_memory_and_its_reads() {
    let steps = Steps { connections: vec![1, 5], open_files: vec![1, 300], duration: Duration::from_millis(50) };
    let curves = measure(program(), &steps, &Silent, &Stop::default()).unwrap();
    for (curve, expected) in [(&curves.connections, vec![1, 5]), (&curves.open_files, vec![1, 300])] {
        assert_eq!((counts(curve), &curve.ended), (expected, &None));
        assert!(curve.memory_bytes_each.is_some());
        for point in &curve.points {
            assert!(point.memory_bytes > 1 << 20, "a process has some memory: {point:?}");
            assert!(point.reads_per_second > 0.0, "{point:?}");
        }
    }
}

#[test]
fn a_stop_ends_the_curves_in_order() {
    let stop = Stop::default();
    stop.now();
    let steps = Steps { connections: vec![1], open_files: vec![1], duration: Duration::from_millis(50) };
    let curves = measure(program(), &steps, &Silent, &stop).unwrap();
    assert_eq!(counts(&curves.connections), [0_usize; 0]);
    assert!(curves.open_files.ended.is_some());
}
