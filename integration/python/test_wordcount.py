"""The word count that comes with Beam, through every kind of environment that needs no container."""

import collections
import glob
import subprocess
import sys

import pytest

import conftest
import worker_pool

TEXT = "to be or not to be\nthat is the question\n" * 50


@pytest.mark.parametrize("environment", ("LOOPBACK", "EXTERNAL", "PROCESS"))
def test_wordcount(endpoint, environment, tmp_path, request):
    """Counts a text in a client process of its own, as a user would."""
    (tmp_path / "in.txt").write_text(TEXT)
    command = [
        sys.executable, "-m", "apache_beam.examples.wordcount", f"--input={tmp_path}/in.txt",
        f"--output={tmp_path}/out", "--runner=PortableRunner", f"--job_endpoint={endpoint}",
        f"--environment_type={environment}",
    ]
    if environment == "EXTERNAL":
        command.append(f"--environment_config={conftest.shared_pool(request.config).address}")
    if environment == "PROCESS":
        command.append(f"--environment_config={conftest.process_config(request.config)}")
    done = subprocess.run(command, env=worker_pool.worker_environment(), capture_output=True,
                          text=True, check=False, cwd=tmp_path, timeout=110)
    assert done.returncode == 0, done.stderr[-3000:]
    counted = {}
    for part in glob.glob(f"{tmp_path}/out*"):
        with open(part, encoding="utf-8") as file:
            counted.update(line.strip().split(": ") for line in file)
    expected = collections.Counter(TEXT.split())
    assert counted == {word: str(count) for word, count in expected.items()}
