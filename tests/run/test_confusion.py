"""The confusion matrix: rows are labels, columns are what the network said."""

from __future__ import annotations

import numpy as np

from lenet_trt.run.predictions import Score


def counted(pairs: list[tuple[int, int]], classes: int = 3) -> Score:
    score = Score()
    shares = np.zeros((len(pairs), classes))
    for row, (_, said) in enumerate(pairs):
        shares[row, said] = 1.0
    score.add(np.array([label for label, _ in pairs], np.int64), shares)
    return score


def test_a_row_is_a_label_and_a_column_what_was_said() -> None:
    score = counted([(0, 2), (0, 2), (1, 0), (1, 1)])
    assert score.confusion == [[0, 0, 2], [1, 1, 0], [0, 0, 0]]
    assert (score.labelled, score.correct) == (4, 1)


def test_the_table_for_people_has_labels_beside_rows() -> None:
    lines = str(counted([(0, 2), (0, 2), (1, 0)]).text()).splitlines()
    assert lines[-3].split() == ["0", ".", ".", "2"]
    assert lines[-2].split() == ["1", "1", ".", "."]
    assert lines[-4].startswith("label \\ class")
