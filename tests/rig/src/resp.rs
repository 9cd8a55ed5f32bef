//! The boundaries of Redis messages.

/// Finds the ends of RESP2 messages (requests or replies) in a stream of chunks.
#[derive(Debug, Default)]
pub struct Frames {
    /// For each open array, the number of missing values.
    open: Vec<usize>,
    /// The header line that is still incomplete.
    line: Vec<u8>,
    /// The missing bytes of a bulk string, including the final CRLF.
    body: usize,
}

impl Frames {
    /// Reads the next chunk. Returns the position after each message that ends in the chunk.
    pub fn feed(&mut self, chunk: &[u8]) -> Vec<usize> {
        let mut ends = Vec::new();
        let mut at = 0;
        while at < chunk.len() {
            let done = if self.body > 0 {
                let taken = self.body.min(chunk.len() - at);
                self.body -= taken;
                at += taken;
                self.body == 0
            } else {
                self.line.push(chunk[at]);
                at += 1;
                chunk[at - 1] == b'\n' && self.header()
            };
            if done && self.value_ends() {
                ends.push(at);
            }
        }
        ends
    }

    /// Handles a complete header line. Returns whether the line is a whole value.
    fn header(&mut self) -> bool {
        let line = std::mem::take(&mut self.line);
        let text = line.trim_ascii_end();
        let Some((&kind, digits)) = text.split_first() else {
            return false;
        };
        let length = std::str::from_utf8(digits)
            .ok()
            .and_then(|text| text.parse::<i64>().ok());
        match (kind, length) {
            (b'$', Some(length @ 0..)) => self.body = length as usize + 2,
            (b'*', Some(length @ 1..)) => self.open.push(length as usize),
            _ => return true,
        }
        false
    }

    /// Handles a complete value. Returns whether the whole message is complete.
    fn value_ends(&mut self) -> bool {
        while let Some(left) = self.open.last_mut() {
            *left -= 1;
            if *left > 0 {
                return false;
            }
            self.open.pop();
        }
        true
    }
}
