//! System controls of interfaces.

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
    /// Puts back all controls that the journal has: those that an earlier version has set, and those that could not be
    /// put back when they were lent. An earlier version kept the kernel from making addresses; where that ends, the
    /// kernel makes them at the next advertisement, for which routers are asked.
    ///
    /// True if something was changed. If one control cannot be put back, the others are.
    ///
    /// # Errors
    /// The first one: `/proc/sys` or the journal cannot be written, or the links cannot be read.
    pub async fn restore_controls(&self) -> Result<bool, Error> {
        let (mut is_changed, mut failure) = (false, None);
        let mut to_ask = BTreeSet::new();
        for change in self.changes() {
            let Record::Control { ifindex, ref control, .. } = change else { continue };
            match self.restore_and_forget(&change).await {
                Ok(is_restored) => {
                    is_changed |= is_restored;
                    to_ask.extend((is_restored && control != OPTIMISTIC).then_some(ifindex));
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        to_ask.into_iter().for_each(solicit_for_kernel);
        failure.map_or(Ok(is_changed), Err)
    }

    async fn restore_and_forget(&self, change: &Record) -> Result<bool, Error> {
        let is_restored = self.restore_control(change).await?;
        self.forget(change)?;
        Ok(is_restored)
    }

    /// Ends what [`Self::allow_optimistic`] began. On failure the journal keeps the control for
    /// [`Self::restore_controls`].
    pub(crate) async fn give_back(&self, lent: &Record) {
        if let Err(error) = self.restore_and_forget(lent).await {
            tracing::warn!("optimistic addresses stay allowed until the next try: {error}");
        }
    }

    /// Lets an address be optimistic (RFC 4429) that is put on an interface next; what was set before is in the
    /// journal, and to be restored as soon as the address is there: the kernel asks for it at that moment only, and
    /// the host's own addresses are none of ours. `None` where the kernel does not know how, or needs nothing.
    pub(crate) async fn allow_optimistic(&self, ifindex: u32) -> Option<Record> {
        let file = Control::new(&self.interface_name(ifindex).await.ok()?, OPTIMISTIC);
        let before = file.read().ok().filter(|before| before == "0")?;
        let (control, ours) = (OPTIMISTIC.to_owned(), "1".to_owned());
        let record = Record::Control { ifindex, control, before, ours };
        self.record(record.clone()).ok()?;
        if file.write("1").is_err() {
            self.forget(&record).ok()?;
            return None;
        }
        Some(record)
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

/// Whether the interface exists, up or down.
#[must_use]
pub fn is_interface(ifindex: u32) -> bool {
    interface_name_of(ifindex).is_some()
}

fn interface_name_of(ifindex: u32) -> Option<String> {
    nix::net::if_::if_indextoname(ifindex).ok()?.into_string().ok()
}

const ROOT: &str = "/proc/sys/net/ipv6/conf";
/// Whether addresses of an interface may be used before it is known that nobody else has them.
pub(crate) const OPTIMISTIC: &str = "optimistic_dad";

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

    fn lent(ifindex: u32) -> Record {
        let [before, ours] = ["0", "1"].map(str::to_owned);
        Record::Control { ifindex, control: OPTIMISTIC.to_owned(), before, ours }
    }

    #[test]
    fn a_lent_control_that_cannot_be_given_back_is_given_back_later() {
        run(async |journal| {
            let mut netlink = connect(&journal);
            netlink.record(lent(GONE)).unwrap();
            let works = netlink.exchange.clone();
            netlink.exchange = Arc::new(Exchange::refusing().unwrap());
            netlink.give_back(&lent(GONE)).await;
            assert_eq!(netlink.changes(), [lent(GONE)], "the links could not be read");
            netlink.exchange = works;
            netlink.restore_controls().await.unwrap();
            assert!(netlink.changes().is_empty());
        });
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
            let error = netlink.restore_controls().await.unwrap_err();
            assert!(matches!(error, Error::Read { what: "links", .. }), "{error}");
            let report = netlink.undo_all().await;
            let told = "left autoconf = 0 of interface 1 behind";
            assert!(report.iter().any(|one| one.to_string().starts_with(told)), "{report:?}");
            drop(netlink);
            assert_eq!(connect(&journal).changes(), [held(LOOPBACK)]);
        });
    }

    #[test]
    fn a_control_is_forgotten_when_its_interface_has_gone() {
        run(async |journal| {
            let netlink = connect(&journal);
            netlink.record(held(GONE)).unwrap();
            assert!(!netlink.restore_controls().await.unwrap());
            assert!(netlink.changes().is_empty());
        });
    }

    const LOOPBACK: u32 = 1;
    const GONE: u32 = 0x7fff_ffff;
}
