import { openSync, readSync } from 'node:fs';
import { createServer } from 'node:http';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { isMainThread } from 'node:worker_threads';

/**
 * Measures the service, and its runner, from inside their own processes, which load it with `node --import`: how much
 * processor time one turn of the event loop uses at most, and by how much memory grows. A timer of a few milliseconds fires between any
 * two turns that are longer than that, so what the main thread used from one firing to the next is one long turn.
 */
const tickMs = 5;
/** Less garbage than this is not collected before a measurement: collecting all of it takes longer than most inputs. */
const mostGarbageBytes = 32 * 1024 * 1024;

const isRunner = process.argv[2] === 'runner' || process.env.MUSTER_RUNNER_PROCESS !== undefined;

if (isMainThread && ['serve', 'runner'].includes(process.argv[2])) {
  setFlagsFromString('--expose-gc');
  const collectGarbage = runInNewContext('gc');
  const threadMs = processorTimeOfThisThread();
  const stolenMs = timeOfOtherMachines();
  // Linux counts what the host gave to other machines as time of the thread that would have run.
  const usedMs = () => threadMs() - stolenMs();
  let lastMs = 0;
  let turnMs = 0;
  let startBytes = 0;
  let mostBytes = 0;
  let collectedBytes = 0;

  const allocatedBytes = () => {
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  };
  const tick = () => {
    const nowMs = usedMs();
    turnMs = Math.max(turnMs, nowMs - lastMs);
    mostBytes = Math.max(mostBytes, process.memoryUsage.rss());
    lastMs = nowMs;
  };
  const reset = () => {
    if (allocatedBytes() - collectedBytes > mostGarbageBytes) {
      collectGarbage();
      collectedBytes = allocatedBytes();
    }
    startBytes = process.memoryUsage.rss();
    mostBytes = startBytes;
    turnMs = 0;
    lastMs = usedMs();
  };
  const block = (ms) => {
    for (const endMs = usedMs() + ms; usedMs() < endMs; );
  };

  /** What a fixed piece of work takes on this machine now: the middle of three. */
  const yardstickMs = () => {
    const text = `[${'{"type":"text","text":"0123456789"},'.repeat(60_000)}0]`;
    const times = [1, 2, 3].map(() => {
      const startMs = usedMs();
      JSON.parse(text);
      return usedMs() - startMs;
    });
    return times.sort((a, b) => a - b)[1];
  };

  setInterval(tick, tickMs).unref();
  createServer((request, response) => {
    tick();
    const { pathname, searchParams } = new URL(request.url, 'http://probe');
    const measured =
      pathname === '/yardstick'
        ? { yardstickMs: yardstickMs() }
        : { turnMs, grownBytes: mostBytes - startBytes };
    if (pathname === '/reset') reset();
    if (pathname === '/block') block(Number(searchParams.get('ms')));
    response.end(JSON.stringify(measured));
  })
    .listen(`${process.env.MUSTER_TEST_PROBE}${isRunner ? '.runner' : ''}`)
    .unref();
}

/** Linux counts it for each thread; the id of the main thread is that of the process. */
function processorTimeOfThisThread() {
  const read = textOf(`/proc/self/task/${process.pid}/schedstat`);
  return () => Number(read().split(' ')[0]) / 1e6;
}

/** The time that the host took from all processors of this machine; Linux counts it in units of 10 ms. */
function timeOfOtherMachines() {
  const read = textOf('/proc/stat');
  return () => Number(read().split(/ +/, 9)[8]) * 10;
}

/** The beginning of a file that changes. */
function textOf(path) {
  const file = openSync(path, 'r');
  const buffer = Buffer.alloc(128);
  return () => buffer.toString('latin1', 0, readSync(file, buffer, 0, buffer.length, 0));
}
