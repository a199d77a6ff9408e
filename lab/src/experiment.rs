//! Experiments: measurements that anybody can repeat, as points in JSON and as a plot.
//!
//! An experiment is a struct whose fields are its parameters; its `Default` has those of the paper that
//! it comes from, as far as a small machine can follow. [`run`] carries it out and gives [`Results`]:
//! the parameters, the measured [points](Results::points), each an object with the same names and with
//! units in the names, and the charts that show them. A new experiment implements [`Experiment`], gets
//! a line in [`all`], and its options in the command line.

mod addr_cost;
mod art;
mod handoff;
mod i1_flood;
mod i2_cost;
mod ilcc;
mod ilnp_flood;
mod isp_loss;
mod local_event;
mod negotiation;
mod peers;
mod plot;
mod pool;
mod programs;
mod recovery;
mod report;
mod rough;
mod state_cost;
mod statistics;
mod throughput;

#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde::Serialize;
use serde_json::{Map, Value};

pub use crate::cost::{I2Cost, IspLoss};
pub use addr_cost::AddrCost;
pub use art::{Art, ArtFlow};
pub use handoff::HandOff;
pub use i1_flood::FloodCost;
pub use ilcc::{Growth, IlccStudy, Layer, PlaneName, PolicyName};
pub use ilnp_flood::IlnpFlood;
pub use local_event::LocalEvent;
pub use negotiation::{Negotiation, Security};
pub use peers::{PeerFlow, PeerSystem, Peers};
pub use plot::{Bars, Chart, Data, Line, Ranges, Scale};
pub(crate) use recovery::pause;
pub use report::{Report, report};
pub use rough::Rough;
pub use state_cost::StateCost;
pub use statistics::{Percentiles, Summary};
pub use throughput::{Protocol, Throughput};

use crate::interrupt;

/// Something to be measured.
pub trait Experiment {
    /// As people call it: `moorline lab run NAME`.
    fn name(&self) -> &'static str;

    /// What it measures, in a line.
    fn about(&self) -> &'static str;

    /// Why it cannot run here, for a person; empty when it can.
    fn obstacles(&self) -> Vec<String> {
        Vec::new()
    }

    /// Measures. Looks at [`interrupt::check`] often enough for Ctrl-C to be answered at once.
    ///
    /// # Errors
    /// It could not be carried out, or was interrupted.
    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results>;
}

/// Who wants to know how far an experiment is.
pub trait Watch {
    /// Something else is measured from now on.
    fn stage(&mut self, what: &str);
    /// How much of the whole is done, from 0 to 1.
    fn done(&mut self, part: f64);
}

/// What an experiment gives.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// Its name.
    pub experiment: String,
    /// What was asked for, and what of the machine matters.
    pub parameters: Value,
    /// What was measured, in the order of the plot.
    pub points: Vec<Value>,
    /// What the points come to, for each of some things, where there are too many of them for a person.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub totals: Vec<Value>,
    /// What all points together say, beside them.
    #[serde(flatten)]
    pub summary: Map<String, Value>,
    /// Names of the fields of the totals, or else of the points, that a person wants to see, in this order.
    #[serde(skip)]
    pub columns: &'static [&'static str],
    /// What the plot shows.
    #[serde(skip)]
    pub charts: Vec<Chart>,
    /// Results that must not occur: if there are some, the program names them and fails.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
}

impl Results {
    /// Of an experiment, without columns and charts.
    ///
    /// # Errors
    /// Parameters or points that JSON cannot hold.
    pub fn new(
        experiment: &dyn Experiment,
        parameters: &impl Serialize,
        points: &[impl Serialize],
    ) -> anyhow::Result<Self> {
        let points = points.iter().map(serde_json::to_value).collect::<Result<_, _>>();
        Ok(Self {
            experiment: experiment.name().to_owned(),
            parameters: serde_json::to_value(parameters).context("parameters")?,
            points: points.context("points")?,
            totals: Vec::new(),
            summary: Map::new(),
            columns: &[],
            charts: Vec::new(),
            faults: Vec::new(),
        })
    }

    /// With totals.
    ///
    /// # Errors
    /// They are nothing that JSON can hold.
    pub fn with_totals(self, totals: &[impl Serialize]) -> anyhow::Result<Self> {
        let totals = totals.iter().map(serde_json::to_value).collect::<Result<_, _>>();
        Ok(Self { totals: totals.context("totals")?, ..self })
    }

    /// What a person is shown.
    #[must_use]
    pub fn rows(&self) -> &[Value] {
        if self.totals.is_empty() { &self.points } else { &self.totals }
    }

    /// With these columns for people.
    #[must_use]
    pub fn with_columns(self, columns: &'static [&'static str]) -> Self {
        Self { columns, ..self }
    }

    /// With charts, one below the other.
    #[must_use]
    pub fn with_charts(self, charts: Vec<Chart>) -> Self {
        Self { charts, ..self }
    }

    /// The plot.
    ///
    /// # Errors
    /// It cannot be drawn.
    pub fn svg(&self) -> anyhow::Result<String> {
        plot::svg(&self.charts)
    }

    /// Writes `NAME.json` and `NAME.svg` into a directory, which is made if need be.
    ///
    /// # Errors
    /// They could not be written.
    pub fn write(&self, directory: &Path) -> anyhow::Result<[PathBuf; 2]> {
        fs::create_dir_all(directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        let [json, svg] =
            ["json", "svg"].map(|kind| directory.join(&self.experiment).with_extension(kind));
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        moorline_addr::write_public(&json, text.as_bytes())?;
        moorline_addr::write_public(&svg, self.svg()?.as_bytes())?;
        Ok([json, svg])
    }
}

/// Makes the folder that results are to go to, so that it is known before hours of work whether it takes
/// them.
///
/// # Errors
/// It does not.
pub fn check_folder(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(moorline_addr::check_public(&folder.join("results"))?)
}

/// Every experiment with its default parameters.
#[must_use]
pub fn all() -> Vec<Box<dyn Experiment>> {
    vec![
        Box::new(AddrCost::default()),
        Box::new(Negotiation::default()),
        Box::new(I2Cost::default()),
        Box::new(IspLoss::default()),
        Box::new(Art::default()),
        Box::new(Peers::default()),
        Box::new(Throughput::default()),
        Box::new(LocalEvent::default()),
        Box::new(Rough::default()),
        Box::new(HandOff::default()),
        Box::new(StateCost::default()),
        Box::new(FloodCost::default()),
        Box::new(IlccStudy::default()),
        Box::new(IlnpFlood::default()),
    ]
}

/// Carries out an experiment.
///
/// # Errors
/// It cannot run here, failed, or was interrupted ([`interrupt::Interrupted`]).
pub fn run(experiment: &dyn Experiment, watch: &mut dyn Watch) -> anyhow::Result<Results> {
    let obstacles = experiment.obstacles();
    if !obstacles.is_empty() {
        bail!("{} cannot run here: {}", experiment.name(), obstacles.join("; "));
    }
    interrupt::install()?;
    experiment.measure(watch)
}
