use super::*;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// 4 s at 10 MB/s with nothing between 1 s and 3 s.
fn play<W: Write>(timeline: &mut Timeline<W>) {
    timeline.begin("a run", &[Lane { name: "curl".into(), usual_rate: 10_000_000 }]);
    for at in (0..4000).step_by(10) {
        if !(1000..3000).contains(&at) {
            timeline.bytes(0, Span { from: ms(at), to: ms(at) }, 100_000);
        }
        match at {
            1000 => timeline.mark(ms(1000), MarkKind::Cut, "ISP 1 is gone"),
            // A late report, as events of a daemon are.
            3100 => timeline.mark(ms(2990), MarkKind::Moved, "to ISP 2"),
            _ => {}
        }
        timeline.advance(ms(at));
    }
    timeline.advance(ms(4000));
    timeline.end();
}

fn output(style: Style) -> String {
    let mut shown = Vec::new();
    play(&mut Timeline::new(&mut shown, style));
    String::from_utf8(shown).unwrap()
}

#[test]
fn the_chart_shows_the_hole_and_the_marks_below_its_edges() {
    let text = output(Style::PLAIN);
    let bars = text.lines().find(|line| line.contains('▆')).unwrap();
    assert_eq!(bars, " curl       20.0 MB  ▆▆▆▆▆··········▆▆▆▆▆");
    let numbers = text.lines().skip_while(|line| *line != bars).nth(2).unwrap();
    let column = |text: &str, c| text.chars().position(|other| other == c).unwrap();
    assert_eq!(column(numbers, '1'), 21 + 5);
    assert_eq!(column(numbers, '2'), 21 + 14);
}

#[test]
fn plain_lines_come_in_the_order_of_time() {
    let text = output(Style::PLAIN);
    let times: Vec<f64> = text
        .lines()
        .take_while(|line| !line.contains('▆'))
        .filter_map(|line| line.split_once(" s ")?.0.split_whitespace().last()?.parse().ok())
        .collect();
    assert_eq!(times.len(), 8 + 2, "{text}");
    assert!(times.is_sorted(), "{times:?}");
    assert!(text.contains("-- ") && text.contains("moved      to ISP 2"), "{text}");
}

#[test]
fn a_terminal_is_drawn_over_and_ends_with_the_same_chart() {
    let style = Style { live: true, ..Style::PLAIN };
    let text = output(style);
    assert!(text.contains("\x1b[4A\x1b[J"), "four lines before the first mark");
    let last = text.rsplit("\x1b[J").next().unwrap();
    let plain = output(Style::PLAIN);
    assert!(plain.trim_end().ends_with(last.trim_end()), "{last}\n---\n{plain}");
    assert!(!text.contains("\x1b[31m"), "no colours unless asked");
}

#[test]
fn no_row_is_wider_than_the_terminal() {
    let style = Style { live: true, colour: false, width: 60 };
    let mut shown = Vec::new();
    let mut timeline = Timeline::new(&mut shown, style);
    timeline.begin("long", &[Lane { name: "curl".into(), usual_rate: 1000 }]);
    for second in 0..100 {
        timeline.bytes(0, Span { from: ms(second * 1000), to: ms(second * 1000 + 999) }, 1000);
        timeline.mark(ms(second * 1000), MarkKind::Note, &"long ".repeat(30));
        timeline.advance(ms(second * 1000));
    }
    timeline.end();
    let text = String::from_utf8(shown).unwrap();
    for line in text.lines() {
        let shown = line.rsplit("\x1b[J").next().unwrap();
        assert!(shown.chars().count() <= 60, "{shown}");
    }
}

#[test]
fn bytes_of_a_span_are_spread_over_it() {
    let mut chart = Chart::new(&[Lane { name: "x".into(), usual_rate: 1_000_000 }]);
    chart.add(0, Span { from: ms(100), to: ms(300) }, 200_000);
    chart.settled = Duration::MAX;
    assert!(chart.rates(ms(100), ms(200)).contains("1.0 MB/s"));
    assert!(chart.rates(ms(200), ms(300)).contains("1.0 MB/s"));
    assert!(chart.rates(ms(300), ms(400)).contains(" 0 kB/s"));
}
