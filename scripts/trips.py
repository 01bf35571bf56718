"""What one operation, and one file of a whole tool, costs in requests of the kernel and in rows of the database.

trips reads the daemon's own counters (/metrics) before and after each piece of work. rows reads the tables. Neither is a
timing: the figures are the same on a busy machine.
"""
import http.client, os, re, shutil, socket, sqlite3, subprocess, sys, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NAMES = ("trips", "rows")
FILES = 200


def sh(cmd, cwd=None, env=None):
    r = subprocess.run(cmd, shell=isinstance(cmd, str), cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if r.returncode:
        raise SystemExit(f"bench: {cmd!r} failed ({r.returncode}):\n{r.stdout.decode(errors='replace')[-2000:]}")
    return r.stdout.decode(errors="replace")


def metrics(store):
    s = socket.socket(socket.AF_UNIX)
    s.connect(os.path.join(store, "sock"))
    c = http.client.HTTPConnection("wsfs")
    c.sock = s
    c.request("GET", "/metrics")
    text = c.getresponse().read().decode()
    c.close()
    return text


def requests(store):
    """Requests and seconds in the handlers since the mount, by opcode. Waits for what the kernel sends behind a close."""
    def look():
        text = metrics(store)
        n = {op: int(float(v)) for op, v in re.findall(r'^wsfs_fuse_requests_total\{.*op="(\w+)"\} (\S+)', text, re.M)}
        t = {op: float(v) for op, v in re.findall(r'^wsfs_fuse_request_duration_seconds_sum\{.*op="(\w+)"\} (\S+)', text, re.M)}
        return n, t
    last = look()
    for _ in range(100):
        time.sleep(0.05)
        now = look()
        if now[0] == last[0]:
            break
        last = now
    return now


class Trips:
    def __init__(self, args, work):
        self.a, self.base, self.wsfs = args, os.path.join(work, "trips"), f"{ROOT}/bin/wsfs"
        self.store, self.mnt = self.base + "/store", self.base + "/mnt"
        self.out = []

    def cli(self, *argv):
        return sh([self.wsfs, *argv], env=dict(os.environ, WSFS_STORE=self.store))

    def begin(self):
        os.mkdir(self.base)
        os.mkdir(self.mnt)
        os.mkdir(self.base + "/empty")
        self.cli("init")
        self.cli("import", self.base + "/empty", "main")
        self.cli("mount", "main", self.mnt)

    def end(self):
        subprocess.run([self.wsfs, "umount", "--all", "--lazy"], env=dict(os.environ, WSFS_STORE=self.store), stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        shutil.rmtree(self.base, ignore_errors=True)

    def run(self):
        self.begin()
        try:
            for name in NAMES:
                if not self.a.only or name in self.a.only.split(","):
                    print(f"{name}: counting", file=sys.stderr)
                    getattr(self, name)()
        finally:
            self.end()

    def report(self):
        print("\n".join(self.out))

    # Requests.

    def count(self, what, n, fn):
        before, spent = requests(self.store)
        fn()
        after, took = requests(self.store)
        d = {op: after[op] - before.get(op, 0) for op in after if after[op] != before.get(op, 0)}
        us = sum(took[op] - spent.get(op, 0) for op in d) * 1e6 / n
        ops = ", ".join(f"{op} {v / n:.2f}".replace(".00", "") for op, v in sorted(d.items(), key=lambda x: -x[1]) if v / n >= 0.005)
        self.out.append(f"| {what} | {n} | {sum(d.values()) / n:.2f} | {us:.1f} | {ops} |")

    def trips(self):
        self.out += ["| work | times | requests each | us in handlers each | of which |", "|---|---|---|---|---|"]
        self.basic()
        self.tools()
        self.out.append("")

    def basic(self):
        d = self.mnt + "/basic"
        os.mkdir(d)
        path = [f"{d}/f{i}" for i in range(FILES)]
        def each(fn):
            return lambda: [fn(p) for p in path]
        def put(flags):
            def one(p):
                fd = os.open(p, flags, 0o644)
                os.write(fd, b"x" * 4096)
                os.close(fd)
            return one
        def get(p):
            fd = os.open(p, os.O_RDONLY)
            while os.read(fd, 65536):
                pass
            os.close(fd)
        def saved(p):
            put(os.O_WRONLY | os.O_CREAT | os.O_EXCL)(p + "~")
            os.rename(p + "~", p)
        def absent(p):
            if os.path.exists(p + ".no"):
                raise SystemExit("bench: a file is there that should not be")
        def tmp(p):
            put(os.O_WRONLY | os.O_CREAT | os.O_EXCL)(p + ".tmp")
            os.unlink(p + ".tmp")
        def many(fn):
            return lambda: [fn() for _ in range(FILES)]
        def stats():
            for e in os.scandir(d):
                e.stat()
        c = lambda what, fn: self.count(what, FILES, fn)
        c("create (O_EXCL), write, close", each(put(os.O_WRONLY | os.O_CREAT | os.O_EXCL)))
        c("open (O_TRUNC), write, close", each(put(os.O_WRONLY | os.O_CREAT | os.O_TRUNC)))
        c("stat", each(os.stat))
        c("stat of nothing, first", each(absent))
        c("stat of nothing, again", each(absent))
        c("open, read, close", each(get))
        c("write beside it, rename over", each(saved))
        c("open, read, close, again", each(get))
        c("create, write, close, unlink", each(tmp))
        c("list the directory", many(lambda: os.listdir(d)))
        c("list, stat all of it (each: one file)", stats)
        c("chmod", each(lambda p: os.chmod(p, 0o600)))
        c("utimes", each(lambda p: os.utime(p, ns=(1, 1))))
        c("getxattr of what is not there", each(lambda p: [e for e in [None] if not self.noattr(p)]))
        c("link", each(lambda p: os.link(p, p + ".ln")))
        c("symlink", each(lambda p: os.symlink("x", p + ".sl")))
        c("mkdir", each(lambda p: os.mkdir(p + ".d")))
        c("rmdir", each(lambda p: os.rmdir(p + ".d")))
        c("unlink", each(os.unlink))

    @staticmethod
    def noattr(p):
        try:
            os.getxattr(p, "user.nothing")
        except OSError:
            return True
        raise SystemExit("bench: an attribute is there that should not be")

    def tools(self):
        src = os.path.join(sh(["go", "env", "GOROOT"]).strip(), "src")
        tar = self.base + "/src.tar"
        sh(["tar", "cf", tar, "-C", os.path.dirname(src), "src"])
        n = sum(len(f) for _, _, f in os.walk(src))
        t = self.mnt + "/src"
        self.count("tar x", n, lambda: sh(["tar", "xf", tar, "-C", self.mnt]))
        sh("git init -q && git config user.email a@b && git config user.name a && git config gc.auto 0", cwd=t)
        self.count("git add -A", n, lambda: sh("git add -A", cwd=t))
        self.count("git commit", n, lambda: sh("git commit -qm x", cwd=t))
        self.count("git status", n, lambda: sh("git status", cwd=t))
        self.count("grep -r, first", n, lambda: sh(["grep", "-r", "func main", t]))
        self.count("grep -r, again", n, lambda: sh(["grep", "-r", "func main", t]))
        self.count("find with sizes", n, lambda: sh(f"find {t} -printf '%s\\n' > /dev/null"))
        self.count("cp -r", n, lambda: sh(["cp", "-r", t, self.mnt + "/copy"]))
        self.count("rm -rf", n, lambda: sh(["rm", "-rf", self.mnt + "/copy"]))
        self.npm(lambda d, n, fn: self.count("npm install webpack", n, fn))

    def npm(self, then):
        env = dict(os.environ, npm_config_cache=self.a.npm_cache, npm_config_audit="false", npm_config_fund="false")
        warm, d = self.base + "/warm", self.mnt + "/npm"
        cmd = "npm init -y > /dev/null && npm install --prefer-offline webpack"
        if not os.path.exists(warm):
            os.mkdir(warm)
            sh(cmd, cwd=warm, env=env)
        n = sum(len(f) for _, _, f in os.walk(warm))
        shutil.rmtree(d, ignore_errors=True)
        os.mkdir(d)
        then(d, n, lambda: sh(cmd, cwd=d, env=env))

    # Rows.

    TABLES = ("change", "change_item", "file_version", "file_node", "file_node_history", "blob", "process", "command")

    def tables(self):
        self.cli("sync")
        db = sqlite3.connect(f"file:{self.store}/wsfs.db?mode=ro", uri=True)
        try:
            return [db.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in self.TABLES]
        finally:
            db.close()

    def leaves(self, what, n, fn):
        before = self.tables()
        fn()
        d = [b - a for a, b in zip(before, self.tables())]
        self.out.append(f"| {what} | {n} | " + " | ".join(map(str, d)) + " |")

    def rows(self):
        self.out += ["| work | files | " + " | ".join(self.TABLES) + " |", "|---" * (len(self.TABLES) + 2) + "|"]
        self.npm(lambda d, n, fn: self.leaves("npm install webpack", n, fn))
        repo = self.base + "/repo"
        src = os.path.join(sh(["go", "env", "GOROOT"]).strip(), "src", "net")
        sh(["cp", "-r", src, repo])
        sh("git init -q && git add -A && git -c user.email=a@b -c user.name=a commit -qm x", cwd=repo)
        n = sum(len(f) for _, _, f in os.walk(repo))
        self.leaves("git clone of src/net", n, lambda: sh(["git", "clone", "-q", "--no-hardlinks", repo, self.mnt + "/clone"]))
        d = self.mnt + "/churn"
        os.mkdir(d)
        n = self.a.churn
        churn = f"""
import os
for i in range({n} // 2):
    t = "{d}/t%d" % i
    fd = os.open(t, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644); os.write(fd, b"%d" % i); os.close(fd)
    os.unlink(t)
    t = "{d}/r%d" % i
    fd = os.open(t, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644); os.write(fd, b"%d" % i); os.close(fd)
    os.rename(t, "{d}/target%d" % (i % 100))
"""
        self.leaves("churn: create+unlink, create+rename over one of 100", n, lambda: sh([sys.executable, "-c", churn]))
        self.out.append("")
