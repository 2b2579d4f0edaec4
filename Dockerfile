# pace with its sandbox: docs/containers.md says how to build it, how to run it, and what must be allowed.
FROM python:3.11-slim-bookworm

# One layer for what candidates run in. git is not needed, and neither is a compiler: every package has a wheel.
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap=0.8.* \
    && rm -rf /var/lib/apt/lists/*

# Dependencies first: they change seldom, and a change of the source alone builds in seconds.
# EXTRAS names the optional parts, api,learn,postgres,ray for instance. INDEX names where torch comes from: its CPU build by default.
ARG EXTRAS="api,learn"
ARG INDEX="https://download.pytorch.org/whl/cpu"
COPY pyproject.toml constraints.txt README.md LICENSE /source/
COPY pace_async /source/pace_async
COPY tasks /source/tasks
COPY configs /source/configs
COPY migrations /source/migrations
RUN pip install --no-cache-dir --extra-index-url "${INDEX}" -c /source/constraints.txt "/source[${EXTRAS}]" \
    && rm -rf /source

# Candidates get a user namespace of their own, so nothing here needs root.
RUN useradd --create-home --uid 1000 pace
USER pace
RUN mkdir /home/pace/runs
WORKDIR /home/pace
VOLUME /home/pace/runs

ENTRYPOINT ["pace"]
CMD ["doctor"]
