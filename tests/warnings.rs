//! Problems that an operator must solve: most have a warning in health, and each has one line in the log.

use http::{Request, Response};
use pulse_rig::log::Log;
use tower::{Layer, Service};
use tower_pulse::{Builder, Clock, Condition, Pulse};

fn built(builder: Builder) -> Pulse {
    let (clock, _manual_clock) = Clock::manual(1_700_001_000);
    builder.clock(clock).build().unwrap()
}

fn warnings_with(pulse: &Pulse, text: &str) -> usize {
    let warnings = pulse.health().warnings;
    warnings.iter().filter(|one| one.contains(text)).count()
}

#[tokio::test]
async fn health_and_the_log_warn_of_raw_paths_as_contexts() {
    let (log, _logging) = Log::start();
    let pulse = built(Pulse::builder());
    let layer = pulse.layer_with(|head| Some(head.uri.path().to_owned().into()));
    let service = async |_: Request<()>| Ok::<_, std::io::Error>(Response::new(()));
    let mut service = layer.layer(tower::service_fn(service));
    for i in 0..3_000 {
        if i == 2_000 {
            pulse.flush().await.unwrap();
            assert_eq!(pulse.health().warnings, Vec::<String>::new());
        }
        let request = Request::builder().uri(format!("/{i}"));
        service.call(request.body(()).unwrap()).await.unwrap();
    }
    pulse.flush().await.unwrap();
    assert_eq!(pulse.health().recording.overflowed, 1_000);
    assert_eq!(warnings_with(&pulse, "1000 samples"), 1);
    assert_eq!(warnings_with(&pulse, "max_contexts"), 1);
    assert_eq!(pulse.health().conditions, [Condition::Overflow]);
    let lines = log.lines_with("there are more contexts");
    let [line] = &lines[..] else {
        panic!("{lines:?}")
    };
    assert!(line.contains("raw paths"), "{line}");
    assert!(line.contains("/2000"), "{line}");
}

#[tokio::test]
async fn health_and_the_log_warn_of_ids_in_the_names_of_counters() {
    let (log, _logging) = Log::start();
    let pulse = built(Pulse::builder().max_counters(2));
    for id in 0..5 {
        pulse.counter(&format!("sales:{id}")).increment();
    }
    assert_eq!(warnings_with(&pulse, "max_counters"), 1);
    assert_eq!(log.lines_with("there are more counters").len(), 1);
}

#[tokio::test]
async fn reserved_names_of_counters_are_escaped_and_logged() {
    let (log, _logging) = Log::start();
    let pulse = built(Pulse::builder());
    for name in ["hits", "errors:GET /", "micros"] {
        assert_eq!(pulse.counter(name).name(), format!("\\{name}"));
    }
    assert_eq!(log.lines_with("are reserved").len(), 1);
}

#[tokio::test]
async fn health_and_the_log_warn_of_requests_without_a_route() {
    let (log, _logging) = Log::start();
    let (clock, manual_clock) = Clock::manual(1_700_001_000);
    let pulse = Pulse::builder().clock(clock).build().unwrap();
    let service = async |_: Request<()>| Ok::<_, std::io::Error>(Response::new(()));
    let mut service = pulse.layer().layer(tower::service_fn(service));
    for _ in 0..3 {
        service.call(Request::new(())).await.unwrap();
    }
    assert_eq!(warnings_with(&pulse, "matched no route"), 1);
    assert_eq!(pulse.health().conditions, [Condition::Routes]);
    for _ in 0..30 {
        manual_clock.advance(std::time::Duration::from_secs(1));
        pulse_rig::wait::let_tasks_run().await;
    }
    assert_eq!(log.lines_with("matched no route").len(), 1);
}

#[test]
fn the_log_warns_of_a_runtime_that_ends_without_a_shutdown() {
    let (log, _logging) = Log::start();
    for (sales, lines) in [(0, 0), (1, 1)] {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let pulse = runtime.block_on(async { built(Pulse::builder()) });
        (0..sales).for_each(|_| pulse.counter("sales").increment());
        drop(runtime);
        let found = log.lines_with("the runtime ended without");
        assert_eq!(found.len(), lines, "{sales} sales: {found:?}");
    }
}
