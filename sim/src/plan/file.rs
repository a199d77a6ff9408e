//! Plans as TOML: what the file says, turned into a [`Plan`] that can be played, and back.

mod changes;
mod check;
mod parts;
mod shape;

use super::Plan;
use shape::File;

/// A plan that cannot be played.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// It is no TOML, or has keys or values that mean nothing: the message has line and column.
    #[error("{0}")]
    Syntax(#[from] toml::de::Error),
    /// It says something that cannot be.
    #[error("{place}: {problem}")]
    Invalid {
        /// Where: `traffic 2`, counted from one on.
        place: String,
        /// What is wrong, and what to do.
        problem: String,
    },
}

impl Plan {
    /// A plan from TOML; `docs/simulator.md` has every key.
    ///
    /// # Errors
    /// Unknown keys, values that mean nothing, hosts, uplinks and ISPs that are not there.
    pub fn from_toml(text: &str) -> Result<Self, PlanError> {
        let file: File = toml::from_str(text)?;
        let plan = file.plan()?;
        check::check(&plan)?;
        Ok(plan)
    }

    /// The plan as TOML: [`Plan::from_toml`] gives the same one again.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(&File::of(self)).unwrap_or_else(|error| format!("# {error}\n"))
    }
}

/// An error at the `number`-th of these, from one on.
fn at(what: &str, number: usize) -> impl Fn(String) -> PlanError {
    let place = format!("{what} {number}");
    move |problem| PlanError::Invalid { place: place.clone(), problem }
}

#[cfg(test)]
mod tests;
