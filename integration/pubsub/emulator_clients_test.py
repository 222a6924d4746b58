"""The Pub/Sub emulator under Google's own Python client, as a user finds it: PUBSUB_EMULATOR_HOST is all there is.

TIDEMILL_BIN names the binary. The last test measures and prints throughput and latency; it fails only far below
what they should be, because a test machine may be busy.
"""

import concurrent.futures
import json
import os
import queue
import threading
import time
import urllib.error

import pytest
from google.api_core import exceptions
from google.cloud import pubsub_v1
from google.cloud.pubsub_v1.subscriber import exceptions as subscriber_exceptions
from google.cloud.pubsub_v1.subscriber.scheduler import ThreadScheduler
from google.protobuf import duration_pb2, field_mask_pb2
from google.pubsub_v1 import types

import servers

PROJECT = "projects/test"
TOPIC = f"{PROJECT}/topics/orders"
SUBSCRIPTION = f"{PROJECT}/subscriptions/orders"


@pytest.fixture(scope="module")
def emulator(tmp_path_factory):
    emulator = servers.Emulator(tmp_path_factory.mktemp("emulator"))
    before = os.environ.get("PUBSUB_EMULATOR_HOST")
    os.environ["PUBSUB_EMULATOR_HOST"] = emulator.address
    yield emulator
    if before is None:
        del os.environ["PUBSUB_EMULATOR_HOST"]
    else:
        os.environ["PUBSUB_EMULATOR_HOST"] = before
    assert emulator.stop() == 0, "SIGTERM ends it well"


@pytest.fixture
def publisher(emulator):
    emulator.call("reset", {})
    publisher = pubsub_v1.PublisherClient(
        publisher_options=pubsub_v1.types.PublisherOptions(enable_message_ordering=True))
    publisher.create_topic(name=TOPIC)
    yield publisher
    publisher.stop()


@pytest.fixture
def subscriber(publisher):
    with pubsub_v1.SubscriberClient() as subscriber:
        yield subscriber


class Receiver:
    """A streaming pull that puts messages into a queue."""

    def __init__(self, subscriber, acks: bool = True, subscription: str = SUBSCRIPTION, **flow):
        self.messages = queue.Queue()

        def receive(message):
            if acks:
                message.ack()
            self.messages.put(message)

        executor = concurrent.futures.ThreadPoolExecutor(4)
        self.future = subscriber.subscribe(
            subscription, receive, flow_control=pubsub_v1.types.FlowControl(**flow), scheduler=ThreadScheduler(executor))

    def take(self, count: int, timeout: float = 20) -> list:
        deadline = time.monotonic() + timeout
        return [self.messages.get(timeout=max(0.01, deadline - time.monotonic())) for _ in range(count)]

    def stop(self):
        self.future.cancel()
        self.future.result(timeout=20)


def subscribe(subscriber, name: str = SUBSCRIPTION, **fields):
    return subscriber.create_subscription(request={"name": name, "topic": TOPIC, **fields})


def seconds(count: int) -> duration_pb2.Duration:
    return duration_pb2.Duration(seconds=count)


def wait_until(condition, timeout: float = 10):
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.02)


def test_publish_and_subscribe(emulator, publisher, subscriber):
    subscribe(subscriber, labels={"team": "a"})
    ids = [publisher.publish(TOPIC, str(n).encode(), n=str(n)).result(timeout=20) for n in range(100)]
    receiver = Receiver(subscriber)
    messages = receiver.take(100)
    assert sorted(int(message.data) for message in messages) == list(range(100))
    assert {message.message_id for message in messages} == set(ids)
    assert all(message.attributes["n"] == message.data.decode() for message in messages)
    assert all(abs(message.publish_time.timestamp() - time.time()) < 600 for message in messages)
    wait_until(lambda: emulator.stats(SUBSCRIPTION)["acked"] == 100)
    receiver.stop()
    assert emulator.stats(SUBSCRIPTION)["backlog"] == 0


def test_pull_modify_acknowledge(emulator, publisher, subscriber):
    subscribe(subscriber)
    for name in (b"a", b"b"):
        publisher.publish(TOPIC, name).result(timeout=20)
    pulled = subscriber.pull(subscription=SUBSCRIPTION, max_messages=10).received_messages
    assert [one.message.data for one in pulled] == [b"a", b"b"]
    subscriber.acknowledge(subscription=SUBSCRIPTION, ack_ids=[pulled[0].ack_id])
    subscriber.modify_ack_deadline(subscription=SUBSCRIPTION, ack_ids=[pulled[1].ack_id], ack_deadline_seconds=0)
    pulled = subscriber.pull(subscription=SUBSCRIPTION, max_messages=10).received_messages
    assert [one.message.data for one in pulled] == [b"b"]
    started = time.monotonic()
    assert not subscriber.pull(subscription=SUBSCRIPTION, max_messages=10, timeout=2).received_messages
    assert 1 < time.monotonic() - started < 2, "it answers before the client's deadline"
    emulator.advance(11)
    pulled = subscriber.pull(subscription=SUBSCRIPTION, max_messages=10).received_messages
    assert [one.message.data for one in pulled] == [b"b"]


def test_a_waiting_pull_is_answered_at_once(publisher, subscriber):
    subscribe(subscriber)
    threading.Timer(0.5, lambda: publisher.publish(TOPIC, b"late")).start()
    started = time.monotonic()
    pulled = subscriber.pull(subscription=SUBSCRIPTION, max_messages=10, timeout=20).received_messages
    assert [one.message.data for one in pulled] == [b"late"]
    assert time.monotonic() - started < 5


def test_nack_and_dead_letter(emulator, publisher, subscriber):
    letters = f"{PROJECT}/topics/letters"
    publisher.create_topic(name=letters)
    subscriber.create_subscription(name=f"{PROJECT}/subscriptions/letters", topic=letters)
    subscribe(subscriber, dead_letter_policy={"dead_letter_topic": letters, "max_delivery_attempts": 5})
    attempts = queue.Queue()

    def refuse(message):
        attempts.put(message.delivery_attempt)
        message.nack()

    future = subscriber.subscribe(SUBSCRIPTION, refuse)
    publisher.publish(TOPIC, b"bad", own="1").result(timeout=20)
    assert [attempts.get(timeout=20) for _ in range(5)] == [1, 2, 3, 4, 5]
    pulled = subscriber.pull(subscription=f"{PROJECT}/subscriptions/letters", max_messages=9).received_messages
    future.cancel()
    future.result(timeout=20)
    attributes = dict(pulled[0].message.attributes)
    assert attributes.pop("CloudPubSubDeadLetterSourceTopicPublishTime")
    assert attributes == {
        "own": "1",
        "CloudPubSubDeadLetterSourceDeliveryCount": "5",
        "CloudPubSubDeadLetterSourceSubscription": "orders",
        "CloudPubSubDeadLetterSourceSubscriptionProject": "test",
    }
    assert emulator.stats(SUBSCRIPTION)["dead_lettered"] == 1


def test_ordering(publisher, subscriber):
    subscribe(subscriber, enable_message_ordering=True)
    futures = [publisher.publish(TOPIC, str(n).encode(), ordering_key=f"key{n % 3}") for n in range(300)]
    for future in futures:
        future.result(timeout=20)
    receiver = Receiver(subscriber)
    by_key: dict[str, list[int]] = {}
    for message in receiver.take(300):
        by_key.setdefault(message.ordering_key, []).append(int(message.data))
    receiver.stop()
    assert len(by_key) == 3
    assert all(numbers == sorted(numbers) for numbers in by_key.values())


def test_filter(publisher, subscriber):
    subscribe(subscriber, filter='attributes.kind = "a" AND NOT attributes:skip')
    for attributes in ({"kind": "a"}, {"kind": "b"}, {"kind": "a", "skip": "1"}, {}):
        publisher.publish(TOPIC, repr(attributes).encode(), **attributes).result(timeout=20)
    pulled = subscriber.pull(subscription=SUBSCRIPTION, max_messages=9).received_messages
    assert [one.message.data for one in pulled] == [b"{'kind': 'a'}"]


def test_exactly_once(emulator, publisher, subscriber):
    subscribe(subscriber, enable_exactly_once_delivery=True)
    results = queue.Queue()

    def receive(message):
        results.put(message.ack_with_response())

    future = subscriber.subscribe(SUBSCRIPTION, receive)
    for n in range(20):
        publisher.publish(TOPIC, str(n).encode()).result(timeout=20)
    for _ in range(20):
        status = results.get(timeout=20).result(timeout=20)
        assert status == subscriber_exceptions.AcknowledgeStatus.SUCCESS
    future.cancel()
    future.result(timeout=20)
    assert emulator.stats(SUBSCRIPTION)["acked"] == 20
    publisher.publish(TOPIC, b"stale").result(timeout=20)
    pulled = subscriber.pull(subscription=SUBSCRIPTION, max_messages=1).received_messages
    emulator.advance(11)
    with pytest.raises(exceptions.FailedPrecondition) as refused:
        subscriber.acknowledge(subscription=SUBSCRIPTION, ack_ids=[pulled[0].ack_id])
    assert dict(refused.value.metadata) == {pulled[0].ack_id: "PERMANENT_FAILURE_INVALID_ACK_ID"}


def test_exactly_once_client_sees_stale_acks(emulator, publisher, subscriber):
    subscribe(subscriber, enable_exactly_once_delivery=True, ack_deadline_seconds=10)
    held = queue.Queue()
    future = subscriber.subscribe(SUBSCRIPTION, held.put)
    publisher.publish(TOPIC, b"a").result(timeout=20)
    message = held.get(timeout=20)
    emulator.advance(700)
    with pytest.raises(subscriber_exceptions.AcknowledgeError) as refused:
        message.ack_with_response().result(timeout=30)
    assert refused.value.error_code == subscriber_exceptions.AcknowledgeStatus.INVALID_ACK_ID
    future.cancel()
    future.result(timeout=20)


def test_snapshot_and_seek(publisher, subscriber):
    subscribe(subscriber)
    snapshot = f"{PROJECT}/snapshots/one"
    for name in (b"a", b"b"):
        publisher.publish(TOPIC, name).result(timeout=20)
    pulled = subscriber.pull(subscription=SUBSCRIPTION, max_messages=1).received_messages
    subscriber.acknowledge(subscription=SUBSCRIPTION, ack_ids=[pulled[0].ack_id])
    made = subscriber.create_snapshot(name=snapshot, subscription=SUBSCRIPTION)
    assert made.topic == TOPIC
    publisher.publish(TOPIC, b"c").result(timeout=20)
    fresh = f"{PROJECT}/subscriptions/fresh"
    subscribe(subscriber, fresh)
    subscriber.seek(request={"subscription": fresh, "snapshot": snapshot})
    pulled = subscriber.pull(subscription=fresh, max_messages=9).received_messages
    assert [one.message.data for one in pulled] == [b"b", b"c"]
    assert [one.name for one in subscriber.list_snapshots(project=PROJECT)] == [snapshot]
    subscriber.delete_snapshot(snapshot=snapshot)
    with pytest.raises(exceptions.NotFound):
        subscriber.get_snapshot(snapshot=snapshot)


def test_admin(publisher, subscriber):
    subscribe(subscriber)
    with pytest.raises(exceptions.AlreadyExists):
        subscribe(subscriber)
    with pytest.raises(exceptions.NotFound):
        publisher.get_topic(topic=f"{PROJECT}/topics/none")
    with pytest.raises(exceptions.InvalidArgument):
        publisher.create_topic(name=f"{PROJECT}/topics/goog-x")
    changed = subscriber.update_subscription(
        subscription=types.Subscription(name=SUBSCRIPTION, ack_deadline_seconds=33, labels={"a": "b"}),
        update_mask=field_mask_pb2.FieldMask(paths=["ack_deadline_seconds", "labels"]))
    assert (changed.ack_deadline_seconds, dict(changed.labels)) == (33, {"a": "b"})
    assert [one.name for one in publisher.list_topics(project=PROJECT)] == [TOPIC]
    assert list(publisher.list_topic_subscriptions(topic=TOPIC)) == [SUBSCRIPTION]
    granted = publisher.test_iam_permissions(
        request={"resource": TOPIC, "permissions": ["pubsub.topics.publish", "pubsub.topics.get"]})
    assert list(granted.permissions) == ["pubsub.topics.publish", "pubsub.topics.get"]
    publisher.detach_subscription(request={"subscription": SUBSCRIPTION})
    with pytest.raises(exceptions.FailedPrecondition):
        subscriber.pull(subscription=SUBSCRIPTION, max_messages=1)
    publisher.delete_topic(topic=TOPIC)
    assert subscriber.get_subscription(subscription=SUBSCRIPTION).topic == "_deleted-topic_"


def test_the_client_survives_dying_streams_and_refused_calls(emulator, publisher, subscriber):
    subscribe(subscriber)
    emulator.call("faults", {
        "delivery": {"duplicate_rate": 0.1, "lost_ack_rate": 0.05, "delivery_jitter_seconds": 0.2},
        "rpcs": [{"method": "Publish", "status": "UNAVAILABLE", "rate": 0.2},
                 {"method": "Acknowledge", "status": "UNAVAILABLE", "rate": 0.2},
                 {"method": "StreamingPull", "status": "UNAVAILABLE", "rate": 0.3}]})
    receiver = Receiver(subscriber)
    futures = []
    for n in range(500):
        futures.append(publisher.publish(TOPIC, str(n).encode()))
        if n % 100 == 50:
            emulator.call("kill-streams", {"status": "UNAVAILABLE"})
            time.sleep(0.1)
    for future in futures:
        future.result(timeout=60)
    seen = set()
    deadline = time.monotonic() + 60
    while len(seen) < 500 and time.monotonic() < deadline:
        try:
            seen.add(int(receiver.messages.get(timeout=0.5).data))
        except queue.Empty:
            emulator.advance(11)
    assert len(seen) == 500
    receiver.stop()
    emulator.call("faults", {})


def test_a_stream_that_ends_for_good_tells_the_client(emulator, publisher, subscriber):
    subscribe(subscriber)
    receiver = Receiver(subscriber)
    wait_until(lambda: emulator.stats(SUBSCRIPTION)["streams"] == 1)
    emulator.call("kill-streams", {"status": "PERMISSION_DENIED"})
    with pytest.raises(exceptions.PermissionDenied):
        receiver.future.result(timeout=20)


def test_a_wrong_admin_call_is_refused(emulator, publisher):
    for path, body in (("faults", {"nonsense": 1}), ("kill-streams", {"status": "WHAT"}), ("stall", {})):
        with pytest.raises(urllib.error.HTTPError) as refused:
            emulator.call(path, body)
        assert refused.value.code == 400
        assert json.load(refused.value)["error"]


def test_latency_and_throughput(emulator, publisher, subscriber):
    subscribe(subscriber)
    payload = bytes(1024)
    count, batch = 100_000, 1000
    request = types.PublishRequest(topic=TOPIC, messages=[types.PubsubMessage(data=payload)] * batch)
    started = time.monotonic()
    for _ in range(count // batch):
        publisher.transport.publish(request)
    published = count / (time.monotonic() - started)

    requests: queue.Queue = queue.Queue()
    requests.put(types.StreamingPullRequest(subscription=SUBSCRIPTION, stream_ack_deadline_seconds=60))
    stream = subscriber.streaming_pull(requests=iter(requests.get, None))
    started = time.monotonic()
    received = 0
    for response in stream:
        ack_ids = [one.ack_id for one in response._pb.received_messages]
        received += len(ack_ids)
        requests.put(types.StreamingPullRequest(ack_ids=ack_ids))
        if received == count:
            break
    streamed = count / (time.monotonic() - started)

    latencies = []
    single = types.PublishRequest(topic=TOPIC, messages=[types.PubsubMessage(data=payload)])
    for _ in range(200):
        started = time.monotonic()
        publisher.transport.publish(single)
        response = next(stream)
        latencies.append(time.monotonic() - started)
        requests.put(types.StreamingPullRequest(ack_ids=[one.ack_id for one in response.received_messages]))
    stream.cancel()
    requests.put(None)
    latencies.sort()
    print(f"\npublish {published:,.0f} msg/s, one stream {streamed:,.0f} msg/s, "
          f"publish to receipt p50 {latencies[100] * 1e3:.2f} ms, p99 {latencies[198] * 1e3:.2f} ms")
    assert published > 3_000 and streamed > 3_000
    assert latencies[100] < 0.2
