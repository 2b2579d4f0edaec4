"""What a run needs of cards, host memory, disk and time, known before it starts.

`step` describes one training step, `count` counts its memory in a child process, `counted` calls that child. `served`
is what an engine needs of a model, `needs` adds all parts up, `places` lays them on cards and host, `remedy` looks for
settings that would fit. `machine` looks at what is there. Nothing here needs weights or a card: a model's config.json
is enough.
"""
