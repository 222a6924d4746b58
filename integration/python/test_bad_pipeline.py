"""Wrong pipelines: each is refused at Prepare with a message that names what is wrong."""

import apache_beam as beam
import grpc
import pytest
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2

import pipelines

# Codes that say "your request is wrong" or "not supported", as opposed to "the server is broken".
REFUSALS = frozenset((grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION,
                      grpc.StatusCode.UNIMPLEMENTED))


@pytest.fixture
def proto():
    """A right pipeline, Create | Map | GroupByKey | Map, for the tests to damage."""
    pipeline = beam.Pipeline(options=pipelines.options([]))
    (  # pylint: disable=expression-not-assigned
        pipeline
        | "Make" >> beam.Create([("a", 1), ("b", 2)])
        | "First" >> beam.Map(lambda pair: pair)
        | "Group" >> beam.GroupByKey()
        | "Last" >> beam.Map(lambda group: group[0]))
    return pipelines.serialized(pipeline)


def refusal(job_service, pipeline):
    """Prepares a wrong pipeline; returns the text of the refusal, after a look at the server."""
    with pytest.raises(grpc.RpcError) as caught:
        prepared = job_service.prepare(pipeline)
        job_service.run(prepared.preparation_id)
    assert caught.value.code() in REFUSALS, caught.value
    job_service.job_ids()
    return caught.value.details()


def says_cycle(text):
    """Whether a text tells that something feeds itself."""
    return "cycl" in text.lower() or "depends on its own output" in text


def leaf(pipeline, name):
    """The transform with this unique name, or the deepest below it."""
    found = [transform for transform in pipeline.components.transforms.values()
             if transform.unique_name.startswith(name) and not transform.subtransforms
             and transform.spec.urn]
    assert found, name
    return found[0]


def only(mapping):
    """The one value of a map with one entry."""
    (value,) = mapping.values()
    return value


def test_the_undamaged_pipeline_is_accepted(job_service, proto):
    """Otherwise the refusals below would prove nothing."""
    assert job_service.prepare(proto).preparation_id


def test_cycle(job_service, proto):
    """A transform that consumes what its own consumer makes."""
    first, last = leaf(proto, "First"), leaf(proto, "Last")
    source = next(iter(first.inputs))
    first.inputs[source] = only(last.outputs)
    text = refusal(job_service, proto)
    assert "First" in text or "Last" in text
    assert says_cycle(text)


def test_self_loop(job_service, proto):
    """A transform that consumes its own output."""
    first = leaf(proto, "First")
    first.inputs[next(iter(first.inputs))] = only(first.outputs)
    text = refusal(job_service, proto)
    assert "First" in text
    assert says_cycle(text)


def test_composites_that_contain_each_other(job_service, proto):
    """The tree of transforms has to be a tree."""
    transforms = proto.components.transforms
    transforms["outer"].unique_name = "outer"
    transforms["outer"].subtransforms.append("inner")
    transforms["inner"].unique_name = "inner"
    transforms["inner"].subtransforms.append("outer")
    proto.root_transform_ids.append("outer")
    assert "outer" in refusal(job_service, proto) or "inner" in refusal(job_service, proto)


def test_input_that_does_not_exist(job_service, proto):
    """A PCollection id that the pipeline does not hold."""
    last = leaf(proto, "Last")
    last.inputs[next(iter(last.inputs))] = "no-such-collection"
    assert "no-such-collection" in refusal(job_service, proto)


def test_input_that_nobody_produces(job_service, proto):
    """A PCollection that exists but has no producer."""
    last = leaf(proto, "Last")
    key = next(iter(last.inputs))
    orphan = proto.components.pcollections["orphan-collection"]
    orphan.CopyFrom(proto.components.pcollections[last.inputs[key]])
    last.inputs[key] = "orphan-collection"
    assert "orphan-collection" in refusal(job_service, proto)


def test_two_producers(job_service, proto):
    """A PCollection that two transforms produce."""
    first, last = leaf(proto, "First"), leaf(proto, "Last")
    shared = only(first.outputs)
    last.outputs[next(iter(last.outputs))] = shared
    assert shared in refusal(job_service, proto)


def test_missing_subtransform(job_service, proto):
    """A composite names a part that is not there."""
    proto.components.transforms[proto.root_transform_ids[0]].subtransforms.append("no-such-part")
    assert "no-such-part" in refusal(job_service, proto)


def test_unknown_urn(job_service, proto):
    """A leaf of a kind that nobody knows is named with its URN."""
    last = leaf(proto, "Last")
    last.spec.urn = "beam:transform:of_another_world:v1"
    text = refusal(job_service, proto)
    assert "beam:transform:of_another_world:v1" in text
    assert "Last" in text


def test_unknown_requirement(job_service, proto):
    """A requirement is something the runner must understand."""
    proto.requirements.append("beam:requirement:telepathy:v1")
    assert "beam:requirement:telepathy:v1" in refusal(job_service, proto)


def test_executable_stage(job_service, proto):
    """A pipeline that was fused by the client is not taken."""
    last = leaf(proto, "Last")
    last.spec.urn = "beam:runner:executable_stage:v1"
    assert "executable_stage" in refusal(job_service, proto)


def test_missing_coder_of_a_collection(job_service, proto):
    """A PCollection whose coder id leads nowhere."""
    first = leaf(proto, "First")
    proto.components.pcollections[only(first.outputs)].coder_id = "no-such-coder"
    assert "no-such-coder" in refusal(job_service, proto)


def test_missing_component_of_a_coder(job_service, proto):
    """A coder whose component id leads nowhere."""
    for coder in proto.components.coders.values():
        if coder.spec.urn == common_urns.coders.KV.urn:
            coder.component_coder_ids[0] = "no-such-component"
    assert "no-such-component" in refusal(job_service, proto)


def test_coder_that_contains_itself(job_service, proto):
    """Recursion without an end must not become a stack without an end."""
    coder = proto.components.coders["ouroboros"]
    coder.spec.urn = common_urns.coders.ITERABLE.urn
    coder.component_coder_ids.append("ouroboros")
    first = leaf(proto, "First")
    proto.components.pcollections[only(first.outputs)].coder_id = "ouroboros"
    assert "ouroboros" in refusal(job_service, proto)


def test_missing_windowing_strategy(job_service, proto):
    """A PCollection whose windowing strategy leads nowhere."""
    first = leaf(proto, "First")
    collection = proto.components.pcollections[only(first.outputs)]
    collection.windowing_strategy_id = "no-such-strategy"
    assert "no-such-strategy" in refusal(job_service, proto)


def test_missing_environment(job_service, proto):
    """A transform whose environment leads nowhere."""
    leaf(proto, "Last").environment_id = "no-such-environment"
    assert "no-such-environment" in refusal(job_service, proto)


def test_unknown_environment(job_service, proto):
    """A kind of environment that the runner cannot start."""
    for environment in proto.components.environments.values():
        environment.urn = "beam:env:space_station:v1"
    assert "beam:env:space_station:v1" in refusal(job_service, proto)


def test_process_environment_that_is_not_allowed(job_service, proto, request):
    """Running a command on the server needs the operator's consent."""
    if request.config.getoption("--suite") != "bad-input":
        pytest.skip("needs a server without --allow-environment process")
    payload = beam_runner_api_pb2.ProcessPayload(command="/bin/true")
    for environment in proto.components.environments.values():
        environment.urn = common_urns.environments.PROCESS.urn
        environment.payload = payload.SerializeToString()
    assert "--allow-environment" in refusal(job_service, proto)


def any_of(*environments):
    """An environment that is one of these."""
    payload = beam_runner_api_pb2.AnyOfEnvironmentPayload(environments=environments)
    return beam_runner_api_pb2.Environment(
        urn=common_urns.environments.ANYOF.urn, payload=payload.SerializeToString())


def set_environments(pipeline, environment):
    """Has all of the pipeline run in this environment."""
    for known in pipeline.components.environments.values():
        known.CopyFrom(environment)


def test_container(job_service, proto):
    """Containers are not started yet; the image and other ways are named."""
    payload = beam_runner_api_pb2.DockerPayload(container_image="beam:latest")
    set_environments(proto, beam_runner_api_pb2.Environment(
        urn=common_urns.environments.DOCKER.urn, payload=payload.SerializeToString()))
    text = refusal(job_service, proto)
    assert "beam:latest" in text
    assert "LOOPBACK" in text


def test_environment_left_to_the_runner(job_service, proto):
    """There is no default environment."""
    set_environments(proto, beam_runner_api_pb2.Environment(
        urn=common_urns.environments.DEFAULT.urn))
    assert "--environment_type" in refusal(job_service, proto)


def test_no_alternative_that_can_be_started(job_service, proto):
    """Each alternative is named with why it cannot be started."""
    station = beam_runner_api_pb2.Environment(urn="beam:env:space_station:v1")
    default = beam_runner_api_pb2.Environment(urn=common_urns.environments.DEFAULT.urn)
    set_environments(proto, any_of(station, default))
    text = refusal(job_service, proto)
    assert "beam:env:space_station:v1" in text
    assert "no default" in text


def test_an_alternative_that_can_be_started(job_service, proto):
    """The first alternative that the server can start is taken, with its artifacts and coders."""
    station = beam_runner_api_pb2.Environment(urn="beam:env:space_station:v1")
    (works,) = {env.SerializeToString(): env for env in proto.components.environments.values()}.values()
    chosen = beam_runner_api_pb2.Environment()
    chosen.CopyFrom(works)
    set_environments(proto, any_of(station, chosen))
    assert job_service.prepare(proto).preparation_id


def test_garbage_payload(job_service, proto):
    """A ParDo whose payload is not one."""
    leaf(proto, "Last").spec.payload = b"\xff\xff\xff\xff garbage"
    assert "Last" in refusal(job_service, proto)


def test_empty_pipeline_is_no_error(job_service):
    """Nothing to do is done at once, or refused; the server lives on either way."""
    try:
        job_service.prepare(beam_runner_api_pb2.Pipeline())
    except grpc.RpcError as error:
        assert error.code() in REFUSALS
    job_service.job_ids()


def test_root_that_does_not_exist(job_service, proto):
    """A root id that leads nowhere."""
    proto.root_transform_ids.append("no-such-root")
    assert "no-such-root" in refusal(job_service, proto)
