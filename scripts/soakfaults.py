"""A soak with faults (scripts/soak --faults): programs work on a mount while its daemon is killed, stopped and starved.

The store lies on a file system of its own, an ext4 image of 6 GiB, so that its disk can be full. Writers know what they were told:
what was acknowledged must be there after each fault and at the end, whole; what an error was returned for may be as before, as
after, or a part. Faults, one after the other, at random:

    kill   kill -9 of the daemon; the mount outlives it, its keeper starts the next one
    stop   SIGSTOP of the daemon for seconds
    full   the store's disk full for seconds; the writers may get ENOSPC, and nothing else
    drop   /proc/sys/vm/drop_caches
    gc     wsfs gc, while everybody works
    fork   a fork, a tag, a rollback to it, of a workspace of its own

EIO is not among them: the kernels of these machines have no device mapper that fails.
"""
import errno, os, random, shutil, signal, subprocess, sys, threading, time

from scale import World, drop_caches, sh

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
            if e.errno != errno.ENOSPC or not self.soak.full_until > time.time() - 60:
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
    def __init__(self, minutes, work, seed):
        self.work, self.seed, self.r = work, seed, random.Random(seed)
        self.disk = f"{work}/disk"
        os.mkdir(self.disk)
        sh(["truncate", "-s", "6G", f"{work}/image"])
        sh(["mkfs.ext4", "-q", "-F", "-m", "0", f"{work}/image"])
        sh(["mount", "-o", "loop", f"{work}/image", self.disk])
        self.w = World(self.disk)
        self.w.up()
        self.w.cli("import", f"{self.disk}/empty", "other")
        self.other = f"{self.disk}/other"
        os.mkdir(self.other)
        self.w.cli("mount", "other", self.other)
        self.began = time.time()
        self.until = self.began + 60 * minutes
        self.over, self.gate = threading.Event(), threading.Condition()
        self.inside, self.comparing = 0, False  # guarded by gate: how many writers work, and whether no more may begin
        self.failures, self.did, self.full_until = [], {}, 0

    def run(self):
        writers = [Writer(self, n) for n in range(3)]
        for w in writers:
            w.start()
        faults = [self.kill, self.stop, self.full, self.drop, self.gc, self.fork]
        todo = []
        while time.time() < self.until and not self.over.is_set():
            time.sleep(self.r.uniform(0.5, 3))
            todo = todo or self.r.sample(faults, len(faults))
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
        print(f"seed {self.seed}; changes {sum(w.did for w in writers):,}, errors returned {sum(sum(w.errors.values()) for w in writers)} "
              f"(ENOSPC, while the disk was full); faults: " + ", ".join(f"{k} {v}" for k, v in sorted(self.did.items())))
        for f in self.failures:
            print("FAILED", f)
        return not self.failures

    def say(self, what):
        """Each fault as it happens, so that one which does not return is known."""
        print(f"{time.time() - self.began:7.1f} s  {what}", file=sys.stderr, flush=True)

    def compare(self, writers):
        with self.gate:
            self.comparing = True
            try:
                if not self.gate.wait_for(lambda: not self.inside, 120):
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
        end = time.time() + 60
        while time.time() < end:
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
        st = os.statvfs(self.disk)
        self.full_until = time.time() + 3600
        subprocess.run(["fallocate", "-l", str(max(1 << 20, st.f_bavail * st.f_frsize - (4 << 20))), f"{self.disk}/filler"], check=True)
        time.sleep(self.r.uniform(1, 4))
        os.unlink(f"{self.disk}/filler")
        self.full_until = time.time()

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
        subprocess.run(["umount", "--lazy", self.disk], stderr=subprocess.DEVNULL)
        shutil.rmtree(self.work, ignore_errors=True)
