//! The details of a request: its trace id, its path, and its wait in front of this process. The trace id and the path
//! are kept only if the request is slow or fails. The details are read when the request begins, because the handler
//! consumes the request. A pooled buffer holds them, to spare allocations.

use std::sync::{Arc, Mutex};

use http::{HeaderMap, HeaderName};

use super::source::Head;
use tower_pulse_core::recorder::{
    ContextHandle, DetailOptions, Queue, QueueTime, RequestDetails, thread_number,
};
use tower_pulse_model::context::push_escaped;
use tower_pulse_model::slow_request::{MAX_PATH, MAX_TRACE_ID};

/// The context of a request and its details, in a buffer of the pool. Dropping this value returns the buffer to the
/// pool. A request without details has no buffer: `RequestContext` holds the context of such a request.
#[derive(Default)]
pub(super) struct Detailed(Option<Box<Buffer>>);

/// An empty text means that the value is unknown.
struct Buffer {
    handle: Option<Arc<ContextHandle>>,
    trace_id: String,
    path: String,
    /// How long the request has waited in front of this process, if that is known.
    queue_time: Option<QueueTime>,
}

impl Detailed {
    /// Allocates nothing, as long as the pool has a buffer.
    pub(super) fn new(head: &Head<'_>, options: DetailOptions, queue: Option<&Queue>) -> Self {
        let queue_time = queue.and_then(|queue| queue.read(head.headers));
        if !options.any() && queue_time.is_none() {
            return Self::default();
        }
        let mut buffer = POOL.take();
        buffer.queue_time = queue_time;
        if options.trace_ids
            && let Some(id) = trace_id(head.headers)
        {
            buffer.set_trace_id(id);
        }
        if options.paths {
            buffer.set_path(head.whole_path());
        }
        Self(Some(buffer))
    }

    /// Adds the context. If there are no details, returns the context instead.
    pub(super) fn add_handle(&mut self, handle: Arc<ContextHandle>) -> Option<Arc<ContextHandle>> {
        match &mut self.0 {
            None => Some(handle),
            Some(buffer) => {
                buffer.handle = Some(handle);
                None
            }
        }
    }

    pub(super) fn handle(&self) -> Option<&Arc<ContextHandle>> {
        self.0.as_ref().and_then(|buffer| buffer.handle.as_ref())
    }

    pub(super) fn take_handle(&mut self) -> Option<Arc<ContextHandle>> {
        self.0.as_mut().and_then(|buffer| buffer.handle.take())
    }

    pub(super) fn queue_time(&self) -> Option<&QueueTime> {
        self.0.as_ref()?.queue_time.as_ref()
    }

    pub(super) fn details(&self) -> RequestDetails<'_> {
        let text = |field: fn(&Buffer) -> &str| {
            let text = self.0.as_ref().map(|buffer| field(buffer));
            text.filter(|text| !text.is_empty())
        };
        RequestDetails {
            trace_id: text(|buffer| &buffer.trace_id),
            path: text(|buffer| &buffer.path),
            queue: self.queue_time().and_then(QueueTime::nanos),
            ..RequestDetails::default()
        }
    }
}

impl Drop for Detailed {
    #[cold]
    fn drop(&mut self) {
        if let Some(buffer) = self.0.take() {
            POOL.give_back(buffer);
        }
    }
}

impl Buffer {
    fn new() -> Self {
        Self {
            handle: None,
            trace_id: String::with_capacity(MAX_TRACE_ID),
            path: String::with_capacity(MAX_PATH + LONGEST_ESCAPE),
            queue_time: None,
        }
    }

    /// Sets the trace id to the visible ASCII of a client's text, at most [`MAX_TRACE_ID`] bytes.
    fn set_trace_id(&mut self, text: &[u8]) {
        let visible = text.iter().filter(|byte| byte.is_ascii_graphic());
        let visible = visible.map(|byte| char::from(*byte));
        self.trace_id.clear();
        self.trace_id.extend(visible.take(MAX_TRACE_ID));
    }

    fn set_path(&mut self, path: &str) {
        self.path.clear();
        push_escaped(&mut self.path, path, MAX_PATH);
    }

    fn clear(&mut self) {
        self.handle = None;
        self.trace_id.clear();
        self.path.clear();
        self.queue_time = None;
    }
}

/// The id of the trace, or else the id of the request.
fn trace_id(headers: &HeaderMap) -> Option<&[u8]> {
    static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
    static X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
    let traceparent = headers.get(&TRACEPARENT);
    let id = traceparent.and_then(|value| parse_traceparent(value.as_bytes()));
    id.or_else(|| headers.get(&X_REQUEST_ID).map(|value| value.as_bytes()))
}

/// The trace id of a `traceparent`: `version-trace_id-parent_id-flags`, as W3C Trace Context defines it.
fn parse_traceparent(value: &[u8]) -> Option<&[u8]> {
    let is_id = |text: &[u8], length: usize| {
        let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        text.len() == length && text.iter().all(is_hex)
    };
    let is_zero = |text: &[u8]| text.iter().all(|byte| *byte == b'0');
    let mut parts = value.split(|byte| *byte == b'-');
    let (version, id, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    // Later versions may add parts.
    let is_whole = version != b"00" || parts.next().is_none();
    let is_valid = is_id(version, 2) && version != b"ff" && is_id(flags, 2) && is_whole;
    let is_valid = is_valid && is_id(id, 32) && is_id(parent, 16);
    (is_valid && !is_zero(id) && !is_zero(parent)).then_some(id)
}

const LISTS: usize = 8;
/// The most buffers in a list. All lists together take about 100 kB.
const BUFFERS_PER_LIST: usize = 32;
/// The bytes by which a path may exceed the limit before it is cut: one escaped character.
const LONGEST_ESCAPE: usize = "\\u{10ffff}".len();

/// With boxes, a request moves only a pointer when it takes or returns a buffer.
type Buffers = Vec<Box<Buffer>>;

/// The unused buffers. All recorders of the process share the pool.
static POOL: Pool = Pool([const { Mutex::new(Vec::new()) }; LISTS]);

struct Pool([Mutex<Buffers>; LISTS]);

impl Pool {
    /// Calls `visit` with each list, beginning with this thread's, until `visit` returns a value. Skips a list that
    /// another thread uses, so no thread waits.
    fn find<T>(&self, mut visit: impl FnMut(&mut Buffers) -> Option<T>) -> Option<T> {
        let first = thread_number();
        (0..LISTS).find_map(|step| {
            let list = &self.0[(first + step) % LISTS];
            visit(&mut *list.try_lock().ok()?)
        })
    }

    #[cold]
    fn take(&self) -> Box<Buffer> {
        let pooled = self.find(Vec::pop);
        pooled.unwrap_or_else(|| Box::new(Buffer::new()))
    }

    #[cold]
    fn give_back(&self, mut buffer: Box<Buffer>) {
        buffer.clear();
        let mut buffer = Some(buffer);
        // If all lists are full or in use, the buffer is dropped.
        let _ = self.find(|list| {
            if list.len() == BUFFERS_PER_LIST {
                return None;
            }
            list.reserve_exact(BUFFERS_PER_LIST - list.len());
            list.push(buffer.take()?);
            Some(())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn details_after(set: impl FnOnce(&mut Buffer)) -> (Option<String>, Option<String>) {
        let mut buffer = POOL.take();
        set(&mut buffer);
        let detailed = Detailed(Some(buffer));
        let RequestDetails { trace_id, path, .. } = detailed.details();
        (trace_id.map(str::to_owned), path.map(str::to_owned))
    }

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    fn id(headers: &[(&'static str, &str)]) -> Option<String> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().expect("a value"));
        }
        trace_id(&map).map(|id| String::from_utf8_lossy(id).into_owned())
    }

    #[test]
    fn a_valid_traceparent_comes_before_the_id_of_the_request() {
        let traceparent = format!("00-{TRACE}-00f067aa0ba902b7-01");
        let both = [("x-request-id", "abc"), ("traceparent", &*traceparent)];
        assert_eq!(id(&both).as_deref(), Some(TRACE));
        assert_eq!(id(&both[..1]).as_deref(), Some("abc"));
        assert_eq!(id(&[]), None);
        let later = format!("cc-{TRACE}-00f067aa0ba902b7-01-what-comes");
        assert_eq!(id(&[("traceparent", &later)]).as_deref(), Some(TRACE));
    }

    #[test]
    fn an_invalid_traceparent_is_no_id() {
        let zeros = "0".repeat(32);
        for invalid in [
            "",
            "00",
            TRACE,
            &format!("00-{TRACE}-00f067aa0ba902b7"),
            &format!("00-{TRACE}-00f067aa0ba902b7-1"),
            &format!("00-{TRACE}-00f067aa0ba902b7-01-more"),
            &format!("ff-{TRACE}-00f067aa0ba902b7-01"),
            &format!("00-{zeros}-00f067aa0ba902b7-01"),
            &format!("00-{TRACE}-0000000000000000-01"),
            &format!("00-{}-00f067aa0ba902b7-01", TRACE.to_uppercase()),
            &format!("00-{TRACE}0-00f067aa0ba902b7-01"),
            &format!("0x-{TRACE}-00f067aa0ba902b7-01"),
        ] {
            assert_eq!(id(&[("traceparent", invalid)]), None, "{invalid}");
            let with_request_id = [("traceparent", invalid), ("x-request-id", "abc")];
            assert_eq!(id(&with_request_id).as_deref(), Some("abc"), "{invalid}");
        }
    }

    #[test]
    fn an_id_is_visible_ascii_and_short() {
        let id = |text: &[u8]| details_after(|buffer| buffer.set_trace_id(text)).0;
        assert_eq!(id(b"abc-1").as_deref(), Some("abc-1"));
        assert_eq!(id("a b\t\u{e9}\n<c>".as_bytes()).as_deref(), Some("ab<c>"));
        assert_eq!(id("\u{e9} ".as_bytes()), None);
        assert_eq!(id(b""), None);
        let long = [b'x'; 3 * MAX_TRACE_ID];
        assert_eq!(id(&long).map(|id| id.len()), Some(MAX_TRACE_ID));
    }

    #[test]
    fn a_path_is_cut_between_characters_and_escaped() {
        let path = |text: &str| details_after(|buffer| buffer.set_path(text)).1;
        assert_eq!(path("/a/b").as_deref(), Some("/a/b"));
        assert_eq!(path("/a\u{1b}[31m\n").as_deref(), Some("/a\\u{1b}[31m\\n"));
        let long = path(&format!("/{}", "\u{e9}".repeat(MAX_PATH))).expect("a path");
        assert_eq!(long.len(), MAX_PATH - 1);
        let escaped = path(&"\u{7f}".repeat(MAX_PATH)).expect("a path");
        assert_eq!(escaped.len(), MAX_PATH - MAX_PATH % "\\u{7f}".len());
    }

    #[test]
    fn a_reused_buffer_has_nothing_of_the_last_request() {
        let (_, path) = details_after(|buffer| {
            buffer.set_trace_id(b"secret");
            buffer.set_path("/secret");
        });
        assert_eq!(path.as_deref(), Some("/secret"));
        for _ in 0..2 * LISTS {
            assert_eq!(details_after(|_| {}), (None, None));
        }
    }

    #[test]
    fn the_pool_is_bounded() {
        let pool = Pool([const { Mutex::new(Vec::new()) }; LISTS]);
        let most = LISTS * BUFFERS_PER_LIST;
        let buffers: Vec<_> = (0..most + 3).map(|_| pool.take()).collect();
        for buffer in buffers {
            pool.give_back(buffer);
        }
        let lists = pool.0.iter();
        let pooled = lists.map(|list| list.lock().expect("free").len());
        assert_eq!(pooled.sum::<usize>(), most);
        for _ in 0..most {
            pool.take();
        }
        assert!(pool.find(Vec::pop).is_none());
    }
}
