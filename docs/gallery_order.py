"""The order of the examples: from annotators' tables to parts of your own."""

ORDER = [
    "annotators",
    "label_errors",
    "explain_digit",
    "messy_table",
    "noisy_and_rare",
    "sources_of_wrong_candidates",
    "tune_without_truth",
    "kernel_or_network",
    "own_network",
    "own_loss",
    "count_loss",
]


class Story:
    """Sort key of sphinx-gallery: the place in ORDER; others come last, by name."""

    def __init__(self, source):
        pass

    def __call__(self, filename):
        name = filename.removeprefix("plot_").removesuffix(".py")
        return (ORDER.index(name) if name in ORDER else len(ORDER), name)
