//! A service on a database, the same for both versions of sqlx and for Postgres and SQLite.

/// The number of items of a page that runs a statement for each.
pub const ITEMS: i64 = 30;

/// The tables, with a few rows.
pub const SETUP: [&str; 10] = [
    "CREATE TABLE users(id integer primary key, name text)",
    "CREATE TABLE orders(id integer primary key)",
    "CREATE TABLE products(id integer primary key, name text)",
    "CREATE TABLE visits(id integer)",
    "CREATE TABLE stock(id integer)",
    "CREATE TABLE numbers(id integer)",
    "CREATE TABLE a(id integer)",
    "CREATE TABLE b(id integer)",
    "CREATE TABLE mails(id integer)",
    "INSERT INTO users(id, name) VALUES (1, 'me')",
];

/// The statements of each page: the path, the timer, the statement, and its runs per request.
pub const STATEMENTS: [(&str, &str, &str, u64); 10] = [
    (
        "/user",
        "sql SELECT users",
        "SELECT name FROM users WHERE id = $1",
        1,
    ),
    (
        "/orders",
        "sql SELECT orders",
        "SELECT id FROM orders ORDER BY id",
        1,
    ),
    (
        "/orders",
        "sql SELECT products",
        "SELECT name FROM products WHERE id = $1",
        ITEMS as u64,
    ),
    (
        "/visit",
        "sql INSERT visits",
        "INSERT INTO visits(id) VALUES ($1)",
        1,
    ),
    ("/visit", "sql UPDATE stock", "UPDATE stock SET id = 1", 1),
    (
        "/stream",
        "sql SELECT numbers",
        "SELECT id FROM numbers ORDER BY id",
        1,
    ),
    (
        "/join",
        "sql SELECT a",
        "SELECT count(*) FROM a, numbers",
        1,
    ),
    (
        "/join",
        "sql SELECT b",
        "SELECT count(*) FROM b, numbers",
        1,
    ),
    (
        "/spawn",
        "sql INSERT mails",
        "INSERT INTO mails(id) VALUES (1)",
        1,
    ),
    (
        "/spawn",
        "sql DELETE mails",
        "DELETE FROM mails WHERE id > 9",
        1,
    ),
];

/// Makes a module with a service on a version of sqlx. `slow` takes a second or more.
#[macro_export]
macro_rules! shop {
    ($module:ident, $sqlx:ident, $database:ident, $slow:literal) => {
        mod $module {
            use std::sync::Arc;

            use axum::Router;
            use axum::extract::State;
            use axum::routing::get;
            use futures_util::TryStreamExt;
            use pulse_spans::shop::{ITEMS, SETUP};
            use tokio::sync::Notify;
            use tracing::Instrument;
            use $sqlx::{Pool, $database};

            #[derive(Clone)]
            struct Shop {
                pool: Pool<$database>,
                slow: Arc<Notify>,
            }

            type Answer = Result<String, String>;

            fn text(error: impl std::fmt::Display) -> String {
                error.to_string()
            }

            /// The routes, on a database without tables. The notification comes before the slow statement.
            pub(crate) async fn routes(pool: Pool<$database>) -> (Router, Arc<Notify>) {
                for statement in SETUP {
                    $sqlx::query(statement).execute(&pool).await.unwrap();
                }
                for (table, rows) in [
                    ("orders", ITEMS),
                    ("products", ITEMS),
                    ("numbers", 100),
                    ("a", 100),
                    ("b", 100),
                ] {
                    for id in 0..rows {
                        let insert = match table {
                            "orders" => "INSERT INTO orders(id) VALUES ($1)",
                            "products" => "INSERT INTO products(id) VALUES ($1)",
                            "numbers" => "INSERT INTO numbers(id) VALUES ($1)",
                            "a" => "INSERT INTO a(id) VALUES ($1)",
                            _ => "INSERT INTO b(id) VALUES ($1)",
                        };
                        let insert = $sqlx::query(insert).bind(id as i32);
                        insert.execute(&pool).await.unwrap();
                    }
                }
                let slow = Arc::new(Notify::new());
                let shop = Shop {
                    pool,
                    slow: slow.clone(),
                };
                let routes = Router::new()
                    .route("/user", get(user))
                    .route("/orders", get(orders))
                    .route("/visit", get(visit))
                    .route("/stream", get(stream))
                    .route("/join", get(join))
                    .route("/spawn", get(spawn))
                    .route("/slow", get(slowly))
                    .with_state(shop);
                (routes, slow)
            }

            async fn user(State(shop): State<Shop>) -> Answer {
                let user = $sqlx::query_scalar("SELECT name FROM users WHERE id = $1").bind(1);
                user.fetch_one(&shop.pool).await.map_err(text)
            }

            async fn orders(State(shop): State<Shop>) -> Answer {
                let orders = $sqlx::query_scalar("SELECT id FROM orders ORDER BY id");
                let orders: Vec<i32> = orders.fetch_all(&shop.pool).await.map_err(text)?;
                for id in orders {
                    let product = $sqlx::query("SELECT name FROM products WHERE id = $1").bind(id);
                    product.fetch_optional(&shop.pool).await.map_err(text)?;
                }
                Ok(String::new())
            }

            async fn visit(State(shop): State<Shop>) -> Answer {
                let mut transaction = shop.pool.begin().await.map_err(text)?;
                let insert = $sqlx::query("INSERT INTO visits(id) VALUES ($1)").bind(1);
                insert.execute(&mut *transaction).await.map_err(text)?;
                let update = $sqlx::query("UPDATE stock SET id = 1");
                update.execute(&mut *transaction).await.map_err(text)?;
                transaction.commit().await.map_err(text)?;
                Ok(String::new())
            }

            async fn stream(State(shop): State<Shop>) -> Answer {
                let numbers = $sqlx::query_scalar("SELECT id FROM numbers ORDER BY id");
                let mut numbers = numbers.fetch(&shop.pool);
                let mut sum = 0i32;
                while let Some(number) = numbers.try_next().await.map_err(text)? {
                    let number: i32 = number;
                    sum += number;
                }
                Ok(sum.to_string())
            }

            async fn join(State(shop): State<Shop>) -> Answer {
                let a = $sqlx::query("SELECT count(*) FROM a, numbers").fetch_all(&shop.pool);
                let b = $sqlx::query("SELECT count(*) FROM b, numbers").fetch_all(&shop.pool);
                let (a, b) = tokio::join!(a, b);
                a.and(b).map_err(text)?;
                Ok(String::new())
            }

            async fn spawn(State(shop): State<Shop>) -> Answer {
                let pool = shop.pool.clone();
                let insert = async move {
                    let insert = $sqlx::query("INSERT INTO mails(id) VALUES (1)");
                    insert.execute(&pool).await.map(drop).map_err(text)
                };
                tokio::spawn(insert.in_current_span())
                    .await
                    .map_err(text)??;
                let span = tracing::info_span!("own");
                let delete = async move {
                    let delete = $sqlx::query("DELETE FROM mails WHERE id > 9");
                    delete.execute(&shop.pool).await.map(drop).map_err(text)
                };
                tokio::spawn(delete.instrument(span))
                    .await
                    .map_err(text)??;
                Ok(String::new())
            }

            async fn slowly(State(shop): State<Shop>) -> Answer {
                shop.slow.notify_one();
                let slow = $sqlx::query($slow).fetch_all(&shop.pool).await;
                slow.map(|_| String::new()).map_err(text)
            }
        }
    };
}
