"""One thread a test: models here are tiny, and threads that wait for each other cost more than they give."""

import os
import tempfile

from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "1")

# What tests keep for later runs is nothing that a person did.
_cache = tempfile.TemporaryDirectory(prefix="sonde-cache-")
os.environ["SONDE_CACHE"] = _cache.name
# Tests count what is observed: each run observes by itself unless a test is about the cache.
os.environ["SONDE_CACHE_SIZE"] = "0"

# A shared machine may be slow for a moment, and speed belongs to the benchmarks.
settings.register_profile("sonde", deadline=None)
settings.load_profile("sonde")
