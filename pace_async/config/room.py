"""What all rooms of the configuration share."""

from pydantic import BaseModel, ConfigDict


class Room(BaseModel):
    """Unknown keys are refused, values are fixed, numbers finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
