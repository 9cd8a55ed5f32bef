//! A SQLite file of a thousand offers. Several processes may use one file, and create it at the same time.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions};

const OFFERS: i64 = 1_000;

#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Offer {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) stock: i64,
}

/// The file, and the number of offers that this process has read from it.
#[derive(Clone)]
pub(crate) struct Database(Arc<Inner>);

struct Inner {
    pool: SqlitePool,
    reads: AtomicU64,
}

impl Database {
    /// Opens the file. If the file is missing, creates it, including its table.
    pub(crate) async fn open(file: &Path) -> sqlx::Result<Self> {
        let options = SqliteConnectOptions::new()
            .filename(file)
            .create_if_missing(true)
            // Another process may be creating the same file.
            .busy_timeout(Duration::from_secs(10));
        let pool = SqlitePoolOptions::new().max_connections(1);
        let pool = pool.connect_with(options).await?;
        let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await?;
        let create =
            "CREATE TABLE IF NOT EXISTS offers(id integer primary key, name text, stock integer)";
        sqlx::query(create).execute(&mut *transaction).await?;
        let count = sqlx::query_scalar("SELECT count(*) FROM offers");
        let offers: i64 = count.fetch_one(&mut *transaction).await?;
        if offers == 0 {
            for id in 1..=OFFERS {
                sqlx::query("INSERT INTO offers(id, name, stock) VALUES (?1, ?2, 1000)")
                    .bind(id)
                    .bind(format!("Offer {id}"))
                    .execute(&mut *transaction)
                    .await?;
            }
        }
        transaction.commit().await?;
        let reads = AtomicU64::new(0);
        Ok(Self(Arc::new(Inner { pool, reads })))
    }

    /// Reads an offer; `None` if the id is not a number, or no offer has it.
    pub(crate) async fn offer(&self, id: &str) -> Result<Option<Offer>, String> {
        let Ok(id) = id.parse::<i64>() else {
            return Ok(None);
        };
        self.0.reads.fetch_add(1, Ordering::Relaxed);
        let select = sqlx::query_as("SELECT id, name, stock FROM offers WHERE id = ?1");
        let row = select.bind(id).fetch_optional(&self.0.pool).await;
        let row: Option<(i64, String, i64)> = row.map_err(|error| error.to_string())?;
        Ok(row.map(|(id, name, stock)| Offer { id, name, stock }))
    }

    pub(crate) async fn sell(&self, id: i64) -> Result<(), String> {
        let sell = sqlx::query("UPDATE offers SET stock = stock - 1 WHERE id = ?1 AND stock > 0");
        let sold = sell.bind(id).execute(&self.0.pool).await;
        sold.map(drop).map_err(|error| error.to_string())
    }

    pub(crate) fn reads(&self) -> u64 {
        self.0.reads.load(Ordering::Relaxed)
    }
}
