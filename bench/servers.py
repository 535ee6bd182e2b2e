"""Real servers under load that changes, shipped by highwater ship: for bench/fleet --churn.

A slot every two seconds stands for a minute of a service in which everything changes: between two slots each client has sent requests of other kinds, sizes and numbers.
"""

import glob
import http.client
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

EVERY = 2
OTHER_USER = 65534

PYTHON = """
import collections, gzip, json, random, socketserver, sqlite3, sys, threading
cache, lock = collections.OrderedDict(), threading.Lock()
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        database = sqlite3.connect(":memory:")
        database.execute("create table t (k integer primary key, v text)")
        for line in self.rfile:
            kind, number = line.split()[0], int(line.split()[1])
            rows = [{"id": i, "name": "user%d" % i, "tags": ["t%d" % (i % 97)] * 3} for i in range(number)]
            text = json.dumps(rows)
            if kind == b"keep":
                with lock:
                    cache[random.random()] = json.loads(text)
                    while len(cache) > 20 + number % 50: cache.popitem(last=False)
            elif kind == b"sql":
                database.executemany("insert or replace into t values (?, ?)", ((row["id"], json.dumps(row)) for row in rows))
                text = str(database.execute("select count(*), max(v) from t where k % ? = 0", (1 + number % 7,)).fetchone())
                if number % 5 == 0: database.execute("delete from t where k > ?", (number // 2,))
            else:
                text = str(len(gzip.compress(text.encode())))
            self.wfile.write(b"%d\\n" % len(text))
class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer): daemon_threads = True
Server(sys.argv[1], Handler).serve_forever()
"""

NODE = """
const zlib = require("zlib"), crypto = require("crypto"), kept = new Map();
require("http").createServer((request, response) => {
  const [, kind, text] = request.url.split("/"), number = Number(text);
  const rows = Array.from({length: number}, (_, i) => ({id: i, name: "user" + i, tags: ["t" + i % 97]}));
  const body = Buffer.from(JSON.stringify(rows));
  if (kind === "keep") {
    kept.set(crypto.randomUUID(), body);
    for (const key of kept.keys()) { if (kept.size <= 20 + number % 50) break; kept.delete(key); }
    response.end(String(kept.size));
  } else if (kind === "zip") zlib.gzip(body, (_, packed) => response.end(packed));
  else crypto.scrypt(body, "salt", 32, {N: 1 << (8 + number % 4)}, (_, key) => response.end(key));
}).listen(process.argv[1]);
"""

SORT = """
\\set n random(100, 40000)
SELECT count(*) FROM (SELECT aid, md5(aid::text) AS h FROM pgbench_accounts WHERE aid < :n ORDER BY h LIMIT :n) s;
\\set m random(1, 2000)
SELECT bid, array_agg(aid ORDER BY abalance) FROM pgbench_accounts WHERE aid < :m GROUP BY bid;
"""


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=30)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.sock.connect(self.path)


def is_listening(path):
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(path)
        return True
    except OSError:
        return False


def wait_until(what, is_so, seconds=60):
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.05)


class Servers:
    """A collector, the servers, their clients, and a shipper. All run as another user if this one is root, since PostgreSQL wants that."""

    def __init__(self, highwater, folder):
        self.folder, self.stop, self.children, self.clients = folder, threading.Event(), [], []
        if os.geteuid() == 0:
            os.chown(folder, OTHER_USER, OTHER_USER)
        # The build's folder may be closed to the other user.
        self.highwater = shutil.copy(highwater, folder)
        os.chmod(self.highwater, 0o755)
        self.prefix = ["setpriv", f"--reuid={OTHER_USER}", f"--regid={OTHER_USER}", "--clear-groups"] if os.geteuid() == 0 else []
        keys = {"HIGHWATER_SOCKET": f"{folder}/socket", "XDG_CACHE_HOME": f"{folder}/cache", "HOME": folder, "LC_ALL": "C"}
        self.environment = {**os.environ, **keys}

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, command, **more):
        environment = {**self.environment, **more}
        child = subprocess.Popen([*self.prefix, *command], env=environment, cwd=self.folder, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=open(self.path("log"), "ab"))
        self.children.append(child)
        return child

    def run(self, command):
        return subprocess.run([*self.prefix, *command], env=self.environment, cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, check=False)

    def serve(self, service, command, **more):
        """Starts a server whose memory is followed, exactly."""
        self.start([self.highwater, "run", "--quiet", "--", *command], OTEL_SERVICE_NAME=service, **more)

    def client(self, ask, number):
        """A thread that asks, now much and now little, and sometimes as a new client."""
        dice = random.Random(number)

        def loop():
            while not self.stop.is_set():
                try:
                    ask(dice)
                except (OSError, http.client.HTTPException):
                    if not self.stop.is_set():
                        time.sleep(0.2)
                self.stop.wait(dice.choice([0, 0.02, 0.1, 0.5]))

        thread = threading.Thread(target=loop, daemon=True)
        thread.start()
        self.clients.append(thread)

    def redis(self):
        path = self.path("redis.sock")
        self.serve("redis", ["redis-server", "--port", "0", "--save", "", "--dir", self.folder, "--unixsocket", path,
                             "--maxmemory", "48mb", "--maxmemory-policy", "allkeys-random"])
        wait_until("redis", lambda: is_listening(path))
        tests = ["set,get", "incr,set", "lpush,lpop", "rpush,lpop", "sadd,spop", "hset", "zadd,zpopmin", "mset", "lpush,lrange_100"]

        def ask(dice):
            numbers = [("-n", dice.choice([200, 1000, 4000])), ("-r", dice.choice([100, 2000, 20000])), ("-d", dice.choice([8, 60, 400, 3000])),
                       ("-c", dice.randint(1, 40)), ("-P", dice.choice([1, 4]))]
            words = [str(word) for pair in numbers for word in pair]
            self.run(["redis-benchmark", "-s", path, "-q", "-t", dice.choice(tests), *words])

        self.client(ask, 1)

    def nginx(self):
        path = self.path("nginx.sock")
        dice = random.Random(0)
        for number in range(20):
            Path(self.path(f"file{number}")).write_bytes(dice.randbytes(1000 + 7000 * number))
        temporary = " ".join(f"{name}_temp_path {self.folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        Path(self.path("nginx.conf")).write_text(
            f"pid {self.folder}/nginx.pid; error_log {self.folder}/nginx.log; events {{}} http {{ access_log off; gzip on; gzip_types *; {temporary} "
            f"open_file_cache max=12 inactive=5s; server {{ listen unix:{path}; root {self.folder}; }} }}"
        )
        self.serve("nginx", ["nginx", "-p", self.folder, "-c", self.path("nginx.conf"), "-e", "stderr", "-g", "daemon off; master_process off;"])
        wait_until("nginx", lambda: is_listening(path))

        def ask(dice):
            connections = [UnixConnection(path) for _ in range(dice.randint(1, 12))]
            for connection in connections:
                for _ in range(dice.randint(1, 6)):
                    connection.request("GET", f"/file{dice.randrange(20)}", headers={"Accept-Encoding": dice.choice(["gzip", "identity"])})
                    connection.getresponse().read()
            self.stop.wait(dice.random())
            for connection in connections:
                connection.close()

        for number in range(2):
            self.client(ask, 10 + number)

    def python(self):
        path = self.path("python.sock")
        # Python's own allocator would hide objects in arenas.
        self.serve("python", ["python3", "-c", PYTHON, path], PYTHONMALLOC="malloc")
        wait_until("python", lambda: is_listening(path))

        def ask(dice):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(30)
                connection.connect(path)
                answers = connection.makefile("rb")
                for _ in range(dice.randint(1, 12)):
                    connection.sendall(f"{dice.choice(['keep', 'sql', 'zip'])} {dice.randint(1, 300)}\n".encode())
                    answers.readline()
                    self.stop.wait(dice.choice([0, 0.05, 0.3]))

        for number in range(3):
            self.client(ask, 20 + number)

    def node(self):
        path = self.path("node.sock")
        self.serve("node", ["node", "-e", NODE, path])
        wait_until("node", lambda: is_listening(path))

        def ask(dice):
            connection = UnixConnection(path)
            for _ in range(dice.randint(1, 12)):
                connection.request("GET", f"/{dice.choice(['keep', 'zip', 'key'])}/{dice.randint(1, 600)}")
                connection.getresponse().read()
                self.stop.wait(dice.choice([0, 0.05, 0.3]))
            connection.close()

        for number in range(3):
            self.client(ask, 30 + number)

    def postgres(self):
        tools = max(glob.glob("/usr/lib/postgresql/*/bin"))
        place = ["-h", self.folder, "-U", "tester"]
        made = self.run([f"{tools}/initdb", "-U", "tester", "--no-sync", "-D", self.path("data")])
        if made.returncode != 0:
            raise RuntimeError(f"initdb: {made.stderr}")
        self.serve("postgres", [f"{tools}/postgres", "-D", self.path("data"), "-k", self.folder, "-c", "listen_addresses=", "-c", "fsync=off"])
        wait_until("postgres", lambda: self.run([f"{tools}/psql", *place, "-d", "postgres", "-c", "select 1"]).returncode == 0)
        filled = self.run([f"{tools}/pgbench", *place, "-i", "-q", "-s", "1", "postgres"])
        if filled.returncode != 0:
            raise RuntimeError(f"pgbench -i: {filled.stderr}")
        Path(self.path("sort.sql")).write_text(SORT)
        mixed = ["-b", "tpcb-like@3", "-b", "select-only@3", "-f", f"{self.path('sort.sql')}@2"]
        # Two backends that live as long as the run; the client below has others, which come and go.
        self.start([f"{tools}/pgbench", *place, "-n", "-c", "2", "-T", "100000", "-R", "30", *mixed, "postgres"])

        def ask(dice):
            words = ["-c", str(dice.randint(1, 4)), "-T", str(dice.randint(2, 8)), "-R", str(dice.choice([5, 40, 150]))]
            self.run([f"{tools}/pgbench", *place, "-n", *words, *mixed, "postgres"])

        self.client(ask, 40)

    def end(self):
        self.stop.set()
        for child in reversed(self.children):
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)
        for child in reversed(self.children):
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        for client in self.clients:
            client.join(20)


def ship(highwater, lake, slots):
    """Ships some slots of all servers into a lake that is not there yet."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        servers = Servers(highwater, folder)
        try:
            servers.start([servers.highwater, "collector", "--store", servers.path("kept"), "--quiet"])
            wait_until("the collector", lambda: servers.run([servers.highwater, "ps"]).returncode == 0)
            for start in (servers.redis, servers.nginx, servers.python, servers.node, servers.postgres):
                start()
            # Caches fill.
            time.sleep(20)
            shipper = servers.start([servers.highwater, "ship", "--to", servers.path("lake"), "--spool", servers.path("spool"), "--every", f"{EVERY}s",
                                     "--jitter", "0s", "--file-every", "1m", "--host", "host-0"])
            time.sleep((slots + 1) * EVERY)
            shipper.send_signal(signal.SIGTERM)
            if shipper.wait(120) != 0:
                raise RuntimeError(f"the shipper failed: {Path(servers.path('log')).read_text()[-2000:]}")
        finally:
            servers.end()
        shutil.rmtree(lake, ignore_errors=True)
        shutil.copytree(servers.path("lake"), lake)
