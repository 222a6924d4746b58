//! The provision service: what a harness asks for when it starts.

use std::sync::Arc;

use tonic::{Request, Response, Status};

use crate::fnapi::registry::Registry;
use crate::proto::fn_execution::provision_service_server::ProvisionService;
use crate::proto::fn_execution::{GetProvisionInfoRequest, GetProvisionInfoResponse};

/// `ProvisionService`.
pub(crate) struct Provision {
    pub(crate) registry: Arc<Registry>,
}

#[tonic::async_trait]
impl ProvisionService for Provision {
    async fn get_provision_info(
        &self,
        request: Request<GetProvisionInfoRequest>,
    ) -> Result<Response<GetProvisionInfoResponse>, Status> {
        let connection = self.registry.caller(request.metadata())?;
        Ok(Response::new(GetProvisionInfoResponse {
            info: Some(connection.provision.clone()),
        }))
    }
}
