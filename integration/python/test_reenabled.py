"""Tests of PortableRunnerTest that Beam skips for every runner, run nevertheless.

`unittest.skip` wraps the function and keeps it as `__wrapped__`; the bodies here are upstream's.
"""

from apache_beam.runners.portability.fn_api_runner import fn_runner_test

import test_portable_runner

NAMES = (
    "test_batch_pardo_trigger_flush",
    "test_pardo_large_input",
    "test_pardo_side_input_sparse_dependencies",
    "test_large_elements",
    "test_teststream_pardo_timers",
)


class ReenabledTest(test_portable_runner.EndpointTest):
    """Only the re-enabled tests; all others run in their own suite."""

    # pytest collects what is callable: hide every inherited test first.
    for _name in dir(fn_runner_test.FnApiRunnerTest):
        if _name.startswith("test_") and _name not in NAMES:
            locals()[_name] = None
    test_pardo_state_with_custom_key_coder = None

    for _name in NAMES:
        locals()[_name] = getattr(fn_runner_test.FnApiRunnerTest, _name).__wrapped__
    del _name
