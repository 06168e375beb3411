"""What a module saves and loads: its state_dict, with errors that list everything that does not fit."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pellucid.core import modes
from pellucid.core.provenance import here, warn
from pellucid.core.tensor import Handle, Hooks, Tensor
from pellucid.errors import explain
from pellucid.nn.modules.hooks import added
from pellucid.nn.parameter import Parameter, become, is_lazy

EXTRA_STATE = "_extra_state"


class _IncompatibleKeys(NamedTuple):
    """What `load_state_dict` did not find, and what it did not know."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


class Stateful:
    """The part of Module that turns it into a dictionary of tensors and back."""

    _version = 1
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_dict_hooks: Hooks
    _state_dict_pre_hooks: Hooks
    _load_state_dict_pre_hooks: Any  # Hooks: id -> (hook, with_module)
    _load_state_dict_post_hooks: Hooks

    # --- saving

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """Everything that is saved, by path: parameters and persistent buffers, sharing the module's memory.

        >>> import pellucid as torch
        >>> torch.nn.Linear(2, 1).state_dict().keys()
        odict_keys(['weight', 'bias'])
        """
        if args:  # the old order of arguments
            given: Any = (*args, *(destination, prefix, keep_vars)[len(args) :])
            destination, prefix, keep_vars = given
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()  # the versions of the modules that the tensors came from
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            changed = hook(self, destination, prefix, metadata)
            destination = destination if changed is None else changed
        return destination

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Put the tensors of this module alone into the dictionary."""
        for name, tensor in self._own_state().items():
            destination[prefix + name] = tensor if keep_vars or is_lazy(tensor) else tensor.detach()
        if type(self).get_extra_state is not Stateful.get_extra_state:
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def _own_state(self) -> dict[str, Tensor]:
        persistent = {k: v for k, v in self._buffers.items() if k not in self._non_persistent_buffers_set}
        return {name: tensor for name, tensor in {**self._parameters, **persistent}.items() if tensor is not None}

    def get_extra_state(self) -> Any:
        """What else to save; a module that overrides this overrides `set_extra_state` too."""
        raise RuntimeError(f"{type(self).__name__} has no extra state: override get_extra_state and set_extra_state")

    def set_extra_state(self, state: Any) -> None:
        """Take back what `get_extra_state` gave."""
        raise RuntimeError(f"{type(self).__name__} has no extra state: override get_extra_state and set_extra_state")

    # --- loading

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Copy saved tensors into this module; a failed load says everything that does not fit and changes nothing.

        >>> import pellucid as torch
        >>> layer = torch.nn.Linear(2, 1)
        >>> layer.load_state_dict({"weight": torch.ones(1, 2), "bias": torch.zeros(1)})
        <All keys matched successfully>
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        state: Any = OrderedDict(state_dict)
        metadata = getattr(state_dict, "_metadata", None)
        if metadata is not None:
            state._metadata = metadata
        loading = Loading(state, metadata, strict, assign)
        before = loading.snapshot(self)
        try:
            modes.apart(loading.load, self, state, "")
            keys = loading.finish(self)
        except BaseException:
            loading.restore(before)
            raise
        return keys

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: list[str],
        unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Copy the tensors of this module alone out of the dictionary; what does not fit is noted, not raised."""
        story = (state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        for hook, with_module in self._load_state_dict_pre_hooks.values():
            hook(self, *story) if with_module else hook(*story)
        own = self._own_state()
        for name, target in own.items():
            key = prefix + name
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            if not local_metadata.get("assign_to_params_buffers", False):
                _warn_of_meta(key, target, state_dict[key])
            text = self._load_one(name, target, state_dict[key], local_metadata)
            if text:
                error_msgs.append(text.format(key=key))
        if type(self).set_extra_state is not Stateful.set_extra_state:
            self._load_extra_state(state_dict, prefix, strict, missing_keys)
        elif strict and prefix + EXTRA_STATE in state_dict:
            unexpected_keys.append(prefix + EXTRA_STATE)
        if strict:
            unexpected_keys += [key for key in state_dict if self._is_stranger(key, prefix, own)]

    def _load_one(self, name: str, target: Any, value: Any, metadata: Any) -> str:
        """Copy one tensor; says why if that is not possible."""
        if not isinstance(value, Tensor):
            return f'While copying the parameter named "{{key}}", expected torch.Tensor but got {type(value)}.'
        if is_lazy(target):
            if is_lazy(value):
                return ""
            target.materialize(value.shape)
        if tuple(value.shape) == (1,) and target.ndim == 0:
            value = value.squeeze(0)  # PyTorch 0.3 saved numbers as vectors
        if tuple(value.shape) != tuple(target.shape):
            return (
                f"size mismatch for {{key}}: copying a param with shape {value.shape} from checkpoint, the shape in "
                f"current model is {target.shape}."
            )
        if metadata.get("assign_to_params_buffers", False):
            self._assign_one(name, target, value)
        else:
            with modes.no_grad():
                target.copy_(value)
        return ""

    def _assign_one(self, name: str, target: Tensor, value: Tensor) -> None:
        if name not in self._parameters:
            self._buffers[name] = value
        elif isinstance(value, Parameter):
            self._parameters[name] = value.requires_grad_(target.requires_grad)
        else:
            self._parameters[name] = Parameter(value.detach(), target.requires_grad)

    def _load_extra_state(self, state_dict: Any, prefix: str, strict: bool, missing_keys: list[str]) -> None:
        key = prefix + EXTRA_STATE
        if key in state_dict:
            self.set_extra_state(state_dict[key])
        elif strict:
            missing_keys.append(key)

    def _is_stranger(self, key: str, prefix: str, own: dict[str, Tensor]) -> bool:
        """Whether a key claims to belong here and nothing here has that name."""
        if not key.startswith(prefix) or key == prefix + EXTRA_STATE:
            return False
        name, _, rest = key[len(prefix) :].partition(".")
        return name not in self._modules if rest else name not in own

    # --- hooks

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(module, state_dict, prefix, local_metadata)` when this module's state is in the dictionary."""

        def without_result(*args: Any) -> None:
            if hook(*args) is not None:
                raise RuntimeError("state_dict post-hook must return None")

        return added(self._state_dict_hooks, without_result)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> Handle:
        """As `register_state_dict_post_hook`, but what the hook returns replaces the dictionary."""
        return added(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(module, prefix, keep_vars)` before this module's state is collected."""
        return added(self._state_dict_pre_hooks, hook)

    def _register_load_state_dict_pre_hook(self, hook: Callable[..., Any], with_module: bool = False) -> Handle:
        return added(self._load_state_dict_pre_hooks, (hook, with_module))

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(module, state_dict, prefix, ...)` before this module's state is loaded."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(module, incompatible_keys)` after this module's state is loaded."""
        return added(self._load_state_dict_post_hooks, hook)


def _warn_of_meta(key: str, target: Any, value: Any) -> None:
    """Values that are copied to where there is no memory are lost."""
    if not is_lazy(target) and isinstance(value, Tensor) and target.device.type == "meta" != value.device.type:  # type: ignore[attr-defined]
        warn(
            f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current model, "
            "which is a no-op. (Did you mean to pass `assign=True` to assign items in the state dictionary to their "
            "corresponding key in the module instead of copying them in place?)"
        )


class Loading:
    """One call of load_state_dict: what did not fit, and how to go back."""

    def __init__(self, state: Any, metadata: Any, strict: bool, assign: bool) -> None:
        self.keys = _IncompatibleKeys([], [])
        self.errors: list[str] = []
        self.metadata, self.strict, self.assign = metadata, strict, assign

    def load(self, module: Any, state: Any, prefix: str) -> None:
        """Load a module and every module in it."""
        local = {} if self.metadata is None else self.metadata.get(prefix[:-1], {})
        if self.assign:
            local = {**local, "assign_to_params_buffers": True}
        module._load_from_state_dict(
            state, prefix, local, True, self.keys.missing_keys, self.keys.unexpected_keys, self.errors
        )
        for name, child in module._modules.items():
            if child is not None:
                inner = f"{prefix}{name}."
                self.load(child, {key: value for key, value in state.items() if key.startswith(inner)}, inner)
        for hook in module._load_state_dict_post_hooks.values():
            hook(module, self.keys)

    def finish(self, module: Any) -> _IncompatibleKeys:
        """Raise one error for everything that did not fit."""
        problems = list(self.errors)
        if self.strict:
            for what, keys in (("Unexpected", self.keys.unexpected_keys), ("Missing", self.keys.missing_keys)):
                if keys:
                    names = ", ".join(f'"{key}"' for key in keys)
                    problems.insert(0, f"{what} key(s) in state_dict: {names}. ")
        if problems:
            listed = "\n\t".join(problems)
            text = f"Error(s) in loading state_dict for {type(module).__name__}:\n\t{listed}"
            try_ = "build the model with the sizes in the file" if self.errors else "strict=False leaves out keys"
            raise RuntimeError(explain(text, str(here()), "nothing was loaded", try_))
        return self.keys

    @staticmethod
    def snapshot(module: Any) -> list[tuple[Any, dict[str, Any], dict[str, Any], list[Any]]]:
        """The tensors of every module and copies of their values."""
        return [
            (each, dict(each._parameters), dict(each._buffers), [
                (tensor, type(tensor), tensor.array.copy()) for tensor in each._own_state().values()
            ])
            for each in module.modules()
        ]  # fmt: skip

    @staticmethod
    def restore(before: list[tuple[Any, dict[str, Any], dict[str, Any], list[Any]]]) -> None:
        """Put everything back as it was."""
        for module, parameters, buffers, values in before:
            module._parameters.update(parameters)
            module._buffers.update(buffers)
            for tensor, kind, array in values:
                if type(tensor) is kind:
                    tensor.array[...] = array
                else:  # it was lazy
                    become(tensor, kind, array)
