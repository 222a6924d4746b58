"""A Pub/Sub server with a Tidemill that uses it, and a client of that server for the test."""

import concurrent.futures
import pathlib
import time

import grpc
from google.api_core import exceptions
from google.pubsub_v1 import PublisherClient, SubscriberClient, types
from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport

import jobs
import pipelines
import servers

PROJECT = "projects/tidemill-test"
SNAPSHOT_LIFE_SECONDS = 7 * 24 * 3600


class World:
    """The servers of some tests. Each test makes topics of its own."""

    def __init__(self, folder, server, proxy=None):
        self.server = server
        self.proxy = proxy
        self.tidemill = servers.Tidemill(folder, proxy.address if proxy else server.address, "--lanes", "2")
        self.connect()
        self._channel = grpc.insecure_channel(server.address)
        self.publisher = PublisherClient(transport=PublisherGrpcTransport(channel=self._channel))
        self.subscriber = SubscriberClient(transport=SubscriberGrpcTransport(channel=self._channel))

    def connect(self):
        """Submits to the present Tidemill from now on."""
        self.jobs = jobs.JobService(self.tidemill.endpoint)
        self.flags = [f"--job_endpoint={self.tidemill.endpoint}", "--environment_type=LOOPBACK", "--streaming"]

    def stop(self):
        """Ends the servers; Tidemill must end well."""
        status = self.tidemill.stop()
        self.jobs.close()
        self._channel.close()
        if self.proxy:
            self.proxy.stop()
        self.server.kill()
        assert status == 0, "SIGTERM ends tidemill well"

    def topic(self, name: str) -> str:
        """Makes a topic."""
        return self.publisher.create_topic(name=f"{PROJECT}/topics/{name}").name

    def subscription(self, topic: str, name: str | None = None, **fields) -> str:
        """Makes a subscription, named as the topic unless told."""
        path = f"{PROJECT}/subscriptions/{name or topic.rpartition('/')[2]}"
        return self.subscriber.create_subscription(
            request={"name": path, "topic": topic, "ack_deadline_seconds": 10, **fields}).name

    def results(self, name: str) -> "Results":
        """A topic for a pipeline to write to, and what has been written to it."""
        topic = self.topic(name)
        subscription = self.subscription(topic)
        if isinstance(self.server, servers.Emulator):
            self.server.call("faults-of-subscription", {"subscription": subscription, "delivery": {}})
        return Results(self, topic, subscription)

    def publish(self, topic: str, *messages: types.PubsubMessage | bytes) -> list[str]:
        """Publishes all in one request; returns their ids."""
        wrapped = [types.PubsubMessage(data=one) if isinstance(one, bytes) else one for one in messages]
        return list(self.publisher.publish(topic=topic, messages=wrapped).message_ids)

    def subscriptions(self, topic: str) -> list[str]:
        """Names of the subscriptions of a topic."""
        return list(self.publisher.list_topic_subscriptions(topic=topic))

    def all_acknowledged(self, topic: str, subscription: str) -> bool:
        """Whether nothing is left of the topic, whose only subscription that is."""
        if isinstance(self.server, servers.Emulator):
            return self.server.stats(subscription)["backlog"] == 0
        if isinstance(self.server, servers.Pstest):
            return self.server.unacknowledged(topic) == 0
        # A snapshot lives so much shorter than usual as its oldest unacknowledged message is old.
        name = f"{PROJECT}/snapshots/age-of-{subscription.rpartition('/')[2]}"
        before = time.time()
        expires = self.subscriber.create_snapshot(name=name, subscription=subscription).expire_time
        self.subscriber.delete_snapshot(snapshot=name)
        return expires.timestamp() - SNAPSHOT_LIFE_SECONDS > before - 0.01

    def run(self, build, *flags: str) -> "Job":
        """Submits a pipeline; it runs when this returns."""
        return Job(self, pipelines.submit(self.flags, build, *flags))


class Job:
    """A submitted pipeline, cancelled at the end of a `with` unless it has ended."""

    def __init__(self, world, result):
        self._world = world
        self._result = result
        self.id = result._job_id

    def __enter__(self):
        return self

    def __exit__(self, kind, _error, _trace):
        if self._world.jobs.state(self.id) not in jobs.TERMINAL:
            self.cancel()

    def cancel(self):
        """Cancels and waits until the job has ended."""
        self._world.jobs.cancel(self.id)
        self.wait_for(jobs.State.CANCELLED, 5)

    def drain(self):
        """Drains and waits until the job has ended."""
        self._world.jobs.drain(self.id)
        self.wait_for(jobs.State.DONE, 20)

    def wait_for(self, state, seconds: float):
        """Waits for a state."""
        self._world.jobs.wait_for(self.id, {state}, seconds)

    def failure(self, seconds: float = 20) -> str:
        """Waits until the job has failed; its error messages."""
        self.wait_for(jobs.State.FAILED, seconds)
        return "\n".join(self._world.jobs.errors(self.id))

    def warnings(self) -> list[str]:
        """The warnings of a job that has ended."""
        return self._world.jobs.texts(self.id, jobs.Importance.JOB_MESSAGE_WARNING)


class Results:
    """What a pipeline writes to a topic."""

    def __init__(self, world, topic, subscription):
        self._world = world
        self._subscription = subscription
        self._ids = set()
        self.topic = topic
        self.messages: list[types.PubsubMessage] = []

    def pull(self, seconds: float = 2) -> list[types.PubsubMessage]:
        """Waits for a moment; returns all that has come so far, every message once."""
        try:
            pulled = self._world.subscriber.pull(
                subscription=self._subscription, max_messages=1000, timeout=seconds).received_messages
        except (exceptions.DeadlineExceeded, exceptions.Cancelled):
            pulled = []  # At the deadline a server may be the first to give up.
        if pulled:
            self._world.subscriber.acknowledge(
                subscription=self._subscription, ack_ids=[one.ack_id for one in pulled])
        for one in pulled:
            if one.message.message_id not in self._ids:
                self._ids.add(one.message.message_id)
                self.messages.append(one.message)
        return self.messages

    def wait_for(self, is_enough, seconds: float = 30):
        """Pulls until the messages are enough."""
        deadline = time.monotonic() + seconds
        while not is_enough(self.messages):
            left = deadline - time.monotonic()
            assert left > 0, f"after {seconds} s these {len(self.messages)} results are there: {self.messages[:50]}"
            self.pull(min(2, left + 0.1))

    def wait_for_count(self, count: int, seconds: float = 30):
        """Waits for so many messages."""
        self.wait_for(lambda messages: len(messages) >= count, seconds)


def wait_until(condition, seconds: float = 20, what: str = ""):
    """Polls until the condition holds."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)
    return found


def start_all(folder: pathlib.Path) -> dict[str, concurrent.futures.Future]:
    """Starts a world around each server, side by side."""
    kinds = {"ours": _ours, "official": _official, "pstest": _pstest, "obedient": _obedient}
    with concurrent.futures.ThreadPoolExecutor(len(kinds)) as threads:
        worlds = {}
        for name, start in kinds.items():
            (folder / name).mkdir()
            worlds[name] = threads.submit(start, folder / name)
    return worlds


def _ours(folder):
    """Our emulator, told to misbehave."""
    emulator = servers.Emulator(folder, "--duplicates=0.1", "--lost-acks=0.05", "--stream-life=3")
    return World(folder, emulator)


def _obedient(folder):
    """Our emulator, for tests that tell it what to do."""
    return World(folder, servers.Emulator(folder))


def _official(folder):
    server = servers.Official()
    return World(folder, server, servers.Proxy(server.address, lingers=True))


def _pstest(folder):
    server = servers.Pstest(folder)
    return World(folder, server, servers.Proxy(server.address))
