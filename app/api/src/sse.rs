//! Decoder of server-sent events: octets in, contents of `data` out.
//!
//! The decoder skips comments (keep-alives of the daemon), `id` and `event`, because the JSON in `data` holds both.

/// Collects the octets of `GET /v1/events` until an event is complete, for clients with a transport of their own.
/// [`Events`](crate::Events) uses this decoder.
#[derive(Debug, Default)]
pub struct Decoder {
    line: Vec<u8>,
    data: String,
}

impl Decoder {
    /// Takes the next octets of the stream, and returns the `data` of every completed event.
    ///
    /// # Errors
    /// The stream is not UTF-8, or an event is longer than 1 MiB.
    pub fn handle_octets(&mut self, octets: &[u8]) -> Result<Vec<String>, &'static str> {
        let mut events = Vec::new();
        for &octet in octets {
            if octet == b'\n' {
                events.extend(self.on_line()?);
            } else if self.line.len() + self.data.len() < MAX_EVENT {
                self.line.push(octet);
            } else {
                return Err("an event is longer than 1 MiB");
            }
        }
        Ok(events)
    }

    fn on_line(&mut self) -> Result<Option<String>, &'static str> {
        let octets = core::mem::take(&mut self.line);
        let line = core::str::from_utf8(&octets).map_err(|_| "an event is not UTF-8")?;
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.is_empty() {
            let data = core::mem::take(&mut self.data);
            return Ok((!data.is_empty()).then_some(data));
        }
        if let Some(value) = line.strip_prefix("data:") {
            if !self.data.is_empty() {
                self.data.push('\n');
            }
            self.data.push_str(value.strip_prefix(' ').unwrap_or(value));
        }
        Ok(None)
    }
}

/// Largest event, in octets: a cap against a stream with an endless line. Events of the daemon are far smaller.
const MAX_EVENT: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_out_whole_however_they_are_cut() {
        let stream =
            ": keep-alive\n\nid: 7\nevent: moved\ndata: {\"a\":1}\n\ndata:x\r\ndata: y\r\n\r\n";
        for size in 1..=stream.len() {
            let mut decoder = Decoder::default();
            let mut events = Vec::new();
            for chunk in stream.as_bytes().chunks(size) {
                events.extend(decoder.handle_octets(chunk).unwrap());
            }
            assert_eq!(events, ["{\"a\":1}", "x\ny"], "in chunks of {size}");
        }
    }

    #[test]
    fn an_event_without_its_empty_line_stays_in() {
        assert!(Decoder::default().handle_octets(b"data: half\n").unwrap().is_empty());
    }

    #[test]
    fn octets_that_are_no_text_are_refused() {
        assert!(Decoder::default().handle_octets(b"data: \xff\n").is_err());
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut decoder = Decoder::default();
        assert!(decoder.handle_octets(&vec![b'a'; MAX_EVENT]).is_ok());
        assert!(decoder.handle_octets(b"a").is_err());
    }
}
