//! Connections to Pub/Sub: the real service with credentials, or a server in the clear.

use std::task::{Context, Poll};
use std::time::Duration;

use google_cloud_auth::credentials::{CacheableResource, Credentials};
use googleapis_tonic_google_pubsub_v1::google::pubsub::v1::publisher_client::PublisherClient;
use googleapis_tonic_google_pubsub_v1::google::pubsub::v1::subscriber_client::SubscriberClient;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, StdError, http};
use tonic::transport::{Channel, ClientTlsConfig};

use crate::source::pubsub::error::Error;

/// Where Pub/Sub is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Google's service, over TLS, with the credentials of the environment.
    Google,
    /// A server without TLS and credentials, such as an emulator: `host:port`.
    Plain(String),
}

impl Endpoint {
    /// From the value of `PUBSUB_EMULATOR_HOST`, which the configuration reads; unset or empty
    /// means Google's service.
    pub fn from_parts(emulator_host: Option<String>) -> Self {
        match emulator_host.as_deref().map(str::trim) {
            None | Some("") => Self::Google,
            Some(host) => Self::Plain(
                host.trim_start_matches("http://")
                    .trim_end_matches('/')
                    .to_owned(),
            ),
        }
    }
}

/// A way to open connections to one endpoint; cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    endpoint: Endpoint,
    credentials: Option<Credentials>,
}

impl Client {
    /// Prepares to talk to `endpoint`. Connections are made when first used, and made again when
    /// they break; nothing is sent yet.
    pub fn connect(endpoint: Endpoint) -> Result<Self, Error> {
        let credentials = match &endpoint {
            Endpoint::Plain(_) => None,
            Endpoint::Google => Some(
                google_cloud_auth::credentials::Builder::default()
                    .with_scopes([SCOPE])
                    .build()
                    .map_err(|error| Error::Endpoint {
                        endpoint: GOOGLE.to_owned(),
                        reason: format!("no credentials: {error}"),
                    })?,
            ),
        };
        let client = Self {
            endpoint,
            credentials,
        };
        client.channel()?;
        Ok(client)
    }

    /// A publisher stub on a connection of its own.
    pub fn publisher(&self) -> Result<PublisherClient<Transport>, Error> {
        Ok(PublisherClient::new(self.transport()?)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX))
    }

    /// A subscriber stub on a connection of its own.
    pub fn subscriber(&self) -> Result<SubscriberClient<Transport>, Error> {
        Ok(SubscriberClient::new(self.transport()?)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX))
    }

    /// A connection of its own, for calls that the stubs do not make.
    pub(crate) fn transport(&self) -> Result<Transport, Error> {
        Ok(Transport {
            channel: self.channel()?,
            credentials: self.credentials.clone(),
        })
    }

    fn channel(&self) -> Result<Channel, Error> {
        let (uri, shown) = match &self.endpoint {
            Endpoint::Google => (format!("https://{GOOGLE}"), GOOGLE),
            Endpoint::Plain(host) => (format!("http://{host}"), host.as_str()),
        };
        let failed = |reason: String| Error::Endpoint {
            endpoint: shown.to_owned(),
            reason,
        };
        let mut builder = Channel::from_shared(uri).map_err(|error| failed(error.to_string()))?;
        if self.endpoint == Endpoint::Google {
            builder = builder
                .tls_config(ClientTlsConfig::new().with_enabled_roots())
                .map_err(|error| failed(error.to_string()))?;
        }
        Ok(builder
            .connect_timeout(Duration::from_secs(5))
            .tcp_nodelay(true)
            .tcp_keepalive(Some(Duration::from_secs(15)))
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .connect_lazy())
    }
}

/// A connection that adds the authorization headers to each call.
#[derive(Clone, Debug)]
pub struct Transport {
    channel: Channel,
    credentials: Option<Credentials>,
}

impl Service<http::Request<Body>> for Transport {
    type Response = http::Response<Body>;
    type Error = StdError;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.channel.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        // The clone takes the place of the channel that `poll_ready` found ready.
        let clone = self.channel.clone();
        let mut channel = std::mem::replace(&mut self.channel, clone);
        let credentials = self.credentials.clone();
        Box::pin(async move {
            if let Some(credentials) = credentials {
                let headers = credentials.headers(http::Extensions::new()).await?;
                if let CacheableResource::New { data, .. } = headers {
                    request.headers_mut().extend(data);
                }
            }
            Ok(channel.call(request).await?)
        })
    }
}

const GOOGLE: &str = "pubsub.googleapis.com";
const SCOPE: &str = "https://www.googleapis.com/auth/pubsub";

/// The service answers a pull with up to about 20 MB.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 << 20;
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emulator_host_means_plain() {
        let plain = |host: &str| Endpoint::Plain(host.to_owned());
        for (given, endpoint) in [
            (None, Endpoint::Google),
            (Some(""), Endpoint::Google),
            (Some("localhost:8085"), plain("localhost:8085")),
            (Some("http://127.0.0.1:1/"), plain("127.0.0.1:1")),
            (Some("[::1]:8085"), plain("[::1]:8085")),
        ] {
            assert_eq!(Endpoint::from_parts(given.map(str::to_owned)), endpoint);
        }
    }

    #[tokio::test]
    async fn a_bad_host_is_refused() {
        let error = Client::connect(Endpoint::Plain("no host".to_owned())).map(|_| ());
        assert!(matches!(error, Err(Error::Endpoint { .. })), "{error:?}");
    }
}
