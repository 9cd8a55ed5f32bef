//! The context of a request. For a route that was seen before, the layer finds the context without hashing or
//! allocating, and worker threads do not contend for one reference count.

use std::borrow::Cow;
#[cfg(feature = "axum")]
use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use http::{Extensions, Method};

use super::details::Detailed;
#[cfg(feature = "axum")]
use super::matched::{MatchedPath, Template};
use super::source::{Head, IgnoreList, Source};
use tower_pulse_core::clock::Tick;
use tower_pulse_core::recorder::{
    ContextHandle, Queue, Recorder, RecordingState, Scope, thread_number,
};
use tower_pulse_model::context::{Kind, clean_name};
#[cfg(feature = "axum")]
use tower_pulse_model::context::{UNMATCHED, method_name};
use tower_pulse_model::failure::Failure;

/// Once the thread that clones a service has changed more than this many times, the service gets a [`ServiceState`] per
/// shard.
const SPLIT_AFTER: u32 = 256;

const NO_THREAD: usize = usize::MAX;

/// The state of one layered service. axum clones the service for each request. If several threads clone the service,
/// each recording shard has its own state, so that threads do not contend for one reference count.
#[derive(Debug)]
pub(super) struct ServiceStates(Arc<ServiceState>);

/// States for several threads. A new service has none, because `axum::serve` may create all layers anew for each
/// connection, and one thread at a time works on a connection.
#[derive(Debug, Default)]
struct ShardCopies {
    /// The states of all shards except the first. The first shard's state contains this value.
    others: OnceLock<Box<[Arc<ServiceState>]>>,
    /// The thread that cloned the service last; [`NO_THREAD`] once there are `others`.
    last_thread: AtomicUsize,
    /// How often `last_thread` has changed.
    changes: AtomicU32,
}

impl ServiceStates {
    pub(super) fn new(state: ServiceState) -> Self {
        Self(Arc::new(state))
    }

    #[inline(always)]
    pub(super) fn of_thread(&self) -> &Arc<ServiceState> {
        match self.0.sharing.others.get() {
            None => &self.0,
            Some(others) => self.state_of_thread(others),
        }
    }

    /// Clones the service on a thread that did not make the last clone.
    #[inline(never)]
    fn clone_on(&self, thread: usize) -> Self {
        match self.0.sharing.others.get() {
            None => {
                self.0.cloned_on(thread);
                Self(self.0.clone())
            }
            Some(others) => {
                // Another thread may have stored its number while the states were made.
                if self.0.sharing.last_thread.load(Ordering::Relaxed) != NO_THREAD {
                    (self.0.sharing.last_thread).store(NO_THREAD, Ordering::Relaxed);
                }
                Self(self.state_of_thread(others).clone())
            }
        }
    }

    #[inline(always)]
    fn state_of_thread<'a>(&'a self, others: &'a [Arc<ServiceState>]) -> &'a Arc<ServiceState> {
        // The number of shards is a power of two. `others` has one element less, so its length is the mask.
        let shard = thread_number() & others.len();
        others.get(shard.wrapping_sub(1)).unwrap_or(&self.0)
    }
}

impl Clone for ServiceStates {
    #[inline(always)]
    fn clone(&self) -> Self {
        let thread = thread_number();
        if self.0.sharing.last_thread.load(Ordering::Relaxed) == thread {
            return Self(self.0.clone());
        }
        self.clone_on(thread)
    }
}

#[derive(Clone, Debug)]
pub(super) struct LayerOptions {
    pub(super) recorder: Arc<Recorder>,
    pub(super) source: Source,
    pub(super) skips: IgnoreList,
    pub(super) is_for_admin_router: bool,
}

/// The state that clones of one layered service share. Under axum's `Router::layer`, each route and method has its own
/// service, and so its own slot. A user may also put clones of one service on several routes, so each request is
/// compared with the slot.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct ServiceState {
    /// The state of the recorder, kept here to spare each request an indirection.
    pub(super) recording: Arc<RecordingState>,
    layer: LayerOptions,
    /// Reads from a header how long a request has waited in front of the service. The handle of the timer `queue` is
    /// for this state alone.
    queue: Option<Queue>,
    sharing: ShardCopies,
    #[cfg(feature = "axum")]
    slot: OnceLock<Slot>,
}

/// The context of the first request with a route.
#[cfg(feature = "axum")]
#[derive(Debug)]
struct Slot {
    method: Method,
    is_of_all_methods: bool,
    path: Template,
    handle: Arc<ContextHandle>,
    /// Whether each request's head must be read: paths of the template may be ignored, or details or queue times are
    /// recorded.
    needs_head: bool,
}

#[cfg(feature = "axum")]
impl Slot {
    #[inline(always)]
    fn is_of_method(&self, method: &Method) -> bool {
        self.method == *method || self.is_of_all_methods
    }
}

pub(super) enum RequestContext {
    Registered(Arc<ContextHandle>),
    /// A context that is registered at the end of the request at the latest, unless the response has the extension
    /// [`Unrecorded`](crate::Unrecorded).
    Unregistered(Box<PendingContext>),
    /// A registered context, with details of the request.
    Detailed(Detailed),
    /// Any of the other variants, with the timers that ran within the request.
    Timed(Box<TimedContext>),
}

pub(super) struct TimedContext {
    pub(super) context: RequestContext,
    pub(super) scope: Arc<Scope>,
}

/// The context, details and timers with which a request is recorded.
pub(super) struct Recorded {
    pub(super) handle: Arc<ContextHandle>,
    pub(super) details: Detailed,
    pub(super) scope: Option<Arc<Scope>>,
}

impl RequestContext {
    /// Replaces the details of the request. `details` has no context yet.
    pub(super) fn with_details(self, mut details: Detailed) -> Self {
        match self {
            Self::Unregistered(mut new) => {
                new.details = details;
                Self::Unregistered(new)
            }
            Self::Registered(handle) => match details.add_handle(handle) {
                Some(handle) => Self::Registered(handle),
                None => Self::Detailed(details),
            },
            Self::Detailed(mut old) => match old.take_handle() {
                Some(handle) => Self::Registered(handle).with_details(details),
                None => Self::Detailed(old),
            },
            Self::Timed(timed) => timed.context.with_details(details).timed(timed.scope),
        }
    }

    pub(super) fn timed(self, scope: Arc<Scope>) -> Self {
        match self {
            Self::Timed(timed) if Arc::ptr_eq(&timed.scope, &scope) => Self::Timed(timed),
            context => Self::Timed(Box::new(TimedContext { context, scope })),
        }
    }

    /// Adds a failure. The request began at `start`.
    pub(super) fn failed(self, failure: Failure, start: Tick) -> Self {
        let scope = match &self {
            Self::Timed(timed) => timed.scope.clone(),
            _ => Arc::new(Scope::new(start)),
        };
        scope.fail(failure);
        self.timed(scope)
    }

    /// Registers the context. Returns the context with the request's details and timers.
    pub(super) fn into_recorded(self) -> Option<Recorded> {
        let (handle, details) = match self {
            Self::Registered(handle) => (handle, Detailed::default()),
            Self::Unregistered(mut new) => {
                let details = std::mem::take(&mut new.details);
                let handle = new.register();
                handle.begin(thread_number());
                (handle, details)
            }
            Self::Detailed(mut detailed) => (detailed.take_handle()?, detailed),
            Self::Timed(timed) => {
                let recorded = timed.context.into_recorded()?;
                let scope = Some(timed.scope);
                return Some(Recorded { scope, ..recorded });
            }
        };
        Some(Recorded {
            handle,
            details,
            scope: None,
        })
    }

    pub(super) fn handle(&self) -> Option<&Arc<ContextHandle>> {
        match self {
            Self::Registered(handle) => Some(handle),
            Self::Unregistered(_) => None,
            Self::Detailed(detailed) => detailed.handle(),
            Self::Timed(timed) => timed.context.handle(),
        }
    }

    /// Counts a request that begins. A context that is not registered yet counts the request at its end.
    pub(super) fn begin(&self) {
        if let Some(handle) = self.handle() {
            handle.begin(thread_number());
        }
    }

    pub(super) fn recording(&self) -> Option<&RecordingState> {
        match self {
            Self::Unregistered(new) => Some(&new.state.recording),
            Self::Timed(timed) => timed.context.recording(),
            other => other.handle().map(|handle| &**handle.recording()),
        }
    }
}

/// The context that an inner layer gives to a request that an outer layer measures.
pub(super) struct ContextOverride {
    /// The id of the recorder that both layers share.
    pub(super) recorder_id: u32,
    /// `None` if the request is not recorded.
    pub(super) context: Option<RequestContext>,
    /// Whether the context is used only if the outer layers see no route.
    pub(super) is_for_unmatched: bool,
}

pub(super) struct PendingContext {
    name: Cow<'static, str>,
    state: Arc<ServiceState>,
    details: Detailed,
    #[cfg(feature = "axum")]
    key: Option<(Method, Template)>,
}

impl PendingContext {
    #[cold]
    pub(super) fn register(self) -> Arc<ContextHandle> {
        let handle = self.state.layer.recorder.context(Kind::Http, &self.name);
        #[cfg(feature = "axum")]
        if let Some(key) = self.key {
            self.state.remember(key, &handle);
        }
        handle
    }
}

impl ServiceState {
    pub(super) fn new(layer: LayerOptions) -> Self {
        Self {
            recording: layer.recorder.recording.clone(),
            queue: layer.recorder.queue.as_ref().map(Queue::clone_unshared),
            layer,
            sharing: ShardCopies::default(),
            #[cfg(feature = "axum")]
            slot: OnceLock::new(),
        }
    }

    /// Counts a change of the thread that clones the service. Races make the count inexact, which is harmless.
    #[cold]
    fn cloned_on(&self, thread: usize) {
        let sharing = &self.sharing;
        sharing.last_thread.store(thread, Ordering::Relaxed);
        let changes = sharing.changes.load(Ordering::Relaxed);
        sharing.changes.store(changes + 1, Ordering::Relaxed);
        if changes == SPLIT_AFTER {
            self.split_per_shard();
            sharing.last_thread.store(NO_THREAD, Ordering::Relaxed);
        }
    }

    #[cold]
    fn split_per_shard(&self) {
        let others =
            (1..self.layer.recorder.shards()).map(|_| Arc::new(Self::new(self.layer.clone())));
        let _ = self.sharing.others.set(others.collect());
    }

    /// The context in the slot, if the slot matches method and extensions, and the rest of the head need not be read.
    #[cfg(feature = "axum")]
    #[inline(always)]
    pub(super) fn seen(
        &self,
        method: &Method,
        extensions: &Extensions,
    ) -> Option<&Arc<ContextHandle>> {
        let slot = self.slot.get()?;
        let is_same = !slot.needs_head
            && slot.is_of_method(method)
            && slot.path.equals(Template::matched_path(extensions)?);
        is_same.then_some(&slot.handle)
    }

    #[cfg(not(feature = "axum"))]
    pub(super) fn seen(&self, _: &Method, _: &Extensions) -> Option<&Arc<ContextHandle>> {
        None
    }

    /// The context of a request; `None` if the request is not recorded.
    pub(super) fn context(self: &Arc<Self>, head: &Head<'_>) -> Option<RequestContext> {
        #[cfg(feature = "axum")]
        if let Source::Matched { has_method } = self.layer.source
            && let Some(path) = Template::matched_path(head.extensions)
        {
            return match self.slot.get() {
                Some(slot) if slot.is_of_method(head.method) && slot.path.equals(path) => {
                    self.in_slot(slot, head)
                }
                _ => Some(self.detailed(self.matched(path, has_method, head)?, head)),
            };
        }
        Some(self.detailed(self.without_template(head)?, head))
    }

    #[cfg(feature = "axum")]
    fn in_slot(&self, slot: &Slot, head: &Head<'_>) -> Option<RequestContext> {
        if self.layer.skips.contains_path_of(head) {
            return None;
        }
        Some(self.detailed(RequestContext::Registered(slot.handle.clone()), head))
    }

    /// Adds the details of a request, if they are recorded.
    fn detailed(&self, context: RequestContext, head: &Head<'_>) -> RequestContext {
        let details = Detailed::new(head, self.recording.details(), self.queue.as_ref());
        context.with_details(details)
    }

    /// The context of a route template that is not in the slot.
    #[cfg(feature = "axum")]
    fn matched(
        self: &Arc<Self>,
        path: &MatchedPath,
        has_method: bool,
        head: &Head<'_>,
    ) -> Option<RequestContext> {
        thread_local! {
            static NAME: RefCell<String> = const { RefCell::new(String::new()) };
        }
        if self.layer.skips.contains(path.as_str()) || self.layer.skips.contains_path_of(head) {
            return None;
        }
        let write = |name: &mut String| {
            name.clear();
            if has_method {
                name.push_str(method_name(head.method));
                name.push(' ');
            }
            name.push_str(path.as_str());
        };
        let registered = NAME.try_with(|name| {
            let mut name = name.try_borrow_mut().ok()?;
            write(&mut name);
            self.layer.recorder.existing_http(&clean_name(&name))
        });
        let key = (head.method.clone(), Template::new(path));
        if let Ok(Some(handle)) = registered {
            self.remember(key, &handle);
            return Some(RequestContext::Registered(handle));
        }
        let mut name = String::new();
        write(&mut name);
        Some(RequestContext::Unregistered(Box::new(PendingContext {
            name: Cow::Owned(name),
            state: self.clone(),
            details: Detailed::default(),
            key: Some(key),
        })))
    }

    #[cfg(feature = "axum")]
    fn remember(&self, (method, path): (Method, Template), handle: &ContextHandle) {
        // If a request of another context has filled the slot, this context is looked up by name each time.
        self.slot.get_or_init(|| Slot {
            method,
            is_of_all_methods: matches!(self.layer.source, Source::Matched { has_method: false }),
            handle: handle.clone_unshared(),
            needs_head: self.recording.details().any()
                || self.queue.is_some()
                || self.layer.skips.may_match(path.as_str()),
            path,
        });
    }

    fn without_template(self: &Arc<Self>, head: &Head<'_>) -> Option<RequestContext> {
        let is_without_layer = self.layer.is_for_admin_router && !self.recording.has_layer();
        if is_without_layer || self.layer.skips.contains_path_of(head) {
            return None;
        }
        self.named(head)
    }

    /// The context that this layer gives to a request that an outer layer measures; `None` leaves the choice to that
    /// layer.
    #[cold]
    pub(super) fn context_override(self: &Arc<Self>, head: &Head<'_>) -> Option<ContextOverride> {
        let is_for_unmatched = match &self.layer.source {
            #[cfg(feature = "axum")]
            Source::Matched { .. } => {
                Template::matched_path(head.extensions)?;
                true
            }
            Source::Named(_) | Source::Function(_) => false,
        };
        let context = if is_for_unmatched {
            // The outer layer sees the whole path, and decides whether the request is ignored.
            Some(self.context(head)?)
        } else {
            self.named(head)
        };
        Some(ContextOverride {
            recorder_id: self.recording.id(),
            context,
            is_for_unmatched,
        })
    }

    /// The context from the layer's name or function; `None` if the function returns none.
    fn named(self: &Arc<Self>, head: &Head<'_>) -> Option<RequestContext> {
        let name = match &self.layer.source {
            #[cfg(feature = "axum")]
            Source::Matched { .. } => Cow::Borrowed(UNMATCHED),
            Source::Named(name) => Cow::Borrowed(&**name),
            Source::Function(function) => function(head)?,
        };
        Some(
            match self.layer.recorder.existing_http(&clean_name(&name)) {
                Some(handle) => RequestContext::Registered(handle),
                None => RequestContext::Unregistered(Box::new(PendingContext {
                    name: name.into_owned().into(),
                    state: self.clone(),
                    details: Detailed::default(),
                    #[cfg(feature = "axum")]
                    key: None,
                })),
            },
        )
    }
}
