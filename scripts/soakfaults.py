"""A soak with faults (scripts/soak --faults): programs work on a mount while its daemon is killed, stopped and starved.

The store lies on a file system of its own, an ext4 image of 6 GiB, so that its disk can be full, below a loopback that fails on
command (scripts/loopback -faults). Writers know what they were told: what was acknowledged must be there after each fault and at the
end, whole; what an error was returned for may be as before, as after, or a part. Faults, one after the other, at random:

    kill   kill -9 of the daemon; the mount outlives it, its keeper starts the next one
    stop   SIGSTOP of the daemon for seconds
    full   the store's disk full for seconds; the writers may get ENOSPC, and nothing else
    eio    the store's disk answers EIO to fsyncs, to all that changes it, or to reads, too, for seconds; the writers may get EIO until
           another daemon comes, after a kill -9 or a `wsfs daemon --replace`, and nothing else
    drop   /proc/sys/vm/drop_caches
    gc     wsfs gc, while everybody works
    fork   a fork, a tag, a rollback to it, of a workspace of its own
"""
import errno, os, random, shutil, signal, subprocess, sys, threading, time

from scale import World, drop_caches, sh
from timetravel import ROOT, fail

UNKNOWN = object()  # what an error was returned for


class Writer(threading.Thread):
    """Works in a directory of its own, and knows what is in it."""

    def __init__(self, soak, n):
        super().__init__()
        self.soak, self.dir, self.r = soak, f"{soak.w.mnt}/w{n}", random.Random(f"{soak.seed} {n}")
        self.have, self.did, self.errors = {}, 0, {}
        os.mkdir(self.dir)

    def run(self):
        while not self.soak.over.is_set():
            with self.soak.gate:
                self.soak.gate.wait_for(lambda: not self.soak.comparing)
                self.soak.inside += 1
            try:
                self.step()
            except BaseException as e:
                self.soak.failures.append(f"{self.dir}: {e!r}")
                self.soak.over.set()
            finally:
                with self.soak.gate:
                    self.soak.inside -= 1
                    self.soak.gate.notify_all()

    def step(self):
        time.sleep(0.01)
        names = [f"f{n}" for n in range(60)]
        a, b = self.r.choice(names), self.r.choice(names)
        data = self.r.randbytes(self.r.choice((0, 10, 3000, 3000, 3000, 70_000)))
        dice, had = self.r.randrange(10), self.have.get(a)
        try:
            if dice < 5:
                self.have[a] = UNKNOWN
                self.write(a, data, "wb")
                self.have[a] = data
            elif dice < 7 and isinstance(had, bytes):
                self.have[a] = UNKNOWN
                self.write(a, data, "ab")
                self.have[a] = had + data if len(had) < 1 << 20 else UNKNOWN
            elif dice < 9 and isinstance(had, bytes) and a != b:
                self.have[a] = self.have[b] = UNKNOWN
                os.rename(f"{self.dir}/{a}", f"{self.dir}/{b}")
                self.have[b] = had
                del self.have[a]
            elif isinstance(had, bytes):
                self.have[a] = UNKNOWN
                os.unlink(f"{self.dir}/{a}")
                del self.have[a]
            self.did += 1
        except OSError as e:
            self.errors[e.errno] = self.errors.get(e.errno, 0) + 1
            if not self.soak.may_fail.get(e.errno, 0) > time.time() - 60:
                raise
            time.sleep(0.05)

    def write(self, name, data, mode):
        with open(f"{self.dir}/{name}", mode) as f:
            f.write(data)
            if self.r.randrange(10) == 0:
                f.flush()
                os.fsync(f.fileno())

    def compare(self):
        there = set(os.listdir(self.dir))
        for name, want in self.have.items():
            if want is UNKNOWN:
                continue
            if name not in there:
                return f"{self.dir}/{name} is missing"
            got = open(f"{self.dir}/{name}", "rb").read()
            if got != want:
                return f"{self.dir}/{name} has {len(got)} bytes, not the {len(want)} that were written"
        more = there - set(self.have)
        return f"{self.dir} has {more}" if more else None


class Faults:
    def __init__(self, minutes, work, seed, only=""):
        self.work, self.seed, self.r = work, seed, random.Random(seed)
        self.below, self.disk, self.faulty = f"{work}/below", f"{work}/disk", f"{work}/fails"
        os.mkdir(self.below)
        os.mkdir(self.disk)
        sh(["truncate", "-s", "6G", f"{work}/image"])
        sh(["mkfs.ext4", "-q", "-F", "-m", "0", f"{work}/image"])
        sh(["mount", "-o", "loop", f"{work}/image", self.below])
        sh(["go", "build", "-o", f"{work}/loopback", "./scripts/loopback"], cwd=ROOT)
        self.loopback = subprocess.Popen([f"{work}/loopback", "-faults", self.faulty, self.below, self.disk])
        while not os.path.ismount(self.disk):
            if self.loopback.poll() is not None:
                fail("scripts/loopback does not mount")
            time.sleep(0.01)
        self.w = World(self.disk)
        self.w.mnt = f"{work}/mnt"  # not on that disk
        os.mkdir(self.w.mnt)
        self.w.up()
        self.w.cli("import", f"{self.disk}/empty", "other")
        self.other = f"{work}/other"
        os.mkdir(self.other)
        self.w.cli("mount", "other", self.other)
        self.began = time.time()
        self.until = self.began + 60 * minutes
        self.over, self.gate = threading.Event(), threading.Condition()
        self.inside, self.comparing = 0, False  # guarded by gate: how many writers work, and whether no more may begin
        self.faults = [f for f in (self.kill, self.stop, self.full, self.eio, self.drop, self.gc, self.fork) if f.__name__ in (only or f.__name__).split(",")]
        self.failures, self.did = [], {}
        self.may_fail = {}  # errno: until when a program may get it

    def run(self):
        writers = [Writer(self, n) for n in range(3)]
        for w in writers:
            w.start()
        todo = []
        while time.time() < self.until and not self.over.is_set():
            time.sleep(self.r.uniform(0.5, 3))
            todo = todo or self.r.sample(self.faults, len(self.faults))
            fault = todo.pop()
            try:
                self.say(f"{fault.__name__} ...")
                fault()
                self.did[fault.__name__] = self.did.get(fault.__name__, 0) + 1
                self.say(f"{fault.__name__} done; comparing")
                self.compare(writers)
                self.say(f"as it must be; {sum(w.did for w in writers):,} changes")
            except BaseException as e:
                self.failures.append(f"{fault.__name__}: {e!r}")
                break
        self.over.set()
        for w in writers:
            w.join()
        if not self.failures:
            try:
                self.say("mounting anew, comparing")
                self.down()
                self.w.up()
                self.compare(writers)
            except BaseException as e:
                self.failures.append(f"the end: {e!r}")
        print(f"seed {self.seed}; changes {sum(w.did for w in writers):,}, errors returned, while the disk was full or failed: "
              + ", ".join(f"{errno.errorcode[e]} {sum(w.errors.get(e, 0) for w in writers)}" for e in sorted({e for w in writers for e in w.errors}))
              + "; faults: " + ", ".join(f"{k} {v}" for k, v in sorted(self.did.items())))
        for f in self.failures:
            print("FAILED", f)
        if self.failures:  # what is wrong must be looked at
            shutil.copytree(self.w.store, kept := f"{self.work}-failed", ignore=lambda at, names: [n for n in names if n.endswith("sock")])
            print(f"the store is in {kept}")
        return not self.failures

    def say(self, what):
        """Each fault as it happens, so that one which does not return is known."""
        print(f"{time.time() - self.began:7.1f} s  {what}", file=sys.stderr, flush=True)

    def compare(self, writers):
        with self.gate:
            self.comparing = True
            try:
                if not any(self.gate.wait_for(lambda: not self.inside, 1) for _ in range(120)):
                    raise TimeoutError("a call does not return")
                for w in writers:
                    if wrong := w.compare():
                        raise AssertionError(wrong)
            finally:
                self.comparing = False
                self.gate.notify_all()

    def kill(self):
        pid = self.w.pid()
        os.kill(pid, signal.SIGKILL)
        self.next(pid)

    def next(self, pid):
        """Waits until another daemon than pid serves the mount: 60 s of looking, however long the soak itself was stopped."""
        for _ in range(1200):
            try:
                if self.w.pid() != pid:
                    os.stat(self.w.mnt)
                    drop_caches()  # what the kernel has says nothing about what the next daemon has
                    return
            except (OSError, ValueError):
                pass
            time.sleep(0.05)
        raise TimeoutError("no daemon comes after one that was killed")

    def stop(self):
        pid = self.w.pid()
        os.kill(pid, signal.SIGSTOP)
        time.sleep(self.r.uniform(1, 4))
        os.kill(pid, signal.SIGCONT)

    def full(self):
        st = os.statvfs(self.below)
        self.may_fail[errno.ENOSPC] = time.time() + 3600
        subprocess.run(["fallocate", "-l", str(max(1 << 20, st.f_bavail * st.f_frsize - (4 << 20))), f"{self.below}/filler"], check=True)
        time.sleep(self.r.uniform(1, 4))
        os.unlink(f"{self.below}/filler")
        self.may_fail[errno.ENOSPC] = time.time()

    def eio(self):
        pid = self.w.pid()
        self.may_fail[errno.EIO] = time.time() + 3600
        what, again = self.r.choice(("fsync", "write fsync", "write fsync names", "read write fsync names")), self.r.choice(("killed", "replaced"))
        with open(self.faulty + ".new", "w") as f:
            f.write(what)
        self.say(f"{what} fail; then the daemon is {again}")
        os.rename(self.faulty + ".new", self.faulty)
        time.sleep(self.r.uniform(0.2, 3))
        os.unlink(self.faulty)
        if again == "killed":
            os.kill(pid, signal.SIGKILL)
        else:
            self.w.cli("daemon", "--replace")
        self.next(pid)
        self.may_fail[errno.EIO] = time.time()

    def drop(self):
        drop_caches()

    def gc(self):
        self.w.cli("gc", "--keep", "all for 1min, then one per 1min for 5min")  # hours fit on the disk then

    def fork(self):
        n = self.did.get("fork", 0)
        self.w.cli("fork", "main", f"fork{n}")
        for text in ("before", "after"):
            with open(f"{self.other}/f", "w") as f:
                f.write(f"{text} {n}")
            if text == "before":
                self.w.cli("tag", "other", f"t{n}")
        os.mkdir(f"{self.other}/d{n}")
        self.w.cli("rollback", "--yes", "other", f"@t{n}")
        if (got := open(f"{self.other}/f").read()) != f"before {n}" or os.listdir(self.other) != ["f"]:
            raise AssertionError(f"after a rollback the file has {got!r}, beside {os.listdir(self.other)}")
        self.w.cli("drop", f"fork{n}", "--force")

    def down(self):
        self.w.cli("umount", self.other)
        self.w.down()

    def end(self):
        self.say("checking")
        self.w.down()
        self.w.cli("check")

    def clean(self):
        subprocess.run([self.w.wsfs, "umount", "--all", "--lazy"], env=self.w.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.5)
        for at in (self.disk, self.below):
            subprocess.run(["umount", "--lazy", at], stderr=subprocess.DEVNULL)
        self.loopback.kill()
        self.loopback.wait()
        shutil.rmtree(self.work, ignore_errors=True)
