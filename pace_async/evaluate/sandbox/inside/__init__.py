"""Code that runs inside the sandbox, beside the candidate. It imports only the standard library and this folder.

The folder is mounted (or read) alone and imported as the top-level package `inside`, so that no other module of pace,
and no bundled task, can be reached from there. Its code is trusted only until the program is loaded. After that the
parent checks everything that it reports.
"""
