//! A service on a database, the same for both versions of sqlx and for Postgres and SQLite.

/// The tables with their rows.
pub const SETUP: [&str; 14] = [
    "CREATE TABLE users(id integer primary key, name text)",
    "INSERT INTO users(id, name) VALUES (1, 'me')",
    "CREATE TABLE visits(id integer)",
    "CREATE TABLE stock(id integer)",
    "CREATE TABLE mails(id integer)",
    "CREATE TABLE digits(id integer)",
    "INSERT INTO digits VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)",
    "CREATE TABLE numbers(id integer)",
    "INSERT INTO numbers SELECT 10 * tens.id + ones.id FROM digits tens, digits ones",
    "CREATE TABLE orders(id integer)",
    "INSERT INTO orders SELECT id FROM numbers WHERE id < 30",
    "CREATE TABLE products AS SELECT id, 'bread' AS name FROM numbers",
    "CREATE TABLE a AS SELECT id FROM numbers",
    "CREATE TABLE b AS SELECT id FROM numbers",
];

/// The statements of each page: the page's path, the runs per request, the timer, and the statement.
pub const STATEMENTS: [&str; 10] = [
    "/user | 1 | sql SELECT users | SELECT name FROM users WHERE id = $1",
    "/orders | 1 | sql SELECT orders | SELECT id FROM orders ORDER BY id",
    "/orders | 30 | sql SELECT products | SELECT name FROM products WHERE id = $1",
    "/visit | 1 | sql INSERT visits | INSERT INTO visits(id) VALUES ($1)",
    "/visit | 1 | sql UPDATE stock | UPDATE stock SET id = 1",
    "/stream | 1 | sql SELECT numbers | SELECT id FROM numbers ORDER BY id",
    "/join | 1 | sql SELECT a | SELECT count(*) FROM a, numbers",
    "/join | 1 | sql SELECT b | SELECT count(*) FROM b, numbers",
    "/spawn | 1 | sql INSERT mails | INSERT INTO mails(id) VALUES (1)",
    "/spawn | 1 | sql DELETE mails | DELETE FROM mails WHERE id > 9",
];

/// The statement of `/slow` on Postgres, which takes ten minutes.
pub const SLOW_ON_POSTGRES: &str = "SELECT pg_sleep(600) FROM users";
/// The statement of `/slow` on SQLite, which takes a second or more.
pub const SLOW_ON_SQLITE: &str = "WITH RECURSIVE c(x) AS \
    (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 900000) SELECT max(x) FROM c";

/// Makes a module with a service on a version of sqlx. `$slow` is the statement of its page `/slow`.
#[macro_export]
macro_rules! shop {
    ($module:ident, $sqlx:ident, $database:ident, $slow:ident) => {
        mod $module {
            use std::sync::Arc;

            use axum::Router;
            use axum::extract::State;
            use axum::routing::get;
            use futures_util::TryStreamExt;
            use pulse_rig::wait::{PATIENCE, look_until};
            use pulse_spans::shop::{SETUP, $slow};
            use tokio::sync::Notify;
            use tracing::Instrument;
            use $sqlx::pool::PoolOptions;
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

            /// Fills an empty database, and returns the routes. The page `/slow` notifies just before its statement.
            pub(crate) async fn routes(url: &str, connections: u32) -> (Router, Arc<Notify>) {
                // A server answers a moment after its start.
                let pool = look_until(PATIENCE, async || {
                    let pool = PoolOptions::<$database>::new().max_connections(connections);
                    // Without sqlx's ping, a request has sent its statement when the test cancels the request.
                    let pool = pool.test_before_acquire(false);
                    pool.connect(url).await.map_err(text)
                })
                .await;
                for statement in SETUP {
                    $sqlx::query(statement).execute(&pool).await.unwrap();
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
                while let Some(number) = numbers.try_next().await.map_err(text)? {
                    let _: i32 = number;
                }
                Ok(String::new())
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
                let delete = async move {
                    let delete = $sqlx::query("DELETE FROM mails WHERE id > 9");
                    delete.execute(&shop.pool).await.map(drop).map_err(text)
                };
                tokio::spawn(delete.instrument(tracing::info_span!("own")))
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
