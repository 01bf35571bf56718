"""The measurements of scripts/bench that ask whether something grows: with the age of a history, with the size of a directory,
with the number of files in memory.

scale: the same work on two workspaces with the same tree, one of them with --changes changes behind it (made by scripts/age), in
turns in one run. Then a directory of 100,000 entries beside one of ext4, and lookups in it beside those in a small one.
memory: the daemon's resident memory after a walk of --files files, and after the kernel has dropped its caches.
"""
import json, os, random, shutil, statistics, subprocess, sys, time

import timetravel
from timetravel import ROOT, fail

NAMES = ("scale", "memory")


def sh(cmd, cwd=None, env=None):
    p = subprocess.run(cmd, shell=isinstance(cmd, str), cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if p.returncode:
        fail(f"{cmd!r} ended with {p.returncode}", p.stdout.decode(errors="replace"))
    return p.stdout.decode(errors="replace")


def drop_caches(what="3"):
    if os.geteuid() == 0:
        with open("/proc/sys/vm/drop_caches", "w") as f:
            f.write(what)


class World:
    """A store with a workspace that is mounted."""

    def __init__(self, base, source=None):
        self.store, self.mnt, self.wsfs = f"{base}/store", f"{base}/mnt", f"{ROOT}/bin/wsfs"
        os.makedirs(self.mnt)
        self.env = dict(os.environ, WSFS_STORE=self.store)
        if not source:
            os.mkdir(f"{base}/empty")
        self.cli("init")
        self.cli("import", source or f"{base}/empty", "main")

    def cli(self, *argv, session=None, cwd=None):
        t = time.perf_counter()
        self.out = sh([self.wsfs, *argv], cwd=cwd, env=dict(self.env, WSFS_SESSION=session) if session else self.env)
        return time.perf_counter() - t

    def up(self):
        self.cli("mount", "main", self.mnt)

    def down(self):
        self.cli("umount", self.mnt)
        while os.path.exists(f"{self.store}/sock"):  # the daemon ends after its last mount
            time.sleep(0.01)

    def pid(self):
        return json.load(open(f"{self.store}/lock"))["pid"]

    def rss(self):
        for line in open(f"/proc/{self.pid()}/status"):
            if line.startswith("VmRSS"):
                return int(line.split()[1]) * 1024


class Scale:
    def __init__(self, args, work):
        self.a, self.work, self.rows = args, os.path.join(work, "scale"), []
        self.worlds = []
        os.mkdir(self.work)

    def world(self, name, source=None):
        w = World(f"{self.work}/{name}", source)
        self.worlds.append(w)
        return w

    def run(self):
        for name in NAMES:
            if not self.a.only or name in self.a.only.split(","):
                getattr(self, name)()

    def close(self):
        for w in self.worlds:
            subprocess.run([w.wsfs, "umount", "--all", "--lazy"], env=w.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    # The age of a history.

    def scale(self):
        young, old = self.world("young"), self.world("old")
        for w, n in ((young, 0), (old, self.a.changes)):
            t = time.perf_counter()
            sh([f"{ROOT}/bin/age", w.store, "main", str(n)])
            print(f"scale: {n:,} changes made in {time.perf_counter() - t:.0f} s, store {sh(['du', '-sm', w.store]).split()[0]} MB", file=sys.stderr)
            w.up()
        tar = f"{self.work}/tree.tar"
        sh(f"git archive -o {tar} HEAD", cwd=ROOT)
        times = {}
        for n in range(self.a.runs + 1):
            for side, w in ((0, young), (1, old)) if n % 2 else ((1, old), (0, young)):
                for what, seconds in self.work_of(w, n, tar):
                    if n > 0:  # the first round is no one's
                        times.setdefault(what, ([], []))[side].append(seconds)
        for what, (a, b) in times.items():
            self.row(what, statistics.median(a), statistics.median(b), 1.2)
        young.down(), old.down()
        self.directory()

    def work_of(self, w, n, tar):
        """Yields what was done and how long it took."""
        def timed(what, fn):
            t = time.perf_counter()
            fn()
            return what, time.perf_counter() - t

        d = f"{w.mnt}/run{n}"
        w.down(), drop_caches(), w.up()
        yield timed("find of 4,000 files, first after mount", lambda: sh(["find", w.mnt, "-printf", "%s "]))
        yield timed("find of 4,000 files, warm", lambda: sh(["find", w.mnt, "-printf", "%s "]))
        yield timed("ls -U of 40 directories", lambda: sh(f"ls -U {w.mnt}/d*"))
        yield timed("read 4,000 files", lambda: sh(f"cat {w.mnt}/d*/* > /dev/null"))
        os.mkdir(d)
        yield timed("create 2,000 x 1 KiB", lambda: create(d, 2000))
        yield timed("500 x open, write, close of a file that exists", lambda: rewrite(w.mnt, n))
        yield timed("untar of a small tree", lambda: sh(["tar", "xf", tar, "-C", d]))
        sh("git init -q && git add -A", cwd=d)
        sh("git status", cwd=d)
        yield timed("git status, warm", lambda: sh("git status", cwd=d))
        w.cli("sync")
        yield timed("log -n 10", lambda: w.cli("log", "-n", "10", cwd=w.mnt))
        yield timed("log -n 10 of a file", lambda: w.cli("log", "-n", "10", "d07/f07", cwd=w.mnt))
        yield timed("fork", lambda: w.cli("fork", "main", f"fork{n}"))
        sh(f"for f in {w.mnt}/d0[0-4]/f0*; do echo more >> $f; done", env=dict(w.env, WSFS_SESSION="bench"))
        w.cli("sync")
        yield timed("undo of a command that changed 50 files", lambda: w.cli("undo", cwd=w.mnt, session="bench"))
        yield timed("rm -rf of all that", lambda: sh(["rm", "-rf", d]))
        w.cli("sync")

    # The size of a directory.

    def directory(self):
        many, few = 100_000, 100
        src = f"{self.work}/many"
        for name, n in (("large", many), ("small", few)):
            os.makedirs(f"{src}/{name}")
            for i in range(n):
                os.close(os.open(f"{src}/{name}/entry-{i:06d}", os.O_WRONLY | os.O_CREAT))
        w = self.world("directory", src)
        w.up()
        rand = random.Random(1)
        got = {}

        def note(what, t):
            got.setdefault(what, []).append(time.perf_counter() - t)

        def lookups(d, n):
            names = [f"{d}/entry-{rand.randrange(n):06d}" for _ in range(1000)]
            t = time.perf_counter()
            for p in names:
                os.lstat(p)
            return t

        for _ in range(self.a.runs):
            for side, root in (("ext4", src), ("wsfs", w.mnt)):
                if side == "wsfs":
                    w.down(), drop_caches(), w.up()
                else:
                    drop_caches()
                for when in ("first", "warm"):
                    t = time.perf_counter()
                    sh(["ls", "-U", f"{root}/large"])
                    note(("ls -U", side, when), t)
                drop_caches("2")  # names go, what the daemon knows stays
                for d, n in (("large", many), ("small", few)):
                    os.lstat(f"{root}/{d}/entry-000000")
                    note(("lookups", side, d), lookups(f"{root}/{d}", n))
                t = time.perf_counter()
                sh(["find", f"{root}/large", "-printf", "%s "])
                note(("find", side, "then"), t)
            w.down(), drop_caches(), w.up()
            for d in ("large", "small"):
                t = time.perf_counter()
                os.lstat(f"{w.mnt}/{d}/entry-000050")
                note(("one", "wsfs", d), t)
        m = {k: statistics.median(v) for k, v in got.items()}
        for when in ("first", "warm"):
            self.row(f"ls -U of 100,000 entries, {when} (ext4, wsfs)", m["ls -U", "ext4", when], m["ls -U", "wsfs", when], 2)
        self.row("find + stat of 100,000 entries (ext4, wsfs)", m["find", "ext4", "then"], m["find", "wsfs", "then"], None)
        self.row("1,000 lookups among 100 and 100,000", m["lookups", "wsfs", "small"], m["lookups", "wsfs", "large"], 1.2)
        self.row("the same on ext4", m["lookups", "ext4", "small"], m["lookups", "ext4", "large"], None)
        self.row("the very first lookup after mount, the same", m["one", "wsfs", "small"], m["one", "wsfs", "large"], None)
        w.down()

    # The number of files in memory.

    def memory(self):
        n = self.a.files // 1000 * 1000
        w = self.world("memory")
        sh([f"{ROOT}/bin/age", f"-dirs={n // 1000}", "-files=1000", w.store, "main", "0"])
        drop_caches(), w.up()
        base = w.rss()
        t = time.perf_counter()
        seen = len(sh(["find", w.mnt, "-type", "f", "-printf", "%s\n"]).split())
        t = time.perf_counter() - t
        if seen != n:
            fail(f"memory: find saw {seen} files, not {n}")
        walked = w.rss()
        drop_caches("2")
        time.sleep(1)
        lowest = dropped = w.rss()
        until = time.time() + 30
        while time.time() < until:
            time.sleep(1)
            lowest = min(lowest, w.rss())
        self.lines = [
            f"memory: {n:,} files walked in {t:.1f} s",
            f"  daemon before {base / 1e6:.0f} MB, after the walk {walked / 1e6:.0f} MB (bar 600 for 1,000,000): {(walked - base) / n:.0f} bytes per file (bar 400)",
            f"  after drop_caches {dropped / 1e6:.0f} MB at once, {lowest / 1e6:.0f} MB within 30 s (bar 250)",
        ]
        print("\n".join(self.lines))
        w.down()

    def row(self, what, a, b, bar):
        self.rows.append([what, f"{a * 1000:.2f}", f"{b * 1000:.2f}", f"{b / a:.2f}", str(bar or ""), "" if bar is None else "yes" if b <= bar * a else "NO"])
        print(f"  {what}: {a * 1000:.2f} {b * 1000:.2f} ms", file=sys.stderr)

    def report(self):
        if not self.rows:
            return
        head = ["scale, milliseconds", "young / small", f"{self.a.changes:,} changes / large", "ratio", "bar", "met"]
        if self.a.markdown:
            print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
            for r in self.rows:
                print("| " + " | ".join(r) + " |")
            return
        w = [max(len(r[i]) for r in [head] + self.rows) for i in range(len(head))]
        for r in [head] + self.rows:
            print("  ".join(c.ljust(w[i]) if i == 0 else c.rjust(w[i]) for i, c in enumerate(r)))


def create(d, n):
    data = os.urandom(1024)
    for i in range(n):
        if i % 100 == 0:
            sub = f"{d}/c{i // 100}"
            os.mkdir(sub)
        fd = os.open(f"{sub}/f{i}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        os.write(fd, data[8:] + i.to_bytes(8, "little"))
        os.close(fd)


def rewrite(root, n):
    for i in range(500):
        fd = os.open(f"{root}/d{i % 40:02d}/f{i % 50 + 50:02d}", os.O_WRONLY | os.O_TRUNC)
        os.write(fd, b"written in round %d\n" % n)
        os.close(fd)
