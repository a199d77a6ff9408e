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

/// One coordinate system with what is drawn in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Above it.
    pub title: String,
    /// What the horizontal axis shows, with the unit.
    pub x: String,
    /// The same of the vertical one.
    pub y: String,
    /// Of the vertical axis.
    pub scale: Scale,
    /// What is drawn.
    pub data: Data,
}

/// How values become heights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// From zero.
    Linear,
    /// By powers of ten. Values must be above zero.
    Log,
}

/// What a chart shows.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Groups of bars, a bar of each series in each group.
    Bars {
        /// Names of the groups, from left to right.
        groups: Vec<String>,
        /// The bars.
        series: Vec<Bars>,
    },
    /// Lines through points.
    Lines(Vec<Line>),
}

/// Bars of one colour.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// In the legend.
    pub name: String,
    /// One for each group. What could not be measured has no bar.
    pub values: Vec<Option<f64>>,
}

/// A line through points, or through the middle of ranges, which are drawn as upright bars.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// In the legend.
    pub name: String,
    /// From left to right: a place and its low, middle and high value.
    points: Vec<(f64, [f64; 3])>,
}

impl Bars {
    /// One for each group.
    pub fn new(name: impl Into<String>, values: impl IntoIterator<Item = Option<f64>>) -> Self {
        Self { name: name.into(), values: values.into_iter().collect() }
    }
}

impl Line {
    /// Through points.
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::of_ranges(name, points.into_iter().map(|(x, y)| (x, [y; 3])))
    }

    /// Through the middle of ranges, each at a place with its low, middle and high value.
    pub fn of_ranges(
        name: impl Into<String>,
        ranges: impl IntoIterator<Item = (f64, [f64; 3])>,
    ) -> Self {
        Self { name: name.into(), points: ranges.into_iter().collect() }
    }
}

impl Chart {
    /// Of bars. `axes` are what the horizontal and the vertical axis show; the latter begins at zero.
    pub fn bars(
        title: impl Into<String>,
        axes: [&str; 2],
        groups: impl IntoIterator<Item = impl ToString>,
        series: impl IntoIterator<Item = Bars>,
    ) -> Self {
        let groups = groups.into_iter().map(|group| group.to_string()).collect();
        Self::new(title, axes, Data::Bars { groups, series: series.into_iter().collect() })
    }

    /// Of those lines that have points. `axes` as in [`Chart::bars`].
    pub fn lines(
        title: impl Into<String>,
        axes: [&str; 2],
        lines: impl IntoIterator<Item = Line>,
    ) -> Self {
        let lines = lines.into_iter().filter(|line| !line.points.is_empty());
        Self::new(title, axes, Data::Lines(lines.collect()))
    }

    fn new(title: impl Into<String>, [x, y]: [&str; 2], data: Data) -> Self {
        let (title, scale) = (title.into(), Scale::Linear);
        Self { title, x: x.to_owned(), y: y.to_owned(), scale, data }
    }

    /// With a vertical axis by powers of ten.
    #[must_use]
    pub fn in_decades(self) -> Self {
        Self { scale: Scale::Log, ..self }
    }

    /// Whether there is nothing to draw.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values().is_empty()
    }

    /// All heights.
    fn values(&self) -> Vec<f64> {
        match &self.data {
            Data::Bars { series, .. } => {
                series.iter().flat_map(|bars| bars.values.iter().copied().flatten()).collect()
            }
            Data::Lines(lines) => {
                lines.iter().flat_map(|line| &line.points).flat_map(|point| point.1).collect()
            }
        }
    }

    /// From the foot of the bars to so far above the highest that the legend has room.
    fn heights(&self) -> Range<f64> {
        let values = self.values();
        let most = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        match self.scale {
            Scale::Linear => 0.0..1.3 * most,
            Scale::Log => {
                let least = values.into_iter().fold(most, f64::min);
                10_f64.powf((least / 1.5).log10().floor())..10_f64.powf((5.0 * most).log10().ceil())
            }
        }
    }

    fn widths(&self) -> Range<f64> {
        let lines = match &self.data {
            Data::Bars { groups, .. } => return 0.0..groups.len() as f64,
            Data::Lines(lines) => lines,
        };
        let xs = lines.iter().flat_map(|line| line.points.iter().map(|point| point.0));
        let (from, to) =
            xs.fold((f64::MAX, f64::MIN), |(from, to), x| (f64::min(from, x), f64::max(to, x)));
        if from < to { from..to } else { from - 0.5..from + 0.5 }
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type System<'a, 'b, Y> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, Y>>;

/// The charts one below the other.
pub(super) fn svg(charts: &[Chart]) -> anyhow::Result<String> {
    let mut text = String::new();
    let height = HEIGHT * u32::try_from(charts.len().max(1))?;
    let root = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE).map_err(plain)?;
    for (chart, area) in charts.iter().zip(root.split_evenly((charts.len().max(1), 1))) {
        draw(chart, &area)?;
    }
    root.present().map_err(plain)?;
    drop(root);
    Ok(text)
}

fn draw(chart: &Chart, area: &Area<'_>) -> anyhow::Result<()> {
    let mut builder = ChartBuilder::on(area);
    builder
        .caption(&chart.title, (FONT, 18))
        .margin(16)
        .x_label_area_size(48)
        .y_label_area_size(72);
    let (x, y) = (chart.widths(), chart.heights());
    match chart.scale {
        Scale::Linear => fill(chart, builder.build_cartesian_2d(x, y).map_err(plain)?),
        Scale::Log => fill(chart, builder.build_cartesian_2d(x, y.log_scale()).map_err(plain)?),
    }
}

fn fill<'a, 'b: 'a, Y>(chart: &Chart, mut system: System<'a, 'b, Y>) -> anyhow::Result<()>
where
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let is_bars = matches!(chart.data, Data::Bars { .. });
    let mut mesh = system.configure_mesh();
    mesh.disable_x_mesh().light_line_style(WHITE).x_desc(&chart.x).y_desc(&chart.y);
    if is_bars {
        mesh.x_labels(0);
    }
    mesh.label_style((FONT, 13)).axis_desc_style((FONT, 13)).draw().map_err(plain)?;
    match &chart.data {
        Data::Bars { groups, series } => {
            draw_bars(groups, series, chart.heights().start, &mut system)?
        }
        Data::Lines(lines) => draw_lines(lines, &mut system)?,
    }
    let mut labels = system.configure_series_labels();
    labels.position(plotters::chart::SeriesLabelPosition::UpperLeft);
    labels.background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.3)).label_font((FONT, 13));
    labels.draw().map_err(plain)
}

fn draw_bars<Y>(
    groups: &[String],
    series: &[Bars],
    foot: f64,
    system: &mut System<'_, '_, Y>,
) -> anyhow::Result<()>
where
    Y: Ranged<ValueType = f64>,
{
    let width = GROUP / series.len().max(1) as f64;
    let centre = |group: usize| group as f64 + 0.5;
    let left = |group: usize, index: usize| centre(group) - GROUP / 2.0 + index as f64 * width;
    for (index, (bars, colour)) in series.iter().zip(COLOURS.into_iter().cycle()).enumerate() {
        let bar = |(group, value): (usize, &Option<f64>)| {
            let from = left(group, index);
            value
                .map(|value| Rectangle::new([(from, foot), (from + width, value)], colour.filled()))
        };
        let drawn = system.draw_series(bars.values.iter().enumerate().filter_map(bar));
        drawn.map_err(plain)?.label(&bars.name).legend(move |at| swatch(at, colour));
    }
    // So many pixels below a point, and drawn beyond the coordinate system too.
    let below = |text: String, at: (f64, f64), size: i32, down: i32| {
        let style =
            TextStyle::from((FONT, size).into_font()).pos(Pos::new(HPos::Center, VPos::Top));
        EmptyElement::at(at) + Text::new(text, (0, down), style)
    };
    let mut words = Vec::new();
    for (group, name) in groups.iter().enumerate() {
        words.push(below(name.clone(), (centre(group), foot), 13, 8));
    }
    for (index, bars) in series.iter().enumerate() {
        for (group, value) in bars.values.iter().enumerate() {
            let text = value.map_or_else(|| "not done".to_owned(), short);
            let at = (left(group, index) + width / 2.0, value.unwrap_or(foot));
            words.push(below(text, at, 11, -14));
        }
    }
    system.draw_series(words).map_err(plain)?;
    Ok(())
}

fn draw_lines<Y>(lines: &[Line], system: &mut System<'_, '_, Y>) -> anyhow::Result<()>
where
    Y: Ranged<ValueType = f64>,
{
    let coloured = || lines.iter().zip(COLOURS.into_iter().cycle());
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

/// Three digits.
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

/// Of the chart, in pixels.
const WIDTH: u32 = 900;
const HEIGHT: u32 = 420;
const FONT: &str = "sans-serif";
/// Part of a group's room that its bars take.
const GROUP: f64 = 0.8;
/// Told apart by those who see no red or no green, and in print.
const COLOURS: [RGBColor; 5] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x56, 0xb4, 0xe9),
];
