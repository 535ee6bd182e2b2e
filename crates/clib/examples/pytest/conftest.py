"""Makes each test a measure with its name, which a budget can limit; without a recorder this does nothing.

    PYTHONMALLOC=malloc highwater record --budget highwater.toml -- python3 -m pytest
"""
import ctypes
import gc

import pytest

# 'highwater record' loads the function into the interpreter.
mark = getattr(ctypes.CDLL(None), "highwater_mark", None)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    if mark is None:
        yield
        return
    # Garbage of the tests before is none of this one's.
    gc.collect()
    mark(f"{item.name}:begin".encode())
    yield
    gc.collect()
    mark(f"{item.name}:end".encode())
