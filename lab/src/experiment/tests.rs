use super::*;

fn bars(values: [Option<f64>; 2]) -> Chart {
    let [one, other] = values;
    let bars = [("one group", "first series", one), ("other group", "first series", other)];
    Chart::bars("Bars & more", ["", "seconds"], bars).in_decades()
}

fn lines(points: &[(f64, f64)]) -> Chart {
    let places = points.iter().map(|&(x, y)| ("a line", x, exact(y)));
    Chart::lines("Lines", ["addresses", "milliseconds"], places)
}

#[test]
fn a_plot_has_every_chart_with_its_words_and_marks() {
    let svg = plot::svg(&[bars([Some(0.002), Some(90.0)]), lines(&[(2.0, 1.5), (3.0, 2.0)])]);
    let svg = svg.unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
    for word in [
        "Bars &amp; more",
        "one group",
        "other group",
        "first series",
        "seconds",
        "Lines",
        "addresses",
        "milliseconds",
        "a line",
    ] {
        assert!(svg.contains(&format!("\n{word}\n")), "{word}: {svg}");
    }
    // Two bars and a swatch of the legend. Two dots and a swatch.
    for colour in ["#0072B2", "#E69F00"] {
        let filled = format!("fill=\"{colour}\" stroke=\"none\"");
        assert_eq!(svg.matches(filled.as_str()).count(), 3, "{svg}");
    }
    assert_eq!(svg.matches("<circle ").count(), 2);
}

#[test]
fn ranges_are_bars_with_a_line_through_their_middle() {
    let ranges = [(1.0, [1.0, 2.0, 4.0]), (2.0, [3.0, 3.0, 5.0])];
    let ranges = ranges.map(|(x, range)| ("a range", x, Some(range)));
    let chart = Chart::lines("Ranges", ["", ""], ranges);
    assert!(!chart.is_empty());
    let svg = plot::svg(&[chart]).unwrap();
    assert_eq!(svg.matches("<circle ").count(), 2, "{svg}");
    assert_eq!(svg.matches("stroke-width=\"3\"").count(), 2, "{svg}");
    assert!(svg.contains("\na range\n"));
}

#[test]
fn what_was_not_measured_has_no_bar() {
    let svg = plot::svg(&[bars([Some(3.0), None])]).unwrap();
    assert_eq!(svg.matches("fill=\"#0072B2\" stroke=\"none\"").count(), 2, "{svg}");
    assert!(svg.contains("\nnot done\n"), "{svg}");
    assert!(!bars([Some(3.0), None]).is_empty() && bars([None, None]).is_empty());
}

#[test]
fn each_series_of_a_chart_has_a_colour_of_its_own_that_is_the_same_in_all_charts() {
    let bars = |names: &[&str]| {
        let bars: Vec<_> =
            names.iter().map(|name| ("group", name.to_string(), Some(1.0))).collect();
        Chart::bars("Bars", ["", ""], bars)
    };
    let all = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let colours = plot::colours(&[bars(&all[2..]), bars(&all), bars(&["h", "b"])]);
    let distinct: std::collections::BTreeSet<_> =
        colours[1].iter().map(|colour| (colour.0, colour.1, colour.2)).collect();
    assert_eq!(distinct.len(), 8);
    assert_eq!(colours[0], colours[1][2..]);
    assert_eq!(colours[2], [colours[1][7], colours[1][1]]);
}

#[test]
fn two_series_never_share_a_colour() {
    let of = |names: std::ops::Range<u32>| {
        let bars: Vec<_> = names.map(|name| ("group", name.to_string(), Some(1.0))).collect();
        Chart::bars("Bars", ["", ""], bars)
    };
    // More series than colours, and a chart whose series come from two other ones.
    for charts in [vec![of(0..24)], vec![of(0..8), of(8..12), of(4..12)]] {
        for colours in plot::colours(&charts) {
            let distinct: std::collections::BTreeSet<_> =
                colours.iter().map(|colour| (colour.0, colour.1, colour.2)).collect();
            assert_eq!(distinct.len(), colours.len());
        }
    }
}

/// The legend is in the upper left corner, with one line for each series.
#[test]
fn the_legend_lies_over_no_data() {
    let numbers = |text: &str, key: &str| -> Vec<f64> {
        let attribute = format!(" {key}=\"");
        let places = text.split(attribute.as_str()).skip(1);
        places.filter_map(|rest| rest.split('"').next()?.parse().ok()).collect()
    };
    for series in [1, 4, 9] {
        let places = (0..series).flat_map(|line| {
            [1.0, 2.0, 3.0].map(|x| (format!("line {line}"), x, exact(100.0 - f64::from(line))))
        });
        for chart in [
            Chart::lines("Lines", ["", ""], places.clone()),
            Chart::lines("Lines", ["", ""], places.clone()).in_decades(),
        ] {
            let svg = plot::svg(&[chart]).unwrap();
            let highest = numbers(&svg, "cy").into_iter().fold(f64::MAX, f64::min);
            let swatches =
                svg.lines().filter(|line| line.contains("<rect") && line.contains("width=\"12\""));
            let feet: Vec<_> = swatches.flat_map(|line| numbers(line, "y")).collect();
            assert_eq!(feet.len(), usize::try_from(series).unwrap(), "{svg}");
            let lowest = feet.into_iter().fold(0.0, f64::max) + 10.0;
            assert!(lowest < highest, "{series} series: {lowest} {highest}");
        }
    }
}

#[test]
fn an_axis_of_whole_numbers_has_no_half_steps() {
    let svg = plot::svg(&[lines(&[(2.0, 10.0), (4.0, 20.0)])]).unwrap();
    for label in ["2", "3", "4"] {
        assert!(svg.contains(&format!("\n{label}\n")), "{label}: {svg}");
    }
    assert!(!svg.contains("\n2.5\n") && !svg.contains("\n2.0\n"), "{svg}");
}

#[test]
fn one_point_and_no_chart_can_be_drawn() {
    assert!(plot::svg(&[lines(&[(2.0, 0.0)])]).unwrap().contains("<circle "));
    assert!(plot::svg(&[]).unwrap().starts_with("<svg "));
}

#[test]
fn names_are_said_once_and_fit_a_file() {
    let names: Vec<_> = all().iter().map(|experiment| experiment.card().name).collect();
    for (index, name) in names.iter().enumerate() {
        assert!(
            name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'),
            "{name}"
        );
        assert!(!names[..index].contains(name), "{name} twice");
    }
}

/// The parts of the whole that an experiment has told.
#[derive(Default)]
struct Told {
    stages: usize,
    parts: Vec<f64>,
}

impl Watch for Told {
    fn stage(&mut self, _: &str) {
        self.stages += 1;
    }

    fn done(&mut self, part: f64) {
        self.parts.push(part);
    }
}

/// The bar computes the time left from these parts.
#[test]
fn the_cost_of_addresses_shows_its_progress_from_the_first_address_to_the_last() {
    let options = AddrCost {
        trials: 3,
        secs: vec![moorline_cga::Sec::ZERO],
        threads: vec![std::num::NonZeroUsize::MIN],
        sizes: vec![2, 3],
        size_trials: 0,
        ..options::defaults()
    };
    let mut told = Told::default();
    options.measure(&mut told).unwrap();
    assert_eq!(told.stages, 2, "CGA and HBA");
    assert!(told.parts.is_sorted(), "{:?}", told.parts);
    // Nine searches: two CGAs and one set in each trial.
    assert!(told.parts.first().is_some_and(|first| *first <= 1.01 / 9.0), "{:?}", told.parts);
    assert_eq!(told.parts.last(), Some(&1.0));
}
