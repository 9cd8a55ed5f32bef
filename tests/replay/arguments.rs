//! The arguments of the command line.

use super::args::{Command, Source, USAGE, parse};

fn parsed(args: &[&str]) -> Result<Command, String> {
    parse(args.iter().map(Into::into))
}

fn replay(serve: bool, file: Source) -> Result<Command, String> {
    Ok(Command::Replay { serve, file })
}

#[test]
fn a_file_and_flags_in_any_order() {
    let file = || Source::File("a.csv".into());
    assert_eq!(parsed(&["a.csv"]), replay(false, file()));
    assert_eq!(parsed(&["--serve", "a.csv"]), replay(true, file()));
    assert_eq!(parsed(&["a.csv", "--serve"]), replay(true, file()));
    assert_eq!(parsed(&["-"]), replay(false, Source::Stdin));
    assert!(USAGE.contains("--serve"));
    for help in ["--help", "-h"] {
        assert_eq!(parsed(&["--serve", help]), Ok(Command::Help));
    }
}

#[test]
fn what_is_not_allowed_is_an_error_that_says_what_is() {
    let error = |args: &[&str]| parsed(args).unwrap_err();
    assert_eq!(error(&[]), "FILE is missing");
    for flag in ["--server", "-s", "--serve=1"] {
        let error = error(&[flag, "a.csv"]);
        assert!(
            error.contains(flag) && error.contains("--serve, --help"),
            "{error}"
        );
    }
    assert!(error(&["a.csv", "b.csv"]).contains("b.csv"));
    assert!(error(&["a.csv", "-"]).contains("\"-\""));
}
