//! A page with the results of many experiments.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{Card, all};

/// A written page.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Experiments of the page, in its order.
    pub experiments: Vec<String>,
    /// Path of the page.
    #[serde(rename = "report")]
    pub file: PathBuf,
}

/// Makes `report.html` from the results in a folder, which [`Results::write`](super::Results::write) wrote there. For
/// each experiment the page has its description, parameters, plot and points.
///
/// # Errors
/// There are no results, the results cannot be read, or the page cannot be written.
pub fn report(folder: &Path) -> anyhow::Result<Report> {
    let mut page = HEAD.to_owned();
    let mut experiments = Vec::new();
    for experiment in all() {
        let Card { name, about, .. } = experiment.card();
        let file = folder.join(name).with_extension("json");
        if !file.exists() {
            continue;
        }
        let read = |file: &Path| {
            fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
        };
        let results: Value = serde_json::from_str(&read(&file)?)
            .with_context(|| format!("{} holds no results", file.display()))?;
        let plot = read(&file.with_extension("svg"))?;
        page += &section(name, about, &results, &plot);
        experiments.push(name.to_owned());
    }
    ensure!(
        !experiments.is_empty(),
        "no results in {}: run experiments with --out {0} first",
        folder.display()
    );
    page += "</body>\n</html>\n";
    let file = folder.join("report.html");
    moorline_addr::write_public(&file, page.as_bytes())?;
    Ok(Report { file, experiments })
}

fn section(name: &str, about: &str, results: &Value, plot: &str) -> String {
    let mut facts = Map::new();
    for (name, value) in results.as_object().into_iter().flatten() {
        match name.as_str() {
            "experiment" | "points" => {}
            "parameters" => flatten("", value, &mut facts),
            _ => flatten(name, value, &mut facts),
        }
    }
    let facts = facts.iter();
    let facts =
        facts.map(|(name, value)| format!("<dt>{}</dt><dd>{}</dd>\n", escaped(name), cell(value)));
    let facts: String = facts.collect();
    let points = results["points"].as_array().map(Vec::as_slice).unwrap_or_default();
    format!(
        "<section id=\"{name}\">\n<h2>{name}</h2>\n<p>{}.</p>\n{plot}\n<dl>\n{facts}</dl>\n{}</section>\n",
        escaped(about),
        table(points)
    )
}

fn table(points: &[Value]) -> String {
    let flat = |point: &Value| {
        let mut row = Map::new();
        flatten("", point, &mut row);
        row
    };
    let rows: Vec<_> = points.iter().map(flat).collect();
    let mut names: Vec<&String> = Vec::new();
    for name in rows.iter().flat_map(Map::keys) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let header: String = names.iter().map(|name| format!("<th>{}</th>", escaped(name))).collect();
    let mut text = format!("<table>\n<tr>{header}</tr>\n");
    for row in &rows {
        let values = names.iter().map(|name| row.get(*name).map(cell).unwrap_or_default());
        let cells: String = values.map(|value| format!("<td>{value}</td>")).collect();
        text += &format!("<tr>{cells}</tr>\n");
    }
    text + "</table>\n"
}

/// Flattens an object: a field `b` of the object `a` becomes `a.b`.
fn flatten(prefix: &str, value: &Value, into: &mut Map<String, Value>) {
    let Some(object) = value.as_object() else {
        into.insert(prefix.to_owned(), value.clone());
        return;
    };
    for (name, value) in object {
        let name = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        flatten(&name, value, into);
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => escaped(text),
        Value::Number(number) if number.is_f64() => {
            let number = number.as_f64().unwrap_or_default();
            let digits = if number.abs() >= 100.0 { 1 } else { 4 };
            format!("{number:.digits$}")
        }
        Value::Array(values) => values.iter().map(cell).collect::<Vec<_>>().join(", "),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => escaped(&value.to_string()),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Head of the page.
const HEAD: &str = include_str!("report.html");

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_page_has_every_experiment_that_left_results_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let error = report(folder.path()).unwrap_err().to_string();
        assert!(error.contains("--out"), "{error}");
        let results = json!({
            "experiment": "art",
            "parameters": {"seed": 7, "note": "a < b"},
            "some_ratio": 0.98,
            "points": [
                {"flow": "tcp", "art_ms": {"median": 1080.25}},
                {"flow": "udp", "art_ms": {"median": null}, "reason": "none & never"},
            ],
        });
        fs::write(folder.path().join("art.json"), results.to_string()).unwrap();
        fs::write(folder.path().join("art.svg"), "<svg id=\"the-plot\"></svg>").unwrap();
        fs::write(folder.path().join("other.json"), "{}").unwrap();
        let report = report(folder.path()).unwrap();
        assert_eq!(report.experiments, ["art"]);
        let page = fs::read_to_string(&report.file).unwrap();
        for part in [
            "<h2>art</h2>",
            "<svg id=\"the-plot\">",
            "<dt>seed</dt><dd>7</dd>",
            "<dd>a &lt; b</dd>",
            "<dt>some_ratio</dt><dd>0.9800</dd>",
            "<th>art_ms.median</th>",
            "<td>1080.2</td>",
            "<td>none &amp; never</td>",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("other"));
    }
}
