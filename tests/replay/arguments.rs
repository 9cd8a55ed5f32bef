//! The arguments of the command line.

use super::args::{Args, Command, Source, USAGE, parse};

fn parsed(args: &[&str]) -> Result<Command, String> {
    parse(args.iter().map(Into::into))
}

fn replay(serve: bool, file: Source) -> Result<Command, String> {
    Ok(Command::Replay(Args {
        serve,
        verdicts: None,
        file,
    }))
}

#[test]
fn a_file_and_flags_in_any_order() {
    let file = || Source::File("a.csv".into());
    assert_eq!(parsed(&["a.csv"]), replay(false, file()));
    assert_eq!(parsed(&["--serve", "a.csv"]), replay(true, file()));
    assert_eq!(parsed(&["a.csv", "--serve"]), replay(true, file()));
    let verdicts = Args {
        serve: true,
        verdicts: Some("out.jsonl".into()),
        file: file(),
    };
    let expected = Ok(Command::Replay(verdicts));
    assert_eq!(
        parsed(&["--verdicts", "out.jsonl", "a.csv", "--serve"]),
        expected
    );
    assert_eq!(parsed(&["-"]), replay(false, Source::Stdin));
    let dashed = Source::File("--serve".into());
    assert_eq!(parsed(&["--", "--serve"]), replay(false, dashed));
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
            error.contains(flag) && error.contains("--serve, --verdicts, --help"),
            "{error}"
        );
    }
    for incomplete in [&["a.csv", "--verdicts"][..], &["--verdicts", "", "a.csv"]] {
        assert!(error(incomplete).contains("needs the name of a file"));
    }
    assert!(error(&["--verdicts", "a", "--verdicts", "b", "c"]).contains("twice"));
    assert!(error(&["--verdicts", "--serve", "a.csv"]).contains("./--serve"));
    assert!(error(&["a.csv", "b.csv"]).contains("b.csv"));
}
