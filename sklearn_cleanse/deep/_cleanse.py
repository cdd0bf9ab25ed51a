"""The flagship: `CleanSEClassifier`, a network calibrated by clean samples."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from scipy.special import log_softmax
from sklearn.utils import gen_batches
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ..calibration import Calibration
from ..candidates import candidate_softmax, check_graded, check_index, estimate_proportions
from ..candidates._grades import label_odds
from ..counts import COUNT_LOSSES
from ..explanation import (
    Explanation,
    assemble,
    blocks_to_explain,
    poll_kernel,
    poll_neighbors,
)
from ..losses import check_loss
from ..votes import fit_kernel_votes
from ..votes._kernel_votes import regrade_votes
from . import _saving
from ._agreement import rows_of_all
from ._classifier import PartialLabelClassifier
from ._job import Votes
from ._training_rows import rows_per_block

__all__ = ["PAPER_SETTINGS", "RECONSTRUCTION", "CleanSEClassifier"]

#: The paper's own form of CleanSE, as arguments: ``CleanSEClassifier(**PAPER_SETTINGS)``. What the
#: paper does not print (one hidden layer of 500, no batch norm, z-scores) is what gives its rows of
#: CC and RC.
PAPER_SETTINGS = {
    "loss": "cc",
    "temperature": 3.0,
    "count_weight": 1e-3,
    "n_neighbors": 10,
    "neighbors_from": "batch",
    "neighbor_space": "representation",
    "vote": "hard",
    "vote_scope": "candidates",
    "vote_start": 0.0,
    "vote_end": None,
    "kernel_share": 0.0,
    "count_every": 1,
    "count_loss": "entropy",
    "hidden_layer_sizes": (500,),
    "batch_norm": False,
    "dropout": 0.0,
    "n_members": 1,
    "scaling": "standard",
    "max_epochs": 250,
    "batch_size": 64,
    "lr": 1e-3,
    "schedule": "constant",
    "weight_decay": 1e-5,
}

#: The nearest form that does what the paper claims: confidences of RC times K, neighbours from
#: all rows, votes over all classes, and a count loss that is large enough to act.
RECONSTRUCTION = PAPER_SETTINGS | {
    "loss": "rc",
    "neighbors_from": "dataset",
    "vote_scope": "all",
    "count_loss": "interval",
    "count_weight": 0.1,
}


class CleanSEClassifier(PartialLabelClassifier):
    """Neural network for candidate labels, calibrated by clean samples.

    Two ideas of [1]_ are added to a base loss. *Votes*: the other samples, above all the clean ones
    (a single candidate), tell which of a sample's candidates to believe. *Counts*: how often labels
    are candidates, and together, weighs the votes; and a label occurs at least as often as it is a
    clean sample's and at most as often as it is a candidate, so that the probability that the
    predictions respect this is maximised.

    Its parameters come in four groups, in this order; most fits need none of them.

    - The method, from ``loss`` to ``class_prior``: what is done with candidates, votes and counts.
    - The network, from ``module`` to ``scaling``.
    - Training, from ``max_epochs`` to ``warm_start``.
    - Machinery, from ``device`` to ``verbose``.

    Parameters
    ----------
    loss : str, Loss or callable, default="cc"
        The base loss to calibrate: "average", "cc", "rc", "proden", "lws", "cavl" or "scarce", or
        one of your own (see `sklearn_cleanse.losses.Loss`).
    temperature : float, default=3.0
        T of Eq. (4): how much more the candidate that the votes name counts than the others.
        1 switches the votes off.
    count_weight : float, default=1e-3
        λ of Eq. (15), the weight of the count loss. 0 switches it off.
    n_neighbors : int, default=10
        Neighbours that vote.
    neighbors_from : {"dataset", "batch"}, default="dataset"
        Whether neighbours are sought among all training rows, every few epochs, or in each
        mini-batch, as Algorithm 1 does. Either way they vote anew all the time.
    neighbor_space : {"representation", "input"}, default="representation"
        Whether similarity (cosine) is that of the network's last hidden layer or that of the
        scaled features.
    vote : {"kernel", "soft", "hard"}, default="kernel"
        Who votes. "kernel": all other rows, by kernel regression with the row left out, once before
        training; see `CleanSEKernelClassifier`. "soft" and "hard": neighbours while the network is
        trained, each of which spreads its current confidences, weighted by similarity, or who
        together name one candidate by Eq. (3).
    vote_scope : {"candidates", "all"}, default="candidates"
        Which labels a hard vote is taken over. With "all" a label outside the row's candidates may
        win, and the row is then left as it is.
    vote_start : float, default=0.0
        Share of the epochs that pass before votes count. Neighbours of an untrained network know
        little: 0.3 suits them.
    vote_end : float, "auto" or None, default="auto"
        Share of the epochs at which ``temperature`` has fallen to 1, in a straight line from
        ``vote_start``, so that a network that outgrows the votes goes its own way. "auto" is 1,
        or halfway from ``vote_start`` to 1 where landmarks stand for the rows, whose votes it
        outgrows sooner. None keeps it constant.
    count_strength : float in [0, 1] or "auto", default="auto"
        How strongly label counts weigh kernel votes. The assumption behind 1 is that a row's wrong
        candidates depend on its label alone, as where labels join at random or come in bags;
        "auto" measures how far that holds. 0 leaves counts out.
    noise : float in [0, 1) or "auto", default=0.0
        Share of the rows whose true label is *not* among their candidates. 0: the sets are right.
        Otherwise kernel votes may name any label, and the network is trained on all of them, those
        outside a set with the odds that the share leaves them; label counts then bound nothing.
        "auto" estimates the share without true labels, see `sklearn_cleanse.votes.estimate_noise`.
        `disambiguate` still chooses among the candidates given; `predict` and
        `sklearn_cleanse.find_candidate_issues` name labels outside.
    n_landmarks : int, "auto" or None, default="auto"
        Rows that stand for all in kernel votes. None takes all rows, whose cost is cubic; "auto"
        all up to 5,000, then 1,000, fewer where their features would take more than 1 GiB.
    max_voters : int or "auto", default="auto"
        Rows, at most, that may vote as neighbours: half of them clean rows where there are enough,
        the others drawn at random. "auto": all up to 16,384 rows, then 2**28 divided by the number
        of rows, at least 4,096, so that a search takes no longer with more rows.
    kernel_share : float in [0, 1] or "auto", default="auto"
        Weight of the kernel regression's log-probabilities, beside those of the network, in
        predictions. "auto" takes half the strength with which counts weighed the votes, so that
        the kernel has no say where candidates depend on the features and mislead it, and none where
        landmarks stand for the rows, all of which the network has seen. 0 predicts by the network
        alone, which takes less time.
    count_every : int, default=4
        Steps from one count loss to the next, which stands for those in between: it has so many
        times the weight. The first step of an epoch always counts. 1 counts in every step, as the
        paper does, and takes more time.
    count_loss : {"interval", "entropy", "proportion"}, default="interval"
        "interval" is -log P of the interval of Eq. (9), "entropy" the -P log P that Eq. (10)
        prints, "proportion" the Kullback-Leibler form for large data, Eq. (14).
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
        only, no longer grows, and keep the best epoch's weights. It takes the sets of these rows
        at their word, whatever the ``noise``: wrong ones lower the scores of all epochs alike.
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
    dependence_ : float
        Share of the candidates' variation beyond labels that features predict, measured by kernel
        votes; see `CleanSEKernelClassifier`.
    count_strength_ : float
        How strongly counts weighed kernel votes.
    n_landmarks_ : int
        Rows that stand for all in kernel votes; all of them in the exact form.
    n_voters_ : int
        Rows that may vote as neighbours.
    noise_ : float
        The share of wrong sets that was reckoned with.
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
    PartialLabelClassifier : The same network without calibration.

    References
    ----------
    .. [1] G. Wang, C.-M. Vong, J. Huang. Exploiting the Potential Supervision Information of
       Clean Samples in Partial Label Learning.

    Examples
    --------
    >>> from sklearn_cleanse import CleanSEClassifier
    >>> X = [[0.0], [0.1], [0.9], [1.0]]
    >>> y = [{"low"}, {"low", "high"}, {"low", "high"}, {"high"}]
    >>> clf = CleanSEClassifier(max_epochs=20, random_state=0).fit(X, y)
    >>> clf.predict([[0.05], [0.95]])
    array(['low', 'high'], dtype='<U4')
    >>> clf.disambiguate(X, y)
    array(['low', 'low', 'high', 'high'], dtype='<U4')
    """

    _parameter_constraints: ClassVar[dict] = {
        **PartialLabelClassifier._parameter_constraints,
        "temperature": [Interval(Real, 1, 1e18, closed="both")],
        "count_weight": [Interval(Real, 0, 1e18, closed="both")],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "neighbors_from": [StrOptions({"dataset", "batch"})],
        "neighbor_space": [StrOptions({"representation", "input"})],
        "vote": [StrOptions({"kernel", "soft", "hard"})],
        "vote_scope": [StrOptions({"candidates", "all"})],
        "vote_start": [Interval(Real, 0, 1, closed="both")],
        "vote_end": [Interval(Real, 0, 1, closed="right"), StrOptions({"auto"}), None],
        "count_strength": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto"})],
        "noise": [Interval(Real, 0, 1, closed="left"), StrOptions({"auto"})],
        "n_landmarks": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), None],
        "max_voters": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "kernel_share": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto"})],
        "count_every": [Interval(Integral, 1, None, closed="left")],
        "count_loss": [StrOptions(set(COUNT_LOSSES))],
    }

    def __init__(
        self,
        loss="cc",
        *,
        temperature=3.0,
        count_weight=1e-3,
        n_neighbors=10,
        neighbors_from="dataset",
        neighbor_space="representation",
        vote="kernel",
        vote_scope="candidates",
        vote_start=0.0,
        vote_end="auto",
        count_strength="auto",
        noise=0.0,
        n_landmarks="auto",
        max_voters="auto",
        kernel_share="auto",
        count_every=4,
        count_loss="interval",
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
        super().__init__(
            loss,
            loss_params=loss_params,
            graded=graded,
            module=module,
            module_params=module_params,
            hidden_layer_sizes=hidden_layer_sizes,
            batch_norm=batch_norm,
            dropout=dropout,
            n_members=n_members,
            scaling=scaling,
            class_prior=class_prior,
            max_epochs=max_epochs,
            batch_size=batch_size,
            lr=lr,
            schedule=schedule,
            weight_decay=weight_decay,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            warm_start=warm_start,
            device=device,
            random_state=random_state,
            callbacks=callbacks,
            verbose=verbose,
        )
        self.temperature = temperature
        self.count_weight = count_weight
        self.n_neighbors = n_neighbors
        self.neighbors_from = neighbors_from
        self.neighbor_space = neighbor_space
        self.vote = vote
        self.vote_scope = vote_scope
        self.vote_start = vote_start
        self.vote_end = vote_end
        self.count_strength = count_strength
        self.noise = noise
        self.n_landmarks = n_landmarks
        self.max_voters = max_voters
        self.kernel_share = kernel_share
        self.count_every = count_every
        self.count_loss = count_loss

    def _validate_params(self):
        super()._validate_params()
        end = 1.0 if self.vote_end == "auto" else self.vote_end
        if end is not None and end <= self.vote_start:
            raise ValueError(
                f"vote_end={self.vote_end} is not after vote_start={self.vote_start}: votes would "
                "never count; set vote_end further from vote_start, or temperature=1 for no votes"
            )

    @property
    def _votes_by_kernel(self):
        return self.vote == "kernel" and self.temperature != 1

    def _vote(self, own, pool, device, ranks) -> Votes:
        """Let all other rows vote on each row, if they are asked to.

        Where sets may be wrong, every label is a candidate, graded by the odds that noise gives it.
        """
        neighbours_vote = self.vote != "kernel" and self.temperature > 1
        if neighbours_vote and ranks.several:
            raise ValueError(
                f"vote={self.vote!r} seeks neighbours among all rows, and {ranks.size} ranks have "
                "them in parts; use vote='kernel', or train in one process"
            )
        if not self._votes_by_kernel:
            if self.noise != 0:
                raise ValueError(
                    f"noise={self.noise!r} needs kernel votes, which name labels outside a set: "
                    "use vote='kernel' and temperature above 1, or noise=0"
                )
            return Votes(own.candidates, own.grades)
        # Where every rank has all rows, rank 0 computes all votes; else each those on its own rows.
        complete = pool.ours is not None
        found: Any = None
        rows = pool if complete else own
        # Rows that are repeated, by weights or in X, vote once: none must vote on its copy.
        first, voters = rows.distinct()
        if not (complete and ranks.rank):
            found = fit_kernel_votes(
                rows.X,
                rows.candidates[voters],
                rows.used[voters],
                count_strength=self.count_strength,
                noise=self.noise,
                n_landmarks=self.n_landmarks,
                device=device,
                grades=None if rows.grades is None else rows.grades[voters],
                shared=None if complete else pool.sample(ranks),
            )
        votes, model, fitted = ranks.first(found) if complete else found
        if complete and pool.numbers is not None:
            model.rows = pool.numbers[model.rows]
        place = np.empty(len(rows.used), dtype=np.int64)
        place[voters] = np.arange(len(voters))
        back = place[first[rows.ours]]
        candidates, grades = own.candidates, own.grades
        if model.noise:
            grades = label_odds(candidates, model.noise, grades)
            candidates = grades.astype(bool)
        row_of_entry = np.repeat(back, np.diff(candidates.indptr))
        by_candidate = votes.proba.numpy()[row_of_entry, candidates.indices]
        return Votes(candidates, grades, by_candidate, model, fitted[back])

    def _training_proba(self, given, candidates, scores):
        if not self._kernel_share():
            return super()._training_proba(given, candidates, scores)
        X, used = given.X, given.used
        rest = np.setdiff1d(np.arange(len(X)), used)  # held out, or of weight zero
        of_all = scores.new_empty(len(X), scores.shape[1])
        of_all[torch.from_numpy(used)] = scores
        if len(rest):
            of_all[torch.from_numpy(rest)] = self._kernel.scores(X[rest]).to(scores.dtype)
        parts = []
        for rows in gen_batches(len(X), rows_per_block(candidates.shape[1])):
            log_proba = self._blend(self.net_.log_proba(X[rows]), of_all[rows])
            parts.append(candidate_softmax(log_proba, candidates[rows]))
        return sp.vstack(parts, format="csr")

    def _log_proba_of(self, X):
        log_proba = self.net_.log_proba(X)
        if not self._kernel_share():
            return log_proba
        return self._blend(log_proba, self._kernel.scores(X))

    def _blend(self, log_proba, scores):
        """Average log-probabilities of the network and of the kernel's scores."""
        share = self._kernel_share()
        kernel = self._kernel.normalize(scores).log().numpy()
        return log_softmax((1 - share) * log_proba + share * kernel, axis=1)

    def _most_likely_of(self, X):
        if not self._kernel_share():
            return self.net_.most_likely(X)
        return self._log_proba_of(X).argmax(axis=1)

    def _kernel_share(self):
        if self._kernel is None:
            return 0.0
        if self.kernel_share == "auto":
            return 0.5 * self._kernel.count_strength if self._kernel.is_exact else 0.0
        if not (isinstance(self.kernel_share, Real) and 0 <= self.kernel_share <= 1):
            raise ValueError(
                f"kernel_share is {self.kernel_share!r}; it must be 'auto' or a number from 0 to 1"
            )
        return self.kernel_share

    @property
    def dependence_(self):
        """Share of the candidates' variation beyond labels that features predict.

        It is about 0 where labels join at random or in bags, towards 1 where a set belongs to a
        kind of row, and there only with kernel votes.
        """
        return self._kernel_fact("dependence")

    @property
    def count_strength_(self):
        """How strongly counts weighed the kernel votes, from 0 to 1."""
        return self._kernel_fact("count_strength")

    @property
    def n_landmarks_(self):
        """Rows that stand for all in kernel votes; all of them in the exact form."""
        return len(self._kernel_fact("rows", "n_landmarks_"))

    @property
    def n_voters_(self):
        """Rows that may vote as neighbours."""
        check_is_fitted(self, "net_")
        if self._voters is None:
            raise AttributeError("n_voters_ is there only after a fit with neighbours' votes")
        return len(self._voters.rows)

    @property
    def noise_(self):
        """Share of wrong candidate sets that was reckoned with."""
        check_is_fitted(self, "net_")
        return self._noise

    def _kernel_fact(self, name, shown=None):
        check_is_fitted(self, "net_")
        if self._kernel is None:
            shown = shown or f"{name}_"
            raise AttributeError(f"{shown} is there only after a fit with kernel votes")
        return getattr(self._kernel, name)

    def _state(self):
        return {**super()._state(), **_saving.votes_state(self)}

    def _restore(self, file):
        super()._restore(file)
        vars(self).update(_saving.votes_from_file(self, file))

    def _calibration(self, candidates, device, at_once, ranks, kernel):
        """Return what CleanSE adds; ``at_once``: votes begin in the first epoch."""
        start, end = 0.0 if at_once else self.vote_start, self.vote_end
        if end == "auto":
            end = 1.0 if kernel is None or kernel.is_exact else (start + 1) / 2
        proportions = None
        if self.count_weight and self.count_loss == "proportion":
            proportions = estimate_proportions(rows_of_all(ranks, candidates, None)[0])
            proportions = torch.tensor(proportions, dtype=torch.float32, device=device)
        return Calibration(
            temperature=self.temperature,
            vote=self.vote,
            vote_scope=self.vote_scope,
            n_neighbors=self.n_neighbors,
            neighbors_from=self.neighbors_from,
            neighbor_space=self.neighbor_space,
            max_voters=self.max_voters,
            vote_start=start,
            vote_end=end,
            count_weight=self.count_weight,
            count_every=self.count_every,
            count_loss=self.count_loss,
            proportions=proportions,
        )

    def explain(self, X, y=None) -> list[Explanation]:
        """Show which training rows vote on each sample, and what comes of it.

        With neighbours' votes, voters are sought among all training rows that may vote, also where
        training sought them in mini-batches, and say what they believed at the end of training.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, channels, height, width)
            Samples to explain. A training row has no vote about itself, as in training: the same
            features and the same candidates give it away. (With landmarks it does not vote, but
            what it has added to the regression stays.)
        y : array-like, default=None
            Their candidates, in any form that `fit` takes. If None, every class is one.

        Returns
        -------
        explanations : list of Explanation
            One per sample; print it for a small table.
        """
        check_is_fitted(self, "net_")
        if self._kernel is None and self._candidate_proba is None:
            raise ValueError(
                "the voters were dropped by drop_training_state; explain before that, or fit again"
            )
        if self._kernel is None and self._voters is None:
            raise ValueError(
                f"no kernel votes are kept (temperature={self.temperature}): at 1 there are none, "
                "and partial_fit does not keep those on its part of the rows; use fit, "
                "with temperature above 1"
            )
        check_index(X, y)
        X = self._check_X(X, reset=False)
        candidates = grades = None
        if y is not None:
            _, candidates, grades = check_graded(
                y, graded=self.graded, n_samples=len(X), classes=self.classes_
            )
        explanations = []
        for block in blocks_to_explain(X, candidates, grades, len(self.classes_)):
            explanations += self._explain_block(*block)
        return explanations

    def _explain_block(self, X, own, grades) -> list[Explanation]:
        if self._kernel is not None:
            _, votes, parts = poll_kernel(self._kernel, X, own, self.classes_)
        else:
            space = self._voters.calibration.neighbor_space
            directions = torch.from_numpy(self.net_.directions(X, space))
            votes, parts = poll_neighbors(self._voters, directions, own, self.classes_)
        if grades is not None and self._kernel is not None:
            votes = regrade_votes(votes, grades)
        keeps = check_loss(self.loss).confidences
        sets = sp.csr_array(own.numpy())
        kept = None
        if keeps is not None:
            kept = torch.from_numpy(self.net_.confidences(X, sets, keeps).toarray())
            kept = regrade_votes(kept, grades)
        marks = own if grades is None else grades.float() * own
        weights = self._calibration_.weigh(kept, marks, votes.to(torch.float32))
        believed = torch.from_numpy(candidate_softmax(self._log_proba_of(X), sets).toarray())
        confidences = regrade_votes(believed, grades).numpy()
        best = self._most_likely_of(X)
        return assemble(self.classes_, own, confidences, votes, weights, best, parts)
