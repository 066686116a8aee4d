"""The command line on a device."""

from minidl.cli import main


def test_train_generate_eval_and_info(device, tmp_path, capsys):
    text, folder = tmp_path / "text.txt", tmp_path / "run"
    text.write_text("To be, or not to be, that is the question. " * 40)
    made = ["--text", str(text), "--out", str(folder), "--preset", "tiny", "--context", "16",
            "--batch-size", "2", "--steps", "3", "--eval-batches", "1", "--quiet", "--no-plot"]
    assert main(["train", *made, "--device", device]) == 0
    found = []
    for where in ("cpu", device):
        capsys.readouterr()
        options = ["--prompt", "To be", "--max-new-tokens", "8", "--temperature", "0"]
        assert main(["generate", str(folder), *options, "--device", where]) == 0
        assert main(["eval", str(folder), "--device", where]) == 0
        found.append([line for line in capsys.readouterr().out.splitlines() if "bits" not in line])
    assert found[0] == found[1]
    assert main(["info"]) == 0
    assert f"device {device}: " in capsys.readouterr().out
