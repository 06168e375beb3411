"""The adaptive softmax: a loss over very many classes that spends little on the rare ones."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from pellucid.nn import functional
from pellucid.nn.modules.container import ModuleList, Sequential
from pellucid.nn.modules.linear import Linear
from pellucid.nn.modules.module import Module
from pellucid.ops.create import empty, zeros

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class _ASMoutput(NamedTuple):
    """What the adaptive softmax gives: the logarithms of the targets' probabilities, and the loss."""

    output: Any
    loss: Any


class AdaptiveLogSoftmaxWithLoss(Module):
    """A softmax in two steps: over the frequent classes and the clusters, then over the classes of one cluster.

    Classes are numbered from the most frequent to the rarest, and `cutoffs` says where each cluster begins. The
    further back a cluster, the smaller (by `div_value` each time) the space that its inputs are projected to.

    >>> import pellucid as torch
    >>> layer = torch.nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs=[4, 10], div_value=2.0)
    >>> layer(torch.zeros(3, 8), torch.tensor([0, 5, 19])).output.shape
    torch.Size([3])
    """

    def __init__(
        self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0,
        head_bias: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        cutoffs = list(cutoffs)
        _check(cutoffs, n_classes)
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        made = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **made)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            inner = int(in_features // (div_value ** (i + 1)))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            down, up = Linear(in_features, inner, bias=False, **made), Linear(inner, size, bias=False, **made)
            self.tail.append(Sequential(down, up))

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        self.head.reset_parameters()
        for cluster in self.tail:
            for part in cluster.children():
                part.reset_parameters()

    def forward(self, input_: Any, target_: Any) -> _ASMoutput:
        """The logarithm of each target's probability, and minus their mean."""
        input, target = _as_batch(input_, target_)
        self._check_targets(target)
        in_head, output = target.clone(), zeros(len(target), dtype=input.dtype)
        for i, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            members = ((target >= low) & (target < high)).nonzero().squeeze(1)
            if len(members):
                inside = functional.log_softmax(self.tail[i](input.index_select(0, members)), dim=1)
                chances = inside.gather(1, (target[members] - low).unsqueeze(1)).squeeze(1)
                output = output.index_copy(0, members, chances)
                in_head.index_fill_(0, members, self.shortlist_size + i)
        head = functional.log_softmax(self.head(input), dim=1)
        output = output + head.gather(1, in_head.unsqueeze(1)).squeeze(1)
        return _ASMoutput(output.squeeze(0) if target_.ndim == 0 else output, (-output).mean())

    def _check_targets(self, target: Any) -> None:
        if len(target) and not 0 <= target.min().item() <= target.max().item() < self.n_classes:
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{target.min().item()}, {target.max().item()}] were found. "
            )

    def _get_full_log_prob(self, input: Any, head_output: Any) -> Any:
        """Logarithms of all classes' probabilities, given the scores of the head."""
        output = empty((len(head_output), self.n_classes), dtype=head_output.dtype)
        head = functional.log_softmax(head_output, dim=1)
        output[:, : self.shortlist_size] = head[:, : self.shortlist_size]
        for i, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            inside = functional.log_softmax(self.tail[i](input), dim=1)
            output[:, low:high] = inside + head[:, self.shortlist_size + i].unsqueeze(1)
        return output

    def log_prob(self, input: Any) -> Any:
        """The logarithms of the probabilities of all classes."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Any) -> Any:
        """The most likely class of each example; most are decided by the head alone."""
        scores = self.head(input)
        best = scores.argmax(dim=1)
        unsure = best >= self.shortlist_size
        if not unsure.any():
            return best
        if unsure.all():
            return self._get_full_log_prob(input, scores).argmax(dim=1)
        best[unsure] = self._get_full_log_prob(input[unsure], scores[unsure]).argmax(dim=1)
        return best


def _check(cutoffs: list[int], n_classes: int) -> None:
    if not cutoffs:
        raise ValueError("cutoffs should be a sequence of length larger than 0")
    rising = cutoffs == sorted(set(cutoffs)) and min(cutoffs) > 0 and max(cutoffs) <= n_classes - 1
    if not rising or any(int(cutoff) != cutoff for cutoff in cutoffs):
        raise ValueError(
            "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each value "
            "is between 1 and n_classes-1"
        )


def _as_batch(input: Any, target: Any) -> tuple[Any, Any]:
    """Input and target with a batch dimension; a single example gets one."""
    if target.ndim == 1:
        if len(input) != len(target):
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if input.ndim != 2:
            raise RuntimeError(f"1D target tensor expects 2D input tensors, but found inputs with size {input.shape}")
        return input, target
    if target.ndim == 0:
        if input.ndim != 1:
            raise RuntimeError(f"0D target tensor expects 1D input tensors, but found inputs with size {input.shape}")
        return input.unsqueeze(0), target.unsqueeze(0)
    raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
