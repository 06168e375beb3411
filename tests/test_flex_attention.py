"""flex_attention against PyTorch's: scores and masks that functions of the positions decide."""

import importlib
import warnings

import numpy as np
import pytest

import pellucid
from pellucid.nn.attention import flex_attention as ours

SCORES = {
    "as they are": lambda library: None,
    "bias": lambda library: _bias(library),
    "slopes": lambda library: _slopes(library),
    "causal": lambda library: lambda s, b, h, q, kv: library.where(q >= kv, s, -float("inf")),
    "capped": lambda library: lambda s, b, h, q, kv: 5 * library.tanh(s / 5),
}
MASKS = {
    "causal": lambda library: lambda b, h, q, kv: q >= kv,
    "documents": lambda library: _documents(library),
    "nothing at first": lambda library: lambda b, h, q, kv: q > kv,
    "by head": lambda library: lambda b, h, q, kv: (q - kv).abs() <= h,
}


def _bias(library):
    table = library.arange(2 * 4 * 6 * 6, dtype=library.float32).reshape(2, 4, 6, 6).sin()
    return lambda s, b, h, q, kv: s + table[b, h, q, kv]


def _slopes(library):
    slopes = library.tensor([0.5, 0.25, 0.1, 0.05])
    return lambda s, b, h, q, kv: s + slopes[h] * (kv - q)


def _documents(library):
    document = library.tensor([0, 0, 0, 1, 1, 1])
    return lambda b, h, q, kv: (document[q] == document[kv]) & (q >= kv)


@pytest.fixture(scope="module")
def theirs():
    pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = importlib.import_module("torch.nn.attention.flex_attention")
    module._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = True  # without the compiler, which takes minutes
    yield module
    module._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = False


def inputs(library):
    drawn = np.random.default_rng(0)
    sizes = [(2, 4, 6, 8), (2, 2, 6, 8), (2, 2, 6, 5)]
    return [library.tensor(drawn.normal(size=size), dtype=library.float32) for size in sizes]


def both(theirs, run):
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return run(pellucid, ours), run(torch, theirs)


@pytest.mark.parametrize("name", SCORES)
def test_scores_are_changed_as_in_pytorch(name, theirs):
    mine, other = both(theirs, lambda lib, m: m.flex_attention(*inputs(lib), SCORES[name](lib), enable_gqa=True))
    np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [4, 128, (2, 3)])
@pytest.mark.parametrize("name", MASKS)
def test_masks_and_their_blocks_are_pytorchs(name, size, theirs):
    def run(library, module):
        mask = module.create_block_mask(MASKS[name](library), 2, 4, 6, 6, device="cpu", BLOCK_SIZE=size)
        parts = (mask, mask[0], mask[:, 0], mask[1, :, 0], mask._adjust(3, 4))
        lists = [getattr(part, name) for part in parts for name in ours.BlockMask.LISTS] + [mask.to_dense()]
        result = module.flex_attention(*inputs(library), block_mask=mask, scale=0.3, enable_gqa=True)
        told = repr(mask), str(mask), mask.sparsity(), mask.numel(), [part.shape for part in parts]
        return result.numpy(), [(each.tolist(), str(each.dtype)) for each in lists], told

    mine, other = both(theirs, run)
    np.testing.assert_allclose(mine[0], other[0], rtol=1e-5, atol=1e-6)
    assert mine[1] == other[1]
    assert mine[2] == other[2]


WRONG = {  # what is called, the class of its error, and words of our message
    "heads differ": (lambda lib, m: m.flex_attention(*inputs(lib)), ValueError, "same number of heads"),
    "three dimensions": (
        lambda lib, m: m.flex_attention(*[each[0] for each in inputs(lib)]), NotImplementedError, "4D tensors",
    ),
    "another length": (
        lambda lib, m: m.flex_attention(*inputs(lib), block_mask=_causal(m, 5), enable_gqa=True),
        ValueError, "block_mask was created for",
    ),
    "part of a mask": (
        lambda lib, m: m.flex_attention(*inputs(lib), block_mask=_causal(m, 6)[0], enable_gqa=True),
        RuntimeError, "sliced BlockMask",
    ),
    "another batch": (
        lambda lib, m: m.flex_attention(*_one_key(lib), block_mask=_causal(m, 6), enable_gqa=True),
        ValueError, "same batch size",
    ),
    "a score_mod as mask": (
        lambda lib, m: m.create_block_mask(lambda s, b, h, q, kv: s, 1, 1, 4, 4, device="cpu"),
        AssertionError, "requires a mask_mod",
    ),
    "three arguments": (
        lambda lib, m: m.create_mask(lambda h, q, kv: q > kv, 1, 1, 4, 4, device="cpu"), AssertionError, "4 or 5",
    ),
}  # fmt: skip


def _causal(module, length):
    return module.create_block_mask(lambda b, h, q, kv: q >= kv, 1, 1, length, length, device="cpu")


def _one_key(library):
    query, key, value = inputs(library)
    return query, key[:1], value[:1]


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_refused(name):
    call, kind, words = WRONG[name]
    with pytest.raises(kind, match=words):
        call(pellucid, ours)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_refused_as_in_pytorch(name, theirs):
    call, kind, _ = WRONG[name]
    with pytest.raises(kind):
        call(pytest.importorskip("torch"), theirs)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", SCORES)
def test_every_score_is_changed_and_masked_by_itself(name, mask):
    q, k, v = inputs(pellucid)
    score_mod, mask_mod = SCORES[name](pellucid) or (lambda s, b, h, i, j: s), MASKS[mask](pellucid)
    keys, values = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
    scores = q @ keys.mT / 8**0.5
    for place in np.ndindex(*scores.shape):
        at = [pellucid.tensor(i) for i in place]
        scores[place] = score_mod(scores[place].clone(), *at) if mask_mod(*at) else -float("inf")
    expected = scores.softmax(-1).nan_to_num(0.0) @ values
    blocks = ours.create_block_mask(mask_mod, 2, 4, 6, 6, BLOCK_SIZE=3)
    found = ours.flex_attention(q, k, v, score_mod, blocks, enable_gqa=True)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
    held = (scores > -float("inf")).unflatten(-1, (2, 3)).unflatten(-3, (2, 3)).any(-1).any(-2)
    assert (blocks.to_dense().bool() | ~held).all()


def test_gradients_pass_and_a_query_that_sees_nothing_gives_zeros():
    q, k, v = [each.double().requires_grad_() for each in inputs(pellucid)]
    mask = ours.create_block_mask(lambda b, h, q, kv: q > kv, None, None, 6, 6)
    result, told = ours.flex_attention(
        q, k, v, lambda s, b, h, i, j: s * 2, mask, enable_gqa=True, return_aux=ours.AuxRequest(True, True)
    )
    assert result[:, :, 0].abs().max() == 0 and told.lse[:, :, 0].isneginf().all()
    assert pellucid.isfinite(told.max_scores[:, :, 1:]).all()
    assert pellucid.autograd.gradcheck(
        lambda *qkv: ours.flex_attention(*qkv, block_mask=mask, enable_gqa=True), (q, k, v), atol=1e-4
    )
    lse = ours.flex_attention(q, k, v, block_mask=mask, enable_gqa=True, scale=0.5, return_lse=True)[1]
    scores = (q @ k.repeat_interleave(2, 1).mT) * 0.5
    allowed = ours.create_mask(mask.mask_mod, 1, 1, 6, 6)
    expected = scores.masked_fill(~allowed, -float("inf")).logsumexp(-1)
    np.testing.assert_allclose(lse[:, :, 1:].detach().numpy(), expected[:, :, 1:].detach().numpy())


def test_a_learned_bias_gets_its_gradient():
    bias = pellucid.randn(2, 11, dtype=pellucid.float64, requires_grad=True)
    qkv = [pellucid.randn(1, 2, 6, 3, dtype=pellucid.float64, requires_grad=True) for _ in range(3)]
    assert pellucid.autograd.gradcheck(
        lambda q, k, v, table: ours.flex_attention(
            q, k, v, lambda s, b, h, i, j: s + table[h, i - j + 5], _causal(ours, 6)
        ),
        (*qkv, bias),
    )
