//! Access control of the admin router.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use hmac_sha256::Hash;
use http::request::Parts;
use http::{StatusCode, header};
use subtle::{Choice, ConstantTimeEq};

use super::hosts::Hosts;
use super::response::ApiError;
use tower_pulse_core::error::BuildError;
use tower_pulse_core::health::Notices;
use tower_pulse_core::task::BoxFuture;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Decides which requests the admin router answers. A router cannot be served without an `Access`. The guide's page
/// about [access](https://docs.rs/tower-pulse/latest/tower_pulse/guide/access/index.html) shows each kind in a complete
/// service.
///
/// Secrets are stored as digests, compared in constant time, and never printed.
///
/// ```
/// # use tower_pulse_admin::Access;
///
/// let access = Access::token("s3cret");
/// assert_eq!(format!("{access:?}"), "Access::token(…)");
/// ```
#[derive(Clone)]
pub struct Access {
    rule: Rule,
    /// The second token of [`Rule::Token`], with which requests only read.
    read_only: Option<Secret>,
    /// The hosts that requests to an open router may name.
    hosts: Hosts,
}

/// The rights and the name of a caller. The function of [`Access::custom`] may return a `Permission` instead of a
/// `bool`, where `true` means [`write`](Self::write) and `false` means [`refuse`](Self::refuse).
///
/// ```
/// # use tower_pulse_admin::{Access, Permission};
/// #[derive(Clone)]
/// struct User { name: String, is_operator: bool } // inserted by the service's own login middleware
///
/// let access = Access::custom(|parts| match parts.extensions.get::<User>() {
///     Some(user) if user.is_operator => Permission::write().named(&user.name),
///     Some(_) => Permission::read(),
///     None => Permission::refuse(),
/// });
/// ```
#[derive(Clone, Debug)]
pub struct Permission {
    may_read: bool,
    may_write: bool,
    name: Option<Box<str>>,
}

impl Permission {
    /// Permits nothing: the request is answered 403.
    pub fn refuse() -> Self {
        Self {
            may_read: false,
            may_write: false,
            name: None,
        }
    }

    /// Permits reading. Requests that add or remove a mark, or acknowledge a change, are answered 403, and the
    /// dashboard does not offer these actions.
    pub fn read() -> Self {
        Self {
            may_read: true,
            ..Self::refuse()
        }
    }

    /// Permits reading and writing.
    pub fn write() -> Self {
        Self {
            may_write: true,
            ..Self::read()
        }
    }

    /// Sets the caller's name, which is shown with the changes that the caller acknowledges. Hidden characters are
    /// escaped, and the result is cut after 64 bytes. Without a name, the dashboard asks for one.
    #[must_use]
    pub fn named(mut self, name: impl AsRef<str>) -> Self {
        self.name = Some(name.as_ref().into());
        self
    }

    pub(super) fn may_write(&self) -> bool {
        self.may_write
    }

    /// The caller's name; `None` if it is missing or blank.
    pub(super) fn name(&self) -> Option<&str> {
        let name = self.name.as_deref();
        name.filter(|name| !name.trim().is_empty())
    }
}

impl From<bool> for Permission {
    fn from(is_allowed: bool) -> Self {
        match is_allowed {
            true => Self::write(),
            false => Self::refuse(),
        }
    }
}

type AsyncRule = dyn Fn(&Parts) -> BoxFuture<'static, Permission> + Send + Sync;

/// The time after which an [`AsyncRule`] counts as failed, and the request is answered 503.
const DEADLINE: Duration = Duration::from_secs(5);

#[derive(Clone)]
enum Rule {
    Token(Secret),
    Basic(Secret, Secret),
    Custom(Arc<dyn Fn(&Parts) -> Permission + Send + Sync>),
    CustomAsync(Arc<AsyncRule>),
    Open,
}

impl Access {
    fn of(rule: Rule) -> Self {
        Self {
            rule,
            read_only: None,
            hosts: Hosts::default(),
        }
    }

    /// Allows requests that carry `token`: as a `Bearer` header, or as a password, which browsers ask for. Any user
    /// name is allowed, and names the caller. Whitespace around `token`, such as a line end from a file, is removed.
    /// With an empty token, `mount` panics.
    ///
    /// ```
    /// # use tower_pulse_admin::Access;
    /// let access = Access::token(std::env::var("PULSE_TOKEN").unwrap_or_default());
    /// ```
    pub fn token(token: impl AsRef<str>) -> Self {
        Self::of(Rule::Token(Secret::new(token.as_ref().trim_ascii())))
    }

    /// Adds a second token to [`token`](Self::token), with which a request can read, but not write: the dashboard has
    /// no buttons that write, and `POST` and `DELETE` are answered 403. `mount` panics if this token is empty or equals
    /// the first one, or if the access was not made by `token`.
    ///
    /// ```
    /// # use tower_pulse_admin::Access;
    /// let secret = |name| std::env::var(name).unwrap_or_default();
    /// let access = Access::token(secret("PULSE_TOKEN")).read_only_token(secret("PULSE_READ_TOKEN"));
    /// ```
    #[must_use]
    pub fn read_only_token(mut self, token: impl AsRef<str>) -> Self {
        self.read_only = Some(Secret::new(token.as_ref().trim_ascii()));
        self
    }

    /// Allows requests that carry `user` and `password`, which a browser asks for. `mount` panics if the password is
    /// empty or the user contains a colon.
    ///
    /// ```
    /// # use tower_pulse_admin::Access;
    /// let access = Access::basic("ops", "s3cret");
    /// ```
    pub fn basic(user: impl AsRef<str>, password: impl AsRef<str>) -> Self {
        let user = Secret {
            // In HTTP the user ends at the first colon, so no request could carry a user with a colon.
            is_usable: !user.as_ref().contains(':'),
            ..Secret::new(user.as_ref())
        };
        Self::of(Rule::Basic(user, Secret::new(password.as_ref())))
    }

    /// Lets `allows` decide about each request, by a `bool` or a [`Permission`]. A refused request is answered 403. The
    /// function gets the head of the request ([`http::request::Parts`]), runs for each request to the admin router, and
    /// must not block. Use [`custom_async`](Self::custom_async) for a check that has to wait.
    ///
    /// ```
    /// # use tower_pulse_admin::Access;
    /// #[derive(Clone)]
    /// struct Operator; // inserted by the service's own login middleware
    ///
    /// let access = Access::custom(|parts| parts.extensions.get::<Operator>().is_some());
    /// ```
    pub fn custom<P: Into<Permission>>(
        allows: impl Fn(&Parts) -> P + Send + Sync + 'static,
    ) -> Self {
        Self::of(Rule::Custom(Arc::new(move |parts| allows(parts).into())))
    }

    /// Lets the future of `allows` decide about each request, by a `bool` or a [`Permission`]. A refused request is
    /// answered 403. Use this function for a check that has to wait, such as looking up a session in a database. The
    /// future cannot borrow the head of the request, so `allows` must copy the values that the future needs. If the
    /// future takes longer than 5 s, the request is answered 503.
    ///
    /// ```
    /// # use tower_pulse_admin::Access;
    /// # #[derive(Clone)] struct Sessions;
    /// # impl Sessions { async fn is_operator(&self, cookie: &str) -> Result<bool, std::io::Error> { Ok(cookie == "sid=1") } }
    /// # let sessions = Sessions;
    /// use http::header::COOKIE;
    ///
    /// let access = Access::custom_async(move |parts| {
    ///     let sessions = sessions.clone();
    ///     let cookie = parts.headers.get(COOKIE).and_then(|value| value.to_str().ok());
    ///     let cookie = cookie.unwrap_or_default().to_owned();
    ///     async move { sessions.is_operator(&cookie).await.unwrap_or(false) }
    /// });
    /// ```
    pub fn custom_async<F, Fut>(allows: F) -> Self
    where
        F: Fn(&Parts) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: Into<Permission>> + Send + 'static,
    {
        let allows = move |parts: &Parts| -> BoxFuture<'static, Permission> {
            let allowed = allows(parts);
            Box::pin(async move { allowed.await.into() })
        };
        Self::of(Rule::CustomAsync(Arc::new(allows)))
    }

    /// Allows all requests. Use this access for a service that listens on loopback, behind a proxy that checks
    /// requests, or behind an authentication layer of its own. A warning at the start says that anyone may enter.
    ///
    /// The API and each `POST` answer 403 unless the request's `Host` is an IP address, `localhost`, a name that ends
    /// in `.localhost`, or a host that [`allow_host`](Self::allow_host) names. Without this check, a page of another
    /// site could point its own name at this service, and read everything that needs no login (DNS rebinding).
    /// [`allow_any_host`](Self::allow_any_host) disables the warning and this check.
    ///
    /// Add an authentication layer with `route_layer`, never with `layer`. axum's `Router::layer` also wraps the
    /// default fallback of the admin router, which replaces that of the service when the routers are merged. Then every
    /// path that does not exist in the service asks for a login.
    pub fn open() -> Self {
        Self::of(Rule::Open)
    }

    /// Allows requests to an [open](Self::open) router that name this host, such as `pulse.internal`. Case, a port and
    /// a trailing dot are ignored, and IP addresses are always allowed. `X-Forwarded-Host` is not trusted: behind a
    /// proxy, name the host that the proxy sends. With an invalid host, `mount` panics. An access with credentials, or
    /// with a function of the application, checks no host.
    ///
    /// ```
    /// # use tower_pulse_admin::Access;
    /// let access = Access::open().allow_host("pulse.internal");
    /// ```
    #[must_use]
    pub fn allow_host(mut self, host: impl AsRef<str>) -> Self {
        self.hosts.named.push(host.as_ref().to_owned());
        self
    }

    /// Allows requests to an [open](Self::open) router that name any host, and omits the warning at the start. Use this
    /// only behind an authentication layer of your own.
    ///
    /// ```
    /// # use tower_pulse_admin::Access;
    /// let access = Access::open().allow_any_host();
    /// ```
    #[must_use]
    pub fn allow_any_host(mut self) -> Self {
        self.hosts.any = true;
        self
    }

    pub(super) fn warn_if_open(&self) {
        if matches!(self.rule, Rule::Open) && !self.hosts.any {
            tracing::warn!(
                "the dashboard is open to everyone who can reach this service, because Access::open() requires no \
                 login. Use Access::token or Access::basic. If your own authentication protects it, use \
                 Access::open().allow_any_host()"
            );
        }
    }

    /// Adds a warning if the secret is easy to guess, except in a build with debug assertions: such a build is for
    /// development.
    pub(super) fn warn_if_weak(&self, notices: &Notices, has_debug_assertions: bool) {
        let (Rule::Token(secret) | Rule::Basic(_, secret)) = &self.rule else {
            return;
        };
        let is_weak = secret.is_weak || self.read_only.as_ref().is_some_and(|only| only.is_weak);
        if is_weak && !has_debug_assertions {
            notices.add(format!(
                "a secret of {self:?} is easily guessed: use a random secret of {STRONG} characters or more, which \
                 `openssl rand -hex 16` prints, and read it from an environment variable or a file"
            ));
        }
    }

    pub(super) fn validate(&self) -> Result<(), BuildError> {
        let refuse = |value, allowed| Err(BuildError::new("access", value, allowed));
        self.hosts.validate()?;
        match (&self.rule, &self.read_only) {
            (Rule::Token(token), _) if !token.is_usable => {
                refuse("an empty token", "a token is needed")
            }
            (Rule::Token(_), Some(only)) if !only.is_usable => {
                refuse("an empty read_only_token", "a token is needed")
            }
            (Rule::Token(token), Some(only)) if token.digest == only.digest => {
                refuse("given one secret twice", "the two tokens must differ")
            }
            (Rule::Basic(user, _), None) if !user.is_usable => refuse(
                "a user with a colon",
                "HTTP ends the user's name at the first colon",
            ),
            (Rule::Basic(_, password), None) if !password.is_usable => {
                refuse("an empty password", "a password is needed")
            }
            (Rule::Token(_), _) | (_, None) => Ok(()),
            (_, Some(_)) => refuse(
                "given a read_only_token",
                "only Access::token can have one; a function can return Permission::read()",
            ),
        }
    }

    /// Returns the permission of the request, or an error if the request may not read. Calls `on_wrong` only if the
    /// request has credentials and they are wrong. A refusal by the application's function does not call `on_wrong`,
    /// because the request may have no credentials.
    pub(super) async fn check(
        &self,
        parts: &Parts,
        on_wrong: impl FnOnce(),
    ) -> Result<Permission, ApiError> {
        let permission = match &self.rule {
            Rule::Open => Permission::write(),
            Rule::Custom(allows) => allows(parts),
            Rule::CustomAsync(allows) => {
                let allowed = tokio::time::timeout(DEADLINE, allows(parts)).await;
                let message = "the function of Access::custom_async took longer than 5 s";
                allowed.map_err(|_| ApiError::unavailable(message))?
            }
            Rule::Token(token) => {
                let (user, given) = credentials(parts).unwrap_or_default();
                // Both tokens are always compared, so that the time does not depend on which of them matches.
                let is_token = token.matches(&given);
                let reads = self.read_only.as_ref().map(|only| only.matches(&given));
                let permission = match reads.is_some_and(bool::from) {
                    true => Permission::read(),
                    false => bool::from(is_token).into(),
                };
                let user = user.unwrap_or_default();
                permission.named(String::from_utf8_lossy(&user))
            }
            Rule::Basic(user, password) => match credentials(parts) {
                // Both are always compared, so that the time does not reveal which of them is wrong.
                Some((Some(name), given))
                    if bool::from(user.matches(&name) & password.matches(&given)) =>
                {
                    Permission::write().named(String::from_utf8_lossy(&name))
                }
                _ => Permission::refuse(),
            },
        };
        if permission.may_read {
            return Ok(permission);
        }
        if !matches!(self.rule, Rule::Token(_) | Rule::Basic(..)) {
            return Err(ApiError::new(StatusCode::FORBIDDEN, "access denied"));
        }
        if parts.headers.contains_key(header::AUTHORIZATION) {
            on_wrong();
        }
        Err(ApiError::new(StatusCode::UNAUTHORIZED, "access denied"))
    }

    /// Returns an error if a request to an open router names a host that the router does not allow.
    pub(super) fn check_host(&self, parts: &Parts) -> Result<(), ApiError> {
        match self.rule {
            Rule::Open => self.hosts.check(parts),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.rule {
            Rule::Token(_) => "Access::token(…)",
            Rule::Basic(..) => "Access::basic(…)",
            Rule::Custom(_) => "Access::custom(…)",
            Rule::CustomAsync(_) => "Access::custom_async(…)",
            Rule::Open => "Access::open()",
        })
    }
}

/// A secret as a digest of fixed length, so that a comparison does not reveal the secret's length.
#[derive(Clone)]
struct Secret {
    digest: [u8; 32],
    is_usable: bool,
    is_weak: bool,
}

/// The fewest characters of a strong secret.
const STRONG: usize = 16;

impl Secret {
    fn new(secret: &str) -> Self {
        Self {
            digest: Hash::hash(secret.as_bytes()),
            is_usable: !secret.trim().is_empty(),
            // By this rule, "change me" from the documentation is weak.
            is_weak: secret.chars().count() < STRONG,
        }
    }

    fn matches(&self, given: &[u8]) -> Choice {
        self.digest.ct_eq(&Hash::hash(given))
    }
}

/// The user and the secret in the request's `Authorization` header; a `Bearer` has no user. `None` if the header is
/// missing, invalid or repeated.
fn credentials(parts: &Parts) -> Option<(Option<Vec<u8>>, Vec<u8>)> {
    let mut given = parts.headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (given.next(), given.next()) else {
        return None;
    };
    let value = value.as_bytes();
    let (scheme, credentials) = value.split_at(value.iter().position(|byte| *byte == b' ')?);
    let credentials = credentials.trim_ascii();
    if scheme.eq_ignore_ascii_case(b"bearer") {
        return Some((None, credentials.to_vec()));
    }
    let is_basic = scheme.eq_ignore_ascii_case(b"basic");
    let decoded = BASE64.decode(credentials).ok().filter(|_| is_basic)?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    Some((
        Some(decoded[..colon].to_vec()),
        decoded[colon + 1..].to_vec(),
    ))
}
