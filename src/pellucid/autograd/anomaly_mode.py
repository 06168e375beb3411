"""torch.autograd.anomaly_mode: the switches that look for the first bad number."""

from pellucid.core.modes import detect_anomaly, set_detect_anomaly

__all__ = ["detect_anomaly", "set_detect_anomaly"]
