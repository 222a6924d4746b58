//! The name under which a client reached this server, `host:port`.
//!
//! Where nobody told us a name to advertise, the one that the client itself used is the one that
//! works for it, through a forwarded port or from another container.

use std::task::{Context, Poll};

use tower::{Layer, Service};

/// The `:authority` of a request; found in its extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAuthority(pub String);

/// Puts [`ClientAuthority`] into the extensions of each request.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientAuthorityLayer;

impl<S> Layer<S> for ClientAuthorityLayer {
    type Service = WithClientAuthority<S>;

    fn layer(&self, inner: S) -> Self::Service {
        WithClientAuthority { inner }
    }
}

/// The service behind [`ClientAuthorityLayer`].
#[derive(Clone, Debug)]
pub struct WithClientAuthority<S> {
    inner: S,
}

impl<S, B> Service<http::Request<B>> for WithClientAuthority<S>
where
    S: Service<http::Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<B>) -> Self::Future {
        let authority = request
            .uri()
            .authority()
            .map(|authority| ClientAuthority(authority.as_str().to_owned()));
        if let Some(authority) = authority {
            request.extensions_mut().insert(authority);
        }
        self.inner.call(request)
    }
}
