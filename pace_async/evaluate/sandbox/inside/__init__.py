"""What runs inside the sandbox, beside the candidate: standard library only, and nothing of pace outside this folder.

The folder is mounted (or read) on its own and imported as the top-level package `inside`, so that no other module of
pace, and no bundled task, can be reached from there. Its code is trusted only until the program is loaded; nothing that
it says after that is believed without a check by the parent.
"""
