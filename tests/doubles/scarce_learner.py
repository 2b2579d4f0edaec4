"""`python -m tests.doubles.scarce_learner MOST …`: answers as a learner's process does whose memory holds a pass of at
most MOST tokens. It trains nothing, and imports no torch."""

import argparse
import json
import sys

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("most", type=int)
    parser.add_argument("--model", required=True)
    parser.add_argument("--config", type=json.loads, required=True)
    options, _ = parser.parse_known_args()

    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, object] = {"version": 0, "weights": options.model, "replayed": None}
        if "train" in request:
            answer = {
                **{"update": 0, "version": 1, "digest": "", "weights": options.model},
                **{"reason": "", "metrics": {}, "seconds": 0.0, "oldest": 1},
            }
            if options.config["micro_tokens"] > options.most:
                answer = {
                    "failed": "learner_out_of_memory",
                    "detail": "CUDA out of memory. Tried to allocate 37.20 GiB.",
                }
        print(json.dumps({"id": request["id"], **answer}), flush=True)
        if "failed" in answer:
            sys.stdin.read()
