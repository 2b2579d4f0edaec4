"""The system calls that are refused to a candidate, and for which arguments.

Refused are three kinds of calls that no numerical program needs: calls used to escape from sandboxes, calls that reach
other processes, and calls that leave traces for the next program. It is a deny list, not an allow list (except for
ioctl), in addition to the namespaces or Landlock. If a program has no namespaces of its own, the list also refuses what
they would have prevented.
"""

import errno
from collections.abc import Mapping, Sequence

from .bpf import Code, refuse, unless, where, where_any_bit, where_set

_EVERYWHERE = (
    # the machine, other processes' memory, namespaces, files by handle
    *("acct", "adjtimex", "bpf", "chroot", "clock_adjtime", "clock_settime", "delete_module", "finit_module"),
    *("fsconfig", "fsmount", "fsopen", "fspick", "init_module", "io_uring_enter", "io_uring_register"),
    *("io_uring_setup", "kcmp", "kexec_file_load", "kexec_load", "mount", "mount_setattr", "move_mount"),
    *("name_to_handle_at", "open_by_handle_at", "open_tree", "open_tree_attr", "perf_event_open", "personality"),
    *("pidfd_getfd", "pivot_root", "process_vm_readv", "process_vm_writev", "ptrace", "quotactl", "quotactl_fd"),
    *("reboot", "setns", "settimeofday", "swapoff", "swapon", "syslog", "umount2", "unshare", "userfaultfd"),
    *("migrate_pages", "move_pages", "process_madvise", "process_mrelease"),
    # memory that no limit sees, and objects that outlive the program or are counted for the user as a whole
    *("add_key", "keyctl", "request_key", "memfd_create", "memfd_secret", "mq_open", "msgget", "semget", "shmget"),
    *("msgctl", "msgrcv", "msgsnd", "semctl", "semop", "semtimedop", "shmat", "shmctl"),
    *("fanotify_init", "inotify_init", "inotify_init1"),
    # which pages of a file are in memory; and writing the pages of all processes to disk, for which all would wait
    *("cachestat", "mincore", "sync", "syncfs"),
)
_WITHOUT_NAMESPACES = (
    # leaving the process group, signals to others
    *("kill", "pidfd_send_signal", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "setpgid", "setsid", "tkill"),
    # sockets, and pairs of them that are aimed elsewhere
    *("accept", "accept4", "bind", "connect", "listen", "socket"),
    # outside Landlock: modes, owners, times and attributes of files, and before its third version their length
    *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "fchownat", "lchown"),
    *("futimesat", "utime", "utimensat", "utimes", "file_setattr", "truncate"),
    *("fremovexattr", "fsetxattr", "lremovexattr", "lsetxattr", "removexattr", "removexattrat"),
    *("setxattr", "setxattrat"),
    # nor what is mounted
    *("listmount", "statmount"),
)
_START_ANOTHER = ("clone", "fork", "vfork")

_NEW_NAMESPACE, _SIBLING = 0x7E020000, 0x8000
_AF_UNIX, _STREAM, _SEQUENCED, _KIND_OF_SOCKET = 1, 1, 5, 0xF
_SET_FLAGS, _SEND_SIGNALS = 4, 0o20000
# F_GETLK, F_SETOWN, F_SETSIG, F_SETOWN_EX, F_OFD_GETLK, F_SETLEASE, F_NOTIFY, F_SETPIPE_SZ, the four hints of lifetime
_DESCRIPTOR_COMMANDS = (5, 8, 10, 15, 36, 1024, 1026, 1031, 1035, 1036, 1037, 1038)
# TIOCSTI, TIOCLINUX, TIOCSETD, FIOASYNC
_TERMINAL_COMMANDS = (0x5412, 0x541C, 0x5423, 0x5452)
_TERMINALS, _KIND_OF_COMMAND = 0x5400, 0xFF00
_CARDS = (0x4600, 0x0000)  # of NVIDIA's driver: its cards and its unified memory
_SHARE_BLOCKS = (0x40049409, 0x4020940D)  # FICLONE, FICLONERANGE: into files that may be written
_ONLY_IF_CACHED, _UNCACHED = 0x8, 0x80
_FORGET = 4  # POSIX_FADV_DONTNEED
_MEMORY_ADVICE = (12, 20, 21)  # MADV_MERGEABLE, MADV_COLD, MADV_PAGEOUT
_DIE_WITH_PARENT, _DUMPABLE, _MERGE_MEMORY, _CORE = 1, 4, 67, 4
_ACCESS, _NEITHER_READ_NOR_WRITE, _TRUNCATE, _CREATE, _SET_ID = 3, 3, 0o1000, 0o20000100, 0o6000


def rules(
    *, own_namespaces: bool, pid: int, one_thread: bool, confined: bool, owns: Sequence[str] = ()
) -> Mapping[str, Code]:
    """The pieces for each call. `pid` is the filtered process, which may signal itself and read its own limits if it
    has no namespaces of its own. `confined`: it has set its own limits already. `owns` has `processors`
    if it has some of its own and may use no others, and `cards` if it may call their driver."""
    pieces: dict[str, Code] = {name: refuse() for name in _EVERYWHERE}
    pieces |= _by_arguments(cards="cards" in owns)
    if own_namespaces:
        pieces |= {name: unless(0, (_AF_UNIX,), refuse()) for name in ("socket", "socketpair")}
        if pid != 1:  # without root process 1, which is bubblewrap, is of the same user: a limit of 0 could end it
            pieces["prlimit64"] = where(0, 1, where_set(2, refuse()))
    else:
        pieces |= {name: refuse() for name in _WITHOUT_NAMESPACES}
        pieces |= _without_namespaces((0, pid))
    if confined:
        pieces["prctl"] += [*where(0, _DIE_WITH_PARENT, refuse()), *where(0, _DUMPABLE, refuse())]
        pieces["setrlimit"] = where(0, _CORE, refuse())
        pieces["prlimit64"] = [*pieces.get("prlimit64", ()), *where(1, _CORE, where_set(2, refuse()))]
    if "processors" in owns:
        pieces["sched_setaffinity"] = refuse()
    if one_thread:
        pieces |= {name: refuse() for name in _START_ANOTHER}
    return pieces


def _by_arguments(*, cards: bool) -> dict[str, Code]:
    kinds = (_TERMINALS, *(_CARDS if cards else ()))
    return {
        # libc falls back from clone3, whose flags a filter cannot see, to clone.
        "clone3": refuse(errno.ENOSYS),
        "clone": where_any_bit(0, _NEW_NAMESPACE | _SIBLING, refuse()),
        # A lock on a file that can only be read is seen by all who read it. Libraries take ENOSYS for "no locks here".
        "flock": refuse(errno.ENOSYS),
        "fcntl": [
            *(step for command in _DESCRIPTOR_COMMANDS for step in where(1, command, refuse())),
            *where(1, _SET_FLAGS, where_any_bit(2, _SEND_SIGNALS, refuse())),
        ],
        "ioctl": [
            *(step for command in _TERMINAL_COMMANDS for step in where(1, command, refuse())),
            *unless(1, kinds, unless(1, _SHARE_BLOCKS, refuse()), _KIND_OF_COMMAND),
        ],
        "preadv2": where_any_bit(5, _ONLY_IF_CACHED | _UNCACHED, refuse()),
        "fadvise64": where(3, _FORGET, refuse()),
        "madvise": [step for advice in _MEMORY_ADVICE for step in where(2, advice, refuse())],
        "prctl": where(0, _MERGE_MEMORY, refuse()),
    }


def _without_namespaces(itself: tuple[int, ...]) -> dict[str, Code]:
    """`itself` is the number by which a call may name the process."""
    return {
        "tgkill": unless(0, itself[1:], refuse()),
        "prlimit64": unless(0, itself, refuse()),
        **{f"sched_set{suffix}": unless(0, itself, refuse()) for suffix in ("affinity", "attr", "param", "scheduler")},
        "setpriority": [*unless(0, (0,), refuse()), *unless(1, itself, refuse())],
        "ioprio_set": [*unless(0, (1,), refuse()), *unless(1, itself, refuse())],
        # A pair of datagram sockets can be aimed at any socket that the machine's files or names reach.
        "socketpair": [
            *unless(0, (_AF_UNIX,), refuse()),
            *unless(1, (_STREAM, _SEQUENCED), refuse(), _KIND_OF_SOCKET),
        ],
        "sendto": where_set(4, refuse()),
        "open": _opening(1, 2),
        "openat": _opening(2, 3),
        "openat2": refuse(errno.ENOSYS),  # its flags lie in memory, which a filter cannot see
        "creat": where_any_bit(1, _SET_ID, refuse()),
        "mknod": where_any_bit(1, _SET_ID, refuse()),
        "mknodat": where_any_bit(2, _SET_ID, refuse()),
    }


def _opening(flags: int, mode: int) -> Code:
    """Landlock lets a file be opened for neither reading nor writing, which is enough to lock it or to set its flags,
    and before its third version a file that may be read be emptied. No file is made with set-id bits."""
    empties = where_any_bit(flags, _TRUNCATE, refuse())
    return [
        *where(flags, _NEITHER_READ_NOR_WRITE, refuse(), _ACCESS),
        *where(flags, 0, empties, _ACCESS),
        *where_any_bit(flags, _CREATE, where_any_bit(mode, _SET_ID, refuse())),
    ]
