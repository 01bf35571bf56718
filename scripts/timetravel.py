"""The measurements of scripts/bench that have no side on ext4 to be compared with: fork, rollback, undo, diff,
merge, blame; and import, beside `cp -a`.

Each prints medians beside the bar it has to stay below. "in the store" is a Go benchmark of this repository, "CLI" a whole
process from its start to its end, beside a daemon that has the workspace mounted.
"""
import http.client, json, os, random, re, shutil, socket, statistics, subprocess, sys, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NAMES = ("fork", "rollback", "diff", "merge", "blame", "import")


def fail(what, out=""):
    raise SystemExit(f"bench: {what}\n{out[-2000:]}")


class Daemon(http.client.HTTPConnection):
    """The daemon of a store, over its socket: for what would take long by thousands of processes."""

    def __init__(self, store):
        super().__init__("wsfs")
        self.path = os.path.join(store, "sock")

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)

    def fork(self, rev, name):
        self.request("POST", "/v1/forks", json.dumps({"revision": rev, "name": name}), {"Content-Type": "application/json"})
        r = self.getresponse()
        out = r.read()
        if r.status != 200:
            fail(f"fork {rev} {name}: {r.status}", out.decode(errors="replace"))


class TimeTravel:
    def __init__(self, args, work):
        self.a, self.work = args, os.path.join(work, "timetravel")
        self.wsfs = f"{ROOT}/bin/wsfs"
        self.rows = []
        os.mkdir(self.work)

    # One measurement.

    def cli(self, *argv, cwd=None, session=None, ok=(0,)):
        """Runs wsfs and returns the seconds that the process took."""
        env = dict(os.environ, WSFS_STORE=self.store)
        if session:
            env["WSFS_SESSION"] = session
        t = time.perf_counter()
        p = subprocess.run([self.wsfs, *argv], cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        t = time.perf_counter() - t
        if p.returncode not in ok:
            fail(f"wsfs {' '.join(argv)} ended with {p.returncode}", p.stderr.decode(errors="replace"))
        self.out = p.stdout.decode(errors="replace")
        return t

    def row(self, what, seconds, bar=None, base=None, factor=None):
        """seconds: a list. bar: seconds. base: the median that it is compared with, at most factor times."""
        m = statistics.median(seconds)
        ratio = f"{m / base:.2f}" if base else ""
        if bar is None and factor:
            bar = factor * base
        self.rows.append([what, f"{m * 1000:.2f}", f"{len(seconds)}", ratio, f"{bar * 1000:.2f}" if bar else "",
                          "" if bar is None else "yes" if m <= bar else "NO"])
        print(f"  {what}: {m * 1000:.2f} ms", file=sys.stderr)
        return m

    def gobench(self, package, pattern, count=1):
        """Runs Go benchmarks and returns the seconds of each round, by name."""
        p = subprocess.run(["go", "test", package, "-run", "^$", "-bench", pattern, "-count", str(count), "-timeout", "30m"], cwd=ROOT,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        out = p.stdout.decode(errors="replace")
        if p.returncode:
            fail(f"go test {package} -bench {pattern}", out)
        found = {}
        for name, ns in re.findall(r"^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op", out, re.M):
            found.setdefault(name, []).append(float(ns) / 1e9)
        return found

    # A store with one workspace.

    def begin(self, name, fill):
        self.base = os.path.join(self.work, name)
        self.store, self.src, self.mnt = (os.path.join(self.base, d) for d in ("store", "src", "mnt"))
        for d in (self.base, self.src, self.mnt):
            os.mkdir(d)
        fill(self.src)
        self.cli("init")
        self.cli("import", self.src, "main")
        self.cli("mount", "main", self.mnt)

    def end(self):
        self.cli("umount", "--all", ok=(0, 3))
        shutil.rmtree(self.base, ignore_errors=True)

    def run(self):
        for name in NAMES:
            if not self.a.only or name in self.a.only.split(","):
                print(f"time travel: {name}", file=sys.stderr)
                try:
                    getattr(self, "take" if name == "import" else name)()
                finally:
                    subprocess.run([self.wsfs, "umount", "--all", "--lazy"], env=dict(os.environ, WSFS_STORE=self.store),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def fork(self):
        n = max(self.a.runs, 5)
        go = self.gobench("./versions", "^BenchmarkFork$")
        one = self.row("fork of 100,000 files, in the store", go["Fork/first"], 0.001)
        self.row("the same, with 10,000 forks of it", go["Fork/of10000"], base=one, factor=1.5)
        self.row("the same, 1,000 forks deep", go["Fork/deep1000"], base=one, factor=1.5)
        self.begin("fork", lambda d: tree(d, 100, 1000))
        one = self.row("fork of 100,000 files, CLI", [self.cli("fork", "main", f"a{i}") for i in range(n)], 0.025)
        d = Daemon(self.store)
        for i in range(10_000):
            d.fork("main", f"b{i}")
        self.row("the same, with 10,000 forks of it", [self.cli("fork", "main", f"c{i}") for i in range(n)], base=one, factor=1.5)
        every = os.path.join(self.base, "all")
        os.mkdir(every)
        self.cli("mount", "--all", every)
        last = "main"
        for i in range(1000):
            d.fork(last, f"d{i}")
            last = f"d{i}"
            with open(f"{every}/{last}/d{i % 100}/f{i % 1000}", "w") as f:
                f.write(last)
        self.cli("sync")
        self.row("the same, 1,000 forks deep", [self.cli("fork", last, f"e{i}") for i in range(n)], base=one, factor=1.5)
        self.end()

    def rollback(self):
        files = 110 * 518
        self.begin("rollback", lambda d: tree(f"{d}/t", 110, 518))
        undo, undoes, back, backs = [], [], [], []

        def destroy():
            subprocess.run(["sh", "-c", "rm -rf t; true"], cwd=self.mnt, env=dict(os.environ, WSFS_SESSION="bench"), check=True)
            assert not os.path.exists(f"{self.mnt}/t")

        def found(t, *argv, session=None):
            self.cli(*argv, cwd=self.mnt, session=session)
            command = time.perf_counter() - t
            n = int(subprocess.run(["sh", "-c", "find t -type f | wc -l"], cwd=self.mnt, stdout=subprocess.PIPE, check=True).stdout)
            if n != files:
                fail(f"{argv}: {n} files are back, not {files}")
            return command, time.perf_counter() - t

        for i in range(self.a.runs):
            self.cli("sync")
            destroy()
            command, both = found(time.perf_counter(), "undo", session="bench")
            undo.append(command), undoes.append(both)
            self.cli("tag", "main", f"whole{i}")  # and only what follows is taken back
            self.cli("sync")
            destroy()
            command, both = found(time.perf_counter(), "rollback", "main", f"@whole{i}")
            back.append(command), backs.append(both)
        self.row(f"undo of rm -rf of {files:,} files, until find sees them", undoes, 2)
        self.row("  of that, the command itself", undo)
        self.row(f"rollback over rm -rf of {files:,} files, until find sees them", backs, 2)
        self.row("  of that, the command itself", back)
        copies = []
        for i in range(min(self.a.runs, 3)):
            t = time.perf_counter()
            subprocess.run(["cp", "-a", f"{self.src}/t", f"{self.base}/copy{i}"], check=True)
            copies.append(time.perf_counter() - t)
        self.row("  cp -a of the tree beside it, for comparison", copies)
        self.end()

    def diff(self):
        self.row("diff of 100 changes in 100,000 files, in the store", self.gobench("./versions", "^BenchmarkDiff$", 3)["Diff"], 0.020)
        self.begin("diff", lambda d: tree(d, 100, 1000))
        self.cli("tag", "main", "before")
        hundred(self.mnt, "changed\n")
        n = max(self.a.runs, 5)
        self.row("the same, CLI --name-only", [self.cli("diff", "main@before", "main", "--name-only") for _ in range(n)])
        if len(self.out.splitlines()) != 100:
            fail(f"diff: {len(self.out.splitlines())} lines, not 100")
        self.row("the same, CLI, as a patch", [self.cli("diff", "main@before", "main") for _ in range(n)])
        self.end()

    def merge(self):
        plan = self.gobench("./versions", "^BenchmarkMerge$", 3)["Merge"]
        whole = self.gobench("./internal/daemon", "^BenchmarkMerge$", 3)
        self.row("merge of 100 changes with 100 others in 100,000 files, the plan", plan)
        self.row("the same, whole, in the daemon, of a mounted workspace", whole["Merge/mounted"], 0.100)
        self.row("the same, of one that is opened for it", whole["Merge/idle"], 0.100)
        self.begin("merge", lambda d: tree(d, 100, 1000))
        d = Daemon(self.store)
        every = os.path.join(self.base, "all")
        os.mkdir(every)
        self.cli("mount", "--all", every)
        d.fork("main", "theirs")
        hundred(f"{every}/theirs", "theirs\n")
        for n in range(100):
            with open(f"{self.mnt}/d{n}/f{n * 7 + 1}", "w") as out:
                out.write("ours\n")
        took = []
        for i in range(max(self.a.runs, 5)):
            d.fork("main", f"into{i}")
            os.listdir(f"{every}/into{i}/d0")
            self.cli("sync")
            took.append(self.cli("merge", "theirs", f"into{i}"))
            if "25 removed" not in self.out or "25 renamed" not in self.out:
                fail("merge", self.out[-300:])
        self.row("the same, CLI, a whole process beside the daemon", took, 0.100)
        nothing = statistics.median(self.cli("--version") for _ in took)
        self.row("  of that, beyond a process that does nothing", [t - nothing for t in took])
        self.end()

    def blame(self):
        runs = min(self.a.runs, 3)
        self.begin("blame", lambda d: None)
        texts = os.path.join(self.base, "texts")
        os.mkdir(texts)
        repo = os.path.join(self.base, "repo")
        subprocess.run(["git", "init", "-q", repo], check=True)
        script = 'for v in ' + texts + '/*; do cp $v $F; done'
        for k in range(runs):
            with open(os.path.join(self.base, "stream"), "wb") as stream:
                for v, text in enumerate(versions(k)):
                    with open(f"{texts}/{v:04d}", "wb") as f:
                        f.write(text)
                    stream.write(b"commit refs/heads/main\ncommitter a <a@b> %d +0000\ndata 1\nx\nM 100644 inline f%d\ndata %d\n%s\n" % (1700000000 + v, k, len(text), text))
            # Each cp is a command of its own.
            subprocess.run(["sh", "-c", script], cwd=self.mnt, env=dict(os.environ, WSFS_SESSION="bench", F=f"f{k}"), check=True)
            if k == 0:
                with open(os.path.join(self.base, "stream"), "rb") as stream:
                    subprocess.run(["git", "-C", repo, "fast-import", "--quiet"], stdin=stream, check=True)
        self.cli("sync")
        git, first, again = [], [], []
        for k in range(runs):
            t = time.perf_counter()
            want = subprocess.run(["git", "-C", repo, "blame", "-s", "main", "--", "f0"], stdout=subprocess.PIPE, check=True).stdout
            git.append(time.perf_counter() - t)
            first.append(self.cli("blame", f"main:f{k}"))
            if k == 0 and grouped(self.out.splitlines()) != grouped(want.decode().splitlines()):
                fail("blame: git names other owners")
            again += [self.cli("blame", f"main:f{k}") for _ in range(5)]
        base = self.row("git blame of 5,000 lines with 1,000 versions", git)
        self.row("wsfs blame of the same, CLI, first", first, base=base, factor=1 / 3)
        self.row("wsfs blame of the same, CLI, again", again, 0.010)
        self.row("wsfs --version: a process that does nothing", [self.cli("--version") for _ in range(10)])
        self.end()

    def take(self):
        files = 100_000
        self.begin("import", lambda d: None)
        small, large = os.path.join(self.base, "small"), os.path.join(self.base, "large")
        sources(small, files // 100, 100)
        os.mkdir(large)
        for i in range(4):
            with open(f"{large}/b{i}", "wb") as f:
                for _ in range(512):
                    f.write(os.urandom(1 << 20))
        copies = {small: [], large: []}
        takes = {small: [], large: []}
        again = []
        for i in range(min(self.a.runs, 3)):
            for src in (small, large):
                subprocess.run(["sync", "-f", self.base], check=True)
                t = time.perf_counter()
                subprocess.run(["sh", "-c", 'cp -a "$0" "$1" && sync -f "$1"', src, f"{self.base}/copy"], check=True)
                copies[src].append(time.perf_counter() - t)
                shutil.rmtree(f"{self.base}/copy")
                subprocess.run(["sync", "-f", self.base], check=True)
                takes[src].append(self.into_new_store(src, i))
                if src == small:
                    again += [self.cli("import", src, f"w{i}", ok=(3,)) for _ in range(3)]
        self.row(f"cp -a of {files:,} files of 1 to 8 KiB, and sync, for comparison", copies[small])
        self.row(f"import of {files:,} files of 1 to 8 KiB (bar: 10,000 files a second)", takes[small], files / 10_000)
        self.row("  the same directory again, unchanged", again, 1)
        base = self.row("cp -a of 2 GiB in 4 files that do not compress, and sync", copies[large])
        self.row("import of them", takes[large], base=base, factor=1.5)
        self.end()

    def into_new_store(self, src, i):
        """Imports what no store has yet: the daemon of the last one has gone."""
        self.cli("umount", "--all", ok=(0, 3))
        self.store = os.path.join(self.base, f"store-{os.path.basename(src)}-{i}")
        self.cli("init")
        return self.cli("import", src, f"w{i}")

    def report(self):
        head = ["time travel, milliseconds", "median", "of", "ratio", "bar", "met"]
        if self.a.markdown:
            print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
            for r in self.rows:
                print("| " + " | ".join(r) + " |")
            return
        w = [max(len(r[i]) for r in [head] + self.rows) for i in range(len(head))]
        for r in [head] + self.rows:
            print("  ".join(c.ljust(w[i]) if i == 0 else c.rjust(w[i]) for i, c in enumerate(r)))


def grouped(lines):
    """For each line the first one that has the same owner: the same for two tools that agree, whatever they call the owners."""
    first = {}
    return [first.setdefault(line.split(" ", 1)[0], i) for i, line in enumerate(lines)]


def sources(root, dirs, files):
    """dirs directories of files files each, of 1 to 8 KiB of words, no two alike."""
    r = random.Random(1)
    words = [b"%x " % r.getrandbits(r.randrange(4, 40)) for _ in range(2000)]
    pool = b"".join(r.choices(words, k=200_000))
    for d in range(dirs):
        sub = f"{root}/d{d // 50}/e{d % 50}"
        os.makedirs(sub)
        for f in range(files):
            size = r.randrange(1024, 8192)
            at = r.randrange(len(pool) - size)
            with open(f"{sub}/f{f}", "wb") as out:
                out.write((b"%d %d\n" % (d, f) + pool[at : at + size])[:size])


def tree(root, dirs, files):
    """dirs directories of files small files each."""
    for d in range(dirs):
        sub = f"{root}/d{d}"
        os.makedirs(sub)
        for f in range(files):
            with open(f"{sub}/f{f}", "w") as out:
                out.write(f"{d} {f}\n")


def hundred(root, text):
    """Makes a hundred changes in a tree of as many directories: 25 renames, 25 removals, 25 appends, 25 files written anew."""
    for n in range(100):
        f = f"{root}/d{n}/f{n * 7}"
        if n % 4 == 0:
            os.rename(f, f + ".moved")
        elif n % 4 == 1:
            os.unlink(f)
        else:
            with open(f, "a" if n % 4 == 2 else "w") as out:
                out.write(text)


def versions(seed, lines=5000, count=1000):
    """The texts of a file of that many lines, each version with three lines changed and now and then one moved."""
    r = (seed + 1) * 2654435761 % 2**32

    def rand(n):
        nonlocal r
        r = (r * 1664525 + 1013904223) % 2**32
        return (r >> 8) % n

    now = [b"\treturn f%d(ctx, %d) // what line %d says, %d\n" % (i % 97, i, i, seed) for i in range(lines)]
    yield b"".join(now)
    for v in range(1, count):
        for k in range(3):
            now[rand(lines)] = b"\tchanged by %d, place %d\n" % (v, k)
        if v % 10 == 0:
            del now[rand(lines)]
            now.insert(rand(lines - 1), b"\tmoved %d\n" % v)
        yield b"".join(now)
