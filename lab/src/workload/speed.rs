//! Throughput of iperf3 over a path, and its processor time.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::Endpoint;
use super::programs::{await_listener, iperf_client, iperf_server};
use crate::interrupt;
use crate::named::named;
use crate::process::Process;

named! {
    /// Traffic of iperf3.
    pub enum Traffic {
        /// A stream without a rate limit.
        Tcp = "tcp",
        /// Datagrams without a rate limit.
        Udp = "udp",
    }
}

/// A measured throughput and its cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Octets of payload that arrived a second.
    pub octets_per_second: f64,
    /// Processor time of both programs in nanoseconds for each full-size packet that arrived, including the kernel's
    /// work for the programs.
    pub cpu_ns_per_packet: f64,
}

impl Speed {
    /// Sends for `duration` without a rate limit, each program on its own processor.
    ///
    /// # Errors
    /// iperf3 failed, or nothing arrived.
    pub fn measure(
        ends: [&Endpoint; 2],
        [sender, receiver]: [usize; 2],
        traffic: Traffic,
        duration: Duration,
        directory: &Path,
    ) -> anyhow::Result<Self> {
        let log = |end: &str| directory.join(format!("iperf3-{end}.log"));
        let mut command = iperf_server(ends[1]);
        let mut server = Process::start(command.stdout(Stdio::null()), &log("server"))?;
        await_listener(&mut server, ends[1])?;
        let output = directory.join("iperf3.json");
        let mut command = iperf_client(ends, duration);
        command
            .args(["-J", "-A", &format!("{sender},{receiver}")])
            .args(traffic.arguments())
            .stdout(std::fs::File::create(&output).context("output of iperf3")?);
        let mut client = Process::start(&mut command, &log("client"))?;
        interrupt::wait_for("iperf3", duration + PATIENCE, || client.poll())?;
        let text = std::fs::read_to_string(&output).context("output of iperf3")?;
        Self::of(&serde_json::from_str(&text).context("output of iperf3")?, traffic)
    }

    fn of(report: &Value, traffic: Traffic) -> anyhow::Result<Self> {
        ensure!(report["error"].is_null(), "iperf3: {}", report["error"]);
        let end = &report["end"];
        let number = |value: &Value| value.as_f64().context("a number of iperf3");
        let (octets, seconds) = match traffic {
            Traffic::Tcp => {
                let received = &end["sum_received"];
                (number(&received["bytes"])?, number(&received["seconds"])?)
            }
            Traffic::Udp => {
                let sum = &end["sum"];
                let (packets, lost) = (number(&sum["packets"])?, number(&sum["lost_packets"])?);
                ((packets - lost) * f64::from(DATAGRAM), number(&sum["seconds"])?)
            }
        };
        ensure!(octets > 0.0 && seconds > 0.0, "nothing arrived: {end}");
        let cpu = &end["cpu_utilization_percent"];
        let busy = (number(&cpu["host_total"])? + number(&cpu["remote_total"])?) / 100.0;
        let packets = octets / f64::from(traffic.payload());
        Ok(Self {
            octets_per_second: octets / seconds,
            cpu_ns_per_packet: busy * seconds * 1e9 / packets,
        })
    }
}

impl Traffic {
    const fn arguments(self) -> &'static [&'static str] {
        match self {
            // The machine's default congestion control may pace.
            Self::Tcp => &["-C", "cubic"],
            Self::Udp => &["-u", "-b", "0", "-l", "1400"],
        }
    }

    /// Octets of payload in a full-size packet.
    const fn payload(self) -> u16 {
        match self {
            Self::Tcp => SEGMENT,
            Self::Udp => DATAGRAM,
        }
    }
}

/// Octets of payload of a TCP segment with timestamps, at an MTU of 1500.
pub(super) const SEGMENT: u16 = 1428;
/// Octets of payload of a datagram, as iperf3 is told. The datagram fits with a payload header, too.
pub(super) const DATAGRAM: u16 = 1400;
/// Longer than iperf3 takes for its own exchange.
const PATIENCE: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_arrived_counts_and_the_processors_of_both_ends() {
        let cpu = json!({"host_total": 60.0, "remote_total": 40.0});
        let tcp = json!({"end": {
            "sum_sent": {"bytes": 9e9, "seconds": 2.0},
            "sum_received": {"bytes": 2.0 * 1428e6, "seconds": 2.0},
            "cpu_utilization_percent": cpu,
        }});
        let speed = Speed::of(&tcp, Traffic::Tcp).unwrap();
        assert_eq!((speed.octets_per_second, speed.cpu_ns_per_packet), (1428e6, 1000.0));
        let udp = json!({"end": {
            "sum": {"packets": 1000, "lost_packets": 250, "seconds": 1.0},
            "cpu_utilization_percent": cpu,
        }});
        let speed = Speed::of(&udp, Traffic::Udp).unwrap();
        assert_eq!(speed.octets_per_second, 750.0 * 1400.0);
        let error = Speed::of(&json!({"error": "no route"}), Traffic::Tcp).unwrap_err();
        assert!(error.to_string().contains("no route"));
    }
}
