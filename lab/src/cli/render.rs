use super::experiments::Listed;
use crate::experiment::{Report, Results};
use crate::load::Sent;
use moorline_term::table;
use serde_json::Value;
use std::path::PathBuf;

/// The table of experiments, with the reasons why some cannot run here.
pub(crate) fn experiments(experiments: &[Listed]) -> String {
    let rows = experiments.iter().map(|one| {
        let note = one.obstacles.join("; ");
        let about = if note.is_empty() {
            one.about.to_owned()
        } else {
            format!("{} (not here: {note})", one.about)
        };
        vec![one.name.to_owned(), about]
    });
    table(&["EXPERIMENT", "MEASURES"], &[], rows)
}

/// The points as a table, and the paths of the files.
pub(crate) fn results(results: &Results, files: Option<&[PathBuf; 2]>) -> String {
    let names: Vec<_> = results.columns.split_whitespace().collect();
    let is_number = |name: &&str| results.rows().iter().any(|point| field(point, name).is_number());
    let right: Vec<_> = (0..names.len()).filter(|&index| is_number(&names[index])).collect();
    let row = |point| names.iter().map(|name| cell(field(point, name))).collect();
    let rows = results.rows().iter().map(row);
    let header: Vec<_> = names.iter().map(|name| heading(name)).collect();
    let header: Vec<_> = header.iter().map(String::as_str).collect();
    let mut text = table(&header, &right, rows);
    for (name, value) in &results.summary {
        let is_table = value.as_array().is_some_and(|all| all.iter().any(Value::is_object));
        if !value.is_object() && !is_table {
            text += &format!("{:<24}{}\n", name.replace('_', " "), cell(value));
        }
    }
    if let Some([json, svg]) = files {
        text += &format!("points      {}\nplot        {}\n", json.display(), svg.display());
    }
    text
}

/// The path of the page, and its contents.
pub(crate) fn report(report: &Report) -> String {
    format!(
        "report       {}\nexperiments  {}\n",
        report.file.display(),
        report.experiments.join(", ")
    )
}

/// The summary of a load.
pub(crate) fn sent(sent: &Sent) -> String {
    let mut text = format!(
        "from           {} by {}\nto             {}\necho requests  {}\nmade up        {}\n\
         rate           {} packets/s for {:.1} s\n",
        sent.namespace,
        sent.interface,
        sent.to,
        sent.echo_requests,
        sent.made_up,
        digits(sent.per_second),
        sent.seconds,
    );
    if let Some(received) = sent.received {
        text += &format!("received       {received}\n");
    }
    text
}

/// A field of a point: `art_ms.p5` is `p5` of the object `art_ms`.
fn field<'a>(point: &'a Value, name: &str) -> &'a Value {
    name.split('.').fold(point, |value, name| &value[name])
}

/// Turns a field name into a heading: `mean_s` becomes `MEAN S`.
fn heading(name: &str) -> String {
    name.to_uppercase().replace(['_', '.'], " ")
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => {
            number.as_f64().map_or_else(String::new, digits)
        }
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

/// Formats a number with four significant digits.
fn digits(number: f64) -> String {
    let magnitude = if number == 0.0 { 0.0 } else { number.abs().log10().floor() };
    let decimals = (0_u8..9).rfind(|&decimals| f64::from(decimals) + magnitude <= 3.0).unwrap_or(0);
    format!("{number:.*}", usize::from(decimals))
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;
    use serde_json::json;

    #[test]
    fn points_are_a_table_whatever_they_are_called() {
        let results = Results {
            experiment: "some".into(),
            parameters: Value::Null,
            points: vec![
                json!({"kind": "cga", "sec": 1, "mean_s": 0.001_234_56, "tries": 131_072.5}),
                json!({"kind": "hba", "sec": 2, "mean_s": 93.25, "tries": null, "max_s": 1}),
            ],
            totals: Vec::new(),
            summary: serde_json::Map::new(),
            columns: "kind sec mean_s tries",
            charts: Vec::new(),
            faults: Vec::new(),
        };
        assert_snapshot!(super::results(&results, None), @r"
        KIND  SEC    MEAN S   TRIES
        cga     1  0.001235  131072
        hba     2     93.25       -
        ");
        let files = ["some.json", "some.svg"].map(PathBuf::from);
        let shown = super::results(&results, Some(&files));
        assert!(shown.ends_with("\npoints      some.json\nplot        some.svg\n"), "{shown}");
    }

    #[test]
    fn what_cannot_run_here_says_why() {
        let listed = |name, obstacles: &[&str]| Listed {
            name,
            about: "time to do it",
            obstacles: obstacles.iter().map(|&text| text.to_owned()).collect(),
        };
        let shown = experiments(&[listed("addr-cost", &[]), listed("negotiation", &["not root"])]);
        assert_snapshot!(shown, @r"
        EXPERIMENT   MEASURES
        addr-cost    time to do it
        negotiation  time to do it (not here: not root)
        ");
    }
}
