//! From an HTTP/2 request to a handler and back.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use prost::Message;
use tonic::Status;
use tonic::body::Body;
use tonic::server::{Grpc, UnaryService};
use tonic_prost::ProstCodec;

use crate::pubsub_emulator::broker::{Broker, Result as BrokerResult};
use crate::pubsub_emulator::delivery::Time;

use super::shared::Shared;
use super::status::status;
use super::target::Target;

/// Larger requests are not read. It is well over what Pub/Sub allows, so that those get its answer.
const REQUEST_BYTES_MAX: usize = 64 * 1024 * 1024;

/// One call of a method, before its request is decoded.
pub(super) struct Call {
    pub(super) shared: Arc<Shared>,
    pub(super) method: &'static str,
    pub(super) http: Request<Body>,
}

impl Call {
    /// Answers a call by what the broker does at once.
    pub(super) async fn answer<Req, Res, F>(self, handler: F) -> Response<Body>
    where
        Req: Message + Default + Target + 'static,
        Res: Message + 'static,
        F: Fn(&mut Broker, Time, Req) -> BrokerResult<Res> + Clone + Send + Sync + 'static,
    {
        let shared = Arc::clone(&self.shared);
        self.answer_later(move |request: tonic::Request<Req>| {
            let (shared, handler) = (Arc::clone(&shared), handler.clone());
            async move {
                let request = request.into_inner();
                let result = shared.with(|broker, now| handler(broker, now, request));
                result.map_err(status)
            }
        })
        .await
    }

    /// Answers a call by what takes a while.
    pub(super) async fn answer_later<Req, Res, F, Fut>(self, handler: F) -> Response<Body>
    where
        Req: Message + Default + Target + 'static,
        Res: Message + 'static,
        F: Fn(tonic::Request<Req>) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<Res, Status>> + Send + 'static,
    {
        let Call {
            shared,
            method,
            http,
        } = self;
        let guarded = Unary(move |request: tonic::Request<Req>| {
            let (shared, handler) = (Arc::clone(&shared), handler.clone());
            async move {
                let verdict = shared.judge(method, request.get_ref().target());
                pause(verdict.delay).await;
                match verdict.refusal {
                    Some(refusal) if verdict.takes_effect => {
                        handler(request).await?;
                        Err(status(refusal))
                    }
                    Some(refusal) => Err(status(refusal)),
                    None => handler(request).await.map(tonic::Response::new),
                }
            }
        });
        let mut grpc = Grpc::new(ProstCodec::<Res, Req>::default())
            .max_decoding_message_size(REQUEST_BYTES_MAX);
        grpc.unary(guarded, http).await
    }

    /// Answers a call of a method that is not there.
    pub(super) fn unimplemented(&self) -> Response<Body> {
        let path = self.http.uri().path();
        Status::unimplemented(format!("this emulator does not have {path}")).into_http()
    }
}

/// Waits, if there is anything to wait for: even a sleep of nothing takes up to a millisecond.
pub(super) async fn pause(delay: Duration) {
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
}

/// A closure as tonic's service.
struct Unary<F>(F);

impl<F, Fut, Req, Res> UnaryService<Req> for Unary<F>
where
    F: Fn(tonic::Request<Req>) -> Fut,
    Fut: Future<Output = Result<tonic::Response<Res>, Status>>,
{
    type Response = Res;
    type Future = Fut;

    fn call(&mut self, request: tonic::Request<Req>) -> Fut {
        (self.0)(request)
    }
}

/// Declares a gRPC service: its name, and which handler answers which method.
macro_rules! service {
    ($(#[$doc:meta])* $service:ident, $name:literal, { $($method:literal => $handler:expr,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub(super) struct $service(pub(super) std::sync::Arc<super::shared::Shared>);

        impl tonic::server::NamedService for $service {
            const NAME: &'static str = $name;
        }

        impl tonic::codegen::Service<http::Request<tonic::body::Body>> for $service {
            type Response = http::Response<tonic::body::Body>;
            type Error = std::convert::Infallible;
            type Future = tonic::codegen::BoxFuture<Self::Response, Self::Error>;

            fn poll_ready(
                &mut self,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<Result<(), Self::Error>> {
                std::task::Poll::Ready(Ok(()))
            }

            fn call(&mut self, http: http::Request<tonic::body::Body>) -> Self::Future {
                let shared = std::sync::Arc::clone(&self.0);
                Box::pin(async move {
                    let method = http.uri().path().rsplit('/').next().unwrap_or_default();
                    Ok(match method {
                        $($method => {
                            let call = super::call::Call { shared, method: $method, http };
                            ($handler)(call).await
                        })*
                        _ => {
                            let call = super::call::Call { shared, method: "", http };
                            call.unimplemented()
                        }
                    })
                })
            }
        }
    };
}

pub(super) use service;
