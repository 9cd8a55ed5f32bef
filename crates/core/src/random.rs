//! Random names.

/// A name that no other instance of a fleet has: 32 hexadecimal digits, from a generator with 64 random bits.
pub fn random_name() -> String {
    format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..))
}

/// A name of 64 random bits: unique while few such names exist.
pub fn short_random_name() -> String {
    format!("{:016x}", fastrand::u64(..))
}
