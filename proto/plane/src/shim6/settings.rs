use moorline_datapath::shim6::{PathMark, TriggerPolicy};

/// Number of address pairs without a context that are counted at a time: 65,536, some 10 MB. Configurable.
pub const MAX_FLOWS: usize = 65_536;
/// Largest IPv6 packet in octets on an uplink whose MTU is not known: the MTU of Ethernet.
pub const DEFAULT_MTU: usize = 1500;

/// Settings of a [`crate::shim6::Plane`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Policy that says when traffic deserves a context.
    pub trigger: TriggerPolicy,
    /// Bits of the packet mark that hold the path index.
    pub path_mark: PathMark,
    /// Number of address pairs without a context: [`MAX_FLOWS`] by default, at least 4.
    pub max_flows: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            trigger: TriggerPolicy::default(),
            path_mark: PathMark::default(),
            max_flows: MAX_FLOWS,
        }
    }
}
