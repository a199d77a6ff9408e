//! Experiments: measurements that anybody can repeat, as points in JSON and as a plot.
//!
//! An experiment is a struct whose fields are its parameters. The same fields are its options on the command line, with their
//! help and their defaults, and stand in the results. The defaults are those of the paper that it comes from, as far as a small
//! machine can follow. [`run`] carries it out and gives [`Results`]: the parameters, the measured [points](Results::points), each
//! an object with the same names and with units in the names, and the charts that show them.
//!
//! A new experiment derives [`clap::Args`] and [`Serialize`], implements [`Experiment`], and gets a line in `experiments!` below.
//! Where the same thing is tried many times, `pool::Trials` carries out the trials.

mod addr_cost;
mod art;
mod handoff;
mod i1_flood;
mod i2_cost;
mod ilcc;
mod ilnp_flood;
mod isp_loss;
mod local_event;
mod lossy;
mod negotiation;
mod new_connections;
pub(crate) mod options;
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
use clap::Subcommand;
use serde::Serialize;
use serde_json::{Map, Value};

pub use addr_cost::AddrCost;
pub use art::{Art, ArtFlow};
pub use handoff::HandOff;
pub use i1_flood::FloodCost;
pub use i2_cost::I2Cost;
pub use ilcc::{Growth, IlccStudy, Layer, PlaneName, PolicyName};
pub use ilnp_flood::IlnpFlood;
pub use isp_loss::IspLoss;
pub use local_event::LocalEvent;
pub use lossy::{Lossy, LossySystem};
pub use negotiation::{Negotiation, Security};
pub use new_connections::NewConnections;
pub use peers::{PeerFlow, PeerSystem, Peers};
pub use plot::Chart;
pub(crate) use recovery::{Scene, pause};
pub use report::{Report, report};
pub use rough::Rough;
pub use state_cost::StateCost;
pub use throughput::Throughput;

use crate::interrupt;
use plot::exact;
use statistics::Percentiles;

/// Something to be measured.
pub trait Experiment {
    /// What it is called, and what it shows.
    fn card(&self) -> Card;

    /// Why it cannot run here, for a person; empty when it can.
    fn obstacles(&self) -> Vec<String> {
        self.card().needs.obstacles()
    }

    /// Measures. Looks at [`interrupt::check`] often enough for Ctrl-C to be answered at once.
    ///
    /// # Errors
    /// It could not be carried out, or was interrupted.
    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results>;
}

/// What an experiment is called, and what it shows.
#[derive(Clone, Copy, Debug)]
pub struct Card {
    /// As people call it: `moorline-lab run NAME`.
    pub name: &'static str,
    /// What it measures, in a line.
    pub about: &'static str,
    /// What it needs of the machine.
    pub needs: Needs,
    /// Names of the fields of the totals, or else of the points, that a person wants to see, in this order, with spaces between
    /// them.
    pub columns: &'static str,
}

/// What an experiment needs of the machine.
#[derive(Clone, Copy, Debug)]
pub enum Needs {
    /// No network.
    Nothing,
    /// Network namespaces.
    Network,
    /// Network namespaces with daemons in them, and these programs beside.
    Daemons(&'static [&'static str]),
}

/// Who wants to know how far an experiment is.
pub trait Watch: Send {
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
    /// Those of the [`Card`].
    #[serde(skip)]
    pub columns: &'static str,
    /// What the plot shows.
    #[serde(skip)]
    pub charts: Vec<Chart>,
    /// Results that must not occur: if there are some, the program names them and fails.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
}

impl Results {
    /// Of an experiment, whose options are parameters. Without charts.
    ///
    /// # Errors
    /// Parameters or points that JSON cannot hold.
    pub fn new<E: Experiment + Serialize>(
        experiment: &E,
        points: &[impl Serialize],
    ) -> anyhow::Result<Self> {
        let Card { name, columns, .. } = experiment.card();
        Ok(Self {
            experiment: name.to_owned(),
            parameters: serde_json::to_value(experiment).context("parameters")?,
            points: values(points).context("points")?,
            totals: Vec::new(),
            summary: Map::new(),
            columns,
            charts: Vec::new(),
            faults: Vec::new(),
        })
    }

    /// With parameters beside the options; these are the fields of an object.
    #[must_use]
    pub fn with_parameters(mut self, more: Value) -> Self {
        if let (Value::Object(parameters), Value::Object(more)) = (&mut self.parameters, more) {
            parameters.extend(more);
        }
        self
    }

    /// With what all points together say: the fields of an object.
    #[must_use]
    pub fn with_summary(mut self, more: Value) -> Self {
        if let Value::Object(more) = more {
            self.summary.extend(more);
        }
        self
    }

    /// With totals.
    ///
    /// # Errors
    /// They are nothing that JSON can hold.
    pub fn with_totals(self, totals: &[impl Serialize]) -> anyhow::Result<Self> {
        Ok(Self { totals: values(totals).context("totals")?, ..self })
    }

    /// What a person is shown.
    #[must_use]
    pub fn rows(&self) -> &[Value] {
        if self.totals.is_empty() { &self.points } else { &self.totals }
    }

    /// With those of the charts that show something, one below the other.
    #[must_use]
    pub fn with_charts(self, charts: impl IntoIterator<Item = Chart>) -> Self {
        Self { charts: charts.into_iter().filter(|chart| !chart.is_empty()).collect(), ..self }
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

fn values(all: &[impl Serialize]) -> serde_json::Result<Vec<Value>> {
    all.iter().map(serde_json::to_value).collect()
}

/// Makes a choice on the command line of experiments, whose options are their fields.
macro_rules! experiments {
    ($($choice:ident($experiment:ident),)+) => {
        /// The experiments with their options.
        #[derive(Clone, Debug, Subcommand)]
        #[allow(missing_docs, reason = "the experiments have words of their own")]
        pub enum Choice {
            $($choice(Box<$experiment>),)+
        }

        impl Choice {
            /// The one that was chosen.
            #[must_use]
            pub fn experiment(&self) -> &dyn Experiment {
                match self { $(Self::$choice(experiment) => experiment.as_ref(),)+ }
            }
        }

        /// Every experiment with its default parameters.
        #[must_use]
        pub fn all() -> Vec<Box<dyn Experiment>> {
            vec![$(Box::new($experiment::default())),+]
        }

        $(impl Default for $experiment {
            fn default() -> Self {
                options::defaults()
            }
        })+
    };
}

experiments! {
    AddrCost(AddrCost),
    Negotiation(Negotiation),
    I2Cost(I2Cost),
    IspLoss(IspLoss),
    Art(Art),
    Peers(Peers),
    Throughput(Throughput),
    LocalEvent(LocalEvent),
    NewConnections(NewConnections),
    Lossy(Lossy),
    Rough(Rough),
    Handoff(HandOff),
    StateCost(StateCost),
    I1Flood(FloodCost),
    Ilcc(IlccStudy),
    IlnpFlood(IlnpFlood),
}

/// Carries out an experiment.
///
/// # Errors
/// It cannot run here, failed, or was interrupted ([`interrupt::Interrupted`]).
pub fn run(experiment: &dyn Experiment, watch: &mut dyn Watch) -> anyhow::Result<Results> {
    let obstacles = experiment.obstacles();
    if !obstacles.is_empty() {
        bail!("{} cannot run here: {}", experiment.card().name, obstacles.join("; "));
    }
    interrupt::install()?;
    experiment.measure(watch)
}
