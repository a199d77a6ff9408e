//! System controls of interfaces.

use crate::error::Error;
use crate::handle::Netlink;
use crate::labels::{LENT, NOBODY, label_row};
use std::fs;
use std::io;
use std::path::PathBuf;

impl Netlink {
    /// Restores each `optimistic_dad` that a crash or a failure has left on.
    ///
    /// If one control cannot be restored, the others still are.
    ///
    /// # Errors
    /// The first error: `/proc/sys` cannot be written, or the kernel's tables cannot be read or written.
    pub fn restore_controls(&self) -> Result<(), Error> {
        let restored = self.lent_controls()?.into_iter().map(|one| self.give_back(one).map(drop));
        restored.fold(Ok(()), Result::and)
    }

    /// Interfaces on which we allow optimistic addresses. A control cannot carry a mark, so a label marks the
    /// interface.
    pub(crate) fn lent_controls(&self) -> Result<Vec<u32>, Error> {
        Ok(self.labelled(LENT)?.into_iter().map(|(ifindex, _)| ifindex).collect())
    }

    /// Undoes [`Self::allow_optimistic`]. True if there was a control to restore. On failure the mark stays, for
    /// [`Self::restore_controls`].
    pub(crate) fn give_back(&self, ifindex: u32) -> Result<bool, Error> {
        let restored = self.put_back(ifindex)?;
        let what = format_args!("mark of {OPTIMISTIC} on interface {ifindex}");
        self.remove(&label_row((ifindex, NOBODY), LENT), what)?;
        Ok(restored)
    }

    /// Allows the next address that is put on an interface to be optimistic (RFC 4429). A mark on the interface makes
    /// sure that the control is restored. It is restored as soon as the address is there: the kernel reads it only at
    /// that moment, and it must not affect the host's own addresses. False if the kernel has no such control, or if
    /// it is on already.
    pub(crate) fn allow_optimistic(&self, ifindex: u32) -> bool {
        let Ok(Some(name)) = self.interface_name(ifindex) else { return false };
        let path = path(&name, OPTIMISTIC);
        if read(&path).ok().as_deref() != Some("0")
            || self.add_label((ifindex, NOBODY), LENT, &[libc::EEXIST]).is_err()
        {
            return false;
        }
        let is_allowed = fs::write(&path, "1").is_ok();
        if !is_allowed && let Err(error) = self.give_back(ifindex) {
            tracing::debug!(%error, "a control that was not set");
        }
        is_allowed
    }

    /// Restores the control. True if it was restored, false if there is nothing to restore.
    fn put_back(&self, ifindex: u32) -> Result<bool, Error> {
        let Some(name) = self.interface_name(ifindex)? else { return Ok(false) };
        let path = path(&name, OPTIMISTIC);
        let done = match read(&path) {
            Ok(now) if now == "1" => fs::write(&path, "0").map(|()| true),
            // Somebody else has set the control since, on purpose.
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

/// Value of a control of an interface, if there is such a control.
pub(crate) fn control_of(ifindex: u32, name: &str) -> Option<String> {
    read(&path(&interface_name_of(ifindex)?, name)).ok()
}

/// Reads from the kernel whether it ignores routers on the interface now. No notice tells of a change of `accept_ra`.
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

/// Path of the file of a control.
pub(crate) fn path(interface: &str, name: &str) -> PathBuf {
    [ROOT, interface, name].iter().collect()
}

fn read(path: &PathBuf) -> io::Result<String> {
    fs::read_to_string(path).map(|text| text.trim().to_owned())
}

const ROOT: &str = "/proc/sys/net/ipv6/conf";
/// Control: whether addresses of an interface may be used before duplicate address detection is over.
pub(crate) const OPTIMISTIC: &str = "optimistic_dad";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::Exchange;
    use netlink_sys::protocols::NETLINK_SOCK_DIAG;
    use std::sync::Arc;

    /// A handle whose requests all fail: its socket has another protocol.
    fn refusing() -> Netlink {
        let mut netlink = Netlink::connect().unwrap();
        netlink.exchange = Arc::new(Exchange::open(NETLINK_SOCK_DIAG, |_| 0).unwrap());
        netlink
    }

    #[test]
    fn a_lent_control_is_not_given_back_if_the_links_cannot_be_read() {
        let error = refusing().give_back(LOOPBACK).unwrap_err();
        assert!(matches!(error, Error::Read { what: "links", .. }), "{error}");
    }

    #[tokio::test]
    async fn controls_are_left_behind_and_told_if_their_marks_cannot_be_read() {
        let netlink = refusing();
        let error = netlink.restore_controls().unwrap_err();
        assert!(matches!(error, Error::Read { what: "address labels", .. }), "{error}");
        let report = netlink.undo_all().await;
        let told = "left system controls behind";
        assert!(report.iter().any(|one| one.to_string().starts_with(told)), "{report:?}");
    }

    const LOOPBACK: u32 = 1;
}
