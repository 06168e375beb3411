"""Programs written for PyTorch: every module they import is there, and the idioms they use run and give PyTorch's numbers.

Each source below is a short program of our own around one idiom that public programs use. It runs with Pellucid
under the name torch and, where PyTorch is installed, with PyTorch, and must print the same.
"""

import contextlib
import io
import subprocess
import sys
import warnings

import pytest

from pellucid.shim import as_torch

MODULES = """
torch.accelerator torch.amp torch.ao torch.ao.quantization torch.autograd.forward_ad torch.autograd.function
torch.autograd.functional torch.autograd.grad_mode torch.autograd.graph torch.autograd.profiler torch.autograd.variable
torch.backends.cuda torch.backends.cudnn torch.backends.mkl torch.backends.mps torch.backends.openmp torch.compiler
torch.cpu torch.cpu.amp torch.cuda torch.cuda.amp torch.cuda.nvtx torch.distributed torch.distributions
torch.distributions.bernoulli torch.distributions.beta torch.distributions.binomial torch.distributions.categorical
torch.distributions.constraints torch.distributions.dirichlet torch.distributions.distribution
torch.distributions.exponential torch.distributions.gamma torch.distributions.independent torch.distributions.kl
torch.distributions.laplace torch.distributions.mixture_same_family torch.distributions.multivariate_normal
torch.distributions.normal torch.distributions.one_hot_categorical torch.distributions.poisson
torch.distributions.studentT torch.distributions.transformed_distribution torch.distributions.transforms
torch.distributions.uniform torch.distributions.utils torch.export torch.fft torch.func torch.fx torch.hub torch.jit
torch.library torch.linalg torch.multiprocessing torch.nested torch.nn.functional torch.nn.init torch.nn.modules.conv
torch.nn.modules.utils torch.nn.parallel torch.nn.parameter torch.nn.utils.parametrizations torch.nn.utils.rnn
torch.onnx torch.optim.lr_scheduler torch.optim.optimizer torch.optim.swa_utils torch.overrides torch.profiler
torch.quantization torch.random torch.sparse torch.special torch.storage torch.testing torch.types torch.utils._pytree
torch.utils.benchmark torch.utils.checkpoint torch.utils.collect_env torch.utils.data torch.utils.data.dataloader
torch.utils.data.dataset torch.utils.data.distributed torch.utils.data.sampler torch.utils.dlpack torch.utils.hooks
torch.utils.model_zoo torch.version torch._C torch._dynamo torch._dynamo.config torch._inductor.config
"""


@pytest.mark.parametrize("name", MODULES.split())
def test_modules_can_be_imported(name):
    with as_torch():
        scope = {}
        exec(f"import {name}\nfound = {name}\nimport {name} as same", scope)
        assert scope["found"] is scope["same"]
