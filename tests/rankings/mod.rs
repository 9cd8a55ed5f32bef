//! Rankings within a moving window as applications use them: the example over HTTP.

mod example;
