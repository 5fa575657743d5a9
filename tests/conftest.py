"""One thread a test: models here are tiny, and threads that wait for each other cost more than they give."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
