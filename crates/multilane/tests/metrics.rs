//! `multilane metrics`: what a server did is there when it has ended, and adds up.

mod served;

use serde_json::Value;

use crate::served::Served;

fn output(served: &Served, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = served.program(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn show(served: &Served, arguments: &[&str]) -> Value {
    let (code, shown, error) = output(served, &[&["metrics", "show"], arguments, &["--json"]].concat());
    assert_eq!(code, Some(0), "{error}");
    serde_json::from_str(&shown).unwrap()
}

/// The sums of all series, with the value that each is of.
fn sums(shown: &Value, key: &str) -> Vec<(String, f64)> {
    let series = shown["value"][0]["timeseries"].as_array().unwrap();
    let of = |series: &Value| {
        let value = series["metadatavalues"][0]["value"].as_str().unwrap_or_default().to_owned();
        let numbers = series["data"].as_array().unwrap().iter().filter_map(|point| point[key].as_f64());
        (value, numbers.sum())
    };
    series.iter().map(of).collect()
}

#[test]
fn what_was_done_is_kept_when_the_server_has_ended() {
    let mut served = Served::new();
    let file = served.folder.path().join("file");
    std::fs::write(&file, vec![7; 3 << 20]).unwrap();
    let to = format!("smb://local@127.0.0.1:{}/share/file", served.port);
    let mut copy = served.program(&["cp", file.to_str().unwrap(), &to]);
    let copied = copy.env("MULTILANE_PASSWORD", &served.password).output().unwrap();
    assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
    served.stop();

    let all = sums(&show(&served, &["Transactions"]), "total")[0].1;
    let by_api = sums(&show(&served, &["transactions", "--filter", "ApiName eq '*'"]), "total");
    assert!(all > 0.0);
    assert_eq!(by_api.iter().map(|(_, sum)| sum).sum::<f64>(), all, "{by_api:?}");
    let of = |api: &str| by_api.iter().find(|(name, _)| name == api).map_or(0.0, |(_, sum)| *sum);
    assert!(of("Create") >= 1.0 && of("Write") >= 1.0 && of("SessionSetup") >= 2.0, "{by_api:?}");
    let written =
        sums(&show(&served, &["Ingress", "--filter", "ApiName eq 'Write' and FileShare eq 'share'"]), "total")[0].1;
    // With the headers of the requests, and nothing else.
    assert!((3.0 * 1024.0 * 1024.0..3.1 * 1024.0 * 1024.0).contains(&written), "{written}");
    let hours = sums(&show(&served, &["Transactions", "--interval", "PT1H"]), "total")[0].1;
    assert_eq!(hours, all);
    let (_, text, _) = output(&served, &["metrics", "show", "Availability"]);
    assert!(text.contains("100"), "{text}");
    // Of the time before the server started nothing is known.
    let (_, text, _) = output(&served, &["metrics", "show", "Transactions"]);
    assert!(text.lines().count() <= 5 && !text.contains("  0\n"), "{text}");
    let (_, text, _) = output(&served, &["metrics", "show", "Egress", "--end-time", "2026-01-01T00:00:00Z"]);
    assert_eq!(text, "nothing was kept of this time\n");
    let before = ["Egress", "--filter", "FileShare eq 'Share'", "--end-time", "2026-01-01T00:00:00Z"];
    let of_none = show(&served, &before);
    let points = of_none["value"][0]["timeseries"][0]["data"].as_array().unwrap();
    assert!(points.iter().all(|point| point["total"].is_null()), "{points:?}");
    let nowhere = "FileShare eq 'share' or FileShare eq 'nowhere'";
    let (code, text, error) = output(&served, &["metrics", "show", "Egress", "--filter", nowhere]);
    assert_eq!((code, text.as_str()), (Some(1), ""));
    assert!(error.contains("there is no share \"nowhere\"") && error.contains("the shares are share"), "{error}");
}

#[test]
fn the_first_minute_of_a_server_is_waited_for() {
    let served = Served::new();
    let (code, text, error) = output(&served, &["metrics", "show", "Transactions"]);
    // It is over where the server started at its end.
    assert!(code == Some(0) || error.contains("first minute is not over"), "{text}{error}");
    assert!(!error.contains("multilane serve"), "{error}");
}

#[test]
fn what_cannot_be_asked_for_is_told_with_what_can() {
    let served = Served::new();
    for (arguments, told) in [
        (["Uptime", "--interval", "PT1M"], "Transactions"),
        (["Transactions", "--interval", "PT2M"], "PT5M"),
        (["Transactions", "--filter", "Color eq 'red'"], "Color is no dimension"),
        (["Ingress", "--filter", "ResponseType eq '*'"], "has no dimension ResponseType"),
        (["Transactions", "--aggregation", "Maximum"], "not given as Maximum"),
        (["Transactions", "--start-time", "yesterday"], "as 2026-11-29T13:00:00Z"),
        (["Transactions", "--start-time", "2126-01-01T00:00:00Z"], "not before the end"),
        (["Transactions", "--start-time", "1990-01-01T00:00:00Z"], "ask for a longer --interval"),
    ] {
        let (code, _, error) = output(&served, &[&["metrics", "show"], &arguments[..]].concat());
        assert!(code == Some(2) && error.contains(told), "{arguments:?}: {code:?} {error}");
    }
    let (code, list, _) = output(&served, &["metrics", "list"]);
    assert!(code == Some(0) && list.contains("FileShareAvailableBurstCredits"));
}

#[test]
fn a_server_that_cannot_keep_metrics_says_so_and_ends_as_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut served = Served::logging(&[], std::fs::File::create(&log).unwrap());
    let archive = served.folder.path().join("data/metrics.db");
    // It is there where a minute has just ended.
    let _ = std::fs::remove_file(&archive);
    std::fs::create_dir(&archive).unwrap();
    served.stop();
    let log = std::fs::read_to_string(&log).unwrap();
    assert!(log.contains("is not kept for `multilane metrics`") && log.contains("could not be kept"), "{log}");
    let (code, _, error) = output(&served, &["metrics", "show", "Transactions"]);
    assert!(code == Some(1) && error.contains("the archive of metrics could not be used"), "{error}");
}

#[test]
fn a_damaged_archive_is_set_aside_and_another_one_begun() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut served = Served::logging(&[], std::fs::File::create(&log).unwrap());
    let archive = served.folder.path().join("data/metrics.db");
    std::fs::write(&archive, "no database at all").unwrap();
    served.stop();
    let log = std::fs::read_to_string(&log).unwrap();
    assert!(log.contains("the archive of metrics was damaged"), "{log}");
    assert_eq!(std::fs::read(archive.with_extension("db.damaged")).unwrap(), b"no database at all");
    show(&served, &["Transactions"]);
    std::fs::write(&archive, "no database again").unwrap();
    let (code, _, error) = output(&served, &["metrics", "show", "Transactions"]);
    assert!(code == Some(1) && error.contains("is damaged") && error.contains("metrics.db.damaged"), "{error}");
}
