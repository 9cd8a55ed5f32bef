//! Rankings within a moving window as applications use them: the example over HTTP, and many callers at once.

mod example;

#[tokio::test]
async fn callers_at_the_same_time_share_a_flush() {
    let server = pulse_rig::server::RedisServer::start().await;
    let builder = tower_pulse::Pulse::builder().redis(server.url());
    let posts = builder.build().unwrap().ranking("posts").build().unwrap();
    let commands = async || -> u64 {
        let stats = server.info("stats").await;
        stats["total_commands_processed"].parse().unwrap()
    };
    posts.add_now("7", 1).await.unwrap();
    let before = commands().await;
    let additions = (0..200).map(|_| posts.add_now("7", 1));
    futures_util::future::try_join_all(additions).await.unwrap();
    let sent = commands().await - before;
    assert!(sent < 200, "{sent} commands");
    assert_eq!(posts.score("7").await.unwrap(), Some(201));
}
