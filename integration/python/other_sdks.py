"""The word counts in Go and Java, built, and worker pools that run their functions."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess

import pytest

import worker_pool

INTEGRATION = pathlib.Path(__file__).resolve().parent.parent
WORD_COUNT = INTEGRATION / "java" / "src" / "main" / "java" / "dev" / "tidemill" / "WordCount.java"
STOP_SECONDS_MAX = 10


def go_program(folder):
    """Builds the program in Go."""
    go = shutil.which("go") or "/usr/local/go/bin/go"
    if not os.path.exists(go):
        pytest.skip("Go is not installed")
    program = folder / "wordcount"
    build([go, "build", "-o", program, "./wordcount"], INTEGRATION / "go")
    return program


@contextlib.contextmanager
def go_pool(program):
    """Gives the address of a pool of Go workers."""
    with running([program, "--pool"], stdout=subprocess.PIPE, text=True) as process:
        yield process.stdout.readline().strip()


def java_class_path(folder):
    """Compiles the program in Java; returns the class path that runs it.

    Nothing is written into Maven's own folder, where another suite may be compiling.
    """
    for tool in ("mvn", "javac"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    listing = folder / "class_path"
    build(["mvn", "--batch-mode", "--quiet", "dependency:build-classpath", "-DincludeScope=runtime",
           f"-Dmdep.outputFile={listing}"], INTEGRATION / "java")
    dependencies = listing.read_text().strip()
    classes = folder / "classes"
    build(["javac", "-proc:none", "-cp", dependencies, "-d", classes, WORD_COUNT], folder)
    return f"{classes}{os.pathsep}{dependencies}"


@contextlib.contextmanager
def java_pool(class_path):
    """Gives the address of a pool of Java workers."""
    port = worker_pool.free_port()
    address = f"localhost:{port}"
    options = {"beam:option:environment_options:v1": [f"external_service_address={address}"]}
    command = ["java", "-cp", class_path, "org.apache.beam.fn.harness.ExternalWorkerService"]
    environment = {**os.environ, "PIPELINE_OPTIONS": json.dumps(options)}
    with running(command, env=environment, stdout=subprocess.DEVNULL,
                 stderr=subprocess.DEVNULL) as process:
        worker_pool.wait_until_listening(port, process)
        yield address


def build(command, folder):
    """Runs a tool to its end."""
    done = subprocess.run([str(word) for word in command], cwd=folder, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


@contextlib.contextmanager
def running(command, **options):
    """Runs a command until the end of the block."""
    with subprocess.Popen([str(word) for word in command], **options) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(timeout=STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
