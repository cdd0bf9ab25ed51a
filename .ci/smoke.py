"""Does the installed package work, outside the checkout and without any extra?"""

import importlib.metadata
import pkgutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sklearn.datasets import load_iris

import sklearn_cleanse
from sklearn_cleanse import CleanSEClassifier, DPCLSClassifier, load_model
from sklearn_cleanse.datasets import make_candidates

home = Path(sklearn_cleanse.__file__).parent
assert home.is_relative_to(sys.prefix), f"{home} is not the installed package"
assert (home / "py.typed").exists()
assert sklearn_cleanse.__version__ == importlib.metadata.version("sklearn-cleanse")

X, y = load_iris(return_X_y=True)
S = make_candidates(y, "flip", flip_proba=0.4, random_state=0)
for model in (CleanSEClassifier(max_epochs=20, random_state=0), DPCLSClassifier()):
    model.fit(X, S).save("model.safetensors")
    found = (load_model("model.safetensors").disambiguate(X, S) == y).mean()
    assert found > 0.9, f"{model} finds {found:.0%} of the labels"
    print(f"{type(model).__name__} finds {found:.0%} of the true labels")

# Every name and module can be imported; matplotlib and h5py are needed only when they are used.
modules = [module.name for module in pkgutil.iter_modules(sklearn_cleanse.__path__)]
for name in (*sklearn_cleanse.__all__, *modules):
    getattr(sklearn_cleanse, name)
print(f"sklearn_cleanse {sklearn_cleanse.__version__} works")

if TYPE_CHECKING:  # names have their types, and no others exist: else mypy reports unused `ignore`s
    number: int = load_model  # type: ignore[assignment]
    nothing = sklearn_cleanse.NoSuchName  # type: ignore[attr-defined]
