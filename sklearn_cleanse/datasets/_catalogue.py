"""The data sets: one record each, and the search for a record by name.

Nothing here opens a file. To add a data set, add a record.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["IMAGE_SETS", "PLL_SETS", "ImageSet", "PLLSet", "find_record", "names_of", "plain"]

PALM_TERMS = (
    "Pre-processed by the PALM lab (Min-Ling Zhang, Southeast University, "
    "palm.seu.edu.cn/zhangml, Resources). Courtesy of and proprietary to the authors of the cited "
    "paper: use at your own risk and for academic purposes only; do not redistribute."
)


@dataclass(frozen=True)
class PLLSet:
    """A real partial-label data set: where it is, how to know it, what it should hold.

    ``sources`` are (GitHub repository, commit, path), tried in order; all hold the same bytes.
    ``digest`` is ``"sha256:…"`` or ``"git:…"`` (a git blob id), or None where none is published.
    """

    title: str
    filename: str
    shape: tuple[int, int, int]  # samples, features, classes
    digest: str | None
    sources: tuple[tuple[str, str, str], ...]
    about: str
    citation: str
    aliases: tuple[str, ...] = ()
    terms: str = PALM_TERMS


@dataclass(frozen=True)
class ImageSet:
    """An image benchmark: where its files are, and what it is called on OpenML.

    ``train_counts`` are the rows of each class in the training part, which comes first.
    """

    title: str
    folder: str
    image_shape: tuple[int, ...]
    openml: str
    train_counts: tuple[int, ...]
    target_names: tuple[str, ...]
    citation: str
    terms: str
    aliases: tuple[str, ...] = ()


_ROBUST_PLL = ("mathefuchs/robust-pll", "5e619803b8793f73340617201e7f05986ae60f95")
_PL_CL = ("Chongjie-Si/PL-CL", "d17d1953c0ae73303c8f23ae8261ec2e9039c27e")
_PRUIRUI = ("pruirui/partial_label_realworld_dataset", "a43c823f1cf2575e7fc74bcdfc307463e0bd44bd")
_REAL = "external/realworld-datasets/"

PLL_SETS = {
    "lost": PLLSet(
        title="Lost",
        filename="lost.mat",
        shape=(1122, 108, 16),
        digest="sha256:42a8cc43e05578087e7b8ca194647829ec535dc4d0a86cf47f357c5eb3146e4f",
        sources=(
            (*_PL_CL, "dataset/lost.mat"),
            (*_ROBUST_PLL, _REAL + "lost.mat"),
            (*_PRUIRUI, "lost.mat"),
        ),
        about="Faces from the television series; candidates are the names in the aligned script "
        "and captions. Principal components of the face, so the scale of a column is information. "
        "Two of the 16 classes occur only as candidates.",
        citation="T. Cour, B. Sapp, B. Taskar. Learning from partial labels. JMLR 12, 2011.",
    ),
    "birdsong": PLLSet(
        title="BirdSong",
        filename="BirdSong.mat",
        shape=(4998, 38, 13),
        digest="sha256:2170d46765a151ac80623d9a1242e0299802236e5574442bdb596bef90f50743",
        sources=((*_PRUIRUI, "BirdSong.mat"), (*_ROBUST_PLL, _REAL + "bird-song.mat")),
        about="Syllables of bird song; candidates are the species heard in the same ten-second "
        "recording. Columns differ in scale by a factor of 1e7: standardise.",
        citation="F. Briggs, X. Fern, R. Raich. Rank-loss support instance machines for MIML "
        "instance annotation. KDD 2012.",
        aliases=("bird", "birdac"),
    ),
    "msrcv2": PLLSet(
        title="MSRCv2",
        filename="MSRCv2.mat",
        shape=(1758, 48, 23),
        digest="sha256:948e4d443a5450308f05aa689bc82d9bcc7af699a113a6a81c40ef337a20c393",
        sources=(
            (*_PL_CL, "dataset/MSRCv2.mat"),
            (*_ROBUST_PLL, _REAL + "msrc-v2.mat"),
            (*_PRUIRUI, "MSRCv2.mat"),
        ),
        about="Image segments; candidates are the object classes in the same image. Histograms in "
        "[0, 1].",
        citation="L. Liu, T. Dietterich. A conditional multinomial mixture model for superset "
        "label learning. NIPS 2012.",
        aliases=("msrc",),
    ),
    "soccer_player": PLLSet(
        title="Soccer Player",
        filename="Soccer Player.mat",
        shape=(17472, 279, 171),
        digest="git:3372e7350e06eba374c715e07fbd18e2555e00ec",
        sources=((*_ROBUST_PLL, _REAL + "soccer.mat"), (*_PRUIRUI, "Soccer Player.mat")),
        about="Faces of football players in news images; candidates are the names in the caption.",
        citation="Z. Zeng et al. Learning by associating ambiguously labeled images. CVPR 2013.",
        aliases=("soccer", "spd"),
    ),
    "yahoo_news": PLLSet(
        title="Yahoo! News",
        filename="Yahoo! News.mat",
        shape=(22991, 163, 219),
        digest="git:c9c3c35a6562ece4dffca8e7997c4c9cdcd12354",
        sources=((*_ROBUST_PLL, _REAL + "yahoo-news.mat"), (*_PRUIRUI, "Yahoo! News.mat")),
        about="Faces in news images; candidates are the names in the caption.",
        citation="M. Guillaumin, J. Verbeek, C. Schmid. Multiple instance metric learning from "
        "automatically labeled bags of faces. ECCV 2010.",
        aliases=("yahoo", "lyn"),
    ),
    "fg_net": PLLSet(
        title="FG-NET",
        filename="FG-NET.mat",
        shape=(1002, 262, 78),
        digest=None,
        sources=((*_PL_CL, "dataset/FG-NET.mat"),),
        about="Faces to be dated; candidates are ages given by annotators, and the true age. Some "
        "classes never occur.",
        citation="G. Panis, A. Lanitis. An overview of research activities in facial age "
        "estimation using the FG-NET aging database. ECCV Workshops 2014.",
    ),
}

_MNIST_COUNTS = (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
_DIGITS = tuple("0123456789")

IMAGE_SETS = {
    "mnist": ImageSet(
        title="MNIST",
        folder="mnist",
        image_shape=(28, 28),
        openml="mnist_784",
        train_counts=_MNIST_COUNTS,
        target_names=_DIGITS,
        citation="Y. LeCun, L. Bottou, Y. Bengio, P. Haffner. Gradient-based learning applied to "
        "document recognition. Proc. IEEE 86(11), 1998.",
        terms="Distributed by the authors for research.",
        aliases=("mnist784",),
    ),
    "fashion_mnist": ImageSet(
        title="Fashion-MNIST",
        folder="fashion-mnist",
        image_shape=(28, 28),
        openml="Fashion-MNIST",
        train_counts=(6000,) * 10,
        target_names=(
            "T-shirt/top",
            "Trouser",
            "Pullover",
            "Dress",
            "Coat",
            "Sandal",
            "Shirt",
            "Sneaker",
            "Bag",
            "Ankle boot",
        ),
        citation="H. Xiao, K. Rasul, R. Vollgraf. Fashion-MNIST: a novel image dataset for "
        "benchmarking machine learning algorithms. arXiv:1708.07747, 2017.",
        terms="MIT licence.",
        aliases=("fashion", "fmnist"),
    ),
    "kuzushiji_mnist": ImageSet(
        title="Kuzushiji-MNIST",
        folder="kuzushiji-mnist",
        image_shape=(28, 28),
        openml="Kuzushiji-MNIST",
        train_counts=(6000,) * 10,
        target_names=("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"),
        citation="T. Clanuwat et al. Deep learning for classical Japanese literature. "
        "arXiv:1812.01718, 2018.",
        terms="CC BY-SA 4.0.",
        aliases=("kmnist", "kuzushiji"),
    ),
    "cifar10": ImageSet(
        title="CIFAR-10",
        folder="cifar-10-batches-py",
        image_shape=(3, 32, 32),
        openml="CIFAR_10",
        train_counts=(5000,) * 10,
        target_names=(
            "airplane",
            "automobile",
            "bird",
            "cat",
            "deer",
            "dog",
            "frog",
            "horse",
            "ship",
            "truck",
        ),
        citation="A. Krizhevsky. Learning multiple layers of features from tiny images. Technical "
        "report, University of Toronto, 2009.",
        terms="Distributed by the author for research.",
        aliases=("cifar",),
    ),
}


def plain(name: str) -> str:
    """Return the lower-case letters and digits of a name, so that "Yahoo! News" is "yahoo_news"."""
    return "".join(c for c in name.casefold() if c.isalnum())


def names_of(key: str, record: Any) -> set[str]:
    """Return every plain name of a record, by which its file or folder is found too."""
    return {plain(key), plain(record.title), *map(plain, record.aliases)}


def find_record(name: str, records: Mapping[str, Any]) -> tuple[str, Any]:
    """Find a record by a forgiving name, or raise an error that suggests the right one."""
    if not isinstance(name, str):
        raise ValueError(f"name is {name!r}; expected one of {_list(records)}")
    for key, record in records.items():
        if plain(name) in names_of(key, record):
            return key, record
    known = {alias: key for key, record in records.items() for alias in names_of(key, record)}
    close = difflib.get_close_matches(plain(name), known, n=1, cutoff=0.5)
    hint = f"did you mean {known[close[0]]!r}? " if close else ""
    raise ValueError(f"name is {name!r}, which is no known data set; {hint}Known: {_list(records)}")


def _list(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)
