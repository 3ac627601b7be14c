"""Calls of SciPy and scikit-learn in array API mode: test_consumers.py runs this file.

Each is called with NumPy's arrays and with tensors. The line printed says whether the result is a
tensor, or a number, and the same. The argument is the library.
"""

from __future__ import annotations

import os

os.environ["SCIPY_ARRAY_API"] = "1"  # read when SciPy is imported

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import shmtensor as T

Call = Callable[..., Any]


def scipy_calls() -> dict[str, Call]:
    from scipy import cluster, fft, integrate, ndimage, signal, special, stats

    return {
        "logsumexp": lambda x, y: special.logsumexp(x),
        "softmax": lambda x, y: special.softmax(x, axis=0),
        "erf": lambda x, y: special.erf(x),
        "gammaln": lambda x, y: special.gammaln(x + 1),
        "xlogy": lambda x, y: special.xlogy(x, y),
        "zscore": lambda x, y: stats.zscore(x),
        "skew": lambda x, y: stats.skew(x),
        "kurtosis": lambda x, y: stats.kurtosis(x),
        "ttest_ind": lambda x, y: stats.ttest_ind(x, y).statistic,
        "pearsonr": lambda x, y: stats.pearsonr(x, y).statistic,
        "gmean": lambda x, y: stats.gmean(x),
        "entropy": lambda x, y: stats.entropy(x),
        "rankdata": lambda x, y: stats.rankdata(x),
        "iqr": lambda x, y: stats.iqr(x),
        "fft": lambda x, y: fft.fft(x),
        "rfft": lambda x, y: fft.rfft(x),
        "dct": lambda x, y: fft.dct(x),
        "convolve": lambda x, y: signal.convolve(x, y),
        "detrend": lambda x, y: signal.detrend(x),
        "hilbert": lambda x, y: signal.hilbert(x),
        "lfilter": lambda x, y: signal.lfilter(y[:3], x[:2] + 1, x),
        "trapezoid": lambda x, y: integrate.trapezoid(x),
        "gaussian_filter": lambda x, y: ndimage.gaussian_filter(x, 1.0),
        "whiten": lambda x, y: cluster.vq.whiten(x.reshape(10, 4)),
    }


def sklearn_calls() -> dict[str, Call]:
    from sklearn import config_context, decomposition, linear_model, metrics, preprocessing
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.mixture import GaussianMixture
    from sklearn.naive_bayes import GaussianNB

    def matrix(x: Any) -> Any:
        return x.reshape(10, 4)

    def labels(x: Any) -> Any:
        return matrix(x)[:, 0] > 0.5

    def in_mode(call: Call) -> Call:
        def called(x: Any, y: Any) -> Any:
            with config_context(array_api_dispatch=True):
                return call(x, y)

        return called

    calls: dict[str, Call] = {
        "StandardScaler": lambda x, y: preprocessing.StandardScaler().fit_transform(matrix(x)),
        "MinMaxScaler": lambda x, y: preprocessing.MinMaxScaler().fit_transform(matrix(x)),
        "Normalizer": lambda x, y: preprocessing.Normalizer().fit_transform(matrix(x)),
        "PCA": lambda x, y: decomposition.PCA(2, svd_solver="full").fit_transform(matrix(x)),
        "Ridge": lambda x, y: linear_model.Ridge(solver="svd").fit(matrix(x), y[:10]).coef_,
        "RidgeClassifier": lambda x, y: (
            linear_model.RidgeClassifier(solver="svd").fit(matrix(x), labels(x) * 1).coef_
        ),
        "LDA": lambda x, y: LinearDiscriminantAnalysis().fit(matrix(x), labels(x) * 1).coef_,
        "GaussianNB": lambda x, y: (
            GaussianNB().fit(matrix(x), labels(x) * 1).predict_proba(matrix(x))
        ),
        "GaussianMixture": lambda x, y: (
            GaussianMixture(1, init_params="random", random_state=0).fit(matrix(x)).means_
        ),
        "r2_score": lambda x, y: metrics.r2_score(x, y),
        "accuracy_score": lambda x, y: metrics.accuracy_score(labels(x) * 1, labels(y) * 1),
        "rbf_kernel": lambda x, y: metrics.pairwise.rbf_kernel(matrix(x)),
    }
    return {name: in_mode(call) for name, call in calls.items()}


def main(library: str) -> None:
    rng = np.random.default_rng(0)
    arrays = rng.random(40), rng.random(40)
    tensors = [T.tensor(a) for a in arrays]
    for name, call in {"scipy": scipy_calls, "sklearn": sklearn_calls}[library]().items():
        expected, got = call(*arrays), call(*tensors)
        kind = "tensor" if isinstance(got, T.Tensor) else type(got).__name__
        plain = got.numpy() if isinstance(got, T.Tensor) else got
        same = np.shape(plain) == np.shape(expected) and np.allclose(plain, expected, atol=1e-9)
        print(name, kind, "same" if same else f"{plain} is not {expected}")


if __name__ == "__main__":
    main(sys.argv[1])
