"""Word counts of each SDK, through every kind of environment that needs no container."""

import collections
import glob
import subprocess
import sys

import pytest

import conftest
import worker_pool
from driver import cache, programs

TEXT = "to be or not to be\nthat is the question\n" * 50
ENVIRONMENTS = pytest.mark.parametrize("environment", ("LOOPBACK", "EXTERNAL", "PROCESS"))


@pytest.fixture
def count(tmp_path):
    """Counts a text in a client process of its own, as a user would, and looks at the outcome."""
    def run(command, **options):
        (tmp_path / "in.txt").write_text(TEXT)
        words = [*command, f"--input={tmp_path}/in.txt", f"--output={tmp_path}/out"]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                              check=False, cwd=tmp_path, timeout=110, **options)
        assert done.returncode == 0, done.stderr[-3000:]
        counted = {}
        for part in glob.glob(f"{tmp_path}/out*"):
            with open(part, encoding="utf-8") as file:
                counted.update(line.strip().split(": ") for line in file)
        expected = collections.Counter(TEXT.split())
        assert counted == {word: str(count) for word, count in expected.items()}
    return run


@ENVIRONMENTS
def test_wordcount(count, endpoint, environment, request):
    """The word count that comes with Beam for Python."""
    config = {
        "LOOPBACK": lambda: "",
        "EXTERNAL": lambda: conftest.shared_pool(request.config).address,
        "PROCESS": lambda: conftest.process_config(request.config),
    }[environment]()
    count([sys.executable, "-m", "apache_beam.examples.wordcount", "--runner=PortableRunner",
           f"--job_endpoint={endpoint}", f"--environment_type={environment}",
           *([f"--environment_config={config}"] if config else [])],
          env=worker_pool.worker_environment())


@pytest.fixture(name="go_program")
def build_go_program():
    """The word count in Go."""
    try:
        return programs.go_program("wordcount")
    except cache.MissingTool as error:
        pytest.skip(str(error))


@ENVIRONMENTS
def test_wordcount_in_go(count, endpoint, environment, go_program, request, tmp_path):
    """A pool of Go workers is a program with the same functions in it."""
    command = [go_program, "--runner=universal", f"--endpoint={endpoint}",
               f"--environment_type={environment}", f"--worker_binary={go_program}"]
    if environment == "PROCESS":
        command.append(f"--environment_config={conftest.process_config(request.config, 'go')}")
    if environment != "EXTERNAL":
        count(command)
        return
    with programs.go_pool(tmp_path / "pool.log") as address:
        count([*command, f"--environment_config={address}"])


@pytest.fixture(name="class_path")
def build_class_path():
    """The word count in Java, with all it needs."""
    try:
        return programs.java_class_path()
    except cache.MissingTool as error:
        pytest.skip(str(error))


@ENVIRONMENTS
def test_wordcount_in_java(count, endpoint, environment, class_path, request, tmp_path):
    """With PROCESS the whole class path is staged, and the harness runs from what was staged."""
    command = ["java", "-cp", class_path, "dev.tidemill.WordCount", "--runner=PortableRunner",
               f"--jobEndpoint={endpoint}", f"--defaultEnvironmentType={environment}"]
    if environment == "PROCESS":
        count([*command, f"--defaultEnvironmentConfig={conftest.process_config(request.config, 'java')}"])
        return
    # The workers have the class path already; something has to be staged.
    nothing = tmp_path / "nothing.txt"
    nothing.touch()
    command.append(f"--filesToStage={nothing}")
    if environment == "LOOPBACK":
        count(command)
        return
    with programs.java_pool(tmp_path / "pool.log") as address:
        count([*command, f"--defaultEnvironmentConfig={address}"])
