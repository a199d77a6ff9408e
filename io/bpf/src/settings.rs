use std::path::PathBuf;

use moorline_datapath::shim6::{PathMark, Triggers};

/// How the data plane is set up. Sizes hold until it is closed: a new size starts with empty tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Contexts; ids are below this.
    pub max_contexts: u32,
    /// Address pairs watched for the trigger; the least recently used goes first.
    pub max_flows: u32,
    /// When traffic deserves a context: at once, for programs of an earlier process too.
    pub triggers: Triggers,
    /// Where packet marks have the path index.
    pub path_mark: PathMark,
    /// Folder of a bpffs that keeps tables and links over the death of the process; mounted if there is
    /// none.
    pub pin_dir: PathBuf,
    /// Kind of hook.
    pub attach: AttachMode,
}

impl Default for Settings {
    /// 4,096 contexts, 65,536 flows; no folder for pins, without which nothing can be opened.
    fn default() -> Self {
        Self {
            max_contexts: 4096,
            max_flows: 65_536,
            triggers: Triggers::default(),
            path_mark: PathMark::default(),
            pin_dir: PathBuf::new(),
            attach: AttachMode::Auto,
        }
    }
}

/// Kind of hook that programs are put on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttachMode {
    /// tcx, or classic tc where the kernel has none.
    #[default]
    Auto,
    /// tcx links (Linux 6.6).
    Tcx,
    /// Filters on a clsact qdisc.
    Tc,
}
