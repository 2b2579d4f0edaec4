"""Numbers as they are told: with as many digits as tell them apart, and programs by their numbers."""

from pace_async.context.briefing import named_candidates
from pace_async.context.figures import digits_for, gain_text, score_text


def test_programs_are_named_by_numbers() -> None:
    assert named_candidates("as candidate 4, 0.65 of it, or candidates 7.5 and 9.") == [4]
    assert named_candidates("use candidate 17, Candidates 3, 5 and 8; not idea 40 or candidate #17") == [17, 3, 5, 8]


def test_scores_have_as_many_digits_as_tell_them_apart() -> None:
    digits = digits_for([1.0003731, 1.0003729, 0.5])
    assert score_text(1.0003731, digits) != score_text(1.0003729, digits)
    assert digits_for([0.25, 0.5]) == 5 and gain_text(-0.25) == "-0.25" and gain_text(0.0) == "same as its parent"
