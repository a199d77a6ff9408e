use moorline_api::SOCKET_GROUP;
use nix::unistd::{Gid, Group, Uid, User, geteuid, getgrouplist};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;

use crate::privileges;

/// The process at the other end of the control socket, as the kernel has it (SO_PEERCRED).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Who {
    /// Its user; nobody if the kernel does not say.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its number; zero if not known.
    pub pid: i32,
}

impl Who {
    const UNKNOWN: Self = Self { uid: u32::MAX, gid: u32::MAX, pid: 0 };

    /// The process at the other end of this connection.
    pub(crate) fn of(stream: &UnixStream) -> Self {
        stream.peer_cred().map_or(Self::UNKNOWN, |cred| Self {
            uid: cred.uid(),
            gid: cred.gid(),
            pid: cred.pid().unwrap_or(0),
        })
    }

    /// Whether it may change anything: root, the user of the daemon, and members of the socket's group.
    ///
    /// The mode of the socket says the same, but a descriptor can be handed on and a mode be changed.
    pub(crate) async fn may_change(self) -> bool {
        if self.is_root() {
            return true;
        }
        let Ok(_turn) = ASKING.acquire().await else { return false };
        // The system's database may be a server that does not answer: not on the thread of the main loop. One that
        // began early has all capabilities.
        let ask = move || privileges::reduce().is_ok() && self.is_member();
        tokio::task::spawn_blocking(ask).await.unwrap_or(false)
    }

    /// Root, or the user of the daemon.
    pub(crate) fn is_root(self) -> bool {
        self.uid == 0 || self.uid == geteuid().as_raw()
    }

    fn is_member(self) -> bool {
        let Ok(Some(group)) = Group::from_name(SOCKET_GROUP) else { return false };
        self.gid == group.gid.as_raw() || self.groups().contains(&group.gid)
    }

    /// Of its user, as the system's database has them.
    fn groups(self) -> Vec<Gid> {
        let Ok(Some(user)) = User::from_uid(Uid::from_raw(self.uid)) else { return Vec::new() };
        let name = std::ffi::CString::new(user.name);
        name.ok().and_then(|name| getgrouplist(&name, user.gid).ok()).unwrap_or_default()
    }
}

/// Threads that ask at a time.
static ASKING: Semaphore = Semaphore::const_new(4);

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::mpsc;

    use futures_util::FutureExt as _;
    use tokio::runtime::Builder;

    use super::*;

    #[tokio::test]
    async fn root_and_the_daemons_user_may_and_strangers_may_not() {
        assert!(Who { uid: 0, gid: 0, pid: 1 }.may_change().await);
        assert!(Who { uid: geteuid().as_raw(), ..Who::UNKNOWN }.may_change().await);
        assert!(!Who::UNKNOWN.may_change().await);
        // `nobody` is in no group that counts.
        assert!(!Who { uid: 65_534, gid: 65_534, pid: 1 }.may_change().await);
    }

    #[test]
    fn the_database_is_asked_on_another_thread_and_for_root_not_at_all() {
        let runtime = Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let (end, ended) = mpsc::channel::<()>();
            let busy = tokio::task::spawn_blocking(move || ended.recv());
            let root = Who { uid: 0, gid: 0, pid: 1 };
            assert_eq!(root.may_change().now_or_never(), Some(true));
            let mut stranger = pin!(Who::UNKNOWN.may_change());
            assert_eq!(stranger.as_mut().now_or_never(), None, "its thread is busy");
            drop(end);
            assert!(busy.await.unwrap().is_err());
            assert!(!stranger.await);
        });
    }
}
