"""All workloads: a table, made of one file for each kind of work."""

from . import connecting, crowd, growth, handover, idle, locks, operations, threads
from .model import Column, Scale, Take, Values, Workload

WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for module in (operations, locks, handover, crowd, connecting, idle, growth, threads)
    for workload in module.WORKLOADS
}

__all__ = ["WORKLOADS", "Column", "Scale", "Take", "Values", "Workload"]
