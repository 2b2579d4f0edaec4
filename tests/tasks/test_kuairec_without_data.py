"""What a user is told who has no data of the task yet."""

from pathlib import Path

import pytest

from tests.support.command_line import Shell


@pytest.mark.long
def test_a_run_without_the_data_says_what_to_get_and_with_it_what_implements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(tmp_path, monkeypatch, capsys)
    said = shell.pace("run", "kuairec")
    assert said.code == 2
    assert said.err == (
        "pace: There is no KuaiRec data in data/kuairec: get KuaiRec.zip from https://doi.org/10.5281/zenodo.18164998,"
        " unpack it there or name the folder that holds big_matrix.csv by --set evaluation.settings.path=FOLDER, or"
        " take synthetic data by --set evaluation.settings.data=synthetic (a run needs --implementer MODEL too: the"
        " task has no catalogue).\n"
    )
    said = shell.pace("run", "kuairec", "--set", "evaluation.settings.data=synthetic")
    assert (said.code, "has no catalogue" in said.err, "--implementer" in said.err) == (2, True, True)
    assert shell.files() == []
