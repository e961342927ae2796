"""A contender of benchmarks/decoder_step.py in a process of its own: `python -m benchmarks.peers.text NAME FOLDER`."""

from typing import Any

from benchmarks.peers import child


def load(name: str) -> Any:
    """Import the contender's class."""
    if name == "tinyattn":
        from benchmarks.peers.ours import TinyAttn

        return TinyAttn
    from benchmarks.peers import torch_decoder

    return {"torch-sdpa": torch_decoder.Trained, "torch-compile": torch_decoder.Compiled}[name]


if __name__ == "__main__":
    child.main(load)
