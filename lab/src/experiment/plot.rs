//! Charts as SVG.

use std::ops::Range;

use anyhow::anyhow;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::{
    BLACK, Cartesian2d, ChartBuilder, ChartContext, Circle, DrawingArea, EmptyElement,
    IntoDrawingArea as _, IntoFont as _, IntoLogRange as _, LineSeries, RGBColor, Rectangle,
    SVGBackend, Text, WHITE,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color as _, TextStyle};

/// A coordinate system and its series.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Title above the chart.
    pub title: String,
    /// Titles of the horizontal and the vertical axis, with units.
    axes: [&'static str; 2],
    /// Whether the vertical axis is logarithmic. A logarithmic axis does not begin at zero, and all values are above
    /// zero.
    is_in_decades: bool,
    /// Names of the groups of bars, from left to right. `None` for lines.
    groups: Option<Vec<String>>,
    series: Vec<Series>,
}

/// Bars of one colour, one for each group with a value. Or a line through the middles of ranges, and each range as an
/// upright bar.
#[derive(Clone, Debug, PartialEq)]
struct Series {
    /// Name in the legend.
    name: String,
    /// Position, or index of the group, and low, middle and high value.
    points: Vec<(f64, [f64; 3])>,
}

/// A range with one value.
pub(super) fn exact(value: impl Into<Option<f64>>) -> Option<[f64; 3]> {
    value.into().map(|value| [value; 3])
}

impl Chart {
    /// A bar chart. Each bar has the name of its group, the name of its series, and a value if it was measured. Groups
    /// and series appear in the order of the bars. `axes` are the titles of the horizontal and the vertical axis. The
    /// vertical axis begins at zero.
    pub(super) fn bars(
        title: impl Into<String>,
        axes: [&'static str; 2],
        bars: impl IntoIterator<Item = (impl ToString, impl ToString, Option<f64>)>,
    ) -> Self {
        let mut chart = Self::new(title, axes);
        let mut groups = Vec::new();
        for (group, name, value) in bars {
            let group = group.to_string();
            let known = groups.iter().position(|one| *one == group);
            let place = known.unwrap_or(groups.len());
            if known.is_none() {
                groups.push(group);
            }
            chart.add(name.to_string(), place as f64, exact(value));
        }
        Self { groups: Some(groups), ..chart }
    }

    /// A line chart. Each point has the name of its line, its position, and its low, middle and high value. Lines
    /// appear in the order of the points. Lines without values are left out. `axes` as in [`Chart::bars`].
    pub(super) fn lines(
        title: impl Into<String>,
        axes: [&'static str; 2],
        places: impl IntoIterator<Item = (impl ToString, f64, Option<[f64; 3]>)>,
    ) -> Self {
        let mut chart = Self::new(title, axes);
        places.into_iter().for_each(|(name, x, range)| chart.add(name.to_string(), x, range));
        chart.series.retain(|line| !line.points.is_empty());
        chart
    }

    fn new(title: impl Into<String>, axes: [&'static str; 2]) -> Self {
        Self { title: title.into(), axes, is_in_decades: false, groups: None, series: Vec::new() }
    }

    fn add(&mut self, name: String, x: f64, range: Option<[f64; 3]>) {
        let point = range.map(|range| (x, range));
        match self.series.iter_mut().find(|one| one.name == name) {
            Some(series) => series.points.extend(point),
            None => self.series.push(Series { name, points: point.into_iter().collect() }),
        }
    }

    /// Makes the vertical axis logarithmic.
    pub(super) fn in_decades(self) -> Self {
        Self { is_in_decades: true, ..self }
    }

    /// Whether the chart has no values.
    pub(super) fn is_empty(&self) -> bool {
        self.points().next().is_none()
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.series.iter().map(|series| series.name.as_str())
    }

    fn points(&self) -> impl Iterator<Item = &(f64, [f64; 3])> {
        self.series.iter().flat_map(|series| &series.points)
    }

    /// Range of the vertical axis: from the foot of the bars to a height that leaves room for the legend.
    fn heights(&self) -> Range<f64> {
        let values = || self.points().flat_map(|point| point.1);
        let most = values().fold(f64::MIN_POSITIVE, f64::max);
        let legend = self.series.len() as f64 * LEGEND_LINE + LEGEND_MORE;
        let below_legend = (1.0 - legend / f64::from(HEIGHT - AROUND)).max(0.3);
        if !self.is_in_decades {
            return 0.0..(1.3 * most).max(most / below_legend);
        }
        let least = values().fold(most, f64::min);
        let foot = (least / 1.5).log10().floor();
        let top = foot + (most.log10() - foot) / below_legend;
        10_f64.powf(foot)..10_f64.powf((5.0 * most).log10().max(top).ceil())
    }

    /// Number of labels, if the axis has few whole numbers and each gets a label. `None` for any other axis.
    fn whole(values: impl Iterator<Item = f64>, range: &Range<f64>) -> Option<usize> {
        let mut values = values.peekable();
        let is_whole = values.peek().is_some() && values.all(|x| x.fract() == 0.0);
        let first = range.start.ceil();
        let count = (0..=MOST_LABELS).take_while(|n| first + f64::from(*n) <= range.end).count();
        (is_whole && count <= usize::from(MOST_LABELS)).then_some(count)
    }

    fn widths(&self) -> Range<f64> {
        if let Some(groups) = &self.groups {
            return 0.0..groups.len() as f64;
        }
        let (from, to) = self
            .points()
            .fold((f64::MAX, f64::MIN), |(from, to), (x, _)| (from.min(*x), to.max(*x)));
        if from < to { from..to } else { from - 0.5..from + 0.5 }
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type System<'a, 'b, Y> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, Y>>;

/// Draws the charts, one below the other.
pub(super) fn svg(charts: &[Chart]) -> anyhow::Result<String> {
    let mut text = String::new();
    let height = HEIGHT * u32::try_from(charts.len().max(1))?;
    let root = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE).map_err(plain)?;
    let colours = colours(charts);
    let areas = root.split_evenly((charts.len().max(1), 1));
    for ((chart, area), colours) in charts.iter().zip(areas).zip(&colours) {
        draw(chart, colours, &area)?;
    }
    root.present().map_err(plain)?;
    drop(root);
    Ok(text)
}

/// Colours of the series of each chart. A name has the same colour in all charts, and no other name has this colour.
pub(super) fn colours(charts: &[Chart]) -> Vec<Vec<RGBColor>> {
    let mut known: Vec<&str> = Vec::new();
    let mut all = Vec::new();
    for chart in charts {
        let mut of_chart = Vec::new();
        for name in chart.names() {
            let place = known.iter().position(|one| *one == name).unwrap_or(known.len());
            if place == known.len() {
                known.push(name);
            }
            of_chart.push(colour(place));
        }
        all.push(of_chart);
    }
    all
}

/// The colour of the n-th name. After the last of the [`COLOURS`] come lighter ones.
fn colour(place: usize) -> RGBColor {
    let RGBColor(r, g, b) = COLOURS[place % COLOURS.len()];
    let lighter = |part: u8| {
        let rest = (0..place / COLOURS.len()).fold(u8::MAX - part, |rest, _| rest - rest / 3);
        u8::MAX - rest
    };
    RGBColor(lighter(r), lighter(g), lighter(b))
}

fn draw(chart: &Chart, colours: &[RGBColor], area: &Area<'_>) -> anyhow::Result<()> {
    let mut builder = ChartBuilder::on(area);
    builder
        .caption(&chart.title, (FONT, 18))
        .margin(16)
        .x_label_area_size(48)
        .y_label_area_size(72);
    let (x, y) = (chart.widths(), chart.heights());
    if chart.is_in_decades {
        fill(chart, colours, builder.build_cartesian_2d(x, y.log_scale()).map_err(plain)?)
    } else {
        fill(chart, colours, builder.build_cartesian_2d(x, y).map_err(plain)?)
    }
}

fn fill<'a, 'b: 'a, Y>(
    chart: &Chart,
    colours: &[RGBColor],
    mut system: System<'a, 'b, Y>,
) -> anyhow::Result<()>
where
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut mesh = system.configure_mesh();
    mesh.disable_x_mesh().light_line_style(WHITE).x_desc(chart.axes[0]).y_desc(chart.axes[1]);
    let whole_number = |x: &f64| format!("{x:.0}");
    let whole = Chart::whole(chart.points().map(|(x, _)| *x), &chart.widths());
    if chart.groups.is_some() {
        mesh.x_labels(0);
    } else if let Some(labels) = whole {
        mesh.x_labels(labels).x_label_formatter(&whole_number);
    }
    let whole = Chart::whole(chart.points().flat_map(|(_, range)| *range), &chart.heights());
    if let Some(labels) = whole.filter(|_| !chart.is_in_decades) {
        mesh.y_labels(labels).y_label_formatter(&whole_number);
    }
    mesh.label_style((FONT, 13)).axis_desc_style((FONT, 13)).draw().map_err(plain)?;
    match &chart.groups {
        Some(groups) => draw_bars(groups, chart, colours, &mut system)?,
        None => draw_lines(&chart.series, colours, &mut system)?,
    }
    let mut labels = system.configure_series_labels();
    labels.position(plotters::chart::SeriesLabelPosition::UpperLeft);
    labels.background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.3)).label_font((FONT, 13));
    labels.draw().map_err(plain)
}

fn draw_bars<Y>(
    groups: &[String],
    chart: &Chart,
    colours: &[RGBColor],
    system: &mut System<'_, '_, Y>,
) -> anyhow::Result<()>
where
    Y: Ranged<ValueType = f64>,
{
    let Chart { series, .. } = chart;
    let foot = chart.heights().start;
    let width = GROUP / series.len().max(1) as f64;
    let left = |group: f64, index: usize| group + (1.0 - GROUP) / 2.0 + index as f64 * width;
    for (index, (bars, &colour)) in series.iter().zip(colours).enumerate() {
        let bar = |&(group, [_, value, _]): &(f64, [f64; 3])| {
            let from = left(group, index);
            Rectangle::new([(from, foot), (from + width, value)], colour.filled())
        };
        let drawn = system.draw_series(bars.points.iter().map(bar));
        drawn.map_err(plain)?.label(&bars.name).legend(move |at| swatch(at, colour));
    }
    // Text `down` pixels below a point. The text may lie outside the coordinate system.
    let below = |text: String, at: (f64, f64), size: i32, down: i32| {
        let style =
            TextStyle::from((FONT, size).into_font()).pos(Pos::new(HPos::Center, VPos::Top));
        EmptyElement::at(at) + Text::new(text, (0, down), style)
    };
    let mut words = Vec::new();
    for (name, place) in groups.iter().zip((0_u32..).map(f64::from)) {
        words.push(below(name.clone(), (place + 0.5, foot), 13, 8));
        for (index, bars) in series.iter().enumerate() {
            let value = bars.points.iter().find(|(group, _)| *group == place);
            let value = value.map(|(_, [_, value, _])| *value);
            let text = value.map_or_else(|| "not done".to_owned(), short);
            let at = (left(place, index) + width / 2.0, value.unwrap_or(foot));
            words.push(below(text, at, 11, -14));
        }
    }
    system.draw_series(words).map_err(plain)?;
    Ok(())
}

fn draw_lines<Y>(
    lines: &[Series],
    colours: &[RGBColor],
    system: &mut System<'_, '_, Y>,
) -> anyhow::Result<()>
where
    Y: Ranged<ValueType = f64>,
{
    let coloured = || lines.iter().zip(colours.iter().copied());
    for (line, colour) in coloured() {
        for &(x, [low, _, high]) in line.points.iter().filter(|(_, [low, _, high])| low < high) {
            let bar = LineSeries::new([(x, low), (x, high)], colour.mix(0.5).stroke_width(3));
            system.draw_series(bar).map_err(plain)?;
        }
    }
    for (line, colour) in coloured() {
        let middles = line.points.iter().map(|&(x, [_, middle, _])| (x, middle));
        let drawn = system.draw_series(LineSeries::new(middles.clone(), colour));
        drawn.map_err(plain)?.label(&line.name).legend(move |at| swatch(at, colour));
        let dots = middles.map(|point| Circle::new(point, 3, colour.filled()));
        system.draw_series(dots).map_err(plain)?;
    }
    Ok(())
}

fn swatch((x, y): (i32, i32), colour: RGBColor) -> Rectangle<(i32, i32)> {
    Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled())
}

/// Formats a number with three significant digits.
fn short(value: f64) -> String {
    let digits = match value.abs() {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        0.1.. => 3,
        0.01.. => 4,
        _ => 5,
    };
    format!("{value:.digits$}")
}

fn plain(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("plot: {error}")
}

/// Size of a chart in pixels.
const WIDTH: u32 = 900;
const HEIGHT: u32 = 420;
/// Pixels above and below the coordinate system: title, margins, labels.
const AROUND: u32 = 110;
/// Pixels of a line of the legend, and of its edges.
const LEGEND_LINE: f64 = 19.0;
const LEGEND_MORE: f64 = 24.0;
/// Most labels of an axis with one label for each whole number.
const MOST_LABELS: u8 = 12;
const FONT: &str = "sans-serif";
/// Part of the width of a group that its bars take.
const GROUP: f64 = 0.8;
/// Colours that differ in print, and for people who do not see red or green.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x00, 0x00),
    RGBColor(0x8c, 0x6d, 0x31),
];
