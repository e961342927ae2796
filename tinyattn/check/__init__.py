"""Instruments that tell whether a hand-derived gradient is right: for this library's ops and for anyone's."""

from .gradcheck import GradReport, gradcheck, gradcheck_layer, gradcheck_model

__all__ = ["GradReport", "gradcheck", "gradcheck_layer", "gradcheck_model"]
