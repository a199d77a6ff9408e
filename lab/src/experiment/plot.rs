//! Charts as SVG.

use std::ops::Range;

use anyhow::anyhow;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::{
    BLACK, Cartesian2d, ChartBuilder, ChartContext, Circle, DrawingArea, IntoDrawingArea as _,
    IntoFont as _, IntoLogRange as _, LineSeries, RGBColor, Rectangle, SVGBackend, Text, WHITE,
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
    Lines {
        /// The lines.
        series: Vec<Line>,
    },
    /// Lines through the middle of ranges.
    Ranges {
        /// The lines.
        series: Vec<Ranges>,
    },
}

/// Bars of one colour.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// In the legend.
    pub name: String,
    /// One for each group. What could not be measured has no bar.
    pub values: Vec<Option<f64>>,
}

/// A line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// In the legend.
    pub name: String,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
}

/// A line through the middle of ranges, each drawn as an upright bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranges {
    /// In the legend.
    pub name: String,
    /// From left to right: a place and its low, middle and high value.
    pub points: Vec<(f64, [f64; 3])>,
}

impl Ranges {
    fn middle(&self) -> Line {
        let points = self.points.iter().map(|(x, [_, middle, _])| (*x, *middle)).collect();
        Line { name: self.name.clone(), points }
    }
}

impl Chart {
    /// Whether there is nothing to draw.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values().next().is_none()
    }

    /// All heights.
    fn values(&self) -> impl Iterator<Item = f64> {
        let (bars, lines, ranges): (&[Bars], &[Line], &[Ranges]) = match &self.data {
            Data::Bars { series, .. } => (series, &[], &[]),
            Data::Lines { series } => (&[], series, &[]),
            Data::Ranges { series } => (&[], &[], series),
        };
        let bars = bars.iter().flat_map(|bars| bars.values.iter().copied().flatten());
        let lines = lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
        let ranges = ranges.iter().flat_map(|line| line.points.iter().flat_map(|point| point.1));
        bars.chain(lines).chain(ranges)
    }

    /// From the foot of the bars to so far above the highest that the legend has room.
    fn heights(&self) -> Range<f64> {
        let most = self.values().fold(f64::MIN_POSITIVE, f64::max);
        match self.scale {
            Scale::Linear => 0.0..1.3 * most,
            Scale::Log => {
                let least = self.values().fold(most, f64::min);
                10_f64.powf((least / 1.5).log10().floor())..10_f64.powf((5.0 * most).log10().ceil())
            }
        }
    }

    fn widths(&self) -> Range<f64> {
        let xs: Vec<f64> = match &self.data {
            Data::Bars { groups, .. } => return 0.0..groups.len() as f64,
            Data::Lines { series } => {
                series.iter().flat_map(|line| line.points.iter().map(|point| point.0)).collect()
            }
            Data::Ranges { series } => {
                series.iter().flat_map(|line| line.points.iter().map(|point| point.0)).collect()
            }
        };
        let from = xs.iter().copied().fold(f64::MAX, f64::min);
        let to = xs.iter().copied().fold(f64::MIN, f64::max);
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
        Scale::Linear => fill(chart, builder.build_cartesian_2d(x, y).map_err(plain)?, area),
        Scale::Log => {
            fill(chart, builder.build_cartesian_2d(x, y.log_scale()).map_err(plain)?, area)
        }
    }
}

fn fill<'a, 'b: 'a, Y>(
    chart: &Chart,
    mut system: System<'a, 'b, Y>,
    area: &Area<'b>,
) -> anyhow::Result<()>
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
        Data::Bars { groups, series } => draw_bars(groups, series, chart, &mut system, area)?,
        Data::Lines { series } => draw_lines(series, &mut system)?,
        Data::Ranges { series } => {
            draw_ranges(series, &mut system)?;
            let middles: Vec<_> = series.iter().map(Ranges::middle).collect();
            draw_lines(&middles, &mut system)?;
        }
    }
    let mut labels = system.configure_series_labels();
    labels.position(plotters::chart::SeriesLabelPosition::UpperLeft);
    labels.background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.3)).label_font((FONT, 13));
    labels.draw().map_err(plain)
}

fn draw_bars<'b, Y>(
    groups: &[String],
    series: &[Bars],
    chart: &Chart,
    system: &mut System<'_, 'b, Y>,
    area: &Area<'b>,
) -> anyhow::Result<()>
where
    Y: Ranged<ValueType = f64>,
{
    let foot = chart.heights().start;
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
    let below = |text: &str, x: f64, y: f64, size: i32, down: i32| {
        let (x, y) = system.plotting_area().map_coordinate(&(x, y));
        let (left, top) = area.get_base_pixel();
        let style =
            TextStyle::from((FONT, size).into_font()).pos(Pos::new(HPos::Center, VPos::Top));
        let at = (x - left, y - top + down);
        area.draw(&Text::new(text.to_owned(), at, style)).map_err(plain)
    };
    for (group, name) in groups.iter().enumerate() {
        below(name, centre(group), foot, 13, 8)?;
    }
    for (index, bars) in series.iter().enumerate() {
        for (group, value) in bars.values.iter().enumerate() {
            let x = left(group, index) + width / 2.0;
            match value {
                Some(value) => below(&short(*value), x, *value, 11, -14)?,
                None => below("not done", x, foot, 11, -14)?,
            }
        }
    }
    Ok(())
}

fn draw_lines<Y>(series: &[Line], system: &mut System<'_, '_, Y>) -> anyhow::Result<()>
where
    Y: Ranged<ValueType = f64>,
{
    for (line, colour) in series.iter().zip(COLOURS.into_iter().cycle()) {
        let drawn = system.draw_series(LineSeries::new(line.points.iter().copied(), colour));
        drawn.map_err(plain)?.label(&line.name).legend(move |at| swatch(at, colour));
        let dots = line.points.iter().map(|point| Circle::new(*point, 3, colour.filled()));
        system.draw_series(dots).map_err(plain)?;
    }
    Ok(())
}

fn draw_ranges<Y>(series: &[Ranges], system: &mut System<'_, '_, Y>) -> anyhow::Result<()>
where
    Y: Ranged<ValueType = f64>,
{
    for (line, colour) in series.iter().zip(COLOURS.into_iter().cycle()) {
        for (x, [low, _, high]) in &line.points {
            let bar = LineSeries::new([(*x, *low), (*x, *high)], colour.mix(0.5).stroke_width(3));
            system.draw_series(bar).map_err(plain)?;
        }
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
