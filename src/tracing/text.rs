//! A short text without an allocation.

use std::fmt::{self, Write};

/// A text of at most `N` bytes. Further characters are cut off.
#[derive(Clone, Copy)]
pub(super) struct Text<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Self {
            bytes: [0; N],
            len: 0,
        }
    }
}

impl<const N: usize> Text<N> {
    pub(super) fn as_str(&self) -> &str {
        // No character is cut, so this is always UTF-8.
        std::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }

    /// Appends a text. Returns whether the whole text fits.
    pub(super) fn push(&mut self, text: &str) -> bool {
        let kept = cut(text, N - self.len);
        self.bytes[self.len..][..kept.len()].copy_from_slice(kept.as_bytes());
        self.len += kept.len();
        kept.len() == text.len()
    }
}

impl<const N: usize> From<&str> for Text<N> {
    fn from(text: &str) -> Self {
        let mut short = Self::default();
        short.push(text);
        short
    }
}

/// Formatting ends with an error when the text is full.
impl<const N: usize> Write for Text<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        match self.push(text) {
            true => Ok(()),
            false => Err(fmt::Error),
        }
    }
}

/// The beginning of a text, at most this many bytes.
pub(super) fn cut(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let mut end = most;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
