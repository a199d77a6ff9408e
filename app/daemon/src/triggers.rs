use moorline_datapath::shim6::ContextPlane as _;

use crate::config::Config;
use crate::shell::Daemon;

impl Daemon {
    /// Reads the configuration again. New trigger rules and path rules apply now; all other changes apply at the next start.
    pub(crate) fn reload(&mut self) {
        let loaded = Config::load(self.config_path.as_deref()).and_then(|mut config| {
            // The hosts of the start are asked until the next one.
            if config.uplink_probes != self.config.uplink_probes {
                config.triggers.spare(&self.config.uplink_probes)?;
            }
            Ok(config)
        });
        match loaded {
            Ok(config) => {
                let waiting: Vec<_> = self.config.waiting(&config).into_iter().collect();
                self.unapplied_config = (!waiting.is_empty()).then(|| {
                    format!(
                        "keys of the configuration have changed since the start of moorlined, and apply at its next start (`systemctl restart moorlined`): {}",
                        waiting.join(", ")
                    )
                });
                self.config.triggers = config.triggers;
                self.apply_triggers();
                self.config.paths = config.paths;
                self.apply_rules();
                tracing::info!("configuration read again: trigger policy, paths");
                if let Some(waiting) = &self.unapplied_config {
                    tracing::warn!("{waiting}");
                }
            }
            Err(error) => {
                tracing::warn!("the old trigger policy and paths stay: {error:#}");
                self.unapplied_config =
                    Some(format!("the configuration was not read again: {error:#}"));
            }
        }
    }

    /// Writes the trigger rules to the data plane, if they have changed; cgroups come and go.
    pub(crate) fn apply_triggers(&mut self) {
        let triggers = self.config.triggers.now();
        if self.triggers == triggers {
            return;
        }
        match self.datapath.set_triggers(&triggers) {
            Ok(()) => self.triggers = triggers,
            Err(error) => tracing::warn!(%error, "trigger policy"),
        }
    }
}
