//! The shop's SQLite database, with `DEMO_SQLITE=on` and the feature `sqlite`: real statements instead of waits.
//! `SpanTimers` turns the statements into timers.

#[cfg(feature = "sqlite")]
pub(crate) use sqlite::Database;

/// Without the feature, there is no database.
#[cfg(not(feature = "sqlite"))]
#[derive(Clone, Debug)]
pub(crate) enum Database {}

#[cfg(not(feature = "sqlite"))]
impl Database {
    pub(crate) async fn open() -> Result<Self, String> {
        Err("DEMO_SQLITE=on: run the demo with `--features sqlite`".to_owned())
    }

    pub(crate) async fn run(&self, _: &str) -> bool {
        match *self {}
    }
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions};

    const PRODUCTS: i64 = 20_000;

    #[derive(Clone, Debug)]
    pub(crate) struct Database(SqlitePool);

    impl Database {
        pub(crate) async fn open() -> Result<Self, String> {
            filled().await.map_err(|error| format!("SQLite: {error}"))
        }

        /// Runs the statements of a timer. Returns whether the timer has any.
        pub(crate) async fn run(&self, timer: &str) -> bool {
            let done = match timer {
                "db:find_product" => self.find_product(fastrand::i64(1..PRODUCTS)).await,
                "db:search" => self.search().await,
                "db:add_item" => self.add_item().await,
                "db:report" => self.report().await,
                "cache:cart" => self.cart().await,
                _ => return false,
            };
            if let Err(error) = done {
                tracing::warn!("{timer}: {error}");
            }
            true
        }

        async fn find_product(&self, id: i64) -> sqlx::Result<()> {
            let product = sqlx::query("SELECT name, price FROM products WHERE id = ?1");
            product.bind(id).fetch_one(&self.0).await.map(drop)
        }

        async fn search(&self) -> sqlx::Result<()> {
            let word = format!("%{}%", fastrand::u32(0..PRODUCTS as u32));
            let found = sqlx::query("SELECT id FROM products WHERE name LIKE ?1 ORDER BY price");
            found.bind(word).fetch_all(&self.0).await.map(drop)
        }

        async fn add_item(&self) -> sqlx::Result<()> {
            let mut transaction = self.0.begin().await?;
            let add = sqlx::query("INSERT INTO items(product) VALUES (?1)");
            let add = add.bind(fastrand::i64(1..PRODUCTS));
            add.execute(&mut *transaction).await?;
            transaction.commit().await
        }

        async fn report(&self) -> sqlx::Result<()> {
            let sums = "SELECT price, count(*), sum(stock) FROM products GROUP BY price";
            sqlx::query(sums).fetch_all(&self.0).await.map(drop)
        }

        /// Asks for each item of the cart, so that the page repeats a statement.
        async fn cart(&self) -> sqlx::Result<()> {
            let items = sqlx::query_scalar("SELECT product FROM items ORDER BY id DESC LIMIT 30");
            let items: Vec<i64> = items.fetch_all(&self.0).await?;
            for product in items {
                self.find_product(product).await?;
            }
            Ok(())
        }
    }

    async fn filled() -> sqlx::Result<Database> {
        // A database in memory lives as long as its connection.
        let pool = SqlitePoolOptions::new().max_connections(1);
        let pool = pool.idle_timeout(None).max_lifetime(None);
        let memory = SqliteConnectOptions::new().in_memory(true);
        let pool = pool.connect_with(memory).await?;
        for table in [
            "CREATE TABLE products(id integer primary key, name text, price integer, stock integer)",
            "CREATE TABLE items(id integer primary key, product integer)",
        ] {
            sqlx::query(table).execute(&pool).await?;
        }
        let mut transaction = pool.begin().await?;
        for id in 1..=PRODUCTS {
            let product = sqlx::query("INSERT INTO products VALUES (?1, ?2, ?3, 100)");
            let product = product.bind(id).bind(format!("Product {id}")).bind(id % 97);
            product.execute(&mut *transaction).await?;
        }
        let items = "INSERT INTO items(product) SELECT id FROM products LIMIT 30";
        sqlx::query(items).execute(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(Database(pool))
    }
}
