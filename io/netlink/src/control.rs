//! System controls of interfaces.

use crate::error::Error;
use crate::handle::Netlink;
use crate::journal::Record;
use moorline_link::Icmp6Sender;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;

impl Netlink {
    /// Puts back all controls that the journal has: those that an earlier version has set, and those that could not be
    /// put back when they were lent. An earlier version kept the kernel from making addresses; where that ends, the
    /// kernel makes them at the next advertisement, for which routers are asked.
    ///
    /// If one control cannot be put back, the others are.
    ///
    /// # Errors
    /// The first one: `/proc/sys` or the journal cannot be written, or the links cannot be read.
    pub async fn restore_controls(&self) -> Result<(), Error> {
        let mut done = Ok(());
        for (change, restored) in self.put_back_controls() {
            let restored = restored.and_then(|_| self.journal().forget(&change));
            done = done.and(restored);
        }
        done
    }

    /// Puts back all controls that the journal has, and gives for each whether there was something to put back.
    pub(crate) fn put_back_controls(&self) -> Vec<(Record, Result<bool, Error>)> {
        let (mut report, mut to_ask) = (Vec::new(), BTreeSet::new());
        for change in self.changes() {
            let Record::Control { ifindex, control, .. } = &change else { continue };
            let restored = self.put_back(&change);
            to_ask.extend(
                (matches!(restored, Ok(true)) && control != OPTIMISTIC).then_some(*ifindex),
            );
            report.push((change, restored));
        }
        // The kernel asks routers by itself only when an interface comes up.
        for ifindex in to_ask {
            if let Err(error) = Icmp6Sender::open().and_then(|socket| socket.solicit(ifindex)) {
                tracing::debug!(%error, ifindex, "cannot solicit routers");
            }
        }
        report
    }

    /// Ends what [`Self::allow_optimistic`] began. On failure the journal keeps the control for
    /// [`Self::restore_controls`].
    pub(crate) fn give_back(&self, lent: &Record) {
        let given = self.put_back(lent).and_then(|_| self.journal().forget(lent));
        if let Err(error) = given {
            tracing::warn!("optimistic addresses stay allowed until the next try: {error}");
        }
    }

    /// Lets an address be optimistic (RFC 4429) that is put on an interface next; what was set before is in the
    /// journal, and to be restored as soon as the address is there: the kernel asks for it at that moment only, and
    /// the host's own addresses are none of ours. `None` where the kernel does not know how, or needs nothing.
    pub(crate) fn allow_optimistic(&self, ifindex: u32) -> Option<Record> {
        let path = path(&self.interface_name(ifindex).ok()??, OPTIMISTIC);
        let before = read(&path).ok().filter(|before| before == "0")?;
        let (control, ours) = (OPTIMISTIC.to_owned(), "1".to_owned());
        let record = Record::Control { ifindex, control, before, ours };
        self.journal().record(record.clone()).ok()?;
        if fs::write(&path, "1").is_err() {
            self.journal().forget(&record).ok()?;
            return None;
        }
        Some(record)
    }

    /// True if the control was put back; false if there is nothing left to put back.
    fn put_back(&self, change: &Record) -> Result<bool, Error> {
        let Record::Control { ifindex, control, before, ours } = change else { return Ok(false) };
        let Some(name) = self.interface_name(*ifindex)? else { return Ok(false) };
        let path = path(&name, control);
        let done = match read(&path) {
            Ok(now) if now == *ours => fs::write(&path, before).map(|()| true),
            // Others have set it since, and mean it.
            Ok(_) => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        };
        done.map_err(Error::refused(format!("set {}", path.display())))
    }

    fn interface_name(&self, ifindex: u32) -> Result<Option<String>, Error> {
        let found = self.links()?.into_iter().find(|link| link.ifindex == ifindex);
        Ok(found.map(|link| link.name))
    }
}

/// What a control of an interface is set to, if there is one.
pub(crate) fn control_of(ifindex: u32, name: &str) -> Option<String> {
    read(&path(&interface_name_of(ifindex)?, name)).ok()
}

/// Reads from the kernel whether the interface is deaf now. No notice tells of a change of `accept_ra`.
#[must_use]
pub fn is_deaf(ifindex: u32) -> bool {
    let is_on = |control| control_of(ifindex, control).as_deref() == Some("1");
    is_on("forwarding") && is_on("accept_ra")
}

/// Whether the interface exists, up or down.
#[must_use]
pub fn is_interface(ifindex: u32) -> bool {
    interface_name_of(ifindex).is_some()
}

fn interface_name_of(ifindex: u32) -> Option<String> {
    nix::net::if_::if_indextoname(ifindex).ok()?.into_string().ok()
}

/// The file of a control.
pub(crate) fn path(interface: &str, name: &str) -> PathBuf {
    [ROOT, interface, name].iter().collect()
}

fn read(path: &PathBuf) -> io::Result<String> {
    fs::read_to_string(path).map(|text| text.trim().to_owned())
}

const ROOT: &str = "/proc/sys/net/ipv6/conf";
/// Whether addresses of an interface may be used before it is known that nobody else has them.
pub(crate) const OPTIMISTIC: &str = "optimistic_dad";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::Exchange;
    use crate::journal::Journal;
    use netlink_sys::protocols::NETLINK_SOCK_DIAG;
    use std::future::Future;
    use std::path::Path;
    use std::sync::Arc;

    fn run<F: Future<Output = ()>>(test: impl FnOnce(PathBuf) -> F) {
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(test(folder.path().join("journal.json")));
    }

    fn connect(journal: &Path) -> Netlink {
        Netlink::connect(Journal::open(journal).unwrap()).unwrap()
    }

    /// A socket that answers all requests with an error: it is for questions about sockets.
    fn refusing() -> Arc<Exchange> {
        Arc::new(Exchange::open(NETLINK_SOCK_DIAG, |_| 0).unwrap())
    }

    fn lent(ifindex: u32) -> Record {
        let [before, ours] = ["0", "1"].map(str::to_owned);
        Record::Control { ifindex, control: OPTIMISTIC.to_owned(), before, ours }
    }

    #[test]
    fn a_lent_control_that_cannot_be_given_back_is_given_back_later() {
        run(async |journal| {
            let mut netlink = connect(&journal);
            netlink.journal().record(lent(GONE)).unwrap();
            let works = netlink.exchange.clone();
            netlink.exchange = refusing();
            netlink.give_back(&lent(GONE));
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
            netlink.exchange = refusing();
            netlink.journal().record(held(LOOPBACK)).unwrap();
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
            netlink.journal().record(held(GONE)).unwrap();
            netlink.restore_controls().await.unwrap();
            assert!(netlink.changes().is_empty());
        });
    }

    const LOOPBACK: u32 = 1;
    const GONE: u32 = 0x7fff_ffff;
}
