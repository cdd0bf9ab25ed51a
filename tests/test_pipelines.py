"""What pipelines and searches do not pass on is that of their last step."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from sklearn_cleanse import CleanSEKernelClassifier, final_step

GRID = {"ridge": [0.02, 0.05]}
CV = KFold(2, shuffle=True, random_state=0)


def doubled():
    return make_pipeline(FunctionTransformer(lambda X: 2 * X), StandardScaler())


def inside(last):
    """Ways to put an estimator behind the same steps."""
    nested = make_pipeline(FunctionTransformer(lambda X: 2 * X), make_pipeline(*[StandardScaler()]))
    step = type(last).__name__.lower()
    grid = {f"{step}__{name}": values for name, values in GRID.items()}
    return {
        "pipeline": make_pipeline(*[s for _, s in doubled().steps], last),
        "search over a pipeline": GridSearchCV(
            make_pipeline(*[s for _, s in doubled().steps], last), grid, cv=CV
        ),
        "search at the end": make_pipeline(doubled(), GridSearchCV(last, GRID, cv=CV)),
        "nested": make_pipeline(nested, make_pipeline("passthrough", last)),
    }


@pytest.mark.parametrize(
    "way", ["pipeline", "search over a pipeline", "search at the end", "nested"]
)
def test_the_last_step_disambiguates_and_explains(way, blobs):
    X, S, _ = blobs
    fitted = inside(CleanSEKernelClassifier(random_state=0))[way].fit(X, S)
    model, Z = final_step(fitted, X)
    assert isinstance(model, CleanSEKernelClassifier)
    np.testing.assert_allclose(Z, StandardScaler().fit_transform(2 * X))
    np.testing.assert_array_equal(model.predict(Z), fitted.predict(X))
    labels, proba = model.disambiguate(Z, S, return_proba=True)
    np.testing.assert_allclose(proba, model.candidate_proba_)
    assert (S[np.arange(len(X)), labels] == 1).all()
    assert "voters" in str(model.explain(Z[:2], S[:2])[0])
    assert final_step(fitted)[0] is model


def test_an_estimator_is_its_own_last_step(blobs):
    X, S, _ = blobs
    model = CleanSEKernelClassifier().fit(X, S)
    same, Z = final_step(model, X)
    assert same is model
    assert Z is X


def test_what_holds_no_model_is_refused(blobs):
    X, S, _ = blobs
    with pytest.raises(NotFittedError):
        final_step(make_pipeline(StandardScaler(), CleanSEKernelClassifier()), X)
    search = GridSearchCV(CleanSEKernelClassifier(), GRID, cv=CV, refit=False).fit(X, S)
    with pytest.raises(ValueError, match="refit=True"):
        final_step(search, X)


@pytest.mark.parametrize("last", ["passthrough", None])
def test_a_pipeline_that_ends_in_nothing_is_refused(last, blobs):
    pipe = Pipeline([("scale", StandardScaler()), ("model", last)]).fit(blobs[0])
    with pytest.raises(ValueError, match=r"last step of this pipeline, 'model', is .*no estimator"):
        final_step(pipe)
