"""Graphs of PyTorch's inner operations, which are not here."""

from pellucid.absent import absent

NAMES = "ProxyTorchDispatchMode get_proxy_mode make_fx maybe_disable_fake_tensor_mode"
WHY = "operations are traced as programs call them, not as PyTorch takes them apart"
__getattr__ = absent("torch.fx.experimental.proxy_tensor", NAMES, WHY, "torch.fx.symbolic_trace(function)")
