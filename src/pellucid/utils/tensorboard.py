"""SummaryWriter: logs for TensorBoard, as torch.utils.tensorboard has it; tensorboardX writes the files.

pip install 'pellucid[tensorboard]'
"""

import textwrap
from collections.abc import Callable
from importlib import import_module
from typing import Any

from pellucid.core.provenance import here
from pellucid.core.tensor import Tensor
from pellucid.errors import explain

__all__ = ["SummaryWriter"]


def plain(value: Any) -> Any:
    """Tensors as NumPy arrays, also inside dictionaries, lists and tuples.

    >>> import pellucid as torch
    >>> plain({"loss": torch.ones(2, requires_grad=True)})
    {'loss': array([1., 1.], dtype=float32)}
    """
    if isinstance(value, Tensor):
        return value.detach().numpy()  # type: ignore[attr-defined]
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    return type(value)(map(plain, value)) if type(value) in (list, tuple) else value


class SummaryWriter:
    """Write scalars, histograms, pictures, texts and more for TensorBoard, into a folder under `runs/`.

    >>> import tempfile, pellucid as torch
    >>> with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
    ...     for step in range(3):
    ...         writer.add_scalar("loss", torch.tensor(1.0 / (step + 1)), step)
    """

    def __init__(
        self, log_dir: Any = None, comment: str = "", purge_step: int | None = None, max_queue: int = 10,
        flush_secs: int = 120, filename_suffix: str = "",
    ) -> None:  # fmt: skip
        options = {"comment": comment, "purge_step": purge_step, "max_queue": max_queue, "flush_secs": flush_secs}
        folder = None if log_dir is None else str(log_dir)
        self._writer = _tensorboard().SummaryWriter(folder, filename_suffix=filename_suffix, **options)
        self.log_dir = self._writer.logdir
        self.purge_step, self.max_queue, self.flush_secs = purge_step, max_queue, flush_secs
        self.filename_suffix = filename_suffix

    def get_logdir(self) -> str:
        """The folder the files are in."""
        return str(self.log_dir)

    def add_scalar(
        self, tag: str, scalar_value: Any, global_step: int | None = None, walltime: float | None = None,
        new_style: bool = False, double_precision: bool = False,
    ) -> None:  # fmt: skip
        """One number under a tag."""
        value = plain(scalar_value)
        self._writer.add_scalar(tag, value.item() if hasattr(value, "item") else value, global_step, walltime)

    def add_hparams(
        self, hparam_dict: dict[str, Any], metric_dict: dict[str, Any], hparam_domain_discrete: Any = None,
        run_name: str | None = None, global_step: int | None = None,
    ) -> None:  # fmt: skip
        """The settings of a run and what it reached."""
        settings, reached = (
            {name: value.item() if isinstance(value, Tensor) else value for name, value in given.items()}
            for given in (hparam_dict, metric_dict)
        )
        self._writer.add_hparams(settings, reached, run_name, global_step)

    def add_graph(
        self, model: Any, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True
    ) -> None:
        """The model as text: TensorBoard's graph pages are made of TorchScript, which there is none of here."""
        self._writer.add_text("graph", textwrap.indent(str(model), "    "))  # a block of code that no name can end

    def flush(self) -> None:
        """Write everything to the disk."""
        self._writer.flush()

    def close(self) -> None:
        """Write everything and close the files."""
        self._writer.close()

    def __enter__(self) -> "SummaryWriter":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _passed_on(name: str, doc: str) -> Callable[..., None]:
    """The method of tensorboardX under this name, for tensors."""

    def method(self: SummaryWriter, *args: Any, **kwargs: Any) -> None:
        getattr(self._writer, name)(*plain(args), **plain(kwargs))

    method.__name__, method.__qualname__, method.__doc__ = name, f"SummaryWriter.{name}", doc
    return method


PASSED_ON = {
    "add_audio": "A sound.",
    "add_custom_scalars": "How the charts of scalars are laid out.",
    "add_embedding": "Points in many dimensions, with labels and pictures, for the projector.",
    "add_figure": "A figure of matplotlib, or several.",
    "add_histogram": "How the values of a tensor are distributed.",
    "add_histogram_raw": "A histogram that was counted elsewhere.",
    "add_image": "One picture: by default channels × height × width, values from 0 to 1 or bytes.",
    "add_image_with_boxes": "One picture with rectangles drawn into it.",
    "add_images": "Several pictures.",
    "add_mesh": "Points, colours and faces in space.",
    "add_pr_curve": "Precision against recall.",
    "add_pr_curve_raw": "Precision against recall, counted elsewhere.",
    "add_scalars": "Several numbers in one chart.",
    "add_text": "A text, in Markdown.",
    "add_video": "A moving picture.",
}
for _name, _doc in PASSED_ON.items():
    setattr(SummaryWriter, _name, _passed_on(_name, _doc))


def _tensorboard() -> Any:
    try:
        return import_module("tensorboardX")
    except ImportError:
        raise ImportError(
            explain(
                "SummaryWriter needs the package tensorboardX, which is not installed",
                here().text,
                try_="pip install 'pellucid[tensorboard]'",
            )
        ) from None
