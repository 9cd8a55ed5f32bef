//! A gRPC service on a free port, like the services that `tonic-build` generates.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::uri::PathAndQuery;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::channel;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::server::{Grpc, NamedService, ServerStreamingService, UnaryService};
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;
use tower_pulse::Pulse;

pub(crate) const GET: &str = "/test.Shop/Get";
pub(crate) const LIST: &str = "/test.Shop/List";

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Ask {
    /// A case of [`Shop::get`] or [`Shop::list`].
    #[prost(string, tag = "1")]
    pub(crate) case: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Reply {
    #[prost(uint32, tag = "1")]
    pub(crate) number: u32,
}

/// The service. The case `wait` waits for a permit of `gate`.
#[derive(Clone)]
pub(crate) struct Shop {
    pub(crate) gate: Arc<Semaphore>,
}

type Answer<T> = Pin<Box<dyn Future<Output = Result<Response<T>, Status>> + Send>>;
type Numbers = ReceiverStream<Result<Reply, Status>>;

impl Shop {
    async fn get(self, case: String) -> Result<Response<Reply>, Status> {
        match &*case {
            "ok" => Ok(Response::new(Reply { number: 1 })),
            "wait" => {
                self.gate
                    .acquire()
                    .await
                    .expect("the gate stays open")
                    .forget();
                Ok(Response::new(Reply { number: 2 }))
            }
            _ => Err(Status::not_found("no such product")),
        }
    }

    /// Refuses, or sends three numbers. Depending on the case, the stream then ends, fails, or never ends.
    async fn list(case: String) -> Result<Response<Numbers>, Status> {
        if case == "refused" {
            return Err(Status::permission_denied("not you"));
        }
        let (send, numbers) = channel(1);
        tokio::spawn(async move {
            for number in 0..3 {
                let _ = send.send(Ok(Reply { number })).await;
            }
            if case == "internal" {
                let _ = send.send(Err(Status::internal("lost"))).await;
            }
            while case == "endless" && send.send(Ok(Reply { number: 3 })).await.is_ok() {}
        });
        Ok(Response::new(ReceiverStream::new(numbers)))
    }
}

struct Get(Shop);

impl UnaryService<Ask> for Get {
    type Response = Reply;
    type Future = Answer<Reply>;
    fn call(&mut self, request: Request<Ask>) -> Self::Future {
        Box::pin(self.0.clone().get(request.into_inner().case))
    }
}

struct List;

impl ServerStreamingService<Ask> for List {
    type Response = Reply;
    type ResponseStream = Numbers;
    type Future = Answer<Numbers>;
    fn call(&mut self, request: Request<Ask>) -> Self::Future {
        Box::pin(Shop::list(request.into_inner().case))
    }
}

impl NamedService for Shop {
    const NAME: &'static str = "test.Shop";
}

impl Service<http::Request<Body>> for Shop {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let shop = self.clone();
        Box::pin(async move {
            let mut grpc = Grpc::new(ProstCodec::<Reply, Ask>::default());
            Ok(match request.uri().path() {
                GET => grpc.unary(Get(shop), request).await,
                LIST => grpc.server_streaming(List, request).await,
                _ => Status::unimplemented("no such method").into_http(),
            })
        })
    }
}

/// A server, and a client on one connection.
pub(crate) struct Fixture {
    pub(crate) pulse: Pulse,
    pub(crate) gate: Arc<Semaphore>,
    pub(crate) client: Client,
    server: JoinHandle<()>,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Fixture {
    /// Starts a server with the layer around the whole service, as the guide advises for services without axum.
    pub(crate) async fn start() -> Self {
        Self::with(|server, pulse| {
            // All unknown paths share a context, because clients choose the paths.
            let layer = pulse.layer_with(|head| {
                Some(match head.uri.path() {
                    GET => GET.into(),
                    LIST => LIST.into(),
                    _ => "<other>".into(),
                })
            });
            let routes = Server::builder().layer(layer).add_service(server.shop);
            routes.serve_with_incoming(server.incoming)
        })
        .await
    }

    pub(crate) async fn with<F>(serve: impl FnOnce(Listening, &Pulse) -> F) -> Self
    where
        F: Future<Output = Result<(), tonic::transport::Error>> + Send + 'static,
    {
        let (pulse, gate) = (crate::counting::pulse(), Arc::new(Semaphore::new(0)));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("the listener is bound");
        let listening = Listening {
            shop: Shop { gate: gate.clone() },
            incoming: TcpListenerStream::new(listener),
        };
        let served = serve(listening, &pulse);
        let server = tokio::spawn(async { served.await.expect("the server runs") });
        let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
        let channel = endpoint.connect().await.expect("the server listens");
        Self {
            pulse,
            gate,
            client: Client(channel),
            server,
        }
    }
}

/// The service, and the connections that clients open to it.
pub(crate) struct Listening {
    pub(crate) shop: Shop,
    pub(crate) incoming: TcpListenerStream,
}

#[derive(Clone)]
pub(crate) struct Client(Channel);

impl Client {
    pub(crate) async fn get(&self, case: &str) -> Result<u32, Status> {
        self.call(GET, ask(case)).await
    }

    /// Makes a call with a deadline, at which the client or the server ends the call.
    pub(crate) async fn get_within(&self, case: &str, deadline: Duration) -> Result<u32, Status> {
        let mut request = ask(case);
        request.set_timeout(deadline);
        self.call(GET, request).await
    }

    pub(crate) async fn call(
        &self,
        path: &'static str,
        request: Request<Ask>,
    ) -> Result<u32, Status> {
        let mut grpc = tonic::client::Grpc::new(self.0.clone());
        grpc.ready().await.expect("the channel is open");
        let path = PathAndQuery::from_static(path);
        let codec = ProstCodec::<Ask, Reply>::default();
        let reply = grpc.unary(request, path, codec).await?;
        Ok(reply.into_inner().number)
    }

    pub(crate) async fn list(&self, case: &str) -> Result<Streaming<Reply>, Status> {
        let mut grpc = tonic::client::Grpc::new(self.0.clone());
        grpc.ready().await.expect("the channel is open");
        let path = PathAndQuery::from_static(LIST);
        let codec = ProstCodec::<Ask, Reply>::default();
        let numbers = grpc.server_streaming(ask(case), path, codec).await?;
        Ok(numbers.into_inner())
    }
}

pub(crate) fn ask(case: &str) -> Request<Ask> {
    Request::new(Ask {
        case: case.to_owned(),
    })
}

/// The numbers of a stream, and the status with which it ends.
pub(crate) async fn read_all(mut numbers: Streaming<Reply>) -> (Vec<u32>, Result<(), Status>) {
    let mut read = Vec::new();
    loop {
        match numbers.message().await {
            Ok(Some(reply)) => read.push(reply.number),
            Ok(None) => return (read, Ok(())),
            Err(status) => return (read, Err(status)),
        }
    }
}
