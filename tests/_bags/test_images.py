"""Patches of images as instances, against loops and scikit-learn's patches."""

from __future__ import annotations

from pathlib import Path

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from milearn import Bags


@hypothesis.settings(max_examples=40, deadline=None, derandomize=True)
@hypothesis.given(
    sizes=st.lists(st.tuples(st.integers(3, 9), st.integers(3, 9)), min_size=1, max_size=3),
    channels=st.sampled_from([(), (1,), (3,)]),
    patch=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    step=st.sampled_from([None, 1, 2, (1, 3), 20]),
    dtype=st.sampled_from([np.float64, np.float32, np.uint8, bool]),
)
def test_equals_a_loop_over_patches(sizes, channels, patch, step, dtype):
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 255, size=(*size, *channels)).astype(dtype) for size in sizes]
    bags = Bags.from_images(images, patch, step)
    h, w = patch
    down, right = step if isinstance(step, tuple) else (step or h, step or w)
    for bag, coords, image in zip(
        bags, np.split(bags.instance_data["coords"], bags.offsets[1:-1]), images, strict=True
    ):
        corners = [
            (column, row)
            for row in range(0, image.shape[0] - h + 1, down)
            for column in range(0, image.shape[1] - w + 1, right)
        ]
        assert [tuple(each) for each in coords.tolist()] == corners
        for instance, (column, row) in zip(bag, corners, strict=True):
            patch_of = image[row : row + h, column : column + w]
            np.testing.assert_array_equal(instance, patch_of.ravel())
    assert bags.dtype == (np.float32 if dtype == np.float32 else np.float64)


def test_features_get_the_patches_of_one_image():
    images = np.random.default_rng(0).uniform(size=(2, 6, 9, 3))
    seen = []

    def mean_colours(patches):
        seen.append(patches.shape)
        return patches.mean(axis=(1, 2))

    bags = Bags.from_images(images, 3, features=mean_colours)
    assert seen == [(6, 3, 3, 3)] * 2
    np.testing.assert_allclose(bags[1][5], images[1, 3:6, 6:9].mean(axis=(0, 1)))
    chosen = bags[[1]]
    assert chosen.instance_data["coords"][5].tolist() == [6, 3]


@pytest.mark.parametrize(
    ("images", "arguments", "error", "match"),
    [
        ([], {}, ValueError, "No images were given"),
        ([Path("a.png")], {}, TypeError, "Image 0 is a path or a string: read the file first"),
        ([np.ones(9)], {}, ValueError, r"0 has the shape \(9,\): .* single image is \[image\]"),
        (np.ones((9, 9, 3)), {"patch_size": 4}, ValueError, r"\(9, 3\), .* 4 x 4 .*\[image\]"),
        ([np.ones((9, 9)), np.ones((9, 1))], {}, ValueError, r"Image 1 has the shape \(9, 1\)"),
        ([np.ones((9, 9)), np.ones((9, 9, 3))], {}, ValueError, "image 0 other channels"),
        ([[[1, 2], [1]]], {}, ValueError, "Image 0 has rows of different lengths"),
        (np.ones((1, 4, 4)), {"patch_size": 0}, ValueError, "patch_size == 0, must be >= 1"),
        (np.ones((1, 4, 4)), {"step": 1.5}, TypeError, "step must be an instance of"),
        (np.ones((1, 4, 4)), {"features": np.mean}, ValueError, r"returned the shape \(\) for 4"),
    ],
)
def test_refuses(images, arguments, error, match):
    with pytest.raises(error, match=match):
        Bags.from_images(images, **{"patch_size": 2} | arguments)
