"""The packages of a run that a small installation lacks."""

from pace_async.config import Config
from pace_async.errors import NotHere
from pace_async.implement.shares import models_of
from pace_async.installing import install_line, missing, refuse_without_litellm
from pace_async.registry.advisors import advisor_of
from pace_async.registry.trainers import TRAINERS


def refuse_without_packages(config: Config) -> None:
    """Raises NotHere if the advisor's model cannot be served or trained here, or no model can be asked."""
    model = config.advisor.model
    elsewhere = TRAINERS[config.learner.trainer].elsewhere
    if advisor_of(model).served and not elsewhere and (lacking := missing("learn")):
        raise NotHere(
            f"The advisor {model} needs packages that are not installed ({', '.join(lacking)}): "
            f"{install_line('learn')}. Without them --advisor bandit chooses from a task's catalogue, api:MODEL is any "
            "model over the network, and learner.trainer tinker trains at a service."
        )
    if models_of(config.implementer.model) or advisor_of(model).asked:
        refuse_without_litellm()
