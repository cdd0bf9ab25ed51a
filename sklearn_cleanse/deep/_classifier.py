"""The network behind every deep method: `PartialLabelClassifier`."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from scipy.special import log_softmax
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from .._device import check_magnitude, choose_device
from .._ranks import ALONE, Ranks
from .._rows import SparseRows, refuse_text
from .._warn import warn_caller
from ..base import (
    PartialLabelMixin,
    check_class_prior,
    class_mass,
    content_rank,
    refuse_truth,
    unchanged_on_error,
)
from ..candidates import candidate_softmax, check_graded, check_index
from ..candidates._grades import label_odds, regrade
from ..losses import Loss, check_loss, check_loss_params
from ..scaling import SCALINGS
from . import _net, _saving
from ._agreement import check_agreement, classes_of_all, fingerprint, rows_of_all
from ._build import build_net
from ._export import write_onnx
from ._job import LARGEST, Given, Job, Votes, hold_out, use_weights
from ._modules import MODULES
from ._random import OwnRandom
from ._training_rows import TrainingRows, rows_per_block

__all__ = ["PartialLabelClassifier"]


class PartialLabelClassifier(PartialLabelMixin, BaseEstimator):
    """Neural network trained on candidate labels with one of the field's losses.

    CC, RC, PRODEN, LWS, CAVL, SCARCE and the average loss are values of ``loss``.

    Its parameters come in four groups, in this order; most fits need none but ``loss``.

    - The method, from ``loss`` to ``class_prior``: what is done with candidates.
    - The network, from ``module`` to ``scaling``.
    - Training, from ``max_epochs`` to ``warm_start``.
    - Machinery, from ``device`` to ``verbose``.

    Parameters
    ----------
    loss : str, Loss or callable, default="cc"
        The base loss: "average", "cc", "rc", "proden", "lws", "cavl" or "scarce" (see the table of
        methods in the documentation), or one of your own (see `sklearn_cleanse.losses.Loss`).
    loss_params : dict, default=None
        Parameters of the loss: ``beta`` and ``form`` of "lws", ``class_prior`` and ``correction``
        of "scarce".
    graded : bool, default=False
        Whether candidates may be graded: ``y`` is then a matrix of numbers from 0 to 1, those above
        0 mark candidates, and their ratios within a row are the odds of each before features are
        looked at, such as the votes of annotators
        (`sklearn_cleanse.datasets.candidates_from_votes`). If not, such a matrix is refused.
    class_prior : "uniform", dict, array-like of shape (n_classes,) or None, default=None
        Class shares that predictions are made for, where new rows have others than the training
        rows, or rare classes matter as much as others: "uniform". A dict or a Series is taken by
        label, anything else in the order of ``classes_``. It may be changed after `fit`; those of
        ``class_shares_`` change nothing. Votes, `disambiguate` and ``candidate_proba_`` are as
        without.
    module : {"mlp", "resnet34"} or torch.nn.Module class, default="mlp"
        The network. A class is called with the number of features (of channels, for images) and
        the number of classes; it returns logits, or logits and a representation.
    module_params : dict, default=None
        Further arguments for the module.
    hidden_layer_sizes : tuple of int, default=(300, 300, 300)
        Units of each hidden layer of the "mlp".
    batch_norm : bool, default=True
        Whether the "mlp" normalises activations after each hidden layer.
    dropout : float, default=0.2
        Share of activations that the "mlp" drops after each hidden layer while training; on a CPU
        it is rounded to a 256th, and to one at least.
    n_members : int, default=2
        Networks of the "mlp" that are trained side by side. They share confidences and votes, and
        their mean probability predicts.
    scaling : {"auto", "standard", "sqrt", "minmax", "common", "rank"}, list of these or None, \
            default="auto"
        How features are scaled, inside the model and by the training rows; see
        `sklearn_cleanse.scaling.fit_scaling`. "auto" takes the one under which left-out rows'
        candidates are predicted best, which needs no true label. From a list the members take
        one each, in turn.
    max_epochs : int, default=30
        Passes over the training rows.
    batch_size : int or "auto", default="auto"
        Rows per step, at least 2. "auto" takes a 64th of the rows, but at least 16 and at most 256.
    lr : float, default=0.01
        Learning rate; with the "onecycle" schedule its peak.
    schedule : {"onecycle", "constant"}, default="onecycle"
        How the learning rate changes over the epochs.
    weight_decay : float or "auto", default="auto"
        L2 penalty on each network. "auto" takes 2e-4, and beyond 5,000 rows less in proportion: a
        prior is worth a fixed number of rows.
    early_stopping : bool, default=False
        Whether to hold out rows, stop when their approximated accuracy, which needs candidates
        only, no longer grows, and keep the best epoch's weights.
    validation_fraction : float, default=0.1
        Share of rows held out by ``early_stopping``.
    n_iter_no_change : int, default=20
        Epochs without improvement after which ``early_stopping`` stops.
    warm_start : bool, default=False
        Whether `fit` goes on from the weights of the previous call. The network and its scaling
        stay as they are; other parameters may change.
    device : str, default="auto"
        Where to train. "auto" takes CUDA, then MPS, then the CPU.
    random_state : int, RandomState instance or None, default=None
        Fixes weights, shuffling and dropout. The caller's generators are left alone.
    callbacks : list of skorch callbacks, default=None
        Called by the training loop; ``net_.callbacks_`` holds the copies that were used.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    class_shares_ : ndarray of shape (n_classes,)
        Estimated share of each class among all training rows, of `partial_fit` too, as if each
        had one row more; 0 for a class that is nobody's candidate, whose probability no
        ``class_prior`` changes.
    candidate_proba_ : {ndarray, csr_array} of shape (n_samples, n_classes)
        Confidence in each candidate of the training rows; sparse if the candidates were.
    history_ : list of dict
        One entry per epoch: "epoch", "loss", "base_loss", "count_loss", "covering_rate" (share of
        training rows whose prediction was a candidate as they were trained on, that is with
        dropout) and "seconds"; with neighbours' votes "clean_voter_share" (share of partial rows
        that have a clean neighbour).
    n_iter_ : int
        Number of epochs trained.
    interrupted_ : bool
        Whether Ctrl-C ended the training. `fit` then raises KeyboardInterrupt, so that a search
        or a script ends as well, but the model can be used.
    net_ : skorch.NeuralNet
        The trained net.
    scaling_ : str, list or None
        The scaling in use.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Their names, if they have any.

    See Also
    --------
    CleanSEClassifier : The same network, calibrated by clean samples.

    Examples
    --------
    >>> from sklearn_cleanse import PartialLabelClassifier
    >>> X = [[0.0], [0.1], [0.9], [1.0]]
    >>> y = [{"low"}, {"low", "high"}, {"low", "high"}, {"high"}]
    >>> clf = PartialLabelClassifier("cc", max_epochs=20, random_state=0).fit(X, y)
    >>> clf.predict([[0.05], [0.95]])
    array(['low', 'high'], dtype='<U4')
    """

    _parameter_constraints: ClassVar[dict] = {
        "loss": [str, Loss, callable],
        "loss_params": [dict, None],
        "graded": ["boolean"],
        "module": [StrOptions(set(MODULES)), type],
        "module_params": [dict, None],
        "hidden_layer_sizes": ["array-like"],
        "batch_norm": ["boolean"],
        "dropout": [Interval(Real, 0, 1, closed="left")],
        "n_members": [Interval(Integral, 1, None, closed="left")],
        "scaling": [StrOptions({"auto", *SCALINGS}), list, tuple, None],
        "class_prior": ["array-like", dict, StrOptions({"uniform"}), None],
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
        loss_params=None,
        graded=False,
        class_prior=None,
        module="mlp",
        module_params=None,
        hidden_layer_sizes=(300, 300, 300),
        batch_norm=True,
        dropout=0.2,
        n_members=2,
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
        self.loss_params = loss_params
        self.graded = graded
        self.module = module
        self.module_params = module_params
        self.hidden_layer_sizes = hidden_layer_sizes
        self.batch_norm = batch_norm
        self.dropout = dropout
        self.n_members = n_members
        self.scaling = scaling
        self.class_prior = class_prior
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

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        return tags

    def set_params(self, **params):
        """Set parameters by name.

        Parameters
        ----------
        **params : dict
            Names and values. Dicts such as ``loss_params`` are set as a whole.

        Returns
        -------
        self : object
        """
        for name in params:
            whole, _, part = name.partition("__")
            if part and whole in ("loss_params", "module_params"):
                raise ValueError(
                    f"{name} cannot be set by itself; set the dict as a whole: "
                    f"{whole}={{{part!r}: …}}, or in a grid {{{whole!r}: [{{{part!r}: …}}, …]}}"
                )
        return super().set_params(**params)

    @refuse_truth
    def fit(self, X, y, sample_weight=None):
        """Train on features and candidates.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, channels, height, width)
            Features, dense or (in two dimensions) sparse. They need no scaling. A gap (NaN) counts
            as the mean of its feature, and each feature that has gaps in training gets a further
            input that tells where they are.
        y : array-like
            Candidates: a binary matrix of shape (n_samples, n_classes), dense, sparse or a
            DataFrame whose columns are the classes; a list of label sets; or labels of shape
            (n_samples,). With ``graded``, the matrix may hold numbers from 0 to 1.
        sample_weight : array-like of shape (n_samples,), default=None
            How much each sample counts. Zero leaves it out. Whole numbers repeat it, as if it
            occurred so often (up to ten times on average); other weights scale its part in the
            base loss.

        Returns
        -------
        self : object
            The fitted estimator.

        Notes
        -----
        Under an initialised torch process group, all its ranks train one model, each on the rows
        that it is given: see "One fit on several GPUs or machines" in the documentation.
        """
        again = self.warm_start and hasattr(self, "net_")
        with unchanged_on_error(self):
            self._train(X, y, sample_weight, self.max_epochs, reset=not again)
        return self._pass_interrupt_on()

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Train one more epoch, on the given rows alone.

        Votes are those of these rows alone, at full temperature, and predictions are the
        network's alone: the kernel of a part of the rows has no say. The learning rate is a tenth
        of ``lr`` under the "onecycle" schedule, which has no end to head for here. The features
        keep the scaling of the first call.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, channels, height, width)
            Features.
        y : array-like
            Candidates, in any form that `fit` takes.
        classes : array-like of shape (n_classes,), default=None
            All classes there will ever be. Needed in the first call, unless the columns of a
            candidate matrix tell them.
        sample_weight : array-like of shape (n_samples,), default=None
            How much each sample counts, as in `fit`.

        Returns
        -------
        self : object
            The trained estimator.
        """
        classes = None if classes is None else np.asarray(classes)
        first = not hasattr(self, "net_")
        with unchanged_on_error(self):
            self._train(X, y, sample_weight, None, reset=first, classes=classes)
        return self._pass_interrupt_on()

    def _pass_interrupt_on(self):
        """Return the estimator, or end what called it if its training was interrupted."""
        if self.interrupted_:
            raise KeyboardInterrupt(
                f"training was interrupted after {self.n_iter_} epochs; the model keeps what it "
                "has learnt so far, and interrupted_ is True"
            )
        return self

    def _train(self, X, y, sample_weight, epochs, reset, classes=None):
        """Read, draw up, train, keep. ``epochs`` None: one, off the schedule."""
        ranks = Ranks.now()
        with ranks.together():
            given = self._read(X, y, sample_weight, epochs, reset, classes, ranks)
            job = self._draw_up(given, epochs, reset, ranks)
        outcome = job.net.train(job.rows, job.training, job.callbacks, job.rng, job.own_random)
        self._keep(given, job, outcome, epochs, reset, ranks)

    def _read(self, X, y, sample_weight, epochs, reset, classes, ranks) -> Given:
        """Check and encode what the call was given."""
        self._validate_params()
        if epochs is None:
            self._check_later_classes(y, classes, reset)
        loss = check_loss(self.loss)
        check_index(X, y)
        X = self._check_X(X, reset=reset)
        known = classes if reset else self.classes_
        n_before = 0 if reset else len(self.net_.history)
        as_sparse = sp.issparse(y)
        call = {"epochs": epochs, "epochs before": n_before}
        call["whether rows have weights"] = sample_weight is not None
        if ranks.several and not reset:
            call["the model to go on from"] = fingerprint(self.net_)
        check_agreement(ranks, self, X, known, call)
        if known is None and ranks.several:
            y = list(y) if isinstance(y, Iterator) else y
            known = classes_of_all(ranks, y, self.graded)
        classes, candidates, grades = check_graded(
            y, graded=self.graded, n_samples=len(X), classes=known
        )
        if any(ranks.gather(grades is not None)) and grades is None:
            grades = candidates.astype(float)
        check_class_prior(self.class_prior, classes)
        random = ranks.first(check_random_state(self.random_state))
        own_draws = ranks.fork(random)
        device = choose_device(self.device)
        ranks.check_device(device)
        _net.check_callbacks(self.callbacks)
        used, weight = use_weights(sample_weight, X, ranks)
        row_weight = np.bincount(used, minlength=len(X)) if weight is None else weight
        row_weight = row_weight * (ranks.total(len(used)) / ranks.total(row_weight.sum()))
        order, held_out = content_rank(X, candidates if grades is None else grades), None
        if self.early_stopping:
            used, held_out = hold_out(order, used, self.validation_fraction, own_draws)
        if len(used) < 2:
            raise ValueError("n_samples=1: one sample is not enough to train a network on")
        return Given(
            X=X,
            classes=classes,
            candidates=candidates,
            grades=grades,
            order=order,
            used=used,
            held_out=held_out,
            row_weight=row_weight,
            weight=None if weight is None else weight[used],
            loss=loss,
            device=device,
            n_before=n_before,
            random=random,
            own_draws=own_draws,
            as_sparse=as_sparse,
        )

    def _draw_up(self, given, epochs, reset, ranks) -> Job:
        """Take the votes, build the network or copy the one there is, and plan its training."""
        candidates = given.of_used(given.candidates)
        told = candidates, given.weight
        if given.loss.check is not None:  # which may look at the rows of all ranks
            told = rows_of_all(ranks, *told)
        params = check_loss_params(self.loss, self.loss_params, told[0], given.device, told[1])
        # A call that goes on draws differently from the one before, whatever the seed.
        own_random = OwnRandom(given.random.randint(2**31 - 1) + given.n_before)
        own = given.pool()
        pool = own.shared(ranks, given.random) if reset or self._votes_by_kernel else own
        votes = self._vote(own, pool, given.device, ranks)
        how = epochs, ranks, votes.model
        training = self._plan(given.loss, params, candidates, given.device, *how)
        start = None
        if reset:
            shuffled = pool.used[pool.shuffle]
            net, scaling = build_net(self, pool.X, pool.sets, given.device, shuffled, own_random)
        else:
            net, scaling = copy.deepcopy(self.net_), self.scaling_
            if not net.optimizer_.state:
                warn_caller(
                    "the optimiser's state was dropped by drop_training_state or save; "
                    "training goes on from the weights with a fresh optimiser"
                )
            if given.loss.confidences is not None:  # what it has learnt beats even odds
                X = given.of_used(given.X)
                start = net.confidences(X, votes.candidates, given.loss.confidences)
                start = regrade(start, votes.grades).data
        ranks.agree({"the scaling": scaling})
        ranks.take_first(net.module_)
        rows = TrainingRows(
            given.X,
            votes.candidates,
            given.weight,
            given.device,
            given.order[given.used],
            net.module_.scaling,
            used=None if given.uses_all else given.used,
            confidences=start,
            votes=votes.by_candidate,
            grades=None if votes.grades is None else votes.grades.data,
            ranks=ranks,
        )
        rng = ranks.fork(np.random.RandomState(given.random.randint(2**30) + given.n_before))
        if ranks.rank:  # initial weights are the same on all ranks, what is dropped is not
            own_random = OwnRandom(given.own_draws.randint(2**31 - 1))
        callbacks = self._all_callbacks(given, ranks)
        return Job(net, scaling, rows, training, callbacks, rng, own_random, votes)

    def _all_callbacks(self, given, ranks):
        callbacks = [("progress", _net.Progress())] if self.verbose and not ranks.rank else []
        if given.held_out is not None:
            held_out = given.X[given.held_out], given.candidates[given.held_out]
            callbacks += _net.early_stopping(*held_out, self.n_iter_no_change)
        return callbacks + copy.deepcopy(self.callbacks or [])

    def _keep(self, given, job, outcome, epochs, reset, ranks):
        """Store what was learnt."""
        voters, kernel, net = outcome.voters, job.votes.model, job.net
        self._voters = voters and dataclasses.replace(voters, rows=given.used[voters.rows])
        self._calibration_ = job.training.calibration
        self._kernel = kernel if epochs is not None else None  # not of a part of the rows
        self.net_, self.scaling_, self.classes_ = net, job.scaling, given.classes
        self._sparse_candidates = given.as_sparse
        self._noise = 0.0 if kernel is None else kernel.noise
        with ranks.together():
            belief = self._training_proba(given, given.candidates, job.votes.scores)
            self._candidate_proba = belief = regrade(belief, given.grades)
            if self._noise:  # a label outside may be the true one
                odds = label_odds(given.candidates, self._noise, given.grades)
                belief = self._training_proba(given, odds.astype(bool), job.votes.scores)
                belief = regrade(belief, odds)
            mass = ranks.total(class_mass(belief, given.candidates, given.row_weight))
        goes_on = epochs is None and not reset  # partial_fit, which has seen other rows before
        self._class_mass = mass + self._class_mass if goes_on else mass
        self.history_ = [
            {key: value for key, value in epoch.items() if key not in _INTERNAL}
            for epoch in net.history
            if "seconds" in epoch  # an interrupted epoch has not got so far
        ]
        self.n_iter_ = len(self.history_)
        self.interrupted_ = outcome.interrupted

    def _check_later_classes(self, y, classes, first):
        """Refuse calls of `partial_fit` that leave open which classes there are."""
        if first and classes is None and not (sp.issparse(y) or np.ndim(y) == 2):
            raise ValueError(
                "classes must be passed on the first call to partial_fit, as labels alone do not "
                "tell which others may come; or pass candidates as a matrix, a column per class"
            )
        if not first and classes is not None and not np.array_equal(classes, self.classes_):
            raise ValueError(
                f"classes={classes.tolist()} is not the same as in the first call to partial_fit: "
                f"{self.classes_.tolist()}"
            )

    def _plan(
        self, loss, loss_params, candidates, device, epochs, ranks=ALONE, kernel=None
    ) -> _net.Training:
        """Describe a training of some epochs; None: a single one, off the schedule."""
        n_rows = ranks.total(candidates.shape[0])
        batch_size = self.batch_size
        if batch_size == "auto":
            batch_size = int(np.clip(n_rows // 64, 16, 256))
        weight_decay = self.weight_decay
        if weight_decay == "auto":
            weight_decay = 2e-4 * min(1.0, 5000 / n_rows)
        lr, schedule = self.lr, self.schedule
        if epochs is None:
            lr, schedule = lr / 10 if schedule == "onecycle" else lr, "constant"
        return _net.Training(
            loss=loss,
            loss_params=loss_params,
            calibration=self._calibration(candidates, device, epochs is None, ranks, kernel),
            epochs=1 if epochs is None else epochs,
            batch_size=batch_size,
            lr=lr,
            schedule=schedule,
            # Divide by n_members: losses are averaged, penalties are summed.
            weight_decay=weight_decay / self.n_members,
        )

    #: Whether a regression of all rows votes on each.
    _votes_by_kernel = False

    def _vote(self, own, pool, device, ranks) -> Votes:
        """Let all other rows vote on each row to train on; here nobody does."""
        return Votes(own.candidates, own.grades)

    def _training_proba(self, given, candidates, scores):
        """Return the confidence in each of such candidates of all rows that the call was given."""
        return self.net_.confidences(given.X, candidates)

    def _kernel_share(self):
        """Return the say of that regression in predictions, which is none here."""
        return 0.0

    def _calibration(self, candidates, device, at_once, ranks, kernel):
        """Return what CleanSE adds, which is nothing here."""
        return None

    def _check_X(self, X, reset):
        refuse_text(X, type(self).__name__)
        X = validate_data(
            self,
            X,
            reset=reset,
            dtype="numeric",
            allow_nd=True,
            accept_sparse="csr",
            ensure_all_finite="allow-nan",
        )
        X = SparseRows(X) if sp.issparse(X) else X
        if X.ndim > 2 and np.isnan(X).any():
            row = np.argwhere(np.isnan(X))[0, 0]
            raise ValueError(f"row {row} of X holds NaN; gaps are for tables: fill them in images")
        if X.dtype.kind in "iu" and X.dtype.itemsize > 2:
            X = X.astype(np.float64)
        elif X.dtype not in (np.float64, np.float32, np.uint8, np.int8, np.int16):
            X = X.astype(np.float32)
        X = check_magnitude(X, LARGEST, fitting=reset)
        if reset:
            self._sample_shape = X.shape[1:]
        elif X.shape[1:] != self._sample_shape:
            raise ValueError(
                f"X has samples of shape {X.shape[1:]}, but the estimator was fitted on samples of "
                f"shape {self._sample_shape}"
            )
        return X

    def _candidate_proba_of(self, X, candidates):
        """Return the confidence in each of the given candidates, sparse, block by block."""
        X = self._check_X(X, reset=False)
        parts = [
            candidate_softmax(self._log_proba_of(X[rows]), candidates[rows])
            for rows in gen_batches(len(X), rows_per_block(candidates.shape[1]))
        ]
        return sp.vstack(parts, format="csr")

    @property
    def candidate_proba_(self):
        """Confidence in each candidate of the training rows."""
        check_is_fitted(self, "net_")
        proba = self._candidate_proba
        if proba is None:
            raise AttributeError(
                "candidate_proba_ was dropped by drop_training_state; disambiguate(X, y, "
                "return_proba=True) computes it again"
            )
        return proba if self._sparse_candidates else proba.toarray()

    def drop_training_state(self):
        """Forget what predictions do not need, for a model that is to be saved or sent.

        These are two moments of each weight, which the optimiser goes on from, and what is known
        of the training rows: ``candidate_proba_`` and neighbours' votes for `explain`. A pickle is
        then about as large as the parameters. Training can still go on (by ``warm_start`` or
        `partial_fit`) from the weights, with a fresh optimiser and a warning.

        Returns
        -------
        self : object
            The estimator, whose predictions are the same to the last bit.

        Examples
        --------
        >>> import pickle
        >>> from sklearn_cleanse import PartialLabelClassifier
        >>> X, y = [[0.0], [0.1], [0.9], [1.0]], [{0}, {0, 1}, {0, 1}, {1}]
        >>> clf = PartialLabelClassifier(random_state=0).fit(X, y)
        >>> full = len(pickle.dumps(clf))
        >>> len(pickle.dumps(clf.drop_training_state())) < 0.4 * full
        True
        >>> clf.predict(X)
        array([0, 0, 1, 1])
        """
        check_is_fitted(self, "net_")
        self.net_.optimizer_.state.clear()
        self._candidate_proba = self._voters = None
        if not self._kernel_share():
            self._kernel = None
        return self

    def to_onnx(self, path):
        """Write the model as an ONNX file, for runtimes without Python or torch.

        It takes raw features (``X``, double precision, of shape (n_samples, ...)) and returns
        ``probabilities`` of shape (n_samples, n_classes), as `predict_proba` does: scaling, all
        members and, where it has a say, the kernel regression are inside. Needs the extra
        ``export``.

        Parameters
        ----------
        path : str or path-like
            The file, which is replaced if it exists. Its metadata hold ``classes`` as JSON.

        Returns
        -------
        self : object
            The estimator.
        """
        check_is_fitted(self, "net_")
        write_onnx(self, path)
        return self

    def _params_to_save(self):
        params = super()._params_to_save()
        return {**params, "loss": _saving.loss_to_save(self.loss), "callbacks": None}

    def _state(self):
        """Return what a file keeps of this estimator."""
        return _saving.training_state(self)

    def _restore(self, file):
        self.loss = _saving.loss_from_file(self.loss)
        super()._restore(file)
        vars(self).update(_saving.training_from_file(self, file))

    def predict_log_proba(self, X):
        """Return the logarithm of each class's probability.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, channels, height, width)
            Samples.

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_classes)
            Finite even where the probability itself would be rounded to zero.
        """
        check_is_fitted(self, "net_")
        log_proba = self._log_proba_of(self._check_X(X, reset=False))
        if self.class_prior is None:
            return log_proba
        with np.errstate(divide="ignore"):  # a class whose share is set to 0
            return log_softmax(log_proba + np.log(self._prior_odds()), axis=1)

    def predict_proba(self, X):
        """Return the probability of each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, channels, height, width)
            Samples.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``. For loss="scarce", which trains each class
            against the rest, they rank well but are not calibrated.
        """
        return np.exp(self.predict_log_proba(X))

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
        check_is_fitted(self, "net_")
        if self.class_prior is not None:
            return self.classes_[self.predict_log_proba(X).argmax(axis=1)]
        return self.classes_[self._most_likely_of(self._check_X(X, reset=False))]

    def _log_proba_of(self, X):
        """Return log-probabilities of checked samples."""
        return self.net_.log_proba(X)

    def _most_likely_of(self, X):
        """Return the column of the most likely class of checked samples."""
        return self.net_.most_likely(X)


_INTERNAL = ("batches", "train_batch_count", "loss_best")
