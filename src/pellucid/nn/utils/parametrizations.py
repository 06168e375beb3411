"""Parametrizations that come with the library: orthogonal matrices, weight norm, spectral norm."""

from typing import Any

import pellucid as torch
from pellucid.core import modes
from pellucid.nn import functional
from pellucid.nn.modules.module import Module
from pellucid.nn.utils.parametrize import register_parametrization
from pellucid.ops.nn.weight_norm import _weight_norm, norm_except_dim

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

MAPS = ("matrix_exp", "cayley", "householder")
TRANSPOSED = ("ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d")  # their outputs are dimension 1 of the weight


def _tensor_of(module: Module, name: str) -> Any:
    tensor = getattr(module, name, None)
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return tensor


# --- orthogonal


class _Orthogonal(Module):
    """A matrix with orthonormal rows or columns, as a function of any matrix."""

    def __init__(self, weight: Any, orthogonal_map: str, use_trivialization: bool) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Any) -> Any:
        """The orthogonal matrix."""
        wide = X.shape[-2] < X.shape[-1]
        x = X.mT if wide else X
        q = _by_reflections(x) if self.orthogonal_map == "householder" else self._by_group(x)
        if hasattr(self, "base"):
            q = self.base @ q
        return q.mT if wide else q

    def _by_group(self, x: Any) -> Any:
        """By the exponential, or Cayley's map, of a skew-symmetric matrix."""
        rows, columns = x.shape[-2:]
        x = x.tril()
        if rows != columns:
            x = torch.cat([x, x.new_zeros((*x.shape[:-1], rows - columns))], -1)
        a = x - x.mH
        if self.orthogonal_map == "matrix_exp":
            q = torch.matrix_exp(a)
        else:
            one = torch.eye(rows, dtype=a.dtype)
            q = torch.linalg.solve(torch.add(one, a, alpha=-0.5), torch.add(one, a, alpha=0.5))
        return q[..., :columns]

    def right_inverse(self, Q: Any) -> Any:
        """A matrix that gives this one (made orthogonal first, if it is not)."""
        if Q.shape != self.shape:
            raise ValueError(f"Expected a matrix or batch of matrices of shape {self.shape}. Got shape {Q.shape}.")
        if hasattr(self, "base"):
            return self._start_from(Q)
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                "use_trivialization=False."
            )
        wide = Q.shape[-2] < Q.shape[-1]
        a, tau = torch.geqrf(Q.mT if wide else Q)
        diagonal = a.diagonal(dim1=-2, dim2=-1)
        diagonal.sign_()
        diagonal.masked_fill_(tau == 0, -1)
        return a.mT if wide else a

    def _start_from(self, given: Any) -> Any:
        """Keep the matrix as the base; what is learned moves away from it, and starts where the map gives 1."""
        wide = given.shape[-2] < given.shape[-1]
        q = given.mT if wide else given
        rows, columns = q.shape[-2:]
        if rows != columns:
            more = torch.randn(*q.shape[:-2], rows, rows - columns, dtype=q.dtype)
            q = _made_orthogonal(torch.cat([q, more], -1))
        else:
            q = q.clone() if _is_orthogonal(q) else _made_orthogonal(q)
        self.base = q
        start = torch.zeros_like(given)
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return start


def _by_reflections(x: Any) -> Any:
    """By a product of Householder reflections; the diagonal says where to flip a sign."""
    a = x.tril(-1)
    tau = 2.0 / (1.0 + (a * a.conj()).sum(-2))
    q = torch.linalg.householder_product(a, tau)
    return q * x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)


def _is_orthogonal(q: Any) -> bool:
    eps = 10 * q.shape[-2] * torch.finfo(q.dtype).eps
    return bool(torch.allclose(q.mH @ q, torch.eye(q.shape[-1], dtype=q.dtype), atol=eps))


def _made_orthogonal(a: Any) -> Any:
    """The nearest way to an orthogonal matrix: the q of a qr, with the signs of r's diagonal."""
    x, tau = torch.geqrf(a)
    return torch.linalg.householder_product(x, tau) * x.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Keep a matrix orthogonal while it is learned.

    >>> import pellucid as torch
    >>> layer = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(3, 2))
    >>> torch.allclose(layer.weight @ layer.weight.mT, torch.eye(2), atol=1e-6)
    True
    """
    weight = _tensor_of(module, name)
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in MAPS:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    made = _Orthogonal(weight, orthogonal_map, use_trivialization)
    return register_parametrization(module, name, made, unsafe=True)


# --- weight norm


class _WeightNorm(Module):
    """A weight as its lengths (original0) and its directions (original1)."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Any, weight_v: Any) -> Any:
        """The weight."""
        return _weight_norm(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Any) -> tuple[Any, Any]:
        """Lengths and directions of a weight."""
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int = 0) -> Module:
    """Learn the length and the direction of a weight's slices apart from each other.

    >>> import pellucid as torch
    >>> layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 3))
    >>> list(layer.state_dict())
    ['bias', 'parametrizations.weight.original0', 'parametrizations.weight.original1']
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    names = {f"{name}_g": f"parametrizations.{name}.original0", f"{name}_v": f"parametrizations.{name}.original1"}

    def take_old_names(state: Any, prefix: str, *_: Any) -> None:
        """A state saved with the hook of the same name is taken as well."""
        if all(prefix + old in state for old in names):
            for old, new in names.items():
                state[prefix + new] = state.pop(prefix + old)

    module._register_load_state_dict_pre_hook(take_old_names)
    return module


# --- spectral norm


class _SpectralNorm(Module):
    """A weight divided by its largest singular value, which power iteration follows while training."""

    def __init__(self, weight: Any, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{weight.ndim}, {weight.ndim - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % weight.ndim
        self.eps = eps
        if weight.ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._matrix(weight.detach())
            for name, size in zip(("_u", "_v"), matrix.shape):
                vector = matrix.new_empty(size).normal_(0, 1)
                self.register_buffer(name, functional.normalize(vector, dim=0, eps=eps))
            self._iterate(matrix, 15)

    def _matrix(self, weight: Any) -> Any:
        """The weight with the dimension of its outputs in front and the others as one."""
        return weight.movedim(self.dim, 0).flatten(1)

    def _iterate(self, matrix: Any, times: int) -> None:
        """Turn both vectors towards the largest singular value."""
        with modes.no_grad():
            for _ in range(times):
                self._u.copy_(functional.normalize(matrix.mv(self._v), dim=0, eps=self.eps))
                self._v.copy_(functional.normalize(matrix.mH.mv(self._u), dim=0, eps=self.eps))

    def forward(self, weight: Any) -> Any:
        """The weight, divided."""
        if weight.ndim == 1:
            return functional.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()  # the next call writes to the buffers
        return weight / torch.vdot(u, matrix.mv(v))

    def right_inverse(self, value: Any) -> Any:
        """A weight that is assigned is taken as it is."""
        return value


def output_dimension(module: Module) -> int:
    """The dimension of a weight that counts a layer's outputs."""
    return int(any(base.__name__ in TRANSPOSED for base in type(module).__mro__))


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Keep the largest singular value of a weight at 1.

    >>> import pellucid as torch
    >>> layer = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(3, 3), n_power_iterations=50)
    >>> torch.allclose(torch.linalg.matrix_norm(layer.weight, 2), torch.tensor(1.0), atol=1e-3)
    True
    """
    weight = _tensor_of(module, name)
    made = _SpectralNorm(weight, n_power_iterations, output_dimension(module) if dim is None else dim, eps)
    return register_parametrization(module, name, made)
