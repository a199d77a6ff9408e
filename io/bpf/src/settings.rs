use std::path::PathBuf;

use moorline_datapath::shim6::{PathMark, Triggers};

/// Settings of the data plane. Sizes hold until it is closed: a new size starts with empty tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Number of contexts; ids are below this.
    pub max_contexts: u32,
    /// Number of address pairs that are watched for the trigger. The least recently used one is evicted first.
    pub max_flows: u32,
    /// Policy that says when traffic deserves a context. It holds at once, also for programs of an earlier process.
    pub triggers: Triggers,
    /// Bits of the packet mark that hold the path index.
    pub path_mark: PathMark,
    /// Folder of a bpffs that keeps tables and links when the process ends. If there is no bpffs, it is mounted.
    pub pin_dir: PathBuf,
    /// Kind of hook.
    pub attach: AttachMode,
}

impl Default for Settings {
    /// 4,096 contexts, 65,536 flows; no folder for pins, without which the data plane cannot be opened.
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

/// Kind of hook to which programs are attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttachMode {
    /// tcx, or classic tc if the kernel has no tcx.
    #[default]
    Auto,
    /// tcx links (Linux 6.6).
    Tcx,
    /// Filters on a clsact qdisc.
    Tc,
}
