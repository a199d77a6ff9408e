use crate::deaf::is_deaf;
use crate::error::Error;
use crate::handle::Netlink;
use crate::journal::Journal;
use crate::message::Rule;
use crate::settings::Settings;
use moorline_addresses::{BareLink, HostView};
use moorline_types::Prefix;

/// What the kernel's tables say, for who changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// Uplinks and what could be some.
    pub view: HostView,
    /// Interfaces that could be uplinks if the kernel followed routers there.
    pub deaf: Vec<BareLink>,
    /// All rules for IPv6, in order of their priority.
    pub rules: Vec<HostRule>,
}

/// A routing rule of whomever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRule {
    /// Rules with lower numbers come first.
    pub priority: u32,
    /// The sources that it is for; all if none.
    pub from: Option<Prefix>,
    /// Whether it has our mark.
    pub is_ours: bool,
    /// Whether it looks at more than the source: destination, mark, interface, protocol, ports.
    pub is_selective: bool,
    /// Whether default routes that it finds do not count, so that other rules decide about these.
    pub suppresses_default: bool,
    /// As a person would read it.
    pub text: String,
}

/// Looks once; has to be called inside a tokio runtime. Needs no rights.
///
/// # Errors
/// The kernel's tables cannot be read.
pub async fn look(settings: Settings) -> Result<Look, Error> {
    let protocol = settings.protocol;
    let netlink = Netlink::connect(settings, Journal::of_nothing())?;
    let view = netlink.view().await?;
    let deaf = view.bare.iter().filter(|one| is_deaf(one)).cloned().collect();
    let mut rules: Vec<_> = netlink
        .rule_rows()
        .await?
        .iter()
        .filter_map(|row| {
            let rule = Rule::read(row)?;
            let table = rule.to_string();
            let selective = Rule::is_selective(row);
            Some(HostRule {
                priority: rule.priority,
                from: rule.from,
                is_ours: rule.protocol == protocol,
                is_selective: selective,
                suppresses_default: matches!(
                    rule.action,
                    crate::message::Action::Lookup { suppress_default: true, .. }
                ),
                text: if selective { format!("{table} (and more)") } else { table },
            })
        })
        .collect();
    rules.sort_by_key(|rule| rule.priority);
    Ok(Look { view, deaf, rules })
}
