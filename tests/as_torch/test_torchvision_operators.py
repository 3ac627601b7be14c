"""The operators that stand in for torchvision's compiled ones.

They are held to plain loops over elements, to convolution and to numerical derivatives.
torchvision itself need not be installed; tests of programs that use it are in `test_programs`.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

#: Each is run in a process of its own, since the import changes what ``torch`` is.
HEAD = """
import itertools, math
import shmtensor.as_torch
import torch
torch.ops.load_library("somewhere/torchvision/_C.so")
tv = torch.ops.torchvision
torch.manual_seed(0)
x = torch.randn(2, 8, 7, 9, dtype=torch.float64)
rois = torch.tensor(
    [[0, 1.2, 0.4, 6.1, 5.9], [1, -3.0, -2.5, 4.0, 12.0], [1, 3.3, 2.2, 3.4, 2.3], [0, 2, 2, 5, 4]],
    dtype=torch.float64,
)

def bilinear(image, y, x):
    height, width = image.shape
    if y < -1 or y > height or x < -1 or x > width:
        return 0.0
    y, x = min(max(y, 0.0), height - 1.0), min(max(x, 0.0), width - 1.0)
    top, left = min(int(y), height - 2), min(int(x), width - 2)
    v, u = y - top, x - left
    a, b = image[top, left].item(), image[top, left + 1].item()
    c, d = image[top + 1, left].item(), image[top + 1, left + 1].item()
    return (1 - v) * ((1 - u) * a + u * b) + v * ((1 - u) * c + u * d)

def check_derivative(forward, backward):
    \"\"\"The gradient of a linear function, by its inner product with any direction.\"\"\"
    out = forward(x)
    grad = torch.randn(out.shape, dtype=out.dtype)
    direction = torch.randn(x.shape, dtype=x.dtype)
    moved = (forward(x + 1e-6 * direction) - out) / 1e-6
    assert math.isclose((backward(grad) * direction).sum(), (moved * grad).sum(), rel_tol=1e-5)
"""


def run(text: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HEAD + textwrap.dedent(text)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.check
def test_nms_keeps_what_a_loop_keeps():
    run(
        """
        corners = torch.rand(60, 2) * 10
        boxes = torch.cat((corners, corners + torch.rand(60, 2) * 6), 1)
        scores = torch.rand(60)
        def iou(a, b):
            w = min(a[2], b[2]) - max(a[0], b[0])
            h = min(a[3], b[3]) - max(a[1], b[1])
            both = max(w, 0) * max(h, 0)
            area = lambda c: (c[2] - c[0]) * (c[3] - c[1])
            return both / (area(a) + area(b) - both)
        rows = boxes.tolist()
        for threshold in (0.0, 0.3, 0.7, 1.0):
            kept = []
            for i in scores.argsort(descending=True).tolist():
                if all(iou(rows[i], rows[j]) <= threshold for j in kept):
                    kept.append(i)
            assert tv.nms(boxes, scores, threshold).tolist() == kept
        assert tv.nms(boxes[:0], scores[:0], 0.5).tolist() == []
        try:
            tv.nms(boxes, scores[1:], 0.5)
        except RuntimeError as error:
            assert "(60,)" in str(error) and "(59,)" in str(error)
        else:
            raise AssertionError
        """
    )


@pytest.mark.parametrize("position_sensitive", [False, True])
def test_roi_align_is_the_mean_of_bilinear_samples(position_sensitive):
    run(
        f"""
        position_sensitive = {position_sensitive}
        ph, pw, scale = 2, 4, 0.8
        for ratio, aligned in itertools.product((2, 0), (True, False)):
            if position_sensitive:
                if not aligned:
                    continue
                call = lambda x: tv.ps_roi_align(x, rois, scale, ph, pw, ratio)[0]
                back = lambda g: tv._ps_roi_align_backward(
                    g, rois, tv.ps_roi_align(x, rois, scale, ph, pw, ratio)[1],
                    scale, ph, pw, ratio, *x.shape)
            else:
                call = lambda x: tv.roi_align(x, rois, scale, ph, pw, ratio, aligned)
                back = lambda g: tv._roi_align_backward(
                    g, rois, scale, ph, pw, *x.shape, ratio, aligned)
            out = call(x)
            assert out.shape == (4, 1 if position_sensitive else 8, ph, pw)
            for k, c, i, j in itertools.product(*map(range, out.shape)):
                b, *corners = rois[k].tolist()
                x1, y1, x2, y2 = (v * scale - 0.5 * aligned for v in corners)
                h, w = y2 - y1, x2 - x1
                if not aligned:
                    h, w = max(h, 1.0), max(w, 1.0)
                gh = ratio or math.ceil(h / ph)
                gw = ratio or math.ceil(w / pw)
                image = x[int(b), (c * ph + i) * pw + j if position_sensitive else c]
                want = sum(
                    bilinear(image, y1 + h / ph * (i + (m + 0.5) / gh),
                             x1 + w / pw * (j + (n + 0.5) / gw))
                    for m in range(gh) for n in range(gw)
                ) / max(gh * gw, 1)
                assert math.isclose(out[k, c, i, j], want, abs_tol=1e-12), (k, c, i, j)
            check_derivative(call, back)
        """
    )


def test_roi_pool_takes_the_largest_element_of_each_bin():
    run(
        """
        ph, pw, scale = 2, 3, 0.9
        out, places = tv.roi_pool(x, rois, scale, ph, pw)
        assert places.dtype is torch.int32
        away = lambda v: math.copysign(math.floor(abs(v) + 0.5), v)
        for k in range(len(rois)):
            b, *corners = rois[k].tolist()
            x1, y1, x2, y2 = (int(away(v * scale)) for v in corners)
            h, w = max(y2 - y1 + 1, 1), max(x2 - x1 + 1, 1)
            for c, i, j in itertools.product(range(8), range(ph), range(pw)):
                rows = range(max(y1 + i * h // ph, 0), min(y1 - (-(i + 1) * h // ph), 7))
                columns = range(max(x1 + j * w // pw, 0), min(x1 - (-(j + 1) * w // pw), 9))
                cells = {r * 9 + q: x[int(b), c, r, q].item() for r in rows for q in columns}
                place = max(cells, key=cells.get) if cells else -1
                assert places[k, c, i, j] == place
                assert out[k, c, i, j] == cells.get(place, 0.0)
        check_derivative(
            lambda x: tv.roi_pool(x, rois, scale, ph, pw)[0],
            lambda g: tv._roi_pool_backward(g, rois, places, scale, ph, pw, *x.shape))
        """
    )


@pytest.mark.check
def test_ps_roi_pool_is_the_mean_of_each_bin_in_its_own_channel():
    run(
        """
        whole = torch.tensor([[1.0, 0, 0, 8, 6]], dtype=torch.float64)
        out, channels = tv.ps_roi_pool(x, whole, 1.0, 2, 2)
        assert channels.flatten().tolist() == list(range(8))
        for c, i, j in itertools.product(range(2), range(2), range(2)):
            image = x[1, (c * 2 + i) * 2 + j]
            part = image[3 * i : 3 * i + 3, 4 * j : 4 * j + 4]
            assert math.isclose(out[0, c, i, j], part.mean(), abs_tol=1e-12)
        for scale in (1.0, 0.7):
            _, channels = tv.ps_roi_pool(x, rois, scale, 2, 2)
            check_derivative(
                lambda x: tv.ps_roi_pool(x, rois, scale, 2, 2)[0],
                lambda g: tv._ps_roi_pool_backward(
                    g, rois, channels, scale, 2, 2, *x.shape))
        """
    )


def test_deform_conv2d_without_offsets_is_a_convolution():
    run(
        """
        import torch.nn.functional as F
        options = dict(stride=(2, 1), padding=(1, 2), dilation=(1, 2))
        weight = torch.randn(6, 4, 3, 2, dtype=torch.float64)
        bias = torch.randn(6, dtype=torch.float64)
        want = F.conv2d(x, weight, bias, groups=2, **options)
        flat = [v for pair in options.values() for v in pair]
        offset = torch.zeros(2, 2 * 2 * 6, *want.shape[2:], dtype=torch.float64)
        mask = torch.ones(2, 2 * 6, *want.shape[2:], dtype=torch.float64)
        got = tv.deform_conv2d(x, weight, offset, mask, bias, *flat, 2, 2, True)
        torch.testing.assert_close(got, want)
        # The same, one row further down: as if the image was moved up.
        offset.view(2, 2, 6, 2, *want.shape[2:])[:, :, :, 0] = 1
        moved = F.pad(x, (0, 0, 0, 1))[:, :, 1:]
        inner = F.conv2d(moved, weight, bias, groups=2, **options)[:, :, 1:-1]
        got = tv.deform_conv2d(x, weight, offset, mask, bias, *flat, 2, 2, True)
        torch.testing.assert_close(got[:, :, 1:-1], inner)
        halved = tv.deform_conv2d(x, weight, offset, mask / 2, bias, *flat, 2, 2, True)
        torch.testing.assert_close(halved, (got + bias[:, None, None]) / 2)
        """
    )


@pytest.mark.parametrize("use_mask", [False, True])
def test_deform_conv2d_has_the_derivatives_of_its_values(use_mask):
    run(
        f"""
        shapes = [(2, 8, 7, 9), (6, 4, 3, 2), (2, 24, 7, 8), (2, 12, 7, 8), (6,)]
        tensors = [torch.randn(s, dtype=torch.float64) for s in shapes]
        options = (1, 1, 1, 0, 1, 1, 2, 2, {use_mask})
        out = tv.deform_conv2d(*tensors, *options)
        assert out.shape == (2, 6, 7, 8)
        grad = torch.randn(out.shape, dtype=torch.float64)
        grads = tv._deform_conv2d_backward(grad, *tensors, *options)
        for i, (tensor, found) in enumerate(zip(tensors, grads)):
            direction = torch.randn(tensor.shape, dtype=torch.float64)
            ends = []
            for step in (1e-6, -1e-6):
                moved = list(tensors)
                moved[i] = tensor + step * direction
                ends.append(tv.deform_conv2d(*moved, *options))
            want = ((ends[0] - ends[1]) / 2e-6 * grad).sum()
            assert math.isclose((found * direction).sum(), want, rel_tol=1e-4, abs_tol=1e-6), i
        """
    )


def test_quantized_operators_are_declared_and_say_that_they_cannot_run():
    run(
        """
        try:
            tv.qnms(torch.zeros(1, 4), torch.zeros(1), 0.5)
        except NotImplementedError as error:
            assert "qnms" in str(error)
        else:
            raise AssertionError
        assert tv._cuda_version() == -1
        try:
            torch.ops.load_library("somewhere/else/_C.so")
        except OSError as error:
            assert "compiled for torch" in str(error)
        else:
            raise AssertionError
        """
    )
