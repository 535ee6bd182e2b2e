"""A standalone Spark cluster on this machine, and what a question costs there: for bench/fleet --spark."""

import glob
import os
import re
import subprocess
import threading
import time
from pathlib import Path


class SparkCluster:
    """A master and two workers of one core each, on the loopback interface and on ports that the system chooses."""

    def __init__(self, folder):
        # bin/python is in the same environment as pyspark.
        environment = Path(os.environ["HIGHWATER_PYTHON"]).absolute().parent.parent
        self.home = glob.glob(f"{environment}/lib/python*/site-packages/pyspark")[0]
        self.folder, self.daemons = folder, []
        try:
            address = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
            self.address = self.start("master", address, "Starting Spark master at (\\S+)")
            for number in (1, 2):
                worker = ["--host", "127.0.0.1", "--cores", "1", "--memory", "2g", "--webui-port", "0", self.address]
                self.start("worker", worker, "(Successfully registered with master)", number)
        except BaseException:
            self.end()
            raise

    def start(self, role, arguments, wanted, number=0):
        log = Path(self.folder) / f"spark-{role}-{number}.log"
        keys = {"SPARK_HOME": self.home, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
        keys |= {"SPARK_LOCAL_DIRS": f"{self.folder}/spark-local", "SPARK_WORKER_DIR": f"{self.folder}/spark-work"}
        command = [f"{self.home}/bin/spark-class", f"org.apache.spark.deploy.{role}.{role.title()}", *arguments]
        with open(log, "wb") as output:
            daemon = subprocess.Popen(command, env={**os.environ, **keys}, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        self.daemons.append(daemon)
        deadline = time.monotonic() + 120
        while not (found := re.search(wanted, log.read_text())):
            if daemon.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Spark's {role} did not start: {log}")
            time.sleep(0.1)
        return found[1]

    def end(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            daemon.wait()


class TreeWatch:
    """CPU and memory of all processes that this program has started, and of theirs, while a block runs. Looks five times a second: what a process does after the last look is not counted."""

    def __init__(self):
        self.asker = os.getpid()
        self.first, self.last, self.megabytes = {}, {}, 0
        self.stop = threading.Event()

    def __enter__(self):
        self.look()
        self.first = dict(self.last)
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
        self.look()

    def watch(self):
        while not self.stop.wait(0.2):
            self.look()

    def look(self):
        parents, figures = {}, {}
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit():
                continue
            try:
                fields = Path(entry.path, "stat").read_text().rsplit(")", 1)[1].split()
            except (OSError, IndexError):
                continue
            pid = int(entry.name)
            parents[pid] = int(fields[1])
            # With its start: numbers of processes are used again.
            figures[pid] = ((pid, fields[19]), int(fields[11]) + int(fields[12]), int(fields[21]))
        pages = 0
        for pid, (key, ticks, resident) in figures.items():
            above = pid
            while above > 1 and above != self.asker:
                above = parents.get(above, 0)
            # Below this program, which is not counted itself: the question, and the cluster.
            if above == self.asker and pid != self.asker:
                self.last[key] = ticks
                pages += resident
        self.megabytes = max(self.megabytes, pages * os.sysconf("SC_PAGE_SIZE") / 1e6)

    def cpu_seconds(self):
        ticks = sum(last - self.first.get(key, 0) for key, last in self.last.items())
        return ticks / os.sysconf("SC_CLK_TCK")
