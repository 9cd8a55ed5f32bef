//! A service behind a filter for the whole subscriber is told what hides its statements.

use sqlx::sqlite::SqlitePoolOptions;
use tower_pulse::{Condition, Pulse};
use tracing_subscriber::prelude::*;
use tracing_subscriber::{EnvFilter, fmt};

#[tokio::test]
async fn health_names_the_filter_that_hides_statements() {
    let pulse = Pulse::builder().build().unwrap();
    let hides = || {
        let health = pulse.health();
        assert!(
            health
                .conditions
                .iter()
                .all(|one| *one == Condition::HiddenStatements)
        );
        health.warnings
    };
    // Before the layer is installed, and before there is a statement, nothing is hidden.
    assert!(hides().is_empty());
    let filter = EnvFilter::new("info");
    let lines = fmt::layer().with_test_writer();
    let subscriber = tracing_subscriber::registry().with(filter).with(lines);
    subscriber.with(pulse.tracing()).init();
    assert!(hides().is_empty(), "the program may lack sqlx");
    let pool = SqlitePoolOptions::new().max_connections(1);
    let pool = pool.connect("sqlite::memory:").await.unwrap();
    sqlx::query("SELECT 1").execute(&pool).await.unwrap();
    let warnings = hides();
    let [warning] = &warnings[..] else {
        panic!("{warnings:?}")
    };
    assert!(
        warning.contains("sqlx::query") && warning.contains("with_filter"),
        "{warning}"
    );
}
