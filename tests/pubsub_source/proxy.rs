//! A TCP proxy that cuts its connections when told.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A proxy in front of a server.
pub struct Proxy {
    pub host: String,
    open: Arc<Mutex<Connections>>,
    tasks: Vec<JoinHandle<()>>,
}

/// Which connections a cut hits.
#[derive(Clone, Copy, Debug)]
pub enum Cut {
    All,
    Oldest,
}

#[derive(Default)]
struct Connections {
    accepted: usize,
    cut: usize,
    closed: bool,
    open: BTreeMap<usize, oneshot::Sender<()>>,
}

impl Proxy {
    pub async fn start(upstream: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let open = Arc::new(Mutex::new(Connections::default()));
        let accepting = accept(listener, upstream.to_owned(), open.clone());
        Self {
            host,
            open,
            tasks: vec![tokio::spawn(accepting)],
        }
    }

    /// Cuts connections again and again, so many times.
    pub fn cut_every(&mut self, interval: Duration, times: usize, which: Cut) {
        let open = self.open.clone();
        self.tasks.push(tokio::spawn(async move {
            for _ in 0..times {
                tokio::time::sleep(interval).await;
                let mut connections = open.lock().unwrap();
                let all = connections.open.len();
                let count = match which {
                    Cut::All => all,
                    Cut::Oldest => all.min(1),
                };
                for _ in 0..count {
                    connections.open.pop_first();
                }
                connections.cut += count;
            }
        }));
    }

    /// Lets connections pass from now on, or cuts them, those to come included.
    pub fn pass(&mut self, passing: bool) {
        let mut connections = self.open.lock().unwrap();
        connections.closed = !passing;
        if !passing {
            connections.open.clear();
        }
    }

    pub fn connections_cut(&self) -> usize {
        self.open.lock().unwrap().cut
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn accept(listener: TcpListener, upstream: String, connections: Arc<Mutex<Connections>>) {
    while let Ok((mut inner, _)) = listener.accept().await {
        let (alive, cut) = oneshot::channel();
        let id = {
            let mut connections = connections.lock().unwrap();
            if connections.closed {
                continue;
            }
            connections.accepted += 1;
            let id = connections.accepted;
            connections.open.insert(id, alive);
            id
        };
        let (upstream, connections) = (upstream.clone(), connections.clone());
        tokio::spawn(async move {
            if let Ok(mut outer) = TcpStream::connect(&upstream).await {
                let _ = (inner.set_nodelay(true), outer.set_nodelay(true));
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut inner, &mut outer) => {}
                    _ = cut => {}
                }
            }
            connections.lock().unwrap().open.remove(&id);
        });
    }
}
