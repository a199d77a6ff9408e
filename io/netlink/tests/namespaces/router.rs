use crate::harness::ip;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// A router in a network namespace of its own, at the other end of the host's `net1`: fe80::99 on its `lan`. The
/// kernel of the host does not solicit advertisements.
pub(crate) struct Router {
    /// The router advertises only when it is solicited.
    pub(crate) is_quiet: bool,
    folder: TempDir,
    /// Process that holds the namespace, which ends with it.
    holder: Child,
    radvd: Option<Child>,
    starts: u32,
}

/// Whether the tool for the test is there; prints a message if not.
pub(crate) fn has_radvd() -> bool {
    let found = Command::new("radvd").arg("--version").output().is_ok();
    if !found {
        eprintln!("SKIPPED routers: needs radvd");
    }
    found
}

impl Router {
    /// Plugs in the cable.
    pub(crate) fn connect() -> Self {
        let holder = Command::new("unshare")
            .args(["--net", "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("unshare");
        let router = Self {
            folder: tempfile::tempdir().unwrap(),
            holder,
            radvd: None,
            starts: 0,
            is_quiet: false,
        };
        router.await_namespace();
        ip("link add net1 type veth peer name lan");
        ip(&format!("link set lan netns {}", router.holder.id()));
        std::fs::write("/proc/sys/net/ipv6/conf/net1/router_solicitations", "0").unwrap();
        std::fs::write("/proc/sys/net/ipv6/conf/net1/use_tempaddr", "2").unwrap();
        ip("link set net1 up");
        router.run("sysctl -qw net.ipv6.conf.all.forwarding=1 net.ipv6.conf.lan.accept_dad=0");
        router.run("ip link set lan addrgenmode none up");
        router.run("ip addr add fe80::99/64 dev lan nodad");
        router
    }

    /// Runs a program on the router.
    pub(crate) fn run(&self, command: &str) {
        let output = self.command(command).output().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Advertises these prefixes from now on, instead of the earlier ones, each with its preferred and valid
    /// lifetime.
    pub(crate) fn advertise(&mut self, prefixes: &[(&str, u32, u32)]) {
        self.kill();
        let unicast = if self.is_quiet { "on" } else { "off" };
        let mut text = format!(
            "interface lan {{\n AdvSendAdvert on;\n UnicastOnly {unicast};\n AdvDefaultLifetime 1800;\n"
        );
        for (prefix, preferred, valid) in prefixes {
            text += &format!(
                " prefix {prefix} {{ AdvPreferredLifetime {preferred}; AdvValidLifetime {valid}; }};\n"
            );
        }
        text += "};\n";
        std::fs::write(self.place("radvd.conf"), text).unwrap();
        // A killed process may have left a child that holds its file for a moment.
        self.starts += 1;
        let (conf, pid) = (self.place("radvd.conf"), self.place(&format!("pid{}", self.starts)));
        let command = format!("radvd -n -m stderr -C {} -p {}", conf.display(), pid.display());
        let log = std::fs::File::create(self.place("radvd.log")).unwrap();
        self.radvd = Some(self.command(&command).stderr(log).spawn().unwrap());
        self.await_socket(&pid);
    }

    /// Waits until the router listens. A quiet router only answers solicitations, and a host may send one only: the
    /// router must receive it.
    fn await_socket(&self, pid: &Path) {
        let sockets = format!("/proc/{}/net/raw6", self.holder.id());
        let listens = || std::fs::read_to_string(&sockets).is_ok_and(|all| all.lines().count() > 1);
        for _ in 0..2000 {
            if pid.exists() && listens() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("{}", std::fs::read_to_string(self.place("radvd.log")).unwrap_or_default());
    }

    /// Stops like a router that is switched off in order: it announces that it is no longer a default router.
    pub(crate) fn stop(&mut self) {
        if let Some(mut radvd) = self.radvd.take() {
            let id = rustix::process::Pid::from_child(&radvd);
            rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
            radvd.wait().unwrap();
        }
    }

    /// Kills the router without an announcement.
    fn kill(&mut self) {
        if let Some(mut radvd) = self.radvd.take() {
            radvd.kill().unwrap();
            radvd.wait().unwrap();
        }
    }

    fn place(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, command: &str) -> Command {
        let mut entering = Command::new("nsenter");
        entering.arg(format!("--net={}", self.namespace()));
        // A process that is started here ends with the test, in any case.
        entering.args(["setpriv", "--pdeathsig", "KILL"]).args(command.split_whitespace());
        entering
    }

    fn namespace(&self) -> String {
        format!("/proc/{}/ns/net", self.holder.id())
    }

    fn await_namespace(&self) {
        let own = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        for _ in 0..1000 {
            if std::fs::read_link(self.namespace()).is_ok_and(|its| its != own) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("no namespace for the router");
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.kill();
        // `cat` stops at the end of its input.
        if let Some(mut input) = self.holder.stdin.take() {
            let _ = input.flush();
        }
        let _ = self.holder.wait();
    }
}
