"""Tables in notebooks, and that importing and fitting warn of nothing."""

import copy
import pickle
import subprocess
import sys

from sklearn_cleanse import CleanSEKernelClassifier
from sklearn_cleanse.datasets import describe
from sklearn_cleanse.metrics import candidate_report

EVIL = "<script>"


def test_a_report_is_text_and_a_table():
    report = candidate_report([{EVIL, "dog"}, {EVIL}], ["dog", EVIL])
    assert str(report).splitlines()[0].split() == ["candidates", "clean", "predicted", "covering"]
    shown = report._repr_html_()
    assert "<td>&lt;script&gt;</td><td>2</td><td>1</td>" in shown
    assert EVIL not in shown
    for same in (pickle.loads(pickle.dumps(report)), copy.copy(report)):
        assert same == report
        assert same._repr_html_() == shown


def test_characteristics_are_a_table():
    shown = describe([{0, 1}, {0}], name=EVIL)._repr_html_()
    assert "<th>Clean rate</th>" in shown
    assert "<td>50.00%</td>" in shown
    assert EVIL not in shown


def test_an_explanation_is_a_table():
    X, S = [[0.0], [0.1], [0.9], [1.0]], [{EVIL}, {EVIL, "b"}, {EVIL, "b"}, {"b"}]
    shown = CleanSEKernelClassifier().fit(X, S).explain(X[:1], S[:1])[0]._repr_html_()
    assert shown.count("<table>") == 2
    assert EVIL not in shown


def test_nothing_warns_in_a_notebook_without_widgets():
    code = (
        "import sys, warnings\n"
        "ipython = type(sys)('IPython')\n"
        "ipython.get_ipython = lambda: type('Shell', (), {'config': {'IPKernelApp': 1}})()\n"
        "sys.modules['IPython'] = ipython\n"
        "from tqdm import TqdmWarning\n"
        "warnings.simplefilter('error', TqdmWarning)\n"
        "from sklearn_cleanse import CleanSEClassifier\n"
        "X, S = [[0.0], [0.1], [0.9], [1.0]], [{0}, {0, 1}, {0, 1}, {1}]\n"
        "CleanSEClassifier(max_epochs=2, verbose=1).fit(X, S)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
