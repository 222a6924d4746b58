"""Whole Python streaming pipelines that read and write Pub/Sub, over three servers that agree on little but the API.

Stock Beam submits to a Tidemill of each server: our emulator, told to misbehave; Google's; Go's pstest. What a
server takes half a minute for (a lease that must expire) passes for all of them at once: the scenarios of a server
run in a thread of its own while the other tests go on.
"""

import concurrent.futures
import json
import pathlib
import threading
import time
import uuid

import apache_beam as beam
import pytest
from apache_beam.io.gcp.pubsub import ReadFromPubSub, WriteToPubSub
from apache_beam.transforms.window import FixedWindows
from apache_beam.utils.timestamp import Timestamp
from google.api_core import exceptions
from google.pubsub_v1 import types

import jobs
import pipelines
import servers
import world as worlds_of
from world import PROJECT, World, wait_until

SERVERS = ("ours", "official", "pstest")
SHOPS = tuple(f"shop-{letter}" for letter in "abcdefgh")
# How long a lease lasts that nobody extends, and something more.
LEASE_SECONDS = 45

pytestmark = pytest.mark.timeout(170)


@pytest.fixture(scope="session", name="worlds")
def _worlds(tmp_path_factory):
    started = worlds_of.start_all(tmp_path_factory.mktemp("worlds"))
    yield started
    problems = []
    for world in started.values():
        if world.exception() is None:
            try:
                world.result().stop()
            except AssertionError as problem:
                problems.append(problem)
    assert not problems, problems


def _world(started: concurrent.futures.Future) -> World:
    try:
        return started.result()
    except servers.Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture(name="obedient")
def _obedient(worlds):
    return _world(worlds["obedient"])


# ---- Over every server -----------------------------------------------------------------------------------------


def parse_order(data):
    """A (shop, units) pair."""
    order = json.loads(data)
    return order["shop"], order["units"]


def result_of(total, window=beam.DoFn.WindowParam):
    """A message about one shop in one window."""
    shop, units = total
    return json.dumps({"window": window.end.micros // 1_000_000, "shop": shop, "units": units}).encode()


def orders_of_a_subscription(world: World, _folder):
    """Id attribute, timestamp attribute, windows, a sum per key, and a write with both attributes."""
    topic = world.topic("orders")
    subscription = world.subscription(topic)
    results = world.results("totals")

    def build(pipeline):
        # pylint: disable=expression-not-assigned
        (pipeline
         | "Orders" >> ReadFromPubSub(
             subscription=subscription, id_label="order", timestamp_attribute="ordered_at")
         | beam.Map(parse_order)
         | beam.WindowInto(FixedWindows(1))
         | beam.CombinePerKey(sum)
         | beam.Map(result_of)
         | "Totals" >> WriteToPubSub(results.topic, id_label="total", timestamp_attribute="closed_at"))

    with world.run(build):
        expected = publish_orders(world, topic)
        finish(world, topic, subscription, results, expected)
        ids = {message.attributes["total"] for message in results.messages}
        assert len(ids) == len(results.messages), "an id was given twice: its readers would drop one"
        for message in results.messages:
            total = json.loads(message.data)
            assert int(message.attributes["closed_at"]) == total["window"] * 1000 - 1


def publish_orders(world: World, topic: str) -> dict:
    """Publishes for some seconds, every tenth order twice, while streams are cut; returns the sums per window."""
    rounds = 80 if isinstance(world.server, servers.Emulator) else 40
    per_round = 2 if isinstance(world.server, servers.Pstest) else 25
    expected = {}
    again = []
    cut_streams(world)
    for turn in pace(rounds, 0.1):
        now = int(time.time() * 1000)
        orders = []
        for index in range(per_round):
            number = turn * per_round + index
            shop, units = SHOPS[number % len(SHOPS)], number % 7 + 1
            window = (now // 1000 + 1, shop)
            expected[window] = expected.get(window, 0) + units
            orders.append(types.PubsubMessage(
                data=json.dumps({"shop": shop, "units": units}).encode(),
                attributes={"order": f"order-{number}", "ordered_at": str(now)}))
        world.publish(topic, *orders, *again)
        again = orders[::10]
    return expected


def finish(world: World, topic, subscription, results, expected):
    """Waits until nothing can come again, closes the windows by one more message, and compares."""
    wait_until(lambda: world.all_acknowledged(topic, subscription), LEASE_SECONDS + 15, "everything is acknowledged")
    last = int(time.time() * 1000)
    world.publish(topic, types.PubsubMessage(
        data=json.dumps({"shop": "last", "units": 1}).encode(),
        attributes={"order": "last", "ordered_at": str(last)}))
    expected[last // 1000 + 1, "last"] = 1
    results.wait_for(lambda messages: any(json.loads(one.data)["shop"] == "last" for one in messages), 60)
    results.wait_for_count(len(expected), 5)
    totals = [json.loads(message.data) for message in results.messages]
    found = {(total["window"], total["shop"]): total["units"] for total in totals}
    assert found == expected
    assert len(totals) == len(expected), "a window fired more than once"
    misbehaved(world, subscription)


def cut_streams(world: World):
    """Cuts streams every few seconds; our emulator does so by itself."""
    if world.proxy:
        world.proxy.cut_every(1.5, times=3)


def misbehaved(world: World, subscription):
    """Whether the server did what the scenario is there to survive."""
    if world.proxy:
        assert world.proxy.cuts >= 3
        return
    stats = world.server.stats(subscription)
    assert stats["redelivered"] > stats["published"] / 20, stats
    assert stats["acks_lost"] > stats["published"] / 50, stats


def shop_of(message, timestamp=beam.DoFn.TimestampParam):
    """(shop, 1) of a message that has all its parts, else what is wrong with it."""
    if not message.message_id:
        return "no message id", 1
    if Timestamp.from_utc_datetime(message.publish_time).micros // 1000 != timestamp.micros // 1000:
        return f"published at {message.publish_time}, but has {timestamp}", 1
    if message.ordering_key != message.attributes["shop"]:
        return f"ordering key {message.ordering_key!r}", 1
    if message.data != b"\x00" + message.attributes["number"].encode():
        return f"data {message.data!r}", 1
    return message.attributes["shop"], 1


def letters_of_a_topic(world: World, _folder):
    """A topic, whole messages, publish times, and message ids against what the server delivers twice."""
    topic = world.topic("letters")
    results = world.results("counts")

    def build(pipeline):
        # pylint: disable=expression-not-assigned
        (pipeline
         | "Letters" >> ReadFromPubSub(topic=topic, with_attributes=True)
         | beam.Map(shop_of)
         | beam.WindowInto(FixedWindows(2))
         | beam.CombinePerKey(sum)
         | beam.Map(result_of)
         | "Counts" >> WriteToPubSub(results.topic))

    with world.run(build):
        # The temporary one, which goes with the job.
        [subscription] = world.subscriptions(topic)
        rounds = 80 if isinstance(world.server, servers.Emulator) else 40
        per_round = 2 if isinstance(world.server, servers.Pstest) else 20
        cut_streams(world)
        for turn in pace(rounds, 0.1):
            shop = SHOPS[turn % len(SHOPS)]
            world.publish(topic, *(letter(shop, number) for number in range(per_round)))
        wait_until(lambda: world.all_acknowledged(topic, subscription), LEASE_SECONDS + 15,
                   "everything is acknowledged")
        world.publish(topic, letter("last", 0))
        expected = {**dict.fromkeys(SHOPS, rounds * per_round // len(SHOPS)), "last": 1}
        results.wait_for(lambda messages: sum(sums(messages).values()) >= sum(expected.values()), 60)
        results.pull(0.5)
        assert sums(results.messages) == expected
        misbehaved(world, subscription)


def letter(shop, number):
    """A message with everything that one can have."""
    return types.PubsubMessage(data=b"\x00" + str(number).encode(), ordering_key=shop,
                               attributes={"shop": shop, "number": str(number)})


def sums(messages):
    """Units per shop over all windows."""
    found = {}
    for message in messages:
        total = json.loads(message.data)
        found[total["shop"]] = found.get(total["shop"], 0) + total["units"]
    return found


def acknowledges_only_after_commit(world: World, folder):
    """While a bundle is held up, its messages and those behind it stay unacknowledged."""
    topic = world.topic("held")
    subscription = world.subscription(topic)
    results = world.results("let-go")
    reached, release = folder / "reached", folder / "release"

    def build(pipeline):
        # pylint: disable=expression-not-assigned
        (pipeline
         | ReadFromPubSub(subscription=subscription)
         | beam.ParDo(pipelines.Block(reached, release))
         | WriteToPubSub(results.topic))

    texts = sorted(str(number).encode() for number in range(30))
    with world.run(build):
        world.publish(topic, *texts)
        pipelines.wait_for_file(reached, 30)
        assert not world.all_acknowledged(topic, subscription)
        if isinstance(world.server, servers.Emulator):
            # Streams end, and what they had brought comes again, while it is being worked on.
            wait_until(lambda: world.server.stats(subscription)["delivered"] >= len(texts))
            world.server.call("kill-streams", {"subscription": subscription, "status": "UNAVAILABLE"})
            wait_until(lambda: world.server.stats(subscription)["redelivered"] >= len(texts))
            assert world.server.stats(subscription)["acked"] == 0
        assert results.pull(1) == []
        release.write_text("go")
        results.wait_for_count(len(texts))
        wait_until(lambda: world.all_acknowledged(topic, subscription), LEASE_SECONDS)
        results.pull(0.5)
    assert sorted(message.data for message in results.messages) == texts


class FailFirst(beam.DoFn):
    """Passes elements on, and then fails its bundle, so many times."""

    def __init__(self, folder, times):
        self._folder = str(folder)
        self._times = times

    def process(self, element):
        """Output of a bundle that is going to fail."""
        yield element

    def finish_bundle(self):
        """Fails, unless it has done so often enough."""
        failures = pathlib.Path(self._folder)
        if len(list(failures.iterdir())) < self._times:
            (failures / uuid.uuid4().hex).touch()
            raise ValueError("fails on purpose")


def has_effects_only_after_success(world: World, folder):
    """A bundle that fails leaves nothing; tried again, it counts once."""
    topic = world.topic("failing")
    subscription = world.subscription(topic)
    results = world.results("succeeded")

    def build(pipeline):
        # pylint: disable=expression-not-assigned
        (pipeline
         | ReadFromPubSub(subscription=subscription)
         | beam.ParDo(FailFirst(folder, 4))
         | WriteToPubSub(results.topic))

    texts = sorted(str(number).encode() for number in range(30))
    with world.run(build):
        world.publish(topic, *texts)
        results.wait_for_count(len(texts))
        wait_until(lambda: world.all_acknowledged(topic, subscription), LEASE_SECONDS)
        results.pull(0.5)
    assert sorted(message.data for message in results.messages) == texts
    assert len(list(folder.iterdir())) == 4


def has_a_subscription_while_it_runs(world: World, _folder):
    """A topic's subscription is there when Run returns, and gone soon after the end."""
    topic = world.topic("passing")
    results = world.results("passed")

    def build(pipeline):
        # pylint: disable=expression-not-assigned
        pipeline | ReadFromPubSub(topic=topic) | WriteToPubSub(results.topic)

    with world.run(build) as job:
        [subscription] = world.subscriptions(topic)
        assert subscription.startswith(f"{PROJECT}/subscriptions/tidemill-")
        texts = sorted(str(number).encode() for number in range(10))
        world.publish(topic, *texts)
        results.wait_for_count(len(texts), 60)
        assert sorted(message.data for message in results.messages) == texts
        started = time.monotonic()
        job.cancel()
        wait_until(lambda: world.subscriptions(topic) == [], 5 - (time.monotonic() - started), "it is deleted")


# Those of one server one after the other; the last two, which cut its connections, at the same time.
SCENARIOS = (acknowledges_only_after_commit, has_effects_only_after_success, has_a_subscription_while_it_runs)
CUTTING_SCENARIOS = (orders_of_a_subscription, letters_of_a_topic)


@pytest.fixture(scope="session", autouse=True, name="runs")
def _runs(request, worlds, tmp_path_factory):
    """What comes of each chosen scenario on each server."""
    wanted = [item.callspec.params for item in request.session.items if item.originalname == "test_over_servers"]
    runs = {(params["scenario"], params["server"]): concurrent.futures.Future() for params in wanted}

    def run(scenario, server):
        future = runs.get((scenario, server))
        if future is None:
            return
        try:
            scenario(_world(worlds[server]), tmp_path_factory.mktemp("scenario"))
            future.set_result(None)
        except BaseException as error:  # pylint: disable=broad-exception-caught
            future.set_exception(error)

    def run_all(server):
        for scenario in SCENARIOS:
            run(scenario, server)
        for scenario in CUTTING_SCENARIOS:
            threading.Thread(target=run, args=(scenario, server), daemon=True).start()

    for server in SERVERS:
        threading.Thread(target=run_all, args=(server,), daemon=True).start()
    return runs


# ---- Where something is wrong: our emulator, which can be told ---------------------------------------------------


def copying(results, **read):
    """A pipeline that writes what it reads."""
    def build(pipeline):
        # pylint: disable=expression-not-assigned
        pipeline | "Read" >> ReadFromPubSub(**read) | "Write" >> WriteToPubSub(results)

    return build


@pytest.fixture(name="name")
def _name(request):
    """A name for the resources of this test."""
    return request.node.name.removeprefix("test_").replace("_", "-").strip("[]").replace("[", "-")


@pytest.fixture(name="rules")
def _rules(obedient):
    """Sets what calls of the emulator come to; taken back at the end."""
    def set_rules(*rules):
        faults = obedient.server.call("faults")
        obedient.server.call("faults", {**faults, "rpcs": list(rules)})

    yield set_rules
    set_rules()


def test_reading_without_permission_fails(obedient, rules, name):
    """The message names the step, the permission and the subscription."""
    topic = obedient.topic(name)
    subscription = obedient.subscription(topic)
    rules({"method": "StreamingPull", "status": "PERMISSION_DENIED", "resource": subscription})
    with obedient.run(copying(topic, subscription=subscription)) as job:
        failure = job.failure()
    for part in ("Read", "pubsub.subscriptions.consume", subscription):
        assert part in failure, failure


def test_reading_what_does_not_exist_fails(obedient, name):
    """The message names the step and the subscription, or the topic."""
    topic = obedient.topic(name)
    for read in ({"subscription": f"{PROJECT}/subscriptions/nobody"}, {"topic": f"{PROJECT}/topics/nobody"}):
        with obedient.run(copying(topic, **read)) as job:
            failure = job.failure()
        assert "Read" in failure and "nobody" in failure, failure


def test_subscribing_without_permission_fails(obedient, rules, name):
    """The message names the step, the permissions and the topic."""
    topic = obedient.topic(name)
    rules({"method": "CreateSubscription", "status": "PERMISSION_DENIED"})
    with obedient.run(copying(topic, topic=topic)) as job:
        failure = job.failure()
    for part in ("Read", "pubsub.subscriptions.create", topic):
        assert part in failure, failure


def test_writing_to_what_does_not_exist_fails(obedient, name):
    """Said at once, not when the first message has been read and cannot be written."""
    topic = obedient.topic(name)
    subscription = obedient.subscription(topic)
    missing = f"{PROJECT}/topics/nobody"
    with obedient.run(copying(missing, subscription=subscription)) as job:
        failure = job.failure()
    assert "Write" in failure and missing in failure, failure


def test_a_drain_closes_open_windows_and_gives_back_what_was_not_read(obedient, name, tmp_path):
    """What a bundle has counts in the window of weeks that is open; what comes later waits for the next job."""
    topic = obedient.topic(name)
    subscription = obedient.subscription(topic)
    results = obedient.results(f"{name}-results")
    reached, release = tmp_path / "reached", tmp_path / "release"

    def build(pipeline):
        # pylint: disable=expression-not-assigned
        (pipeline
         | ReadFromPubSub(subscription=subscription)
         | beam.ParDo(pipelines.Block(reached, release))
         | beam.Map(lambda _: ("all", 1))
         | beam.WindowInto(FixedWindows(10**6))
         | beam.CombinePerKey(sum)
         | beam.Map(result_of)
         | WriteToPubSub(results.topic))

    texts = [str(number).encode() for number in range(30)]
    with obedient.run(build) as job:
        obedient.publish(topic, *texts)
        pipelines.wait_for_file(reached, 30)
        obedient.jobs.drain(job.id)
        later = [str(number).encode() for number in range(30, 40)]
        obedient.publish(topic, *later)
        release.write_text("go")
        job.drain()
    results.pull()
    counted = sum(sums(results.messages).values())
    left = obedient.server.stats(subscription)
    assert left["acked"] == counted and 1 <= counted <= len(texts), left
    with obedient.run(copying(results.topic, subscription=subscription)):
        results.wait_for_count(len(results.messages) + len(texts) + len(later) - counted)


def test_a_subscription_that_vanishes_fails_the_job(obedient, name):
    """Deleted under a running job."""
    topic = obedient.topic(name)
    results = obedient.results(f"{name}-results")
    subscription = obedient.subscription(topic)
    with obedient.run(copying(results.topic, subscription=subscription)) as job:
        obedient.publish(topic, b"one")
        results.wait_for_count(1)
        obedient.subscriber.delete_subscription(subscription=subscription)
        assert subscription in job.failure()


def test_a_topic_that_vanishes_is_waited_for(obedient, name):
    """What was read is kept, and written once somebody has made the topic again."""
    topic = obedient.topic(name)
    subscription = obedient.subscription(topic)
    target = obedient.topic(f"{name}-target")
    with obedient.run(copying(target, subscription=subscription)) as job:
        obedient.publisher.delete_topic(topic=target)
        obedient.publish(topic, b"one")
        wait_until(lambda: obedient.all_acknowledged(topic, subscription))
        results = obedient.results(f"{name}-target")
        results.wait_for_count(1)
    assert [message.data for message in results.messages] == [b"one"]
    assert any("Write" in text and target in text for text in job.warnings())


@pytest.mark.parametrize("keeps", (False, True))
def test_ordering_keys_are_written_where_asked(obedient, name, keeps):
    """Beam writes them only with publish_with_ordering_key."""
    topic = obedient.topic(name)
    results = obedient.results(f"{name}-results")

    def build(pipeline):
        # pylint: disable=expression-not-assigned
        (pipeline
         | ReadFromPubSub(topic=topic, with_attributes=True)
         | WriteToPubSub(results.topic, with_attributes=True, publish_with_ordering_key=keeps))

    with obedient.run(build):
        obedient.publish(topic, letter("shop-a", 7))
        results.wait_for_count(1)
    [message] = results.messages
    assert dict(message.attributes) == {"shop": "shop-a", "number": "7"}
    assert message.ordering_key == ("shop-a" if keeps else "")


def test_a_subscription_is_looked_at(obedient, name):
    """What does not go well with a pipeline is said, and what nothing can be pulled from is refused."""
    topic = obedient.topic(name)
    ordered = obedient.subscription(topic, f"{name}-ordered", enable_message_ordering=True)
    detached = obedient.subscription(topic, f"{name}-detached")
    obedient.publisher.detach_subscription(request={"subscription": detached})
    results = obedient.results(f"{name}-results")
    with obedient.run(copying(results.topic, subscription=detached)) as job:
        assert f"{detached} cannot be read: it is detached" in job.failure()
    with obedient.run(copying(results.topic, subscription=ordered)) as first:
        with obedient.run(copying(results.topic, subscription=ordered)) as second:
            pass
    assert any("has message ordering" in text for text in first.warnings())
    assert any(f"{ordered} is read by 1 more" in text for text in second.warnings())


class FailAlways(beam.DoFn):
    """Raises at every element."""

    def process(self, element):
        """Does not return."""
        raise ValueError(f"refuses {element!r}")


def test_a_failed_job_leaves_no_subscription(obedient, name):
    """User code fails, and the job with it."""
    topic = obedient.topic(name)

    def build(pipeline):
        # pylint: disable=expression-not-assigned
        pipeline | ReadFromPubSub(topic=topic) | beam.ParDo(FailAlways())

    with obedient.run(build, "--max_bundle_retries=1") as job:
        obedient.publish(topic, b"bad")
        assert "refuses b'bad'" in job.failure()
        wait_until(lambda: obedient.subscriptions(topic) == [], 5, "it is deleted")


def test_a_job_that_does_not_start_leaves_no_subscription(obedient, name):
    """Of its two reads one is of nothing."""
    topic = obedient.topic(name)

    def build(pipeline):
        # pylint: disable=expression-not-assigned
        pipeline | "One" >> ReadFromPubSub(topic=topic)
        pipeline | "Two" >> ReadFromPubSub(topic=f"{PROJECT}/topics/nobody")

    with obedient.run(build) as job:
        job.failure()
        wait_until(lambda: obedient.subscriptions(topic) == [], 5, "it is deleted")


def test_a_job_cancelled_while_it_subscribes_leaves_no_subscription(obedient, rules, name):
    """The subscription is made, but the server answers with an error, again and again."""
    topic = obedient.topic(name)
    before = obedient.jobs.job_ids()
    rules({"method": "CreateSubscription", "status": "UNAVAILABLE", "takes_effect": True})
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        running = threads.submit(obedient.run, copying(topic, topic=topic))
        wait_until(lambda: obedient.subscriptions(topic))
        # Other tests start jobs too.
        [job] = [job for job in obedient.jobs.job_ids() - before if obedient.jobs.state(job) == jobs.State.STARTING]
        obedient.jobs.cancel(job)
        obedient.jobs.wait_for(job, {jobs.State.CANCELLED}, 5)
        wait_until(lambda: obedient.subscriptions(topic) == [], 5, "it is deleted")
        running.result(timeout=10)


def test_a_slow_service_slows_and_breaks_nothing(obedient, rules, name):
    """Every call takes half a second more."""
    topic = obedient.topic(name)
    results = obedient.results(f"{name}-results")
    rules({"method": "*", "delay_seconds": 0.5})
    with obedient.run(copying(results.topic, topic=topic)) as job:
        texts = sorted(str(number).encode() for number in range(100))
        obedient.publish(topic, *texts)
        results.wait_for_count(len(texts), 60)
        assert sorted(message.data for message in results.messages) == texts
        started = time.monotonic()
        job.cancel()
        rules()
        wait_until(lambda: obedient.subscriptions(topic) == [], 5 - (time.monotonic() - started), "it is deleted")


def test_a_server_that_is_killed_and_comes_back(tmp_path):
    """Everything it knew is gone; a subscription of the same name is there again, and reading goes on."""
    emulator = servers.Emulator(tmp_path)
    proxy = servers.Proxy(emulator.address)
    world = World(tmp_path, emulator, proxy)
    topic = world.topic("orders")
    subscription = world.subscription(topic)
    results = world.results("results")
    with world.run(copying(results.topic, subscription=subscription)):
        world.publish(topic, b"before")
        results.wait_for_count(1)
        wait_until(lambda: world.all_acknowledged(topic, subscription))
        proxy.close_gate()
        emulator.kill()
        world.server = servers.Emulator(tmp_path, port=emulator.port)
        wait_until(lambda: exists_again(world.topic, "orders"))
        world.subscription(topic)
        after = world.results("results")
        world.publish(topic, b"after")
        proxy.open_gate()
        after.wait_for_count(1, 60)
        assert [message.data for message in after.messages] == [b"after"]
        wait_until(lambda: world.all_acknowledged(topic, subscription))
    world.stop()


def test_what_a_killed_server_left_is_swept(obedient, name, tmp_path):
    """By the next one on its data folder, once it reads a topic of the same project."""
    topic = obedient.topic(name)
    killed = World(tmp_path, obedient.server)
    killed.run(copying(topic, topic=topic))
    [left] = obedient.subscriptions(topic)
    killed.tidemill.kill()
    with obedient.run(copying(topic, topic=obedient.topic(f"{name}-other"))):
        assert left in obedient.subscriptions(topic), "another server's are left alone"
    again = servers.Tidemill(tmp_path, obedient.server.address)
    killed.tidemill = again
    killed.connect()
    with killed.run(copying(topic, topic=topic)):
        wait_until(lambda: left not in obedient.subscriptions(topic), 10, "it is swept")
        assert len(obedient.subscriptions(topic)) == 1
    assert again.stop() == 0


def exists_again(make, name):
    """Makes something on a server that has just started; `False` while it cannot be reached."""
    try:
        return make(name)
    except exceptions.ServiceUnavailable:
        return False


# ---- Last, when the scenarios have had time ------------------------------------------------------------------------


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("scenario", (*SCENARIOS, *CUTTING_SCENARIOS), ids=lambda scenario: scenario.__name__)
def test_over_servers(runs, scenario, server):
    """The scenario came out right."""
    runs[scenario, server].result()


def pace(rounds, seconds):
    """Numbers the rounds, each of which takes at least so long: messages come as they do in life."""
    started = time.monotonic()
    for turn in range(rounds):
        yield turn
        while time.monotonic() < started + (turn + 1) * seconds:
            time.sleep(0.01)
