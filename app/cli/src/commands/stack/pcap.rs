//! Files in the pcap format, with frames of Ethernet and times in microseconds.

use std::io::{self, Write};

/// Writes frames to a file in the pcap format.
pub(super) struct Pcap<W>(W);

impl<W: Write> Pcap<W> {
    /// Writes the header of the file.
    pub(super) fn new(mut out: W) -> io::Result<Self> {
        let [version_major, version_minor] = [2_u16, 4];
        out.write_all(&MAGIC.to_le_bytes())?;
        out.write_all(&version_major.to_le_bytes())?;
        out.write_all(&version_minor.to_le_bytes())?;
        out.write_all(&[0; 8])?;
        out.write_all(&SNAP_LEN.to_le_bytes())?;
        out.write_all(&ETHERNET.to_le_bytes())?;
        Ok(Self(out))
    }

    /// Writes a frame of this time, in microseconds.
    pub(super) fn write(&mut self, at: u64, frame: &[u8]) -> io::Result<()> {
        let len = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        let second = u32::try_from(at / 1_000_000).unwrap_or(u32::MAX);
        let microsecond = u32::try_from(at % 1_000_000).unwrap_or_default();
        for field in [second, microsecond, len, len] {
            self.0.write_all(&field.to_le_bytes())?;
        }
        self.0.write_all(frame)
    }

    /// Writes what is still in memory.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

const MAGIC: u32 = 0xa1b2_c3d4;
const SNAP_LEN: u32 = 262_144;
const ETHERNET: u32 = 1;
