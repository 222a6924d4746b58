"""Programs in Go and Java that suites run, and pools of workers that run their functions."""

import contextlib
import hashlib
import json
import os
import shutil

from . import cache, java_tests, servers

JAVA_MAIN = java_tests.MODULE / "src" / "main"


def go_program(name):
    """One of our programs in Go."""
    program = cache.folder() / "go" / name
    with cache.lock(f"go-{name}"):
        cache.run([cache.go(), "build", "-o", program, f"./{name}"], cwd=cache.GO_MODULE)
    return program


def java_class_path():
    """Our programs in Java, compiled, with all that they need.

    The folder is named after the sources. Nothing is written into Maven's own folder, where another
    suite may be compiling.
    """
    missing = java_tests.missing_tool()
    if missing is not None:
        raise cache.MissingTool(missing)
    sources = sorted((JAVA_MAIN / "java").rglob("*.java"))
    digest = hashlib.sha256((java_tests.MODULE / "pom.xml").read_bytes())
    for source in sources:
        digest.update(source.read_bytes())
    home = cache.folder() / f"java-{digest.hexdigest()[:12]}"
    with cache.lock("java"):
        if not (home / "complete").exists():
            cache.say("compiling the Java programs")
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir()
            cache.run(["mvn", "--batch-mode", "--quiet", "dependency:build-classpath",
                       "-DincludeScope=runtime", f"-Dmdep.outputFile={home / 'dependencies'}"],
                      cwd=java_tests.MODULE)
            cache.run(["javac", "-proc:none", "-cp", _dependencies(home), "-d", home / "classes",
                       *sources])
            (home / "complete").touch()
    return os.pathsep.join((str(home / "classes"), str(JAVA_MAIN / "resources"),
                            _dependencies(home)))


@contextlib.contextmanager
def go_pool(log):
    """Gives the address of a pool of workers of the word count in Go."""
    port = servers.free_port()
    command = [go_program("wordcount"), f"--pool={port}"]
    with servers.beside("Go worker pool", command, log, port) as address:
        yield address


@contextlib.contextmanager
def java_pool(log):
    """Gives the address of a pool of workers of our Java programs."""
    port = servers.free_port()
    options = {"beam:option:environment_options:v1": [f"external_service_address=localhost:{port}"]}
    command = ["java", "-cp", java_class_path(), "org.apache.beam.fn.harness.ExternalWorkerService"]
    with servers.beside("Java worker pool", command, log, port,
                        {**os.environ, "PIPELINE_OPTIONS": json.dumps(options)}) as address:
        yield address


def _dependencies(home):
    return (home / "dependencies").read_text().strip()
