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
    pub(super) fn of(value: fmt::Arguments<'_>) -> Self {
        let mut text = Self::default();
        // Formatting ends with an error when the text is full.
        let _ = text.write_fmt(value);
        text
    }

    pub(super) fn as_str(&self) -> &str {
        // No character is cut, so this is always UTF-8.
        std::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

impl<const N: usize> Write for Text<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut length = text.len().min(N - self.len);
        while !text.is_char_boundary(length) {
            length -= 1;
        }
        self.bytes[self.len..][..length].copy_from_slice(&text.as_bytes()[..length]);
        self.len += length;
        match length == text.len() {
            true => Ok(()),
            false => Err(fmt::Error),
        }
    }
}
