"""What cubes say of the claims of arXiv 2510.06213 and 2411.17691."""

from qtraj.claims.claim import Claim, Found, Rule, over_columns, over_runs
from qtraj.claims.table import CLAIMS, claims

__all__ = ["CLAIMS", "Claim", "Found", "Rule", "claims", "over_columns", "over_runs"]
