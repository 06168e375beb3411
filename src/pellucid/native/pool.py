"""The other cores: threads that wait inside native code and take parts of a kernel's rows.

A kernel's rows are cut into parts; whoever is free takes the next part. The caller works too, so a thread that is late
(asleep, or its core busy elsewhere) delays nothing: the caller then takes all the parts itself. A thread that found
nothing to do for a while goes to sleep in Python and is woken for the next large kernel.

Handing over costs about 1 µs while the threads are awake; a pool of Python threads took 50 to 90 (docs/decisions/0005).
"""

import ctypes
import os
from threading import Event, Thread

from pellucid.native.kernel import RESTING, hands
from pellucid.native.llvm import compiled

EAGERNESS = 100_000  # looks for work that a thread takes without letting others have its core: some 80 µs
PATIENCE = 106_000  # looks after which it goes to sleep: the later ones take a third of a microsecond each
IMPATIENCE = 10_000  # looks that the caller takes for the others' end before it lets others have its core

# One job at a time: @turn is taken by whoever brings one. @open says that there is work, @inside counts the threads
# that may be looking at it: a job ends when it is closed and nobody is inside, so its fields never change under them.
ASSEMBLY = f"""
@turn = internal global i64 0
@held = internal global i64 0
@open = internal global i64 0
@inside = internal global i64 0
@next = internal global i64 0
@rows = internal global i64 0
@part = internal global i64 0
@body = internal global ptr null
@arguments = internal global ptr null

declare i32 @sched_yield()
declare i64 @llvm.smin.i64(i64, i64)

define internal void @take_parts(i64 %hand) {{
entry:
  %rows = load i64, ptr @rows
  %part = load i64, ptr @part
  %body = load ptr, ptr @body
  %arguments = load ptr, ptr @arguments
  br label %again
again:
  %first = atomicrmw add ptr @next, i64 %part seq_cst
  %some = icmp slt i64 %first, %rows
  br i1 %some, label %work, label %done
work:
  %beyond = add i64 %first, %part
  %last = call i64 @llvm.smin.i64(i64 %beyond, i64 %rows)
  call void %body(i64 %first, i64 %last, i64 %hand, ptr %arguments)
  br label %again
done:
  ret void
}}

; A thread of the pool: takes parts of jobs until there was nothing to do for a while.
define void @pellucid_help(i64 %hand) {{
entry:
  br label %rest
rest:
  br label %look
look:
  %looked = phi i64 [0, %rest], [%looks, %wait], [%looks, %politely]
  %something = load atomic i64, ptr @open seq_cst, align 8
  %is = icmp ne i64 %something, 0
  br i1 %is, label %enter, label %wait
wait:
  %looks = add i64 %looked, 1
  %long = icmp ugt i64 %looks, {EAGERNESS}
  br i1 %long, label %politely, label %look
politely:
  %yielded = call i32 @sched_yield()
  %tired = icmp ugt i64 %looks, {PATIENCE}
  br i1 %tired, label %sleep, label %look
enter:
  %entered = atomicrmw add ptr @inside, i64 1 seq_cst
  %still = load atomic i64, ptr @open seq_cst, align 8
  %there = icmp ne i64 %still, 0
  br i1 %there, label %help, label %leave
help:
  call void @take_parts(i64 %hand)
  br label %leave
leave:
  %left = atomicrmw sub ptr @inside, i64 1 seq_cst
  br label %rest
sleep:
  ret void
}}

; After a fork: the threads stayed behind in the parent.
define void @pellucid_forget() {{
  store atomic i64 0, ptr @inside seq_cst, align 8
  store atomic i64 0, ptr @open seq_cst, align 8
  store atomic i64 0, ptr @turn seq_cst, align 8
  ret void
}}

; Whether every caller works alone from now on.
define void @pellucid_hold(i64 %held) {{
  store atomic i64 %held, ptr @held seq_cst, align 8
  ret void
}}

; Do a job: all rows, in parts of `part`.
define void @pellucid_share(ptr %body, ptr %arguments, i64 %rows, i64 %part) {{
entry:
  %held = load atomic i64, ptr @held seq_cst, align 8
  %free = icmp eq i64 %held, 0
  br i1 %free, label %ask, label %alone
ask:
  %took = cmpxchg ptr @turn, i64 0, i64 1 seq_cst seq_cst
  %mine = extractvalue {{ i64, i1 }} %took, 1
  br i1 %mine, label %bring, label %alone
bring:
  store ptr %body, ptr @body
  store ptr %arguments, ptr @arguments
  store i64 %rows, ptr @rows
  store i64 %part, ptr @part
  store atomic i64 0, ptr @next seq_cst, align 8
  store atomic i64 1, ptr @open seq_cst, align 8
  call void @take_parts(i64 0)
  store atomic i64 0, ptr @open seq_cst, align 8
  br label %wait
wait:
  %waited = phi i64 [0, %bring], [%waits, %soon], [%waits, %let]
  %waits = add i64 %waited, 1
  %inside = load atomic i64, ptr @inside seq_cst, align 8
  %busy = icmp ne i64 %inside, 0
  br i1 %busy, label %soon, label %over
soon:
  %long = icmp ugt i64 %waits, {IMPATIENCE}
  br i1 %long, label %let, label %wait
let:
  %yielded = call i32 @sched_yield()
  br label %wait
over:
  store atomic i64 0, ptr @turn seq_cst, align 8
  ret void
alone:
  br label %more
more:
  %first = phi i64 [0, %alone], [%last, %own]
  %some = icmp slt i64 %first, %rows
  br i1 %some, label %own, label %end
own:
  %beyond = add i64 %first, %part
  %last = call i64 @llvm.smin.i64(i64 %beyond, i64 %rows)
  call void %body(i64 %first, i64 %last, i64 0, ptr %arguments)
  br label %more
end:
  ret void
}}
"""


ADDRESS = compiled(ASSEMBLY)
SHARE: int = ADDRESS("pellucid_share")
_help = ctypes.CFUNCTYPE(None, ctypes.c_int64)(ADDRESS("pellucid_help"))
_hold = ctypes.CFUNCTYPE(None, ctypes.c_int64)(ADDRESS("pellucid_hold"))
_forget = ctypes.CFUNCTYPE(None)(ADDRESS("pellucid_forget"))


class Pool:
    """Threads beside the caller's; they are started when the first large kernel runs."""

    def __init__(self) -> None:
        self.threads, self.held = 0, False

    def wake(self) -> None:
        """Let the threads that sleep look for work, and start those that are missing."""
        if self.held is not (hands() == 1):
            self.held = hands() == 1
            _hold(self.held)
        while self.threads < hands() - 1:
            self.threads += 1
            Thread(target=_lend_a_hand, args=(self.threads,), name="pellucid-kernel", daemon=True).start()
        while RESTING:
            event = RESTING.pop()
            if event is not None:
                event.set()

    def forget(self) -> None:
        """After a fork: the threads stayed behind in the parent."""
        _forget()
        self.threads, self.held = 0, False
        RESTING[:] = [None]


def _lend_a_hand(hand: int) -> None:
    """What a thread does all its life."""
    rested = Event()
    while True:
        _help(hand)
        rested.clear()
        RESTING.append(rested)
        rested.wait()


POOL = Pool()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=POOL.forget)
