"""`run_shinka_eval`, which evaluators call."""

from .wrap_eval import run_shinka_eval as run_shinka_eval
from .wrap_eval import save_json_results as save_json_results
