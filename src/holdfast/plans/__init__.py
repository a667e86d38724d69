"""Plan files: YAML or JSON, read into `core.plan.Plan`, and the JSON Schema that editors use.

Nothing here runs a plan, and the YAML library is imported only when a plan is read.
"""

from holdfast.plans.reader import parse_plan, read_plan

__all__ = ["parse_plan", "read_plan"]
