//! System controls of interfaces: the kernel's own address configuration, off and back on.

use crate::error::Error;
use crate::handle::Netlink;
use crate::journal::Record;
use crate::router_socket::solicit_once;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;

/// A control of an interface under `/proc/sys/net/ipv6/conf`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Control {
    path: PathBuf,
}

impl Control {
    pub(crate) fn new(interface: &str, name: &str) -> Self {
        Self { path: [ROOT, interface, name].iter().collect() }
    }

    pub(crate) fn read(&self) -> io::Result<String> {
        fs::read_to_string(&self.path).map(|text| text.trim().to_owned())
    }

    pub(crate) fn write(&self, value: &str) -> io::Result<()> {
        fs::write(&self.path, value)
    }
}

impl Netlink {
    /// Keeps the kernel from making addresses on an interface by itself. Those that it has made stay
    /// until their lifetimes end: connections use them. Prefixes are still told of
    /// ([`crate::Advertisements`]), routes and default routes go on as before.
    ///
    /// True if something was changed.
    ///
    /// # Errors
    /// The interface is gone, the journal cannot be written, or `/proc/sys` cannot.
    pub async fn hold_autoconf(&self, ifindex: u32) -> Result<bool, Error> {
        let name = self.interface_name(ifindex).await?;
        let mut is_changed = false;
        for (control, ours) in AUTOCONF {
            is_changed |= self.set_control(ifindex, &name, control, ours)?;
        }
        Ok(is_changed)
    }

    /// Lets the kernel make addresses on an interface again, if it did before, and asks routers to
    /// advertise so that it does so at once.
    ///
    /// True if something was changed.
    ///
    /// # Errors
    /// `/proc/sys` or the journal cannot be written.
    pub async fn release_autoconf(&self, ifindex: u32) -> Result<bool, Error> {
        let mut is_changed = false;
        for change in self.changes() {
            if change.controlled() == Some(ifindex) {
                is_changed |= self.restore_control(&change).await?;
                self.forget(&change)?;
            }
        }
        if is_changed {
            solicit_for_kernel(ifindex);
        }
        Ok(is_changed)
    }

    /// The same for every interface that an earlier process has held and that is not `ours` any more, by its name. One that is
    /// gone is forgotten.
    ///
    /// # Errors
    /// As [`Self::release_autoconf`], and if the links cannot be read.
    pub async fn release_others(&self, is_ours: impl Fn(&str) -> bool) -> Result<(), Error> {
        let changes = self.changes();
        let held: BTreeSet<u32> = changes.iter().filter_map(Record::controlled).collect();
        if held.is_empty() {
            return Ok(());
        }
        let links = self.links().await?;
        let is_kept =
            |ifindex: u32| links.iter().any(|one| one.ifindex == ifindex && is_ours(&one.name));
        for ifindex in held.into_iter().filter(|ifindex| !is_kept(*ifindex)) {
            self.release_autoconf(ifindex).await?;
        }
        Ok(())
    }

    /// Whether the kernel has been told not to make addresses on this interface.
    #[must_use]
    pub fn is_autoconf_held(&self, ifindex: u32) -> bool {
        self.changes().iter().any(|change| change.controlled() == Some(ifindex))
    }

    fn set_control(
        &self,
        ifindex: u32,
        name: &str,
        control: &str,
        ours: &str,
    ) -> Result<bool, Error> {
        let file = Control::new(name, control);
        let failed = |source| Error::Control { path: file.path.clone(), source };
        let before = match file.read() {
            // A kernel without privacy addresses.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            read => read.map_err(failed)?,
        };
        // Use of temporary addresses can be "-1", which is off, too.
        if before == ours || before.starts_with('-') {
            return Ok(false);
        }
        let is_recorded = self.changes().iter().any(|change| {
            let Record::Control { ifindex: at, control: one, .. } = change else { return false };
            *at == ifindex && one == control
        });
        // Somebody has set it back since: that is how they want it.
        if is_recorded {
            return Ok(false);
        }
        let record =
            Record::Control { ifindex, control: control.to_owned(), before, ours: ours.to_owned() };
        self.record(record.clone())?;
        if let Err(error) = file.write(ours) {
            self.forget(&record)?;
            return Err(failed(error));
        }
        Ok(true)
    }

    /// True if the control was put back; false if there is nothing left to put back.
    pub(crate) async fn restore_control(&self, change: &Record) -> Result<bool, Error> {
        let Record::Control { ifindex, control, before, ours } = change else { return Ok(false) };
        let name = match self.interface_name(*ifindex).await {
            Err(Error::NoInterface { .. }) => return Ok(false),
            name => name?,
        };
        let file = Control::new(&name, control);
        let failed = |source| Error::Control { path: file.path.clone(), source };
        match file.read() {
            Ok(now) if now == *ours => file.write(before).map(|()| true).map_err(failed),
            // Others have set it since, and mean it.
            Ok(_) => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failed(error)),
        }
    }

    async fn interface_name(&self, ifindex: u32) -> Result<String, Error> {
        let links = self.links().await?;
        let found = links.into_iter().find(|link| link.ifindex == ifindex);
        found.map(|link| link.name).ok_or(Error::NoInterface { ifindex })
    }
}

/// The kernel asks routers by itself only when an interface comes up.
pub(crate) fn solicit_for_kernel(ifindex: u32) {
    if let Err(error) = solicit_once(ifindex) {
        tracing::debug!(%error, ifindex, "cannot solicit routers");
    }
}

/// Whether addresses on the interface give up at once when a router says so.
pub(crate) fn honors_zero(ifindex: u32) -> bool {
    let Some(name) = interface_name_of(ifindex) else { return false };
    Control::new(&name, "ra_honor_pio_life").read().is_ok_and(|value| value == "1")
}

fn interface_name_of(ifindex: u32) -> Option<String> {
    nix::net::if_::if_indextoname(ifindex).ok()?.into_string().ok()
}

const ROOT: &str = "/proc/sys/net/ipv6/conf";
/// What makes the kernel form addresses, and what turns it off.
const AUTOCONF: [(&str, &str); 2] = [("autoconf", "0"), ("use_tempaddr", "0")];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::Exchange;
    use crate::journal::Journal;
    use crate::settings::Settings;
    use std::future::Future;
    use std::path::Path;
    use std::sync::Arc;

    fn run<F: Future<Output = ()>>(test: impl FnOnce(PathBuf) -> F) {
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(test(folder.path().join("journal.json")));
    }

    fn connect(journal: &Path) -> Netlink {
        Netlink::connect(Settings::default(), Journal::open(journal).unwrap()).unwrap()
    }

    fn held(ifindex: u32) -> Record {
        let [before, ours] = ["1", "0"].map(str::to_owned);
        Record::Control { ifindex, control: "autoconf".to_owned(), before, ours }
    }

    #[test]
    fn a_control_is_not_forgotten_because_the_links_cannot_be_read() {
        run(async |journal| {
            let mut netlink = connect(&journal);
            netlink.exchange = Arc::new(Exchange::refusing().unwrap());
            netlink.record(held(LOOPBACK)).unwrap();
            let error = netlink.release_autoconf(LOOPBACK).await.unwrap_err();
            assert!(matches!(error, Error::Read { what: "links", .. }), "{error}");
            let report = netlink.undo_all().await;
            let told = "left autoconf = 0 of interface 1 behind";
            assert!(report.iter().any(|one| one.to_string().starts_with(told)), "{report:?}");
            drop(netlink);
            assert_eq!(connect(&journal).changes(), [held(LOOPBACK)]);
        });
    }

    #[test]
    fn interfaces_that_are_not_ours_any_more_are_released_and_no_others() {
        run(async |journal| {
            let netlink = connect(&journal);
            netlink.record(held(LOOPBACK)).unwrap();
            netlink.record(held(GONE)).unwrap();
            netlink.release_others(|name| name == "lo").await.unwrap();
            assert_eq!(netlink.changes(), [held(LOOPBACK)]);
            netlink.release_others(|name| name != "lo").await.unwrap();
            assert!(netlink.changes().is_empty());
        });
    }

    #[test]
    fn a_control_is_forgotten_when_its_interface_has_gone() {
        run(async |journal| {
            let netlink = connect(&journal);
            netlink.record(held(GONE)).unwrap();
            assert!(!netlink.release_autoconf(GONE).await.unwrap());
            assert!(netlink.changes().is_empty());
        });
    }

    const LOOPBACK: u32 = 1;
    const GONE: u32 = 0x7fff_ffff;
}
