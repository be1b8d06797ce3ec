"""One command from "it is slow" to the line to paste: measure, calibrate, record, tune, check, explain."""

from oracle.workflows.diagnose.result import Diagnosis
from oracle.workflows.diagnose.run import diagnose

__all__ = ["Diagnosis", "diagnose"]
