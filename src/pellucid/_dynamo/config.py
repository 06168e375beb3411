"""Settings that scripts make; nothing reads them. They begin as PyTorch's."""

from pellucid.compiler.settings import patching

suppress_errors = verbose = capture_scalar_outputs = compiled_autograd = allow_unspec_int_on_nn_module = False
automatic_dynamic_shapes = optimize_ddp = inline_inbuilt_nn_modules = True
cache_size_limit = recompile_limit = 8
accumulated_cache_size_limit = accumulated_recompile_limit = 256
patch = patching(__name__)
