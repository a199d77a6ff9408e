/// Reads an input as numbers. After the end of the input, all numbers are 0.
pub(crate) struct Input<'a> {
    octets: &'a [u8],
}

impl<'a> Input<'a> {
    pub(crate) const fn new(octets: &'a [u8]) -> Self {
        Self { octets }
    }

    /// The next octet. `None` at the end.
    pub(crate) fn step(&mut self) -> Option<u8> {
        let (first, rest) = self.octets.split_first()?;
        self.octets = rest;
        Some(*first)
    }

    pub(crate) fn octet(&mut self) -> u8 {
        self.step().unwrap_or(0)
    }

    pub(crate) fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.octet(), self.octet()])
    }

    /// Picks one of these values.
    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::from(self.octet()) % of.len()]
    }

    /// Takes up to `len` octets.
    pub(crate) fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.octets.split_at(len.min(self.octets.len()));
        self.octets = rest;
        taken
    }
}
