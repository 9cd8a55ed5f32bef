//! Masks random names, which differ from run to run. A random name is at least sixteen hexadecimal digits in a row.

const LEAST: usize = 16;

/// The bytes, with an `x` for each digit of a random name.
pub fn masked(bytes: &[u8]) -> Vec<u8> {
    let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    let mut masked = Vec::with_capacity(bytes.len());
    for run in bytes.chunk_by(|a, b| is_digit(a) == is_digit(b)) {
        match run.len() >= LEAST && run.iter().all(is_digit) {
            true => masked.resize(masked.len() + run.len(), b'x'),
            false => masked.extend_from_slice(run),
        }
    }
    masked
}
