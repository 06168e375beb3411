"""Settings that scripts make; nothing reads them. They begin as PyTorch's."""

from types import SimpleNamespace

from pellucid.compiler.settings import patching

coordinate_descent_tuning = coordinate_descent_check_all_directions = False
epilogue_fusion = pattern_matcher = fx_graph_cache = assert_indirect_indexing = True
max_autotune = freezing = debug = fallback_random = force_fuse_int_mm_with_mul = False
max_autotune_gemm_backends = "ATEN,TRITON,CPP"
triton = SimpleNamespace(unique_kernel_names=True, cudagraphs=False, cudagraph_trees=True)
cpp = SimpleNamespace(threads=-1, enable_kernel_profile=False, weight_prepack=True)
patch = patching(__name__)
