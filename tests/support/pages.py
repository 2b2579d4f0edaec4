"""The pages that `pace web` has of one run, below its address."""

OF_A_RUN = (
    "",
    "/candidates",
    "/tree",
    "/islands",
    "/metrics",
    "/learner",
    "/spend",
    "/machines",
    "/inbox",
    "/candidate/0",
    "/candidate/1",
)
