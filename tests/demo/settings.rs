//! Settings that the demo refuses.

use crate::rig::demo::built;

#[test]
fn the_error_names_a_refused_environment_variable() {
    let past = "a number of minutes or hours from 30m to 24h, such as 3h";
    let incidents = "slow_query, bad_deploy, bad_instance, errors, surge, busy_host, queue, repeated or blocking";
    for (name, value, says) in [
        ("PULSE_FLUSH_MS", "9", "flush"),
        ("PULSE_FLUSH_MS", "60001", "flush"),
        ("PULSE_FLUSH_MS", "soon", "flush"),
        ("PULSE_CLEAN_SECS", "0", "clean"),
        ("REDIS_URL", "redis//nowhere", "redis"),
        ("PULSE_PREFIX", "a\tb", "prefix"),
        ("LISTEN", "somewhere", "listen"),
        // The dashboard would be open to others.
        ("LISTEN", "0.0.0.0:0", "set PULSE_TOKEN"),
        ("DEMO_HISTORY", "29m", past),
        ("DEMO_HISTORY", "25h", past),
        ("DEMO_HISTORY", "3", past),
        ("DEMO_HISTORY", "3d", past),
        ("DEMO_HISTORY", "-1h", past),
        ("DEMO_HISTORY", "99999999999999999999h", past),
        ("DEMO_INCIDENT", "fire", incidents),
        ("DEMO_TRAFFIC", "Off", "on or off"),
    ] {
        let output = std::process::Command::new(built())
            .env("LISTEN", "127.0.0.1:0")
            .env("DEMO_TRAFFIC", "off")
            .env("REDIS_URL", "redis://127.0.0.1:1/")
            .env_remove("PULSE_TOKEN")
            .env(name, value)
            .output()
            .unwrap();
        assert!(!output.status.success(), "{name}={value}");
        let text = String::from_utf8_lossy(&output.stderr);
        let says = match name.starts_with("DEMO") {
            true => format!("{name}={value:?}: must be {says}"),
            false => says.to_owned(),
        };
        let is_said = text.contains(&says) || text.to_lowercase().contains(&says);
        assert!(is_said, "{name}={value}: {text}");
    }
}
