use crate::consts::{MAX_PROBE_REPORTS, PROBE_REPORT_LEN};
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{Options, Packet};
use alloc::vec::Vec;
use moorline_types::{ContextTag, DropReason, Locator, named_enum};

/// Probe message (RFC 5534 s5.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Tag that the receiver has allocated for the context.
    pub receiver_tag: ContextTag,
    /// State of the sender after it sent the probe.
    pub state: ProbeState,
    /// Sent probes: this one first, then earlier ones; 1 to [`MAX_PROBE_REPORTS`].
    pub sent: Vec<ProbeReport>,
    /// Received probes, at most [`MAX_PROBE_REPORTS`].
    pub received: Vec<ProbeReport>,
    /// Options; the RFCs define none, Moorline has [`Check`](crate::Opt::Check).
    pub options: Options,
}

named_enum! {
    /// State of a REAP machine (RFC 5534 s6), also as its peer sees it: the Sta field.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[repr(u8)]
    pub enum ProbeState {
        /// Known problems: none, in either direction.
        Operational = 0 => "operational",
        /// The host expects packets from the peer and receives none.
        Exploring = 1 => "exploring",
        /// The host receives packets from the peer, but does not know whether the peer receives its own.
        InboundOk = 2 => "inbound_ok",
    }
}

/// Report about a sent or received probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeReport {
    /// IPv6 source address of that probe.
    pub src: Locator,
    /// IPv6 destination address of that probe.
    pub dst: Locator,
    /// Nonce by which the sender of the probe recognizes it.
    pub nonce: u32,
    /// Data without a meaning, copied back.
    pub data: u32,
}

impl Probe {
    /// Octets of the reports that a Probe announces in its octet of Precvd and Psent.
    pub(crate) fn reports_len(counts: u8) -> usize {
        usize::from(counts >> 4) * PROBE_REPORT_LEN + usize::from(counts & 0xf) * PROBE_REPORT_LEN
    }

    pub(crate) fn decode(packet: &Packet<'_>) -> Result<Self, DropReason> {
        let receiver_tag = packet.receiver_tag().ok_or(DropReason::BadFormat)?;
        let mut reader = Reader::new(packet.octets_from(COUNTS_AT));
        let [counts, state, _, _] = reader.array()?;
        //= rfc5534#5.2-8
        let state = match state >> 6 {
            0 => ProbeState::Operational,
            1 => ProbeState::Exploring,
            2 => ProbeState::InboundOk,
            // RFC 5534 s5.2: "It has three legal values".
            _ => return Err(DropReason::BadFormat),
        };
        let (received, sent) = (counts >> 4, counts & 0xf);
        if sent == 0 {
            //= rfc5534#5.2-4
            // RFC 5534 s5.2: "the minimum value for this field is 1".
            return Err(DropReason::BadFormat);
        }
        let sent = ProbeReport::decode_all(&mut reader, sent)?;
        let received = ProbeReport::decode_all(&mut reader, received)?;
        let options = Options::decode(packet)?;
        Ok(Self { receiver_tag, state, sent, received, options })
    }

    //= rfc5534#5.2-7
    pub(crate) fn write(&self, mut writer: Writer) -> Writer {
        let (sent, received) = (capped(&self.sent), capped(&self.received));
        let counts = count(received) << 4 | count(sent);
        writer = writer.field(&self.receiver_tag.octets()).field(&[
            counts,
            (self.state as u8) << 6,
            0,
            0,
        ]);
        for report in sent.iter().chain(received) {
            writer = writer.field(&report.emit());
        }
        if sent.len() < self.sent.len() || received.len() < self.received.len() {
            writer.cut();
        }
        writer
    }
}

impl ProbeReport {
    fn decode_all(reader: &mut Reader<'_>, count: u8) -> Result<Vec<Self>, DropReason> {
        (0..count).map(|_| Self::decode(reader)).collect()
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DropReason> {
        Ok(Self {
            src: Locator::from(reader.array::<16>()?),
            dst: Locator::from(reader.array::<16>()?),
            nonce: reader.u32()?,
            data: reader.u32()?,
        })
    }

    fn emit(&self) -> [u8; PROBE_REPORT_LEN] {
        let mut octets = [0; PROBE_REPORT_LEN];
        octets[..16].copy_from_slice(&self.src.octets());
        octets[16..32].copy_from_slice(&self.dst.octets());
        octets[32..36].copy_from_slice(&self.nonce.to_be_bytes());
        octets[36..].copy_from_slice(&self.data.to_be_bytes());
        octets
    }
}

fn capped(reports: &[ProbeReport]) -> &[ProbeReport] {
    reports.get(..MAX_PROBE_REPORTS).unwrap_or(reports)
}

/// Number of reports, at most [`MAX_PROBE_REPORTS`].
fn count(reports: &[ProbeReport]) -> u8 {
    u8::try_from(reports.len()).unwrap_or(0xf)
}

/// Offset of the octet of Precvd and Psent in the message.
pub(crate) const COUNTS_AT: usize = 12;
