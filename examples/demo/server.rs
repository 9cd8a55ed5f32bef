//! The Redis that keeps everything, if one is set.

use tower_pulse::Builder;

use crate::settings::variable;

#[derive(Clone, Debug)]
pub(crate) enum Server {
    Standalone(String),
    Cluster(Vec<String>),
    Sentinel {
        /// The name of the primary in Sentinel's configuration, or a URL whose host is that name.
        service: String,
        sentinels: Vec<String>,
    },
}

impl Server {
    /// Reads `REDIS_URL`, `REDIS_CLUSTER` or `REDIS_SENTINEL`. At most one of them may be set.
    pub(crate) fn from_env() -> Result<Option<Self>, String> {
        let set = |name| Ok::<_, String>(variable(name)?.filter(|value| !value.is_empty()));
        let (url, cluster) = (set("REDIS_URL")?, set("REDIS_CLUSTER")?);
        match (url, cluster, set("REDIS_SENTINEL")?) {
            (None, None, None) => Ok(None),
            (Some(url), None, None) => Ok(Some(Self::Standalone(url))),
            (None, Some(urls), None) => Ok(Some(Self::Cluster(list(&urls)))),
            (None, None, Some(text)) => Self::sentinel(&text).map(Some),
            _ => Err("set only one of REDIS_URL, REDIS_CLUSTER and REDIS_SENTINEL".to_owned()),
        }
    }

    fn sentinel(text: &str) -> Result<Self, String> {
        // The service may be a URL with a password, which has an `@` of its own.
        let at = text.find("@redis://").or_else(|| text.find("@rediss://"));
        let Some((service, urls)) = at.map(|at| (&text[..at], &text[at + 1..])) else {
            return Err(
                "REDIS_SENTINEL is not of the form service@url,url, such as \
                 mymaster@redis://10.0.0.1:26379,redis://10.0.0.2:26379"
                    .to_owned(),
            );
        };
        Ok(Self::Sentinel {
            service: service.to_owned(),
            sentinels: list(urls),
        })
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    pub(crate) fn configure(&self, builder: Builder) -> Builder {
        match self {
            Self::Standalone(url) => builder.redis(url),
            Self::Cluster(urls) => builder.redis_cluster(urls),
            Self::Sentinel { service, sentinels } => builder.redis_sentinel(service, sentinels),
        }
    }
}

fn list(urls: &str) -> Vec<String> {
    urls.split(',').map(|url| url.trim().to_owned()).collect()
}
