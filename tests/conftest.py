"""Settings shared by all tests: one thread per worker, the torch oracle, hypothesis profiles, slow tests."""

import os

# Set before anything imports NumPy: BLAS reads them once. One thread per worker keeps sums in one order,
# so results are equal from run to run, and two xdist workers do not fight over two cores.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"
# The oracle computes as on a processor with AVX2, whatever this one has: with AVX-512 PyTorch's gelu of infinity is
# NaN, and its convolutions of bfloat16 skip what they pad with.
os.environ.update(ATEN_CPU_CAPABILITY="avx2", ONEDNN_MAX_CPU_ISA="AVX2", MKL_ENABLE_INSTRUCTIONS="AVX2")

import importlib.util  # noqa: E402

import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

HAS_TORCH = importlib.util.find_spec("torch") is not None
NEEDS_TORCH = "needs the torch oracle: pip install torch==2.13.0"
SOAK = os.environ.get("PELLUCID_SOAK", "") not in ("", "0")

# Derandomised, so a red test is red for everybody; the soak run is where new examples are looked for.
settings.register_profile("fast", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("soak", deadline=None, max_examples=2_000, print_blob=True)
settings.load_profile("soak" if SOAK else "fast")


def pytest_report_header() -> str:
    oracle = "torch present" if HAS_TORCH else "no torch, tests against it skip"
    return f"pellucid: {oracle}; {'soak' if SOAK else 'fast'} profile"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    without_torch = pytest.mark.skip(reason=NEEDS_TORCH)
    not_now = pytest.mark.skip(reason="long test: run with PELLUCID_SOAK=1 or `make soak`")
    for item in items:
        uses_torch = item.get_closest_marker("torch") or "torch" in getattr(item, "fixturenames", ())
        if uses_torch and not HAS_TORCH:
            item.add_marker(without_torch)
        if item.get_closest_marker("slow") and not SOAK:
            item.add_marker(not_now)


@pytest.fixture(scope="session")
def torch():
    """The oracle: the real PyTorch, on one thread. A test that takes it skips where it is missing."""
    module = pytest.importorskip("torch", reason=NEEDS_TORCH)
    module.set_num_threads(1)
    return module


# --- the explorer's pages in Chromium


@pytest.fixture(scope="module")
def browser():
    """Chromium; a test that takes it skips where there is none."""
    from explorer_chromium import chromium

    yield from chromium()


@pytest.fixture
def opened(browser):
    """A function that opens an address in a new tab and returns the tab."""
    from explorer_chromium import opening

    yield from opening(browser)


@pytest.fixture(scope="module")
def gallery(tmp_path_factory):
    """The address of a page with all ready examples."""
    from pellucid.explorer import examples, page

    path = tmp_path_factory.mktemp("explorer") / "examples.html"
    path.write_text(page(examples(), "Examples"), encoding="utf-8")
    return path.as_uri()
