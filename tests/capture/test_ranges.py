from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sonde.capture.tensors import Upload
from sonde.capture.word_attention import SegmentSums


@given(st.integers(0, 2**32 - 1), st.integers(1, 70), st.integers(1, 40), st.booleans())
@pytest.mark.parametrize("banded", [True, False])
def test_sums_equal_slices(banded: bool, seed: int, count: int, size: int, mean: bool) -> None:
    rng = np.random.default_rng(seed)
    start = rng.integers(0, size, (2, count))
    stop = np.minimum(start + rng.integers(-1, 4, (2, count)), size)
    upload = Upload(torch.device("cpu"))
    ranges, turned = (SegmentSums(start, stop, upload, mean=mean) for _ in range(2))
    upload.send()
    # What an accelerator does is a product that a processor can do too.
    ranges._banded = turned._banded = banded
    values = torch.from_numpy(rng.random((2, 3, size))).float()
    expected = np.zeros((2, 3, count))
    for row in range(2):
        for at, (first, last) in enumerate(zip(start[row], stop[row], strict=True)):
            if first < last:
                part = values[row, :, first:last].double().numpy()
                expected[row, :, at] = part.mean(1) if mean else part.sum(1)
    np.testing.assert_allclose(ranges.over_last(values).numpy(), expected, atol=1e-5)
    sums = turned.over_rows(values.transpose(1, 2).contiguous())
    np.testing.assert_allclose(sums.transpose(1, 2).numpy(), expected, atol=1e-5)
