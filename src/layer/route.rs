//! Which context a request belongs to, found without hashing or allocating on a route that was seen
//! before, and without two worker threads counting references in one place.

use std::borrow::Cow;
#[cfg(feature = "axum")]
use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

#[cfg(feature = "axum")]
use http::Method;
use http::Request;

#[cfg(feature = "axum")]
use super::matched::{MatchedPath, Template};
use super::source::{Head, Skips, Source};
use crate::model::context::{Kind, clean_name};
#[cfg(feature = "axum")]
use crate::model::context::{UNMATCHED, fold_method};
use crate::recorder::{Core, Entry, Recorder, thread_number};

/// How often the threads that clone a service must have changed before it is worth a [`Route`] for
/// each recording shard.
const SHARED_AFTER: u32 = 256;

/// The route of one layered service, and where several threads clone it all the time, one for each
/// recording shard: axum clones the service for each request, and the threads would fight for one
/// reference count. It begins with one, as `axum::serve` may add all layers anew for each
/// connection, which one thread at a time works on.
#[derive(Debug)]
pub(super) struct Routes {
    route: Arc<Route>,
    all: OnceLock<Box<[Arc<Route>]>>,
    /// The thread that cloned it last, and how often that was another one.
    last_thread: AtomicUsize,
    changes: AtomicU32,
}

impl Routes {
    pub(super) fn new(route: Route) -> Self {
        Self::of(Arc::new(route))
    }

    fn of(route: Arc<Route>) -> Self {
        Self {
            route,
            all: OnceLock::new(),
            last_thread: AtomicUsize::new(0),
            changes: AtomicU32::new(0),
        }
    }

    /// The one to be used by this thread.
    #[inline(always)]
    pub(super) fn route(&self) -> &Arc<Route> {
        match self.all.get() {
            // The number of shards is a power of two.
            Some(all) => &all[thread_number() & (all.len() - 1)],
            None => &self.route,
        }
    }

    /// Notes which thread clones it. Counting is not exact, and need not be.
    #[inline(always)]
    fn cloned(&self) {
        let thread = thread_number();
        if self.last_thread.load(Ordering::Relaxed) != thread {
            self.last_thread.store(thread, Ordering::Relaxed);
            let changes = self.changes.load(Ordering::Relaxed);
            self.changes.store(changes + 1, Ordering::Relaxed);
            if changes == SHARED_AFTER {
                self.divide();
            }
        }
    }

    #[cold]
    fn divide(&self) {
        let others = (1..self.route.recorder.shards()).map(|_| Arc::new(self.route.afresh()));
        let all = std::iter::once(self.route.clone()).chain(others);
        let _ = self.all.set(all.collect());
    }
}

impl Clone for Routes {
    #[inline(always)]
    fn clone(&self) -> Self {
        if self.all.get().is_none() {
            self.cloned();
        }
        Self::of(self.route().clone())
    }
}

/// What the clones of one layered service share. Under axum's `Router::layer` that is one route and
/// method; but a router that was cloned into two places shares it too, so what is remembered is
/// checked against each request.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Route {
    pub(super) recorder: Arc<Recorder>,
    source: Source,
    skips: Skips,
    stands_in: bool,
    #[cfg(feature = "axum")]
    slot: OnceLock<Slot>,
}

/// What the first request of a route found out.
#[cfg(feature = "axum")]
#[derive(Debug)]
struct Slot {
    method: Method,
    path: Template,
    /// `None`: such requests are not recorded.
    entry: Option<Arc<Entry>>,
}

/// Where a request's figures go.
pub(super) enum Target {
    /// Nowhere: the request is not recorded, or it has ended.
    Nowhere,
    /// To the context that the route remembers.
    #[cfg(feature = "axum")]
    Remembered(Arc<Route>),
    /// To another one that is known.
    Known(Arc<Entry>),
    /// To one that becomes known when the request has ended and turned out not to be the admin
    /// router's.
    New(Box<New>),
}

impl Target {
    #[inline]
    pub(super) fn core(&self) -> Option<&Arc<Core>> {
        match self {
            #[cfg(feature = "axum")]
            Self::Remembered(route) => Some(&route.recorder.core),
            Self::Known(entry) => Some(entry.core()),
            Self::New(new) => Some(&new.route.recorder.core),
            Self::Nowhere => None,
        }
    }
}

/// A context seen for the first time.
pub(super) struct New {
    name: Cow<'static, str>,
    route: Arc<Route>,
    /// What to remember it by.
    #[cfg(feature = "axum")]
    key: Option<(Method, Template)>,
}

impl New {
    /// Makes the context known.
    pub(super) fn entry(self) -> Arc<Entry> {
        let entry = self.route.recorder.entry(Kind::Http, &self.name);
        #[cfg(feature = "axum")]
        if let Some(key) = self.key {
            self.route.remember(key, Some(entry.clone()));
        }
        entry
    }

    /// Remembers that such requests are not recorded.
    pub(super) fn skip(self) {
        #[cfg(feature = "axum")]
        if let Some(key) = self.key {
            self.route.remember(key, None);
        }
    }
}

impl Route {
    pub(super) fn new(
        recorder: Arc<Recorder>,
        source: Source,
        skips: Skips,
        stands_in: bool,
    ) -> Self {
        Self {
            recorder,
            source,
            skips,
            stands_in,
            #[cfg(feature = "axum")]
            slot: OnceLock::new(),
        }
    }

    /// The same with nothing remembered.
    fn afresh(&self) -> Self {
        Self::new(
            self.recorder.clone(),
            self.source.clone(),
            self.skips.clone(),
            self.stands_in,
        )
    }

    /// Where the request's figures go.
    #[inline]
    pub(super) fn target<B>(self: &Arc<Self>, request: &Request<B>) -> Target {
        #[cfg(feature = "axum")]
        if let Source::Matched { with_method } = self.source
            && let Some(path) = Template::of(request.extensions())
        {
            if let Some(slot) = self.slot.get()
                && slot.path.is(path)
                && (!with_method || slot.method == *request.method())
            {
                return match slot.entry {
                    Some(_) => Target::Remembered(self.clone()),
                    None => Target::Nowhere,
                };
            }
            return self.matched(path, with_method, &Head::of(request));
        }
        self.other(&Head::of(request)).unwrap_or(Target::Nowhere)
    }

    /// A context from a route template that is not the one remembered.
    #[cfg(feature = "axum")]
    fn matched(self: &Arc<Self>, path: &MatchedPath, with_method: bool, head: &Head<'_>) -> Target {
        thread_local! {
            static NAME: RefCell<String> = const { RefCell::new(String::new()) };
        }
        if self.skips.contain(path.as_str()) || self.skips.contain(head.uri.path()) {
            return Target::Nowhere;
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
            self.remember(key, Some(entry.clone()));
            return Target::Known(entry);
        }
        let mut name = String::new();
        write(&mut name);
        Target::New(Box::new(New {
            name: Cow::Owned(name),
            route: self.clone(),
            key: Some(key),
        }))
    }

    /// The context that it remembers.
    #[cfg(feature = "axum")]
    #[inline(always)]
    pub(super) fn remembered(&self) -> Option<&Arc<Entry>> {
        self.slot.get()?.entry.as_ref()
    }

    #[cfg(feature = "axum")]
    fn remember(&self, (method, path): (Method, Template), entry: Option<Arc<Entry>>) {
        // Another request may have been faster; then this one's is found by its name each time.
        let _ = self.slot.set(Slot {
            method,
            path,
            entry,
        });
    }

    /// A context that does not come from a route template.
    fn other(self: &Arc<Self>, head: &Head<'_>) -> Option<Target> {
        if self.skips.contain(head.uri.path()) {
            return None;
        }
        if self.stands_in && !self.recorder.core.has_layer() {
            return None;
        }
        let name = match &self.source {
            #[cfg(feature = "axum")]
            Source::Matched { .. } => Cow::Borrowed(UNMATCHED),
            Source::Named(name) => Cow::Borrowed(&**name),
            Source::Function(function) => function(head)?,
        };
        Some(match self.recorder.known_http(&clean_name(&name)) {
            Some(entry) => Target::Known(entry),
            None => Target::New(Box::new(New {
                name: name.into_owned().into(),
                route: self.clone(),
                #[cfg(feature = "axum")]
                key: None,
            })),
        })
    }
}
