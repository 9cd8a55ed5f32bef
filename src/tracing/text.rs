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

    /// The text, or its beginning if it is too long.
    pub(super) fn cut(text: &str) -> Self {
        let mut cut = Self::default();
        cut.add(text);
        cut
    }

    /// Appends a text, or its beginning if it is too long.
    pub(super) fn add(&mut self, text: &str) {
        let added = prefix(text, N - self.len);
        self.bytes[self.len..][..added.len()].copy_from_slice(added.as_bytes());
        self.len += added.len();
    }

    pub(super) fn add_uppercase(&mut self, text: &str) {
        let before = self.len;
        self.add(text);
        self.bytes[before..self.len].make_ascii_uppercase();
    }

    pub(super) fn as_str(&self) -> &str {
        // No character is cut, so this is always UTF-8.
        std::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

impl<const N: usize> Write for Text<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let before = self.len;
        self.add(text);
        match self.len - before == text.len() {
            true => Ok(()),
            false => Err(fmt::Error),
        }
    }
}

/// The longest prefix of at most `max` bytes. Cuts no character.
pub(super) fn prefix(text: &str, max: usize) -> &str {
    let mut length = text.len().min(max);
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    &text[..length]
}
