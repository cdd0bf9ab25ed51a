"""The order of the examples: from the first fit to parts of one's own."""

ORDER = [
    "quick_tour",
    "annotators",
    "doubtful_labels",
    "explain_digit",
    "messy_table",
    "noisy_and_rare",
    "worlds_of_candidates",
    "tune_without_truth",
    "kernel_or_network",
    "hundred_thousand_rows",
    "images_cnn",
    "own_network",
    "own_loss",
    "count_loss",
    "theory_check",
]


class Story:
    """Sort key of sphinx-gallery: the place in ORDER; others come last, by name."""

    def __init__(self, source):
        pass

    def __call__(self, filename):
        name = filename.removeprefix("plot_").removesuffix(".py")
        return (ORDER.index(name) if name in ORDER else len(ORDER), name)
