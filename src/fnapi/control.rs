//! The control service: instructions out, responses in.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::Stream;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::fnapi::connection::{Connection, how_it_ended};
use crate::fnapi::data;
use crate::fnapi::instruction::{Instruction, Question};
use crate::fnapi::metrics::{Purpose, RawMetrics};
use crate::fnapi::overdue;
use crate::fnapi::registry::Registry;
use crate::fnapi::wire;
use crate::model::BundleId;
use crate::proto::fn_execution::beam_fn_control_server::BeamFnControl;
use crate::proto::fn_execution::instruction_response::Response as Answer;
use crate::proto::fn_execution::{
    GetProcessBundleDescriptorRequest, InstructionRequest, InstructionResponse,
    ProcessBundleDescriptor, ProcessBundleResponse,
};

/// `BeamFnControl`.
pub(crate) struct ControlService {
    pub(crate) registry: Arc<Registry>,
}

#[tonic::async_trait]
impl BeamFnControl for ControlService {
    type ControlStream =
        Pin<Box<dyn Stream<Item = Result<InstructionRequest, Status>> + Send + 'static>>;

    async fn control(
        &self,
        request: Request<Streaming<InstructionResponse>>,
    ) -> Result<Response<Self::ControlStream>, Status> {
        let connection = self.registry.caller(request.metadata())?;
        let instructions = connection
            .connect()
            .ok_or_else(|| Status::already_exists("this worker_id has a control stream already"))?;
        tokio::spawn(overdue::watch(Arc::downgrade(&connection)));
        tokio::spawn(read(connection, request.into_inner()));
        Ok(Response::new(Box::pin(UnboundedReceiverStream::new(
            instructions,
        ))))
    }

    async fn get_process_bundle_descriptor(
        &self,
        request: Request<GetProcessBundleDescriptorRequest>,
    ) -> Result<Response<ProcessBundleDescriptor>, Status> {
        let connection = self.registry.caller(request.metadata())?;
        let id = &request.get_ref().process_bundle_descriptor_id;
        match connection.descriptors.get(id) {
            Some(descriptor) => Ok(Response::new(descriptor.clone())),
            None => Err(Status::not_found(format!("no bundle descriptor {id:?}"))),
        }
    }
}

/// Reads responses until the stream ends, which is the end of the harness.
async fn read(connection: Arc<Connection>, mut responses: Streaming<InstructionResponse>) {
    let overstayed = connection.overstayed();
    tokio::pin!(overstayed);
    let reason = loop {
        let message = tokio::select! {
            message = responses.message() => message,
            () = &mut overstayed => break "it was stopped and did not go".into(),
        };
        match message {
            Ok(Some(response)) => {
                if let Err(status) = handle(&connection, response) {
                    let reason = status.message().to_owned();
                    connection.close_control(Some(status));
                    break reason;
                }
            }
            Ok(None) => break how_it_ended("control", None),
            Err(status) => break how_it_ended("control", Some(&status)),
        }
    };
    connection.lose(reason);
}

pub(super) fn handle(
    connection: &Arc<Connection>,
    response: InstructionResponse,
) -> Result<(), Status> {
    let id = &response.instruction_id;
    let instruction = Instruction::parse(id)
        .ok_or_else(|| Status::invalid_argument(format!("no instruction has the id {id:?}")))?;
    let answer = if response.error.is_empty() {
        response
            .response
            .ok_or_else(|| format!("the harness answered {id} with nothing"))
    } else {
        Err(response.error)
    };
    match instruction {
        Instruction::Run(bundle) => bundle_done(connection, bundle, answer),
        Instruction::Ask(question, _, bundle) => answered(connection, question, bundle, answer),
        Instruction::MetricNames(number) => {
            let infos = match answer {
                Ok(Answer::MonitoringInfos(response)) => response.monitoring_info,
                Ok(_) | Err(_) => Default::default(),
            };
            connection.learn_metric_names(number, infos);
        }
        Instruction::HarnessMetrics(_) => match answer {
            Ok(Answer::HarnessMonitoringInfos(response)) => {
                let raw = RawMetrics::Short(response.monitoring_data);
                connection.deliver_metrics(Purpose::Harness, raw);
            }
            Ok(_) | Err(_) => connection.answer(|events| events.harness_metrics(Vec::new())),
        },
    }
    Ok(())
}

fn bundle_done(connection: &Arc<Connection>, bundle: BundleId, answer: Result<Answer, String>) {
    let response = answer.and_then(|answer| match answer {
        Answer::ProcessBundle(response) => read_bundle_response(connection, bundle, response),
        _ => Err(mismatch(bundle)),
    });
    connection.responded(bundle, response);
}

fn read_bundle_response(
    connection: &Arc<Connection>,
    bundle: BundleId,
    response: ProcessBundleResponse,
) -> Result<crate::fnapi::bundle::Response, String> {
    if let Some(elements) = response.elements {
        data::embedded(connection, bundle, elements)?;
    }
    let result = wire::bundle_result(response.residual_roots, response.requires_finalization)?;
    let metrics = RawMetrics::new(response.monitoring_infos, response.monitoring_data);
    Ok((result, metrics))
}

fn answered(
    connection: &Connection,
    question: Question,
    bundle: BundleId,
    answer: Result<Answer, String>,
) {
    match question {
        Question::Progress => match answer {
            Ok(Answer::ProcessBundleProgress(response)) => {
                let raw = RawMetrics::new(response.monitoring_infos, response.monitoring_data);
                let purpose = Purpose::Progress(bundle, response.consuming_received_data);
                connection.deliver_metrics(purpose, raw);
            }
            Ok(_) => connection.answer(|events| events.progress(bundle, Err(mismatch(bundle)))),
            Err(error) => connection.answer(|events| events.progress(bundle, Err(error))),
        },
        Question::Split => {
            let outcome = answer.and_then(|answer| match answer {
                Answer::ProcessBundleSplit(response) => wire::split_outcome(response),
                _ => Err(mismatch(bundle)),
            });
            connection.answer(|events| events.split(bundle, outcome));
        }
        Question::Finalize => {
            let outcome = answer.and_then(|answer| match answer {
                Answer::FinalizeBundle(_) => Ok(()),
                _ => Err(mismatch(bundle)),
            });
            connection.answer(|events| events.finalized(bundle, outcome));
        }
    }
}

fn mismatch(bundle: BundleId) -> String {
    format!("the harness answered a question about {bundle} with the answer to another one")
}
