//! Health warns that a filter for the whole subscriber hides the statements of sqlx.

use sqlx::sqlite::SqlitePool;
use tower_pulse::{Condition, Pulse};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::prelude::*;

#[tokio::test]
async fn health_names_the_filter_that_hides_statements() {
    let pulse = Pulse::builder().build().unwrap();
    let warnings = || pulse.health().warnings;
    assert!(warnings().is_empty(), "the layer is not installed");
    let subscriber = tracing_subscriber::registry().with(EnvFilter::new("info"));
    subscriber.with(pulse.tracing()).init();
    assert!(warnings().is_empty(), "the program may lack sqlx");
    let pool = SqlitePool::connect("sqlite::memory:").await.unwrap();
    sqlx::query("SELECT 1").execute(&pool).await.unwrap();
    let warnings = warnings();
    let is_named = |text: &str| warnings.iter().any(|one| one.contains(text));
    let names_both = is_named("sqlx::query") && is_named("with_filter");
    assert!(names_both, "{warnings:?}");
    assert_eq!(pulse.health().conditions, [Condition::HiddenStatements]);
}
