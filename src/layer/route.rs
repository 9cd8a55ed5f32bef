//! Which context a request belongs to, found without hashing or allocating on a route that was seen
//! before, and without two worker threads counting references in one place.

use std::borrow::Cow;
#[cfg(feature = "axum")]
use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

#[cfg(feature = "axum")]
use http::Method;

#[cfg(feature = "axum")]
use super::matched::{MatchedPath, Template};
use super::source::{Head, IgnoreList, Source};
use crate::model::context::{Kind, clean_name};
#[cfg(feature = "axum")]
use crate::model::context::{UNMATCHED, fold_method};
use crate::recorder::{Core, Entry, Recorder, thread_number};

/// How often the threads that clone a service must have changed before it is worth a [`Route`] for
/// each recording shard.
const SHARED_AFTER: u32 = 256;

/// The route of one layered service, or where several threads clone it all the time, one of its
/// routes, of which there is one for each recording shard: axum clones the service for each request,
/// and the threads would fight for one reference count.
#[derive(Debug)]
pub(super) struct Routes(Arc<Route>);

/// The routes of a service that several threads clone. It begins with one, as `axum::serve` may add
/// all layers anew for each connection, which one thread at a time works on.
#[derive(Debug, Default)]
struct Sharing {
    /// Those of all shards but the first, which is the one that this is in.
    others: OnceLock<Box<[Arc<Route>]>>,
    /// The thread that cloned it last, and how often that was another one.
    last_thread: AtomicUsize,
    changes: AtomicU32,
}

impl Routes {
    pub(super) fn new(route: Route) -> Self {
        Self(Arc::new(route))
    }

    /// The one to be used by this thread.
    #[inline(always)]
    pub(super) fn route(&self) -> &Arc<Route> {
        match self.0.sharing.others.get() {
            None => &self.0,
            Some(others) => self.of_thread(others),
        }
    }

    #[inline(always)]
    fn of_thread<'a>(&'a self, others: &'a [Arc<Route>]) -> &'a Arc<Route> {
        // The number of shards is a power of two, and that of the others one less.
        let shard = thread_number() & others.len();
        others.get(shard.wrapping_sub(1)).unwrap_or(&self.0)
    }
}

impl Clone for Routes {
    #[inline(always)]
    fn clone(&self) -> Self {
        Self(match self.0.sharing.others.get() {
            None => {
                self.0.cloned();
                self.0.clone()
            }
            Some(others) => self.of_thread(others).clone(),
        })
    }
}

/// What the clones of one layered service share. Under axum's `Router::layer` that is one route and
/// method; but a router that was cloned into two places shares it too, so what is remembered is
/// checked against each request.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Route {
    /// The recorder's, one step nearer for each request.
    pub(super) core: Arc<Core>,
    recorder: Arc<Recorder>,
    source: Source,
    skips: IgnoreList,
    fallback_only: bool,
    sharing: Sharing,
    #[cfg(feature = "axum")]
    slot: OnceLock<Slot>,
}

/// What the first request of a route found out.
#[cfg(feature = "axum")]
#[derive(Debug)]
struct Slot {
    method: Method,
    path: Template,
    /// A handle of this route's own.
    entry: Arc<Entry>,
    /// Some of the template's paths may be skipped.
    may_skip: bool,
}

/// Where a request's figures go.
pub(super) enum Target {
    /// To a context that is known.
    Known(Arc<Entry>),
    /// To one that becomes known when the request has ended and turned out not to be the admin
    /// router's.
    Unregistered(Box<PendingContext>),
}

impl Target {
    /// Whether it is the context `<unmatched>`.
    pub(super) fn is_unmatched(&self) -> bool {
        matches!(self, Self::Known(entry) if entry.is_unmatched())
    }
}

/// The context that an inner layer gives to a request which a layer further out measures.
pub(super) struct ContextOverride {
    /// The id of the recorder of both.
    pub(super) recorder: u32,
    /// `None`: the request is not recorded.
    pub(super) target: Option<Target>,
    /// It counts only where the layers further out see no route.
    pub(super) only_unmatched: bool,
}

/// A context seen for the first time.
pub(super) struct PendingContext {
    name: Cow<'static, str>,
    route: Arc<Route>,
    /// What to remember it by.
    #[cfg(feature = "axum")]
    key: Option<(Method, Template)>,
}

impl PendingContext {
    /// Makes the context known.
    #[cold]
    pub(super) fn entry(self) -> Arc<Entry> {
        let entry = self.route.recorder.entry(Kind::Http, &self.name);
        #[cfg(feature = "axum")]
        if let Some(key) = self.key {
            self.route.remember(key, &entry);
        }
        entry
    }

    pub(super) fn core(&self) -> &Core {
        &self.route.core
    }
}

impl Route {
    pub(super) fn new(
        recorder: Arc<Recorder>,
        source: Source,
        skips: IgnoreList,
        fallback_only: bool,
    ) -> Self {
        Self {
            core: recorder.core.clone(),
            recorder,
            source,
            skips,
            fallback_only,
            sharing: Sharing::default(),
            #[cfg(feature = "axum")]
            slot: OnceLock::new(),
        }
    }

    /// The same with nothing remembered.
    fn fresh(&self) -> Self {
        Self::new(
            self.recorder.clone(),
            self.source.clone(),
            self.skips.clone(),
            self.fallback_only,
        )
    }

    /// Notes which thread clones it. Counting is not exact, and need not be.
    #[inline(always)]
    fn cloned(&self) {
        let (thread, sharing) = (thread_number(), &self.sharing);
        if sharing.last_thread.load(Ordering::Relaxed) != thread {
            sharing.last_thread.store(thread, Ordering::Relaxed);
            let changes = sharing.changes.load(Ordering::Relaxed);
            sharing.changes.store(changes + 1, Ordering::Relaxed);
            if changes == SHARED_AFTER {
                self.split_per_shard();
            }
        }
    }

    #[cold]
    fn split_per_shard(&self) {
        let others = (1..self.recorder.shards()).map(|_| Arc::new(self.fresh()));
        let _ = self.sharing.others.set(others.collect());
    }

    /// Where the request's figures go, `None` when it is not recorded.
    #[inline(always)]
    pub(super) fn target(self: &Arc<Self>, head: &Head<'_>) -> Option<Target> {
        #[cfg(feature = "axum")]
        if let Source::Matched { with_method } = self.source
            && let Some(path) = Template::of(head.extensions)
        {
            if let Some(slot) = self.slot.get()
                && slot.path.is(path)
                && (!with_method || slot.method == *head.method)
            {
                if slot.may_skip && self.skips.contain(head.uri.path()) {
                    return None;
                }
                return Some(Target::Known(slot.entry.clone()));
            }
            return self.matched(path, with_method, head);
        }
        self.other(head)
    }

    /// A context from a route template that is not the one remembered.
    #[cfg(feature = "axum")]
    fn matched(
        self: &Arc<Self>,
        path: &MatchedPath,
        with_method: bool,
        head: &Head<'_>,
    ) -> Option<Target> {
        thread_local! {
            static NAME: RefCell<String> = const { RefCell::new(String::new()) };
        }
        if self.skips.contain(path.as_str()) || self.skips.contain(head.uri.path()) {
            return None;
        }
        let write = |name: &mut String| {
            name.clear();
            if with_method {
                name.push_str(fold_method(head.method));
                name.push(' ');
            }
            name.push_str(path.as_str());
        };
        let known = NAME.try_with(|name| {
            let mut name = name.try_borrow_mut().ok()?;
            write(&mut name);
            self.recorder.known_http(&clean_name(&name))
        });
        let key = (head.method.clone(), Template::new(path));
        if let Ok(Some(entry)) = known {
            self.remember(key, &entry);
            return Some(Target::Known(entry));
        }
        let mut name = String::new();
        write(&mut name);
        Some(Target::Unregistered(Box::new(PendingContext {
            name: Cow::Owned(name),
            route: self.clone(),
            key: Some(key),
        })))
    }

    #[cfg(feature = "axum")]
    fn remember(&self, (method, path): (Method, Template), entry: &Entry) {
        // Another request may have been faster; then this one's is found by its name each time.
        self.slot.get_or_init(|| Slot {
            method,
            entry: entry.clone_unshared(),
            may_skip: self.skips.may_match(path.as_str()),
            path,
        });
    }

    /// A context that does not come from a route template.
    fn other(self: &Arc<Self>, head: &Head<'_>) -> Option<Target> {
        if self.skips.contain(head.uri.path()) {
            return None;
        }
        if self.fallback_only && !self.core.has_layer() {
            return None;
        }
        self.named(head)
    }

    /// The context that this layer gives to a request which a layer further out measures; `None`
    /// leaves it to that layer.
    #[cold]
    pub(super) fn context_override(self: &Arc<Self>, head: &Head<'_>) -> Option<ContextOverride> {
        let only_unmatched = match &self.source {
            #[cfg(feature = "axum")]
            Source::Matched { .. } => {
                Template::of(head.extensions)?;
                true
            }
            Source::Named(_) | Source::Function(_) => false,
        };
        let target = if only_unmatched {
            // Whether it is ignored is for the layer that sees the whole path to say.
            Some(self.target(head)?)
        } else {
            self.named(head)
        };
        Some(ContextOverride {
            recorder: self.core.id(),
            target,
            only_unmatched,
        })
    }

    /// The context by the layer's name or function, `None` when the function gives none.
    fn named(self: &Arc<Self>, head: &Head<'_>) -> Option<Target> {
        let name = match &self.source {
            #[cfg(feature = "axum")]
            Source::Matched { .. } => Cow::Borrowed(UNMATCHED),
            Source::Named(name) => Cow::Borrowed(&**name),
            Source::Function(function) => function(head)?,
        };
        Some(match self.recorder.known_http(&clean_name(&name)) {
            Some(entry) => Target::Known(entry),
            None => Target::Unregistered(Box::new(PendingContext {
                name: name.into_owned().into(),
                route: self.clone(),
                #[cfg(feature = "axum")]
                key: None,
            })),
        })
    }
}
