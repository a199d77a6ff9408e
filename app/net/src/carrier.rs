use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use moorline_ip::PacketBuf;
use moorline_stack::stack::WireId;
use moorline_wires::Wire;
use tokio::sync::{Notify, watch};

use crate::Event;
use crate::shared::Shared;

/// Carries frames between a wire and the host: a task for each wire.
pub(crate) struct Carrier {
    shared: Arc<Shared>,
    id: WireId,
    wire: Wire,
    /// There are frames for the wire.
    ready: Arc<Notify>,
    /// Frames for which the wire has no room yet.
    outgoing: VecDeque<PacketBuf>,
    /// Large frames that are on their way: the host uses their memory again.
    sent: Vec<PacketBuf>,
    end: watch::Receiver<bool>,
}

impl Carrier {
    pub(crate) fn new(shared: Arc<Shared>, id: WireId, wire: Wire, ready: Arc<Notify>) -> Self {
        let end = shared.end.subscribe();
        Self { shared, id, wire, ready, outgoing: VecDeque::new(), sent: Vec::new(), end }
    }

    /// Runs until the end of the host, or until the wire fails.
    pub(crate) async fn run(mut self) {
        loop {
            match self.carry().await {
                Ok(()) => return,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    if !self.reconnect().await {
                        return;
                    }
                }
                Err(error) => return self.fail(error),
            }
        }
    }

    /// Carries frames until the end of the host, or an error.
    async fn carry(&mut self) -> io::Result<()> {
        while !*self.end.borrow() {
            self.receive()?;
            self.send()?;
            self.wait().await?;
        }
        // The resets of the last connections.
        self.send()
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut frames = Vec::new();
        while frames.len() < BATCH
            && let Some(frame) = self.wire.try_recv()?
        {
            frames.push(frame);
        }
        if !frames.is_empty() {
            self.shared.with(|state, now| {
                for frame in frames {
                    state.node.handle_frame(self.id, frame, now);
                }
            });
        }
        Ok(())
    }

    fn send(&mut self) -> io::Result<()> {
        loop {
            while let Some(frame) = self.outgoing.front_mut() {
                let is_sent = match frame.segment_size() {
                    Some(size) => self.wire.try_send_super(frame, size.get())?,
                    None => self.wire.try_send(frame)?,
                };
                if !is_sent {
                    return Ok(());
                }
                self.sent.extend(
                    self.outgoing.pop_front().filter(|frame| frame.segment_size().is_some()),
                );
            }
            let counts = self.wire.counts();
            self.shared.with(|state, _| {
                self.sent.drain(..).for_each(|sent| state.node.recycle(sent));
                if let Some(port) = state.port(self.id) {
                    port.interface.counts = counts;
                    self.outgoing.append(&mut port.frames);
                }
            });
            if self.outgoing.is_empty() {
                return Ok(());
            }
        }
    }

    async fn wait(&mut self) -> io::Result<()> {
        let end = self.end.wait_for(|is_over| *is_over);
        if self.outgoing.is_empty() {
            tokio::select! {
                readable = self.wire.readable() => readable,
                () = self.ready.notified() => Ok(()),
                _ = end => Ok(()),
            }
        } else {
            tokio::select! {
                ready = self.wire.ready() => ready,
                _ = end => Ok(()),
            }
        }
    }

    /// Waits for another program at the wire. The link is down meanwhile. Returns `false` if the wire has ended, or the host.
    async fn reconnect(&mut self) -> bool {
        self.set_link(false);
        self.outgoing.clear();
        let result = tokio::select! {
            result = self.wire.reconnect() => result,
            _ = self.end.wait_for(|is_over| *is_over) => return false,
        };
        match result {
            Ok(()) => self.set_link(true),
            Err(error) => {
                self.fail(error);
                return false;
            }
        }
        true
    }

    fn fail(&self, error: io::Error) {
        self.set_link(false);
        // There may be nobody to hear it.
        let _ = self.shared.events.send(Event::Failed { wire: self.id, error: Arc::new(error) });
    }

    fn set_link(&self, is_up: bool) {
        self.shared.set_link(self.id, is_up);
    }
}

/// Largest number of frames that the host takes before it sends.
const BATCH: usize = 64;
