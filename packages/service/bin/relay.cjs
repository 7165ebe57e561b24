/**
 * The first process in a sandbox. A sandbox has no network but its own loopback; the gateway's socket is a file in it.
 * The relay listens on the loopback, passes each connection on to that socket, starts the command and ends as it ends.
 *
 * File 3 leads to the runner. A byte on it asks everything in here to end; its end means that the runner is gone, and
 * then nothing may be left. CommonJS, because that starts faster and needs no package.json to be in sight.
 */
const { spawn } = require('node:child_process');
const { closeSync, readdirSync, readFileSync } = require('node:fs');
const { connect, createServer, Socket } = require('node:net');
const { constants } = require('node:os');

const [address = '', socketPath = '', command = '', ...args] = process.argv.slice(2);

/**
 * Signals every process in here but this one and the init, which hears nothing. The command of a sandbox is always its
 * process 2, so started by mistake outside of one the relay signals nobody.
 * @param {NodeJS.Signals} signal
 */
function signalAll(signal) {
  try {
    if (process.pid === 2) process.kill(-1, signal);
  } catch {
    // Nobody is left to hear it.
  }
}

/**
 * Files that whoever started the runner left open reach as far as here, and the command could go through them to
 * what the sandbox hides. Node's own are told apart by their mark to be closed when a program starts.
 */
function closeInherited() {
  const closesOnExec = 0o2000000;
  for (const file of readdirSync('/proc/self/fd').map(Number)) {
    if (file <= 3) continue;
    try {
      const [, flags = ''] = /^flags:\s*(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${file}`, 'utf8')) ?? [];
      if ((Number.parseInt(flags, 8) & closesOnExec) === 0) closeSync(file);
    } catch {
      // The folder itself was one of them.
    }
  }
}

/** @param {Socket} inner */
function pass(inner) {
  const outer = connect({ path: socketPath, allowHalfOpen: true });
  inner.pipe(outer);
  outer.pipe(inner);
  for (const [one, other] of [
    [inner, outer],
    [outer, inner],
  ]) {
    one.on('error', () => {});
    one.on('close', () => other.destroySoon());
  }
}

function start() {
  const child = spawn(command, args, { stdio: 'inherit' });
  for (const signal of /** @type {const} */ (['SIGTERM', 'SIGINT', 'SIGHUP']))
    process.on(signal, () => child.kill(signal));
  child.once('error', (error) => {
    process.stderr.write(`${command}: ${error.message}\n`);
    process.exit(127);
  });
  child.once('exit', (exitCode, signal) => {
    process.exit(signal === null ? (exitCode ?? 1) : 128 + constants.signals[signal]);
  });
}

closeInherited();
const runner = new Socket({ fd: 3, readable: true, writable: false });
runner.on('data', () => signalAll('SIGTERM'));
runner.on('error', () => {});
runner.on('close', () => {
  signalAll('SIGKILL');
  process.exit(1);
});
const [host, port] = address.split(':');
createServer({ allowHalfOpen: true, noDelay: true }, pass).listen(Number(port), host, start);
