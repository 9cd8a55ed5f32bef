//! The arguments of the command line.

use std::ffi::OsString;
use std::path::PathBuf;

pub(crate) const USAGE: &str = "\
usage: replay [--serve] FILE
  FILE     an access log, sorted by time: nginx's combined format with $request_time, Caddy's JSON,
           lines `unix_seconds,context,micros,status`, or a common or combined log (requests are
           only counted); - is standard input
  --serve  afterwards, show the dashboard
variables: REDIS_URL (default: in memory), PULSE_PREFIX (pulse:), LISTEN (127.0.0.1:3000),
           PULSE_TOKEN";

pub(crate) const STDIN: &str = "-";

/// Reads the arguments after the program's name. Returns whether to serve, and the file; `None` for `--help`.
pub(crate) fn parse(
    args: impl IntoIterator<Item = OsString>,
) -> Result<Option<(bool, PathBuf)>, String> {
    let (mut serve, mut file) = (false, None);
    for arg in args {
        let text = arg.to_string_lossy();
        match &*text {
            "--serve" => serve = true,
            "--help" | "-h" => return Ok(None),
            flag if flag.starts_with('-') && flag != STDIN => {
                return Err(format!(
                    "unknown flag {flag:?}: allowed are --serve, --help"
                ));
            }
            _ if file.is_some() => {
                return Err(format!("one FILE is allowed, and {text:?} is another"));
            }
            _ => file = Some(arg.into()),
        }
    }
    Ok(Some((serve, file.ok_or("FILE is missing")?)))
}
