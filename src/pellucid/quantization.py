"""torch.quantization, which is not here."""

from pellucid.absent import absent

NAMES = """
DeQuantStub FakeQuantize HistogramObserver MinMaxObserver MovingAverageMinMaxObserver
PerChannelMinMaxObserver QConfig QConfigMapping QuantStub QuantWrapper convert default_dynamic_qconfig
default_observer default_qconfig disable_fake_quant disable_observer enable_fake_quant enable_observer
fake_quantize float16_dynamic_qconfig float_qparams_weight_only_qconfig fuse_modules fuse_modules_qat
get_default_qat_qconfig get_default_qconfig get_default_qconfig_mapping observer per_channel_dynamic_qconfig
prepare prepare_qat quantize quantize_dynamic quantize_fx quantize_qat
"""
__getattr__ = absent("torch.quantization", NAMES, "there are no quantised tensors and layers")
