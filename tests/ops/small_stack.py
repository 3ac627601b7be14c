"""Calls operators with large stack frames in threads that have a stack of 256 KB."""

from __future__ import annotations

import threading

import shmtensor as st
import shmtensor.nn.functional as nnf

STACK_BYTES = 256 << 10


def products() -> None:
    a = st.randn(300, 300)
    for dtype in (st.float32, st.float64, st.bfloat16, st.float16, st.complex64):
        b = a.to(dtype)
        b @ b
        st.bmm(b.expand(3, 300, 300), b.expand(3, 300, 300))


def transforms() -> None:
    for n in (64, 100, 997, 1000, 1024, 4096, 65536):
        st.fft.fft(st.randn(8, n, dtype=st.complex128))
        st.fft.rfft(st.randn(8, n))
        st.fft.fft(st.randn(n, 8, dtype=st.complex128), dim=0)
    st.fft.fft2(st.randn(512, 512, dtype=st.complex64))


def layers() -> None:
    x = st.randn(16, 64, 8, 8).to(memory_format=st.channels_last).requires_grad_()
    nnf.batch_norm(x, None, None, training=True).sum().backward()
    nnf.group_norm(x, 4).sum().backward()
    nnf.conv2d(x, st.randn(32, 64, 3, 3, requires_grad=True)).sum().backward()
    q = st.randn(1, 4, 300, 64, requires_grad=True)
    nnf.scaled_dot_product_attention(q, q, q).sum().backward()
    nnf.interpolate(st.randn(1, 3, 64, 64), scale_factor=2.0, mode="bicubic")
    nnf.grid_sample(st.randn(1, 3, 64, 64), st.randn(1, 32, 32, 2), align_corners=False)


def decompositions() -> None:
    a = st.randn(200, 200)
    positive = a @ a.T + 200 * st.eye(200)
    for function in (st.linalg.qr, st.linalg.svd, st.linalg.inv, st.linalg.eig, st.linalg.det):
        function(a)
    st.linalg.eigh(positive)
    st.cholesky_inverse(st.linalg.cholesky(positive))
    st.matrix_exp(a / 100)


def orders() -> None:
    a = st.randn(300, 300)
    st.sort(a.flatten())
    st.cdist(a, a)
    st.histc(a)
    st.unique(st.randint(0, 9, (1000,)))
    a.put_(st.arange(100), st.ones(100))


def long_graphs() -> None:
    x = st.ones(3, requires_grad=True)
    y = x
    for _ in range(3000):
        y = y + 1
    y.sum().backward()


def main() -> None:
    threading.stack_size(STACK_BYTES)
    for work in (products, transforms, layers, decompositions, orders, long_graphs):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()


if __name__ == "__main__":
    main()
