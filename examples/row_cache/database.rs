//! A SQLite file of a thousand offers. Several processes may use one file, and create it at the same time.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

/// The number of offers in a new file.
const OFFERS: i64 = 1_000;

/// An offer.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Offer {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) stock: i64,
}

/// The file, and the number of reads by this process.
#[derive(Clone)]
pub(crate) struct Database(Arc<Inner>);

struct Inner {
    connection: Mutex<Connection>,
    reads: AtomicU64,
}

impl Database {
    /// Opens the file, and creates it with its table if it is missing.
    pub(crate) fn open(file: &Path) -> rusqlite::Result<Self> {
        let mut connection = Connection::open(file)?;
        // Another process may be creating the same file.
        connection.busy_timeout(Duration::from_secs(10))?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute(
            "CREATE TABLE IF NOT EXISTS offers(id integer primary key, name text, stock integer)",
            (),
        )?;
        let offers: i64 =
            transaction.query_row("SELECT count(*) FROM offers", (), |row| row.get(0))?;
        if offers == 0 {
            let mut insert =
                transaction.prepare("INSERT INTO offers(id, name, stock) VALUES (?1, ?2, ?3)")?;
            for id in 1..=OFFERS {
                insert.execute((id, format!("Offer {id}"), 1_000))?;
            }
        }
        transaction.commit()?;
        Ok(Self(Arc::new(Inner {
            connection: Mutex::new(connection),
            reads: AtomicU64::new(0),
        })))
    }

    /// Reads an offer; `None` if the id is no number, or no offer has it.
    pub(crate) async fn offer(&self, id: &str) -> Result<Option<Offer>, String> {
        let Ok(id) = id.parse::<i64>() else {
            return Ok(None);
        };
        self.0.reads.fetch_add(1, Ordering::Relaxed);
        self.run(move |connection| {
            let mut select =
                connection.prepare_cached("SELECT id, name, stock FROM offers WHERE id = ?1")?;
            let offer = |row: &rusqlite::Row<'_>| {
                Ok(Offer {
                    id: row.get(0)?,
                    name: row.get(1)?,
                    stock: row.get(2)?,
                })
            };
            select.query_row([id], offer).optional()
        })
        .await
    }

    /// Reduces the stock of an offer by one.
    pub(crate) async fn sell(&self, id: i64) -> Result<(), String> {
        self.run(move |connection| {
            let sell = "UPDATE offers SET stock = stock - 1 WHERE id = ?1 AND stock > 0";
            connection.execute(sell, [id]).map(drop)
        })
        .await
    }

    /// The number of times that this process has read an offer.
    pub(crate) fn reads(&self) -> u64 {
        self.0.reads.load(Ordering::Relaxed)
    }

    /// Runs a statement on a thread that may block.
    async fn run<T: Send + 'static>(
        &self,
        statement: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, String> {
        let inner = self.0.clone();
        let task = tokio::task::spawn_blocking(move || {
            let connection = inner.connection.lock();
            let connection = connection.unwrap_or_else(PoisonError::into_inner);
            statement(&connection).map_err(|error| error.to_string())
        });
        task.await.map_err(|error| error.to_string())?
    }
}
