"""
What if some sets are wrong and some classes are rare?
======================================================

A set of candidates may lack the true label: the caption forgot a name. And some classes are rare.
Each makes the other worse, as a few wrong sets are many for a class of few rows.
"""

# %%
# Digits, with ten times as many zeros as nines. A growing proportion of the sets loses the true
# digit. The test images are balanced, so that the accuracy is the mean over classes.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import recall_score
from sklearn.model_selection import train_test_split

from sklearn_cleanse import CleanSEKernelClassifier
from sklearn_cleanse.datasets import long_tail_rows, make_candidates

digits, labels = load_digits(return_X_y=True)
digits, X_new, labels, y_new = train_test_split(digits, labels, test_size=0.4, random_state=0)
rows = long_tail_rows(labels, imbalance=10, random_state=0)
X, y = digits[rows], labels[rows]
counts = np.bincount(y)
print("rows per digit:", *counts)

# %%
# ``noise_rate=0``, the default, assumes that every set is right. ``"auto"`` estimates the
# proportion of wrong sets, without true labels. ``class_prior="uniform"`` predicts as if all
# classes were equally frequent; it needs no new fit.
RATES = (0.0, 0.1, 0.2, 0.3, 0.4)
FORMS = ("noise_rate=0", 'noise_rate="auto"', '"auto", uniform prior')
accuracy, recall, estimated = {form: [] for form in FORMS}, {}, []
for rate in RATES:
    S = make_candidates(y, "flip", flip_proba=0.3, noise_rate=rate, random_state=0)
    plain = CleanSEKernelClassifier(random_state=0).fit(X, S)
    robust = CleanSEKernelClassifier(noise_rate="auto", random_state=0).fit(X, S)
    estimated.append(100 * robust.noise_rate_)
    predictions = [plain.predict(X_new), robust.predict(X_new)]
    predictions.append(robust.set_params(class_prior="uniform").predict(X_new))
    for form, predicted in zip(FORMS, predictions, strict=True):
        accuracy[form].append(100 * np.mean(predicted == y_new))
        recall[form, rate] = 100 * recall_score(y_new, predicted, average=None)

# %%
# Left: accuracy. Middle: the estimate. Right: recall of each digit with 20 % wrong sets.
COLORS = dict(zip(FORMS, ("#D55E00", "#0072B2", "#009E73"), strict=True))
percent = 100 * np.array(RATES)
figure, (left, middle, right) = plt.subplots(
    1, 3, figsize=(11, 3.9), width_ratios=(1, 0.8, 1.3), layout="constrained"
)
for shift, (form, color) in zip((-0.27, 0, 0.27), COLORS.items(), strict=True):
    left.plot(percent, accuracy[form], "o-", color=color, label=form)
    right.bar(np.arange(10) + shift, recall[form, 0.2], width=0.27, color=color, label=form)
left.set(xlabel="wrong sets, %", ylabel="accuracy on new images, %")
middle.plot([0, 45], [0, 45], ls=":", color="#777777")
middle.plot(percent, estimated, "o", color="#0072B2", ms=8)
middle.set(xlabel="wrong sets, %", ylabel="estimated wrong sets, %")
right.set_xticks(range(10), [f"{digit}\n{count}" for digit, count in enumerate(counts)])
right.set(xlabel="digit, and its training rows", ylabel="recall with 20 % wrong sets, %")
figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
for ax in (left, middle, right):
    ax.grid(alpha=0.25)
plt.show()

# %%
print("wrong sets, %".ljust(24), *(f"{rate:>7.0f}" for rate in percent))
for name, values in (accuracy | {"estimated, %": estimated}).items():
    print(f"{name:<24}", *(f"{value:>7.1f}" for value in values))

# %%
# A class of few rows has few voters, and no method makes up for that. To see which sets are wrong,
# use :doc:`/auto_examples/plot_label_errors`.
