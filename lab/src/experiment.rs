//! Experiments: measurements that anybody can repeat, as points in JSON and as a plot.
//!
//! An experiment is a struct whose fields are its parameters. The same fields are its options on the command line, with
//! help and defaults, and the results list them. The defaults are those of the paper behind the experiment, as far as a
//! small machine can follow. [`run`] carries out an experiment and gives [`Results`]: the parameters, the measured
//! [points](Results::points), and the charts. Each point is an object with the same field names, and the names include
//! units.
//!
//! A new experiment derives [`clap::Args`] and [`Serialize`], implements [`Experiment`], and gets a line in
//! `experiments!` below. If an experiment repeats one trial many times, `pool::Trials` carries out the trials.

mod addr_cost;
mod art;
mod attack;
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
pub(crate) mod recovery;
mod report;
mod rough;
mod stack;
mod state_cost;
mod statistics;
mod throughput;
pub(crate) mod usage;

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
pub use attack::{Attack, Attacks, Begin};
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
pub use stack::{
    Protocol as StackProtocol, StackLatency, StackThroughput, System as StackSystem,
    Version as StackVersion,
};
pub use state_cost::StateCost;
pub use throughput::Throughput;

use crate::interrupt;
use plot::exact;
use statistics::Percentiles;

/// A measurement.
pub trait Experiment {
    /// Name and description of the experiment.
    fn card(&self) -> Card;

    /// Gives the reasons, in words for people, why the experiment cannot run here. Empty if it can run.
    fn obstacles(&self) -> Vec<String> {
        self.card().needs.obstacles()
    }

    /// Measures. Calls [`interrupt::check`] often, so that Ctrl-C has effect at once.
    ///
    /// # Errors
    /// The measurement failed, or a signal came.
    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results>;
}

/// Name and description of an experiment.
#[derive(Clone, Copy, Debug)]
pub struct Card {
    /// Name on the command line: `moorline-lab run NAME`.
    pub name: &'static str,
    /// The measured quantity, in one line.
    pub about: &'static str,
    /// Requirements on the machine.
    pub needs: Needs,
    /// Fields that the table for a person shows, in this order, separated by spaces: fields of the totals, or
    /// of the points if there are no totals.
    pub columns: &'static str,
}

/// Requirements of an experiment on the machine.
#[derive(Clone, Copy, Debug)]
pub enum Needs {
    /// No requirements.
    Nothing,
    /// Network namespaces.
    Network,
    /// Network namespaces with daemons in them, and these programs.
    Daemons(&'static [&'static str]),
}

/// Observer of the progress of an experiment.
pub trait Watch: Send {
    /// A new stage begins, described by `what`.
    fn stage(&mut self, what: &str);
    /// This part of the whole is done, from 0 to 1.
    fn done(&mut self, part: f64);
}

/// Results of an experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// Name of the experiment.
    pub experiment: String,
    /// The options, and properties of the machine that matter.
    pub parameters: Value,
    /// Measured points, in the order of the plot.
    pub points: Vec<Value>,
    /// Totals of groups of points, if there are too many points for a person.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub totals: Vec<Value>,
    /// Results of all points together.
    #[serde(flatten)]
    pub summary: Map<String, Value>,
    /// Columns of the table: a copy from the [`Card`].
    #[serde(skip)]
    pub columns: &'static str,
    /// Charts of the plot.
    #[serde(skip)]
    pub charts: Vec<Chart>,
    /// Results that must not occur. If there are some, the program prints them and fails.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
}

impl Results {
    /// Results of an experiment, with its options as parameters and without charts.
    ///
    /// # Errors
    /// JSON cannot hold the parameters or points.
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

    /// Adds parameters beside the options: the fields of the object `more`.
    #[must_use]
    pub fn with_parameters(mut self, more: Value) -> Self {
        if let (Value::Object(parameters), Value::Object(more)) = (&mut self.parameters, more) {
            parameters.extend(more);
        }
        self
    }

    /// Adds results of all points together: the fields of the object `more`.
    #[must_use]
    pub fn with_summary(mut self, more: Value) -> Self {
        if let Value::Object(more) = more {
            self.summary.extend(more);
        }
        self
    }

    /// Sets the totals.
    ///
    /// # Errors
    /// JSON cannot hold the totals.
    pub fn with_totals(self, totals: &[impl Serialize]) -> anyhow::Result<Self> {
        Ok(Self { totals: values(totals).context("totals")?, ..self })
    }

    /// Rows of the table for a person: the totals, or the points if there are no totals.
    #[must_use]
    pub fn rows(&self) -> &[Value] {
        if self.totals.is_empty() { &self.points } else { &self.totals }
    }

    /// Sets the charts, one below the other. Charts without data are left out.
    #[must_use]
    pub fn with_charts(self, charts: impl IntoIterator<Item = Chart>) -> Self {
        Self { charts: charts.into_iter().filter(|chart| !chart.is_empty()).collect(), ..self }
    }

    /// Draws the plot.
    ///
    /// # Errors
    /// The plot cannot be drawn.
    pub fn svg(&self) -> anyhow::Result<String> {
        plot::svg(&self.charts)
    }

    /// Writes `NAME.json` and `NAME.svg` into a directory. Makes the directory if it is missing.
    ///
    /// # Errors
    /// The files could not be written.
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

/// Makes the folder for the results and checks it, before hours of work.
///
/// # Errors
/// The folder cannot hold the results.
pub fn check_folder(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(moorline_addr::check_public(&folder.join("results"))?)
}

fn values(all: &[impl Serialize]) -> serde_json::Result<Vec<Value>> {
    all.iter().map(serde_json::to_value).collect()
}

/// Makes the enum of experiments for the command line, and their defaults.
macro_rules! experiments {
    ($($choice:ident($experiment:ident),)+) => {
        /// The experiments with their options.
        #[derive(Clone, Debug, Subcommand)]
        #[allow(missing_docs, reason = "the experiments have words of their own")]
        pub enum Choice {
            $($choice(Box<$experiment>),)+
        }

        impl Choice {
            /// The selected experiment.
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
    Attack(Attacks),
    I1Flood(FloodCost),
    Ilcc(IlccStudy),
    IlnpFlood(IlnpFlood),
    StackLatency(StackLatency),
    StackThroughput(StackThroughput),
}

/// Runs an experiment.
///
/// # Errors
/// The experiment cannot run here, failed, or was interrupted ([`interrupt::Interrupted`]).
pub fn run(experiment: &dyn Experiment, watch: &mut dyn Watch) -> anyhow::Result<Results> {
    let obstacles = experiment.obstacles();
    if !obstacles.is_empty() {
        bail!("{} cannot run here: {}", experiment.card().name, obstacles.join("; "));
    }
    interrupt::install()?;
    experiment.measure(watch)
}
