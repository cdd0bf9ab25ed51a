"""The network behind all deep methods: `PartialLabelClassifier`."""

import copy
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ..base import (
    ProbabilityMixin,
    check_class_prior,
    choose_device,
    class_mass,
    limit_threads,
    refuse_truth,
    unchanged_on_error,
)
from ..candidates import candidate_softmax, check_candidates, check_index
from ..features import check_features
from ..losses import Loss, average_networks, check_loss
from ..metrics._readers import check_weight
from ..scaling import SCALINGS, fit_scaling
from ..votes import choose_scaling
from ._build import build_net, check_callbacks, check_output, give_generator, own_random
from ._modules import MODULES
from ._net import Objective, Progress, early_stopping, one_cycle
from ._rows import Batches, CandidateRows, block_size, scale
from .distributed import Distributed, by_first, rank_and_size

#: Rows, at most, on which the scaling is chosen, and from which its statistics are taken.
SCALING_ROWS, STATISTICS_ROWS = 1000, 20_000


class PartialLabelClassifier(ProbabilityMixin, BaseEstimator):
    """Neural network trained on candidates with one of the losses of the literature.

    CC, RC, PRODEN, LWS, CAVL, SCARCE and the average loss are values of ``loss``.

    Parameters
    ----------
    loss : str, Loss or callable, default="cc"
        The base loss: "average", "cc", "rc", "proden", "lws", "cavl" or "scarce", or a
        `sklearn_cleanse.losses.Loss`, which has parameters or is your own.
    class_prior : "uniform", dict, array-like of shape (n_classes,) or None, default=None
        Class proportions that predictions are made for, if new rows have others than the training
        rows. "uniform" makes rare classes count as much as others. A dict or a Series is read by
        label, anything else in the order of ``classes_``. It may be changed after `fit`. Passing
        ``class_proportions_`` has no effect. `disambiguate` does not use it.
    module : {"mlp", "resnet34"} or torch.nn.Module class, default="mlp"
        The network. A class is called with the number of features (of channels, for images) and
        the number of classes; it returns logits, or logits and a representation.
    module_params : dict, default=None
        Further arguments of the module: ``dropout`` (0.2) and ``batch_norm`` (True) of "mlp",
        ``width`` (64) of "resnet34".
    hidden_layer_sizes : tuple of int, default=(300, 300, 300)
        Units of each hidden layer of the "mlp".
    n_networks : int, default=2
        Networks of the "mlp" that are trained side by side. Their mean probability predicts, which
        is more accurate than one.
    scaling : {"auto", "standard", "sqrt", "minmax", "common", "rank"} or None, default="auto"
        How features are scaled inside the model: "standard" to z-scores, "sqrt" to z-scores of
        signed square roots, "minmax" to the range 0 to 1, "common" by one factor for all features,
        "rank" to normal scores of ranks. "auto" takes the one under which candidates of left-out
        rows are predicted best, which needs no true label.
    max_epochs : int, default=30
        Passes over the training rows.
    batch_size : int or "auto", default="auto"
        Rows per step, at least 2. "auto" takes a 64th of the rows, but at least 16 and at most 256.
    lr : float, default=0.01
        Learning rate; the peak of the "onecycle" schedule.
    schedule : {"onecycle", "constant"}, default="onecycle"
        "onecycle" raises the learning rate to ``lr`` in the first 30 % of the steps, then lowers it
        to about 0. "constant" keeps it.
    weight_decay : float or "auto", default="auto"
        L2 penalty on each network. "auto" takes 2e-4, and beyond 5,000 rows less in proportion.
    early_stopping : bool, default=False
        Whether to hold out rows, and stop when their approximated accuracy no longer grows. This
        needs candidates only. The weights of the best epoch are kept.
    validation_fraction : float, default=0.1
        Proportion of rows held out by ``early_stopping``.
    n_iter_no_change : int, default=20
        Epochs without improvement after which ``early_stopping`` stops.
    warm_start : bool, default=False
        Whether `fit` continues from the weights of the previous call. The network and its scaling
        stay as they are, and so does the device; other parameters may change.
    device : str, default="auto"
        Device to fit on. "auto" takes CUDA, then MPS, then the CPU.
    random_state : int, RandomState instance or None, default=None
        Fixes weights, shuffling and dropout. Global generators are left alone.
    callbacks : list of skorch callbacks, default=None
        Called in training; ``net_.callbacks_`` holds the copies that were used.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    class_proportions_ : ndarray of shape (n_classes,)
        Estimated proportion of each class among the training rows, with one row added to each; 0
        for a class that is never a candidate, whose probability ``class_prior`` does not change.
    candidate_proba_ : ndarray of shape (n_samples, n_classes)
        Probability of each candidate of the training rows.
    history_ : list of dict
        One entry per epoch: "epoch", "loss", "base_loss", "count_loss", "covering_rate" (proportion
        of training rows whose prediction was a candidate, with dropout) and "seconds".
    n_iter_ : int
        Number of epochs trained.
    interrupted_ : bool
        Whether Ctrl-C ended the training. `fit` then raises KeyboardInterrupt, so that a search or
        a script ends as well, but the model can be used.
    net_ : skorch.NeuralNet
        The trained net.
    scaling_ : str or None
        The scaling in use.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if they have any.

    See Also
    --------
    CleanSEClassifier : The same network with votes of other rows and label counts.

    Examples
    --------
    >>> from sklearn_cleanse import PartialLabelClassifier
    >>> X = [[0.0], [0.1], [0.9], [1.0]]
    >>> S = [{"low"}, {"low", "high"}, {"low", "high"}, {"high"}]
    >>> clf = PartialLabelClassifier("cc", max_epochs=20, random_state=0).fit(X, S)
    >>> clf.predict([[0.05], [0.95]])
    array(['low', 'high'], dtype='<U4')
    """

    _parameter_constraints: ClassVar[dict] = {
        "loss": [str, Loss, callable],
        "class_prior": ["array-like", dict, StrOptions({"uniform"}), None],
        "module": [StrOptions(set(MODULES)), type],
        "module_params": [dict, None],
        "hidden_layer_sizes": ["array-like"],
        "n_networks": [Interval(Integral, 1, None, closed="left")],
        "scaling": [StrOptions({"auto", *SCALINGS}), None],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 2, None, closed="left"), StrOptions({"auto"})],
        "lr": [Interval(Real, 0, None, closed="neither")],
        "schedule": [StrOptions({"onecycle", "constant"})],
        "weight_decay": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "warm_start": ["boolean"],
        "device": [str, torch.device],
        "random_state": ["random_state"],
        "callbacks": [list, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        loss="cc",
        *,
        class_prior=None,
        module="mlp",
        module_params=None,
        hidden_layer_sizes=(300, 300, 300),
        n_networks=2,
        scaling="auto",
        max_epochs=30,
        batch_size="auto",
        lr=0.01,
        schedule="onecycle",
        weight_decay="auto",
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=20,
        warm_start=False,
        device="auto",
        random_state=None,
        callbacks=None,
        verbose=0,
    ):
        self.loss = loss
        self.class_prior = class_prior
        self.module = module
        self.module_params = module_params
        self.hidden_layer_sizes = hidden_layer_sizes
        self.n_networks = n_networks
        self.scaling = scaling
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.lr = lr
        self.schedule = schedule
        self.weight_decay = weight_decay
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.device = device
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose

    @refuse_truth
    def fit(self, X, y, sample_weight=None):
        """Train on features and candidates.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, channels, height, width)
            Features, dense or (in two dimensions) sparse. They need no scaling. A missing value
            (NaN) counts as the mean of its feature. Each feature with missing values in training
            gets an indicator input. Each channel of images is scaled as a whole.
        y : array-like
            Candidates: a binary matrix of shape (n_samples, n_classes), dense, sparse or a
            DataFrame whose columns are the classes; a matrix of prior weights from 0 to 1; a list
            of label sets; or labels of shape (n_samples,).
        sample_weight : array-like of shape (n_samples,), default=None
            Scales each sample's loss. Zero leaves it out.

        Returns
        -------
        self : object
            The fitted estimator.

        Notes
        -----
        In an initialized torch process group, all ranks train one model together. Call `fit` with
        all rows on every rank. ``batch_size`` counts the rows of one rank.
        """
        continues = self.warm_start and hasattr(self, "net_")
        return self._fit(X, y, sample_weight, continues=continues)

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Train one more epoch, on the given rows alone.

        The voter votes on these rows alone, at full temperature, and is not kept: predictions are
        the network's. The learning rate is a tenth of ``lr`` under the "onecycle" schedule. The
        features keep the scaling of the first call.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, channels, height, width)
            Features.
        y : array-like
            Candidates, in any form that `fit` takes.
        classes : array-like of shape (n_classes,), default=None
            All classes. Needed in the first call, unless ``y`` is a candidate matrix.
        sample_weight : array-like of shape (n_samples,), default=None
            As in `fit`.

        Returns
        -------
        self : object
            The trained estimator.
        """
        first = not hasattr(self, "net_")
        if first and classes is None and not (hasattr(y, "mask") or np.ndim(y) == 2):
            raise ValueError(
                "`classes` must be passed in the first call of `partial_fit`, got None. Pass all "
                "classes, or candidates as a matrix with a column per class."
            )
        if not first and classes is not None and not np.array_equal(classes, self.classes_):
            raise ValueError(
                f"`classes` must be those of the first call, {self.classes_.tolist()}, got "
                f"{np.asarray(classes).tolist()}, which is not the same."
            )
        return self._fit(X, y, sample_weight, continues=not first, classes=classes, one_epoch=True)

    def _fit(self, X, y, sample_weight, *, continues, classes=None, one_epoch=False):
        """Check, read, vote, build, train, store."""
        with unchanged_on_error(self):
            self._validate_params()
            loss = check_loss(self.loss)
            device = str(self.net_.device) if continues else choose_device(self.device)
            check_callbacks(self.callbacks)
            check_index(X, y)
            check_index(X, sample_weight, "sample_weight")
            X = check_features(self, X, reset=not continues, allow_images=True)
            known = self.classes_ if continues else classes
            candidates = check_candidates(y, n_samples=len(X), classes=known)
            self.classes_: np.ndarray = candidates.classes
            check_class_prior(self.class_prior, self.classes_)
            rng = by_first(check_random_state, self.random_state)
            n_before = len(self.net_.history) if continues else 0
            seed = rng.randint(2**30) + n_before  # a call that continues draws differently
            rng = np.random.RandomState(seed)
            used, weight, held_out = self._choose_rows(X, sample_weight, rng, one_epoch)
            own = candidates if len(used) == len(X) else candidates[used]
            params = loss.resolve(own.mask, weight, device)
            if not continues:
                self._scaler, self.scaling_ = by_first(self._fit_scaler, X, own, used, rng)
                if torch.device(device).type != "mps":  # without double precision
                    self._scaler.to(device)
            with own_random(self, device, seed):
                net = self._make_net(X[used[:2]], device, seed, continues)  # before a long vote
                voter, votes, target = by_first(self._vote, X, used, own, device, seed, one_epoch)
                self.noise_rate_ = float(getattr(voter, "noise_rate_", 0.0))
                sets = None if target.mask is own.mask else own.mask
                rows = CandidateRows(X, used, target, self._scaler, device, weight, sets)
                callbacks = self._all_callbacks(X, candidates, held_out, device)
                objective = self._objective(loss, params, votes, own, rows.device)
                self._train(net, rows, objective, callbacks, one_epoch, seed)
            kept = None if one_epoch else voter
            self._store(net, kept, X, candidates, used, weight, one_epoch and continues)
        if self.interrupted_:
            raise KeyboardInterrupt(
                f"Training was interrupted after {self.n_iter_} epochs. The model keeps these, and "
                "interrupted_ is True."
            )
        return self

    def _choose_rows(self, X, sample_weight, rng, one_epoch):
        """Return the rows to train on, their weights or None, and the held-out rows or None."""
        used, weight, held_out = np.arange(len(X)), None, None
        if sample_weight is not None:
            weight = check_weight(X, sample_weight, len(X))
            used = np.flatnonzero(weight)
        if self.early_stopping and not one_epoch:
            n_out = max(1, round(self.validation_fraction * len(used)))
            if len(used) - n_out < 2:
                raise ValueError(
                    f"`early_stopping` must leave 2 rows to train on, got {len(used) - n_out} of "
                    f"{len(used)}. Lower `validation_fraction` (now {self.validation_fraction}) or "
                    "switch it off."
                )
            shuffled = rng.permutation(used)
            used, held_out = np.sort(shuffled[n_out:]), shuffled[:n_out]
        least = 2 * rank_and_size()[1]
        if len(used) < least:
            raise ValueError(
                f"A network must train on at least {least} rows, got n_samples={len(used)}. Add "
                "rows, or weights above 0."
            )
        return used, None if weight is None else weight[used], held_out

    def _vote(self, X, used, candidates, device, seed, one_epoch):
        """Return voter, votes and the candidates to train on; without a voter, as they are."""
        return None, None, candidates

    def _fit_scaler(self, X, candidates, used, rng):
        order, kind = rng.permutation(len(used))[:STATISTICS_ROWS], self.scaling
        if kind == "auto":
            some = order[:SCALING_ROWS]
            with limit_threads(len(some) ** 2):
                kind = choose_scaling(X[used[some]], candidates.mask[some])
        return fit_scaling(X[used[order]], kind), kind

    def _make_net(self, X, device, seed, continues):
        if continues:
            self.net_.check_built_from(self)
            net = copy.deepcopy(self.net_)
        else:
            inputs = scale(self._scaler, X, torch.device(device))
            net = build_net(self, X, inputs.shape[1], device, seed)
            check_output(net, inputs, len(self.classes_))
        # Initial weights are those of rank 0, dropout is not.
        give_generator(net.module_, seed + rank_and_size()[0])
        return net

    def _all_callbacks(self, X, candidates, held_out, device):
        rank, size = rank_and_size()
        callbacks = [("_progress", Progress())] if self.verbose and not rank else []
        if held_out is not None:
            rows = CandidateRows(X, held_out, candidates[held_out], self._scaler, device)
            callbacks += early_stopping(rows, self.n_iter_no_change)
        callbacks += copy.deepcopy(self.callbacks or [])
        return callbacks + ([("_distributed", Distributed())] if size > 1 else [])

    def _train(self, net, rows, objective, callbacks, one_epoch, seed):
        n, epochs, lr = len(rows), 1 if one_epoch else self.max_epochs, self.lr
        batch_size = np.clip(n // 64, 16, 256) if self.batch_size == "auto" else self.batch_size
        decay = 2e-4 * min(1.0, 5000 / n) if self.weight_decay == "auto" else self.weight_decay
        if self.schedule == "onecycle" and one_epoch:
            lr = lr / 10
        if self.schedule == "onecycle" and not one_epoch:
            callbacks = [one_cycle(lr, epochs * len(Batches(rows, int(batch_size)))), *callbacks]
        net.train(
            rows,
            objective,
            callbacks,
            epochs=epochs,
            batch_size=int(batch_size),
            lr=lr,
            # Divide by n_networks: losses are averaged, penalties are summed.
            weight_decay=decay / getattr(net.module_, "n_networks", 1),
            generator=torch.Generator().manual_seed(seed),
        )

    def _objective(self, loss, params, votes, candidates, device):
        return Objective(loss, params)

    def _store(self, net, voter, X, candidates, used, weight, adds):
        self.net_, self.voter_ = net, voter
        self.history_ = [
            {key: value for key, value in epoch.items() if key not in ("batches", "loss_best")}
            for epoch in net.history
            if "seconds" in epoch  # an interrupted epoch has not come that far
        ]
        self.n_iter_, self.interrupted_ = len(self.history_), net.interrupted_
        log_proba = self._fit_proba(X, used)
        self.candidate_proba_ = candidate_softmax(log_proba, candidates.mask, candidates.prior)
        label_proba, row_weight = self._label_proba(log_proba, candidates), None
        if weight is not None:
            row_weight = np.zeros(len(X))
            row_weight[used] = weight / weight.mean()
        mass = class_mass(label_proba, candidates.mask, row_weight)
        self._class_mass: np.ndarray = mass + self._class_mass if adds else mass

    def _fit_proba(self, X, used):
        """Calibrate, if there is anything to do so by; return log-probabilities of all rows."""
        return self._log_proba(X)

    def _label_proba(self, log_proba, candidates):
        return self.candidate_proba_

    def _log_proba(self, X):
        """Return log-probabilities of checked samples, without class prior."""
        found = np.empty((len(X), len(self.classes_)))
        device = torch.device(self.net_.device)
        for rows in gen_batches(len(X), block_size(X, len(self.classes_))):
            inputs = scale(self._scaler, X[rows], device)
            logits = average_networks(self.net_.outputs(inputs)[0].cpu().double())
            found[rows] = logits.log_softmax(dim=1).numpy()
        failed = ~np.isfinite(found).all(axis=1)
        if failed.any():
            raise ValueError(
                f"The network's output must be finite, got NaN or infinity for row "
                f"{np.argmax(failed)} of X. The row may be far outside the range of the training "
                "rows: check its units."
            )
        return found

    def _scores(self, X):
        """Return what predictions are made from if this network votes."""
        return np.exp(self._log_proba(X))

    def _candidate_proba_of(self, X, candidates):
        log_proba = self._log_proba(self._check_X(X))
        return candidate_softmax(log_proba, candidates.mask, candidates.prior)

    def predict(self, X):
        """Predict the label of each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, channels, height, width)
            Samples.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        best = self.predict_log_proba(X).argmax(axis=1)
        return self.classes_[best]

    def drop_training_state(self):
        """Drop what predictions do not need, for a smaller pickle.

        These are the optimizer's moments, ``candidate_proba_``, and a voter that takes no part in
        predictions. Training can still continue from the weights, with a fresh optimizer.

        Returns
        -------
        self : object
            The estimator, whose predictions stay the same.
        """
        check_is_fitted(self, "net_")
        self.net_.optimizer_.state.clear()
        self.__dict__.pop("candidate_proba_", None)
        if not self._blend():
            self.voter_ = None
        return self

    def _blend(self) -> float:
        """Return the weight of the voter in predictions."""
        return 0.0

    def set_params(self, **params: Any):
        """Set parameters by name.

        Parameters
        ----------
        **params : dict
            Names and values. A dict such as ``module_params`` is replaced as a whole. Parameters of
            a voter, such as ``voter__n_neighbors``, can be set if ``voter`` is an object.

        Returns
        -------
        self : object
        """
        for name in params:
            whole, _, part = name.partition("__")
            if part and whole in ("loss", "module_params"):
                value = "Loss(...)" if whole == "loss" else f"{{{part!r}: ...}}"
                raise ValueError(
                    f"`{whole}` must be set as a whole, got {name!r}. Pass {whole}={value}."
                )
            self._check_nested(whole, part, params)
        return super().set_params(**params)

    def _check_nested(self, whole: str, part: str, params: dict) -> None:
        """Raise if a nested parameter cannot be set."""
